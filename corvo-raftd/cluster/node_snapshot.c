/*
 * Snapshots: when the log is cut, and what stands in its place.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster/node_impl.h"
#include "rt/log.h"

#define MANIFEST_FORMAT "corvo snapshot 1 index %" PRIu64 "\n"
#define MANIFEST_BYTES  128

void node_snapshot_by_bytes(struct node *n, size_t len)
{
	n->bytes_since += len;
	if (n->bytes_since >= n->snapshot_bytes)
		raft_set_snapshot_threshold(&n->raft, 1);
}

static int on_snapshot(struct raft_fsm *fsm, struct raft_buffer *bufs[],
		       unsigned *n_bufs)
{
	struct node *n = fsm->data;
	struct raft_buffer *b;

	if (n->ops->before_snapshot(n->ctx) != 0)
		return RAFT_BUSY;
	b = raft_malloc(sizeof(*b));
	if (b == NULL)
		return RAFT_NOMEM;
	b->base = raft_calloc(1, MANIFEST_BYTES);
	if (b->base == NULL) {
		raft_free(b);
		return RAFT_NOMEM;
	}
	snprintf(b->base, MANIFEST_BYTES, MANIFEST_FORMAT,
		 (uint64_t)raft_last_applied(&n->raft));
	b->len = MANIFEST_BYTES;
	*bufs = b;
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

static int on_restore(struct raft_fsm *fsm, struct raft_buffer *buf)
{
	struct node *n = fsm->data;
	uint64_t index = 0;
	char text[MANIFEST_BYTES + 1] = "";

	memcpy(text, buf->base, MIN(buf->len, (size_t)MANIFEST_BYTES));
	if (sscanf(text, MANIFEST_FORMAT, &index) != 1) {
		log_error("the raft snapshot is not one of ours");
		return RAFT_CORRUPT;
	}
	if (n->store_index < index) {
		log_error("the store is at raft index %" PRIu64
			  " but the log was cut at %" PRIu64
			  ": the rocks directory is not the one of this log",
			  n->store_index, index);
		return RAFT_CORRUPT;
	}
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
