/*
 * The libraft seam. See cluster/node.h.
 *
 * What has to be handled around the library: apply is given no index (it is
 * last_applied + 1); after a start all entries since the last snapshot are
 * applied again; the log since then is also in memory, so snapshots are taken,
 * and entries kept behind them, by bytes and not by number; a snapshot is one
 * buffer, so it is only a manifest, and the state itself is in the store, made
 * durable first. The log pads entries to eight bytes when it writes them but
 * not when it reads them, so entries of other lengths cut off all that follow
 * them at the next start: ours carry their length and are padded here. Any
 * error of the log stops the process: a leader whose disk fails may diverge.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/node_fault.h"
#include "cluster/node_impl.h"
#include "proto/err.h"
#include "rt/log.h"

/* An entry in the log: its length in four bytes, the bytes, zeros. */
#define ENTRY_HEAD_BYTES 4
#define ENTRY_ALIGN      8

#define WATCH_NS (100 * NS_PER_MS)

struct proposal {
	struct raft_apply req;
	struct node *node;
	node_done_fn *done;
	void *ctx;
};

/* --- entries --- */

static bool entry_unwrap(const struct raft_buffer *buf, struct str *ret)
{
	uint32_t n;

	if (buf->len < ENTRY_HEAD_BYTES)
		return false;
	memcpy(&n, buf->base, sizeof(n));
	n = le32toh(n);
	*ret = str_of((char *)buf->base + ENTRY_HEAD_BYTES, n);
	return n <= buf->len - ENTRY_HEAD_BYTES;
}

static int entry_wrap(struct str entry, struct raft_buffer *ret)
{
	uint32_t n = htole32((uint32_t)entry.n);
	size_t len = ENTRY_HEAD_BYTES + entry.n;

	CHECK(entry.n < UINT32_MAX / 2);
	len = (len + ENTRY_ALIGN - 1) & ~(size_t)(ENTRY_ALIGN - 1);
	ret->base = raft_malloc(len);
	if (ret->base == NULL)
		return RAFT_NOMEM;
	ret->len = len;
	memcpy(ret->base, &n, sizeof(n));
	memcpy((char *)ret->base + ENTRY_HEAD_BYTES, entry.p, entry.n);
	memset((char *)ret->base + ENTRY_HEAD_BYTES + entry.n, 0,
	       len - ENTRY_HEAD_BYTES - entry.n);
	return 0;
}

int node_apply(struct raft_fsm *fsm, const struct raft_buffer *buf,
	       void **result)
{
	struct node *n = fsm->data;
	uint64_t index = raft_last_applied(&n->raft) + 1;
	struct str entry;
	int r = -ERR_BAD_MESSAGE;

	*result = NULL;
	if (entry_unwrap(buf, &entry))
		r = n->ops->apply(n->ctx, index, entry);
	if (r < 0) {
		log_error("cannot apply entry %" PRIu64 ": %s; stopping", index,
			  err_text(-r));
		abort();
	}
	node_snapshot_by_bytes(n, buf->len);
	return 0;
}

/* --- leadership --- */

static void node_check(struct node *n)
{
	bool leader = raft_state(&n->raft) == RAFT_LEADER;
	bool ready;

	if (leader && !n->leader)
		n->ready_index = raft_last_index(&n->raft);
	ready = leader && raft_last_applied(&n->raft) >= n->ready_index;
	if (leader == n->leader && ready == n->ready)
		return;
	if (leader != n->leader)
		log_info("%s term=%llu index=%llu",
			 leader ? "leading" : "no longer leading",
			 n->raft.current_term, raft_last_index(&n->raft));
	n->leader = leader;
	n->ready = ready;
	n->ops->on_change(n->ctx);
}

static void on_watch(void *ctx)
{
	struct node *n = ctx;

	node_check(n);
	if (!n->stopping) /* which on_change may ask for */
		loop_timer_arm(n->watch, WATCH_NS);
}

void node_watch(struct node *n)
{
	n->watch = loop_timer_add(n->loop, on_watch, n);
	loop_timer_arm(n->watch, 0);
}

/* --- stop --- */

static void on_closed(struct raft *raft)
{
	struct node *n = raft->data;

	raft_uv_close(&n->io);
	n->opened = false;
	n->stop_done(n->stop_ctx);
}

void node_stop(struct node *n, loop_fn *done, void *ctx)
{
	n->stopping = true;
	n->leader = n->ready = false;
	n->stop_done = done;
	n->stop_ctx = ctx;
	if (n->watch != NULL)
		loop_timer_remove(n->watch);
	n->watch = NULL;
	if (!n->opened) {
		done(ctx);
		return;
	}
	node_fault_end();
	n->raft.data = n;
	raft_close(&n->raft, on_closed);
}

static void on_closed_in_free(void *ctx)
{
	*(bool *)ctx = true;
}

void node_free(struct node *n)
{
	bool closed = false;

	if (n == NULL)
		return;
	if (n->opened) {
		node_stop(n, on_closed_in_free, &closed);
		while (!closed)
			(void)uv_run(loop_uv(n->loop), UV_RUN_ONCE);
	}
	free(n);
}

/* --- proposals --- */

static void on_applied(struct raft_apply *req, int status, void *result)
{
	struct proposal *p = container_of(req, struct proposal, req);
	struct node *n = p->node;

	(void)result;
	if (status == RAFT_IOERR || status == RAFT_NOSPACE ||
	    status == RAFT_CORRUPT) {
		log_error("the raft log cannot be written: %s; stopping",
			  raft_errmsg(&n->raft));
		abort();
	}
	p->done(p->ctx, status == 0 ? 0 : -ERR_OUTCOME_UNKNOWN);
	free(p);
	if (!n->stopping && !n->ready)
		node_check(n);
}

int node_propose(struct node *n, struct str entry, uint64_t *ret_index,
		 node_done_fn *done, void *ctx)
{
	struct raft_buffer buf;
	struct proposal *p;
	int r;

	if (!node_is_leader(n))
		return -ERR_LEADER_UNAVAILABLE;
	p = xcalloc(1, sizeof(*p));
	p->node = n;
	p->done = done;
	p->ctx = ctx;
	/* the library frees it, when the log no longer needs the entry */
	CHECK(entry_wrap(entry, &buf) == 0);
	r = raft_apply(&n->raft, &p->req, &buf, 1, on_applied);
	if (r != 0) {
		log_warn("an entry was not taken: %s", raft_errmsg(&n->raft));
		raft_free(buf.base);
		free(p);
		return -ERR_LEADER_UNAVAILABLE;
	}
	*ret_index = raft_last_index(&n->raft);
	return 0;
}

bool node_is_leader(const struct node *n)
{
	return n->leader;
}

bool node_is_ready(const struct node *n)
{
	return n->ready;
}

void node_info(const struct node *n, struct node_info *ret)
{
	static const struct {
		const char *name;
		int number;
	} states[] = {
		[RAFT_UNAVAILABLE] = { "Shutdown", 3 },
		[RAFT_FOLLOWER] = { "Follower", 0 },
		[RAFT_CANDIDATE] = { "Candidate", 1 },
		[RAFT_LEADER] = { "Leader", 2 },
	};

	ret->state = states[n->raft.state].name;
	ret->state_number = states[n->raft.state].number;
	ret->term = n->raft.current_term;
	ret->applied_index = n->raft.last_applied;
	ret->commit_index = n->raft.commit_index;
	ret->snapshot_index = n->raft.log.snapshot.last_index;
}
