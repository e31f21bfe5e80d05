/*
 * Snapshots: when the log is cut, and what stands in its place.
 */
#include <inttypes.h>
#include <string.h>

#include "cluster/node_log.h"
#include "rt/log.h"
#include "util/clock.h"

#define RETRY_FIRST_NS NS_PER_S
#define RETRY_MAX_NS   (60 * NS_PER_S)

/* --- when --- */

bool node_cut_must_wait(const struct node *n)
{
	return n->cut.retry_ns != 0 && clock_mono_ns() < n->cut.retry_ns;
}

void node_snapshot_by_bytes(struct node *n, size_t len)
{
	n->bytes_since += len;
	if ((n->cut.wanted || n->bytes_since >= n->snapshot_bytes) &&
	    !node_cut_must_wait(n))
		raft_set_snapshot_threshold(&n->raft, 1);
}

void node_want_snapshot(struct node *n)
{
	/* one that is being taken will do */
	if (n->raft.snapshot.pending.term == 0)
		n->cut.wanted = true;
}

/* --- how it went --- */

/* The log stays as it is, and is to be cut as if nothing had been tried. */
static void cut_failed(struct node *n, struct str why)
{
	struct node_cut *c = &n->cut;
	uint64_t wait = RETRY_FIRST_NS;

	for (unsigned i = 0; i < c->failures && wait < RETRY_MAX_NS; i++)
		wait *= 2;
	wait = MIN(wait, RETRY_MAX_NS);
	c->failures++;
	c->failures_total++;
	c->retry_ns = clock_mono_ns() + wait;
	n->bytes_since += c->bytes;
	c->bytes = 0;
	if (why.p != c->why.p) {
		buf_clear(&c->why);
		buf_put_str(&c->why, why);
	}
	log_error("the log cannot be cut and grows (%" PRIu64
		  " bytes in memory): %.*s; failure %u in a row, trying again "
		  "in %" PRIu64 " s",
		  node_log_bytes(n), STR_ARG(buf_str(&c->why)), c->failures,
		  wait / NS_PER_S);
}

static void cut_done(struct node *n)
{
	struct node_cut *c = &n->cut;

	if (c->failures > 0)
		log_info("the log is cut again, after %u failures",
			 c->failures);
	c->failures = 0;
	c->retry_ns = 0;
	c->bytes = 0;
	buf_clear(&c->why);
	node_log_cut(n, c->upto);
}

static void on_put(struct raft_io_snapshot_put *req, int status)
{
	struct node *n = container_of(req, struct node, raft.snapshot.put);

	n->cut.put_cb(req, status); /* it cuts the log, if it may */
	if (n->stopping)
		return;
	if (status == 0)
		cut_done(n);
	else
		cut_failed(n, str_from(n->io.errmsg[0] != '\0'
					   ? n->io.errmsg
					   : raft_strerror(status)));
}

static int put_snapshot(struct raft_io *io, unsigned trailing,
			struct raft_io_snapshot_put *req,
			const struct raft_snapshot *snapshot,
			raft_io_snapshot_put_cb cb)
{
	struct node *n = container_of(io, struct node, io);
	int r;

	n->cut.put_cb = cb;
	n->cut.upto =
	    snapshot->index - MIN((uint64_t)trailing, snapshot->index);
	r = n->cut.put(io, trailing, req, snapshot, on_put);
	if (r != 0)
		cut_failed(n, str_from(raft_strerror(r)));
	return r;
}

void node_watch_snapshots(struct node *n)
{
	n->cut.put = n->io.snapshot_put;
	n->io.snapshot_put = put_snapshot;
}

/* --- what the library asks for --- */

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

	/* A store that is ahead of what is applied here cannot say which entry
	 * was the last one before the cut. */
	if (n->frozen || n->applied > n->raft.last_applied ||
	    n->ops->before_snapshot(n->ctx) != 0)
		return RAFT_BUSY;
	*bufs = make_manifest(n);
	if (*bufs == NULL)
		return RAFT_NOMEM;
	*n_bufs = 1;
	guard_snapshot(n);
	n->cut.bytes = n->bytes_since;
	n->cut.index = n->raft.last_applied;
	n->cut.wanted = false;
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
	buf_clear(&n->cut.why);
	n->cut.err = n->ops->make_durable(n->ctx, n->cut.index, &n->cut.why);
	return n->cut.err == 0 ? 0 : RAFT_IOERR;
}

static int on_snapshot_finalize(struct raft_fsm *fsm,
				struct raft_buffer *bufs[], unsigned *n_bufs)
{
	struct node *n = fsm->data;

	if (n->cut.err != 0 && !n->stopping)
		cut_failed(n, buf_str(&n->cut.why));
	n->cut.err = 0;
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
