/*
 * The libraft seam. See cluster/node.h.
 *
 * What has to be handled around the library: apply is given no index (it is
 * last_applied + 1); after a start all entries since the last snapshot are
 * applied again; the log since then is also in memory, so snapshots are taken,
 * and entries kept behind them, by bytes and not by number; a snapshot is one
 * buffer, so it is only a manifest, and the state itself is in the store, made
 * durable first. Any error of the log stops the process: a leader whose disk
 * fails may diverge, and a follower's log gets a hole. An entry that a damaged
 * store cannot apply does not: it would be met again at every start. What the
 * library cannot be trusted to read is read before: logcheck.h.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cluster/entry.h"
#include "cluster/node_base.h"
#include "cluster/node_fault.h"
#include "cluster/node_log.h"
#include "proto/err.h"
#include "rt/log.h"
#include "util/clock.h"

#define WATCH_NS (100 * NS_PER_MS)

#define SETTLE_NS NS_PER_MS /* between looks for handles that are closing */

struct proposal {
	struct raft_apply req;
	struct node *node;
	node_done_fn *done;
	void *ctx;
};

/* --- entries --- */

static int apply_command(struct node *n, uint64_t index, const void *tag,
			 const struct raft_buffer *buf)
{
	const struct raft_entry *e = node_entry(n, index);
	struct entry_origin o = { 0 };
	struct entry_head h;
	struct str bytes;
	int r;

	CHECK(e != NULL);
	if (!entry_unwrap(str_of(buf->base, buf->len), &h, &bytes))
		return -ERR_BAD_MESSAGE;
	CHECK(h.index == 0 || h.index == index);
	o.term = e->term;
	o.id = h.id;
	o.history = h.history;
	r = n->ops->apply(n->ctx, index, tag, &o, bytes);
	if (r == 0 && index > n->applied) {
		n->applied = index;
		n->origin = o;
	}
	return r;
}

/* Applies again what the store has lost by going back; 0 or -ERR_*. */
static int apply_again(struct node *n, uint64_t from, uint64_t upto)
{
	int r = 0;

	for (uint64_t i = from; r == 0 && i < upto; i++) {
		const struct raft_entry *e = node_entry(n, i);

		CHECK(e != NULL);
		if (e->type == RAFT_COMMAND)
			r = apply_command(n, i, NULL, &e->buf);
	}
	return r;
}

void node_freeze(struct node *n, uint64_t index)
{
	bool was_ready = n->ready;
	uint64_t at = 0;

	n->frozen = true;
	n->frozen_index = index;
	n->ready = false;
	/* Entries that a start has yet to replay may have been answered before:
	 * without them there is nothing true to be read. */
	n->whole = was_ready && n->ops->rewind(n->ctx, &at) == 0 &&
		   apply_again(n, at + 1, index) == 0;
	n->ops->on_change(n->ctx);
}

void node_break(struct node *n)
{
	if (!n->frozen && !n->stopping)
		node_freeze(n, raft_last_applied(&n->raft) + 1);
}

int node_apply(struct raft_fsm *fsm, const struct raft_buffer *buf,
	       void **result)
{
	struct node *n = fsm->data;
	uint64_t index = raft_last_applied(&n->raft) + 1;
	int r;

	*result = NULL;
	if (n->frozen || !guard_applying(n, index))
		return 0;
	node_piece_begins(n);
	r = apply_command(n, index, buf->base, buf);
	if (r == -ERR_STORAGE_ERROR) {
		node_freeze(n, index);
		return 0;
	}
	if (r < 0) {
		log_error("cannot apply entry %" PRIu64 ": %s; stopping", index,
			  err_text(-r));
		abort();
	}
	node_snapshot_by_bytes(n, buf->len);
	node_piece_applied(n, index);
	return 0;
}

/* --- leadership --- */

/* A turn of the loop that took longer: the others may have waited in vain. */
static uint64_t still_ns(const struct node *n)
{
	return n->election_ns / 2;
}

/* The library looks once in an election timeout whether the others were heard
 * of since it last looked: by the second look it knows. */
static uint64_t doubt_ns(const struct node *n)
{
	return 3 * n->election_ns;
}

static void on_fenced(struct raft_barrier *req, int status)
{
	struct node *n = req->data;

	n->fencing = false;
	if (status != 0 || n->stopping || n->frozen || !n->leader ||
	    n->raft.current_term != n->term)
		return;
	n->ready = true;
	n->ops->on_change(n->ctx);
}

