/*
 * The library's own files, ticks and streams, on the loop of this process.
 */
#include "cluster/node_uv.h"

#include <stdlib.h>

#define CONNECT_RETRY_MS 100 /* a node that is back is not waited for */

int node_base_open(struct node *n, const struct settings *s, const char *dir)
{
	struct node_base *b = xcalloc(1, sizeof(*b));
	int r;

	b->node = n;
	n->base = b;
	node_wire_transport(n);
	r = raft_uv_init(&n->io, loop_uv(n->loop), dir, &b->transport);
	if (r != 0) {
		free(b);
		n->base = NULL;
		return r;
	}
	/* it says 1 although it has async_work, which our snapshots need */
	n->io.version = 2;
	raft_uv_set_connect_retry_delay(&n->io, CONNECT_RETRY_MS);
	raft_uv_set_segment_size(&n->io, s->raft_segment_size);
	raft_uv_set_snapshot_compression(&n->io, false);
	raft_uv_set_auto_recovery(&n->io, false);
	return 0;
}

static void look_for_closing(uv_handle_t *h, void *ctx)
{
	*(bool *)ctx |= uv_is_closing(h) != 0;
}

bool node_base_is_settled(struct node *n)
{
	bool closing = false;

	uv_walk(loop_uv(n->loop), look_for_closing, &closing);
	return !closing;
}

void node_base_close(struct node *n)
{
	raft_uv_close(&n->io);
	free(n->base);
	n->base = NULL;
}

void node_base_wait(struct node *n)
{
	(void)uv_run(loop_uv(n->loop), UV_RUN_ONCE);
}
