/*
 * Snapshots: when the log is cut, and what stands in its place.
 */
#include <string.h>

#include "cluster/node_impl.h"

void node_snapshot_by_bytes(struct node *n, size_t len)
{
	n->bytes_since += len;
	if (n->bytes_since >= n->snapshot_bytes)
		raft_set_snapshot_threshold(&n->raft, 1);
}

/* The library frees nothing of it: on_snapshot_finalize does. */
static struct raft_buffer *make_manifest(const struct node *n)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct raft_buffer *b = raft_malloc(sizeof(*b));
	struct manifest m = { .index = n->raft.last_applied,
			      .applied = n->applied,
			      .origin = n->origin };

	if (b == NULL)
		return NULL;
	manifest_put(&text, &m);
	b->len = text.n;
	b->base = raft_malloc(text.n);
	if (b->base == NULL) {
		raft_free(b);
		return NULL;
	}
	memcpy(b->base, text.p, text.n);
	return b;
}

static int on_snapshot(struct raft_fsm *fsm, struct raft_buffer *bufs[],
		       unsigned *n_bufs)
{
	struct node *n = fsm->data;

	if (n->ops->before_snapshot(n->ctx) != 0)
		return RAFT_BUSY;
	*bufs = make_manifest(n);
	if (*bufs == NULL)
		return RAFT_NOMEM;
	*n_bufs = 1;
	n->bytes_since = 0;
	raft_set_snapshot_threshold(&n->raft, SNAPSHOT_NEVER);
	raft_set_snapshot_trailing(&n->raft, node_trailing(n));
	return 0;
}

/*
 * The store may hold entries after the snapshot's index by the time it is
 * flushed. That is fine: replay skips what the store has.
 */
static int on_snapshot_async(struct raft_fsm *fsm, struct raft_buffer *bufs[],
			     unsigned *n_bufs)
{
	struct node *n = fsm->data;

	(void)bufs;
	(void)n_bufs;
	return n->ops->make_durable(n->ctx) == 0 ? 0 : RAFT_IOERR;
}

static int on_snapshot_finalize(struct raft_fsm *fsm,
				struct raft_buffer *bufs[], unsigned *n_bufs)
{
	(void)fsm;
	if (*bufs != NULL) {
		raft_free((*bufs)[0].base);
		raft_free(*bufs);
	}
	*bufs = NULL;
	*n_bufs = 0;
	return 0;
}

/* It was looked at, and the store compared with it, before the start. */
static int on_restore(struct raft_fsm *fsm, struct raft_buffer *buf)
{
	struct manifest m;

	(void)fsm;
	CHECK(manifest_parse(str_of(buf->base, buf->len), &m));
	raft_free(buf->base);
	return 0;
}

void node_wire_snapshots(struct node *n)
{
	n->fsm.snapshot = on_snapshot;
	n->fsm.restore = on_restore;
	n->fsm.snapshot_finalize = on_snapshot_finalize;
	n->fsm.snapshot_async = on_snapshot_async;
}