/*
 * The library writes nothing of its own when it begins to lead, and entries of
 * earlier terms are committed only with one of the present (guard.c sees to
 * it): without this one a new leader would wait for ever for those to be
 * applied.
 */
static void begin_fence(struct node *n)
{
	n->fence.data = n;
	n->fenced_term = n->raft.current_term;
	n->fencing = raft_barrier(&n->raft, &n->fence, on_fenced) == 0;
}

/*
 * A node that is alone needs no such entry, as nobody else could have written
 * another one: what is in its log counts. So it can be read on a full disk.
 */
static void look_at_log(struct node *n)
{
	if (raft_last_applied(&n->raft) < n->alone_index)
		return;
	n->ready = true;
	n->ops->on_change(n->ctx);
}

static void become_ready(struct node *n)
{
	if (n->alone_index != 0)
		look_at_log(n);
	else if (!n->fencing)
		begin_fence(n);
}

static void lead(struct node *n)
{
	n->leader = true;
	n->term = n->raft.current_term;
	n->alone_index = node_voters(n) == 1 ? raft_last_index(&n->raft) : 0;
	log_info("leading term=%llu index=%llu", n->raft.current_term,
		 raft_last_index(&n->raft));
}

static void lead_no_more(struct node *n)
{
	log_info("no longer leading term=%" PRIu64 " index=%llu", n->term,
		 raft_last_index(&n->raft));
	n->leader = n->ready = false;
	n->ops->on_change(n->ctx);
}

static uint64_t leader_now(struct node *n)
{
	const char *address;
	raft_id id;

	raft_leader(&n->raft, &id, &address);
	return id;
}

/*
 * What comes in after this process stood still was sent before, answers of the
 * others among it: the library takes them for new ones, and goes on to lead.
 */
static void look_at_time(struct node *n)
{
	uint64_t now_ns = clock_mono_ns();

	if (now_ns - n->turned_ns > still_ns(n))
		n->doubt_ns = now_ns + doubt_ns(n);
	n->turned_ns = now_ns;
}

void node_turn(struct node *n)
{
	bool leads = raft_state(&n->raft) == RAFT_LEADER;
	uint64_t leader_id;

	if (n->stopping)
		return;
	if (n->port != NULL)
		look_at_time(n);
	if (n->leader && (!leads || n->raft.current_term != n->term))
		lead_no_more(n);
	node_look_at_transfer(n);
	leader_id = leader_now(n);
	if (leads && !n->leader)
		lead(n);
	if (leader_id != n->leader_id) {
		n->leader_id = leader_id;
		n->ops->on_change(n->ctx);
	}
	if (leads && !n->ready && !n->frozen)
		become_ready(n);
	/* a change of members that is not committed keeps it from handing over
	 */
	if (leads && n->frozen && !n->fencing && n->port != NULL &&
	    n->fenced_term != n->raft.current_term)
		begin_fence(n);
	if (leads)
		node_tell_commit(n);
	node_look_at_sync(n);
}

static void on_watch(void *ctx)
{
	struct node *n = ctx;

	node_turn(n);
	if (n->stopping) /* which on_change may ask for */
		return;
	node_mark_look(&n->mark, n->loop, node_committed(n));
	node_yield(n);
	loop_timer_arm(n->watch, WATCH_NS);
}

void node_watch(struct node *n)
{
	n->watch = loop_timer_add(n->loop, on_watch, n);
	loop_timer_arm(n->watch, 0);
}

/* --- stop --- */

/*
 * The library does not count the segments whose handles it is closing: one that
 * closes after all else makes it say once more that it is closed, from memory
 * that node_base_close gives back. So it is heard once, and its memory stays
 * until no handle is closing any more.
 */
static void on_io_closed(struct raft_io *io)
{
	struct node *n = container_of(io, struct node, io);
	raft_io_close_cb cb = n->closed;

	n->closed = NULL;
	if (cb != NULL)
		cb(io);
}

static void close_once(struct raft_io *io, raft_io_close_cb cb)
{
	struct node *n = container_of(io, struct node, io);

	n->closed = cb;
	node_pieces_close(n); /* the library applies nothing any more */
	n->close(io, on_io_closed);
}

void node_wire_close(struct node *n)
{
	n->close = n->io.close;
	n->io.close = close_once;
}

static void on_settle(void *ctx)
{
	struct node *n = ctx;

	if (!node_base_is_settled(n)) {
		loop_timer_arm(n->settle, SETTLE_NS);
		return;
	}
	loop_timer_remove(n->settle);
	n->settle = NULL;
	node_base_close(n);
	n->opened = false;
	n->stop_done(n->stop_ctx);
}

static void on_closed(struct raft *raft)
{
	struct node *n = raft->data;

	n->settle = loop_timer_add(n->loop, on_settle, n);
	loop_timer_arm(n->settle, 0);
}

void node_stop(struct node *n, loop_fn *done, void *ctx)
{
	n->stopping = true;
	n->leader = n->ready = false;
	n->stop_done = done;
	n->stop_ctx = ctx;
	node_look_at_transfer(n);
	if (n->watch != NULL)
		loop_timer_remove(n->watch);
	n->watch = NULL;
	node_pieces_stop(n);
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
	if (n->opened && n->stopping) {
		n->stop_done = on_closed_in_free;
		n->stop_ctx = &closed;
	} else if (n->opened) {
		node_stop(n, on_closed_in_free, &closed);
	}
	while (n->opened && !closed)
		node_base_wait(n);
	node_log_done(n);
	node_mark_done(&n->mark);
	node_sends_done(n);
	guard_done(n);
	buf_done(&n->cut.why);
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
		node_log_failed(n, status);
		abort();
	}
	p->done(p->ctx, status == 0 ? 0 : -ERR_OUTCOME_UNKNOWN);
	free(p);
}

/* What the log keeps of it; the library frees it. */
static void entry_make(struct node *n, struct str entry,
		       struct raft_buffer *ret)
{
	struct entry_head h = {
		.index = raft_last_index(&n->raft) + 1,
		.committed = node_committed(n),
		.id = rng_u64(&n->rng) | 1, /* never 0 */
		.history = n->history,
	};

	ret->len = entry_wrapped_len(entry.n);
	ret->base = raft_malloc(ret->len);
	CHECK(ret->base != NULL);
	entry_wrap(&h, entry, ret->base);
}

int node_propose(struct node *n, struct str entry, const void **ret_tag,
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
	entry_make(n, entry, &buf);
	*ret_tag = buf.base;
	r = raft_apply(&n->raft, &p->req, &buf, 1, on_applied);
	if (r != 0) {
		log_warn("an entry was not taken: %s", raft_errmsg(&n->raft));
		raft_free(buf.base);
		free(p);
		return -ERR_LEADER_UNAVAILABLE;
	}
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

bool node_is_sure(const struct node *n)
{
	uint64_t now_ns;

	if (!n->ready || n->port == NULL)
		return n->ready;
	now_ns = clock_mono_ns();
	return now_ns - n->turned_ns <= still_ns(n) && now_ns >= n->doubt_ns;
}

uint64_t node_blind_ns(const struct node *n)
{
	return node_voters(n) > 1 ? 2 * n->election_ns : 0;
}

bool node_is_handing_over(const struct node *n)
{
	return n->transfer_done != NULL && n->transfer_late_ns == 0;
}

bool node_is_following(const struct node *n)
{
	return n->raft.state == RAFT_FOLLOWER && n->leader_id != 0 &&
	       n->leader_id != n->raft.id;
}

uint64_t node_id(const struct node *n)
{
	return n->raft.id;
}

uint64_t node_leader_id(const struct node *n)
{
	return n->leader_id;
}

bool node_is_frozen(const struct node *n)
{
	return n->frozen;
}

bool node_is_dead(const struct node *n)
{
	return (n->log_failed || n->raft.state == RAFT_UNAVAILABLE ||
		n->guard.diverged) &&
	       !n->stopping;
}

bool node_has_diverged(const struct node *n)
{
	return n->guard.diverged;
}

bool node_is_whole(const struct node *n)
{
	return n->ready || n->whole ||
	       (n->sync.done && !n->frozen && node_is_following(n));
}

bool node_is_up(const struct node *n)
{
	return n->followed || n->frozen || node_is_whole(n);
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
	ret->applied_index = n->frozen ? n->applied : n->raft.last_applied;
	ret->commit_index = node_committed(n);
	ret->snapshot_index = n->raft.log.snapshot.last_index;
	ret->snapshot_term = n->raft.log.snapshot.last_term;
	ret->cut_failures = n->cut.failures;
	ret->cut_failures_total = n->cut.failures_total;
}
