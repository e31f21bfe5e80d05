/*
 * Applies raft entries: decodes the items, runs each through its apply
 * function, and writes all changes of an entry, with the applied index, as
 * one batch. Entries come from our own leader through the raft log; an item
 * that makes no sense is refused by itself, one that cannot be read stops the
 * node, as an entry that cannot does.
 *
 * Loop thread only. The arenas live for one entry and one item.
 */
#include "fsm/fsm.h"

#include <stdlib.h>

#include "fsm/ask/await.h"
#include "fsm/core/answers.h"
#include "fsm/core/cluster.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/core/watch.h"
#include "fsm/dispatch.h"
#include "fsm/fault.h"
#include "fsm/job/active.h"
#include "fsm/job/job.h"
#include "fsm/job/sdb.h"
#include "fsm/job/worker.h"
#include "fsm/ops/rest.h"
#include "fsm/order/queue.h"
#include "fsm/order/rates.h"
#include "fsm/skip.h"
#include "fsm/ties/bulk.h"
#include "fsm/ties/deps.h"
#include "fsm/ties/inbound.h"
#include "fsm/ties/policy.h"
#include "fsm/ties/provider.h"
#include "fsm/ties/purse.h"
#include "fsm/ties/schedule.h"
#include "fsm/ties/ties.h"
#include "fsm/ties/usage.h"
#include "fsm/ties/webhook.h"
#include "store/event_pack.h"
#include "store/record.h"

#define ENTRY_ARENA_BYTES (64u << 10)
#define ITEM_ARENA_BYTES  (64u << 10)
#define KEEP_BYTES        (1u << 20) /* larger buffers are let go */

struct reply {
	int err;
	uint64_t seq;
	size_t at, n;    /* in f->out */
	struct str left; /* instead: the item as it came */
	bool is_again;   /* of an earlier try */
};

static void on_ended(struct fsm *f, struct job *j, enum job_state end)
{
	if (f->awaited.n > 0)
		await_note_end(f, j->id);
	ties_on_end(f, j, end);
}

static const struct job_hooks hooks = { on_ended, ties_on_error, purse_handed,
					policy_on_create, policy_put_off };

static void fsm_init(struct fsm *f, struct kv *kv)
{
	*f = (struct fsm){ .kv = kv };
	f->hooks = &hooks;
	f->txn = txn_new(kv);
	f->entry_arena.block_size = ENTRY_ARENA_BYTES;
	f->item_arena.block_size = ITEM_ARENA_BYTES;
	f->budget.max = LIMIT_ENTRY_BYTES;
	f->first_seq = 1;
	f->cluster.level = LEVEL_FIRST;
	f->expiry_from = f->keys_from = f->deadline_from = NEVER;
	f->batches_from = f->open_from = NEVER;
	f->usage.from = NEVER;
	list_init(&f->dirty);
	list_init(&f->dirty_providers);
	list_init(&f->woken);
	list_init(&f->ended);
	list_init(&f->changed);
	list_init(&f->dirty_lanes);
	list_init(&f->crowds);
	list_init(&f->unsure);
	list_init(&f->pushed);
	list_init(&f->answers.kept);
	queues_order(f);
	workers_order(f);
	schedules_order(f);
}

struct fsm *fsm_new(struct kv *kv)
{
	struct fsm *f = xmalloc(sizeof(*f));

	fsm_init(f, kv);
	return f;
}

static void free_sets(struct fsm *f)
{
	struct str key;
	size_t pos;
	void *v;

	for (pos = 0; hmap_next(&f->active, &pos, &key, &v);)
		active_free(v);
	for (pos = 0; hmap_next(&f->queues, &pos, &key, &v);)
		queue_free(v);
	for (pos = 0; hmap_next(&f->workers, &pos, &key, &v);)
		fsm_worker_free(v);
	hmap_done(&f->active);
	bynum_done(&f->given);
	hmap_done(&f->queues);
	hmap_done(&f->workers);
	heap_done(&f->due);
	heap_done(&f->purge_own);
	heap_done(&f->purge_default);
	heap_done(&f->leases);
	heap_done(&f->timeouts);
	heap_done(&f->seen);
	hmap_done(&f->deps.parents);
	ended_free(f);
	heap_done(&f->idle);
	heap_done(&f->looks);
	heap_done(&f->idle_queues);
	heap_done(&f->regroup);
	schedules_free(f);
	bulks_free(f);
	usage_free(f);
	purses_free(f);
	inbound_free(f);
	webhooks_free(f);
	policies_free(f);
	providers_free(f);
	answers_free(f);
	cluster_free(f);
}

static void free_entry(struct fsm *f)
{
	arena_done(&f->entry_arena);
	arena_done(&f->item_arena);
	buf_done(&f->why);
	buf_done(&f->scratch);
	buf_done(&f->data);
	buf_done(&f->payload);
	buf_done(&f->out);
	buf_done(&f->events);
}

void fsm_free(struct fsm *f)
{
	if (f == NULL)
		return;
	free_sets(f);
	await_free(f);
	watch_free(f);
	txn_free(f->txn);
	free_entry(f);
	free(f);
}

int fsm_rewind(struct fsm *f)
{
	struct fsm old = *f;

	free_sets(f);
	txn_free(f->txn);
	free_entry(f);
	fsm_init(f, old.kv);
	f->budget.max = old.budget.max;
	f->behind_max = old.behind_max;
	f->progress = old.progress;
	f->counters = old.counters;
	f->since_ns = old.since_ns;
	f->now_ns = old.now_ns;
	f->next_origin = old.next_origin;
	f->faults = old.faults;
	f->skips = old.skips;
	/* whoever waits for a job goes on */
	f->awaited = old.awaited;
	f->ended = old.ended;
	f->watched = old.watched;
	f->changed = old.changed;
	watch_note_all(f);
	f->broken = fsm_load(f);
	return f->broken;
}

/* One record for all events of the entry. */
static void write_events(struct fsm *f)
{
	struct key k;

	if (f->events.n == 0)
		return;
	key_event(&k, f->last_seq);
	txn_put(f->txn, key_str(&k), buf_str(&f->events));
	buf_clear(&f->events);
}

/* --- apply --- */

/*
 * What a leader proposes it has read: a later version has written this, with a
 * value that is not known here, and could apply it. Release 0.4.0 looked at
 * nothing, and refused such an operation when it was applied.
 */
static int unreadable(struct fsm *f, const struct call_info *info)
{
	if (f->entry_format == 1)
		return fsm_refuse(f, ERR_BAD_MESSAGE,
				  "the operation could not be read");
	return fsm_stop(f,
			"its operation %s cannot be read by this version of "
			"Corvo; start the version that wrote it",
			info->name);
}

static int apply_decoded(struct fsm *f, const struct entry_item *item)
{
	const struct call_info *info = op_info(item->op);
	void *request, *reply;
	int r;

	/* nothing is left of the item before: this one would go on with it */
	MUST(f, f->deps.first == NULL && f->deps.parents.n == 0 &&
		    f->deps.sweep.queue.n == 0);
	/* to leave it out would be to become another state than the others */
	if (info == NULL)
		return fsm_stop(f,
				"it has operation %u, which this version "
				"of Corvo does not know; start the version "
				"that wrote it",
				item->op);
	if (info->level > f->cluster.level)
		return fsm_stop(f,
				"it has operation %s of feature level %u, "
				"and the cluster uses %u; start the "
				"version that wrote it",
				info->name, info->level, f->cluster.level);
	request = arena_alloc(&f->item_arena, info->request->size);
	reply = arena_zalloc(&f->item_arena, info->reply->size);
	if (msg_decode(info->request, item->body, &f->item_arena, request) < 0)
		return unreadable(f, info);
	r = fsm_dispatch(f, item->op, request, reply);
	deps_settle(f);
	if (r == APPLY_REST)
		msg_encode(info->request, f->rest, &f->out);
	else if (r == 0)
		msg_encode(info->reply, reply, &f->out);
	return r;
}

/* --- requests that come again --- */

static struct str reply_body(const struct fsm *f, const struct reply *r)
{
	return r->left.p != NULL ? r->left : str_of(f->out.p + r->at, r->n);
}

/* The first try may stand in the same entry: it was on its way still. */
static const struct reply *find_in_entry(const struct entry *e, size_t i,
					 const struct reply *replies)
{
	const struct entry_item *item = &e->items[i];

	while (i-- > 0)
		if (e->items[i].caller == item->caller &&
		    e->items[i].id == item->id && replies[i].left.p == NULL)
			return &replies[i];
	return NULL;
}

/* What was answered before, or is known of it: as answers_find. */
static int find_answer(struct fsm *f, const struct entry *e, size_t i,
		       const struct reply *replies, struct answer *ret)
{
	const struct entry_item *item = &e->items[i];
	const struct reply *first = find_in_entry(e, i, replies);

	if (first == NULL)
		return answers_find(f, &e->callers[item->caller - 1], item->id,
				    ret);
	ret->err = first->err;
	ret->seq = first->seq;
	ret->body = arena_copy(&f->entry_arena, reply_body(f, first));
	return 1;
}

/*
 * Answers a resend from what its first try did: true. False: that was not
 * carried out, or not to its end; then *body is what is left of it.
 */
static bool answer_again(struct fsm *f, const struct entry *e, size_t i,
			 struct reply *replies, struct str *body)
{
	struct answer a = { .err = ERR_OUTCOME_UNKNOWN, .seq = f->last_seq };
	int r = find_answer(f, e, i, replies, &a);

	if (r == 0)
		return false;
	if (a.err == FSM_AGAIN) {
		*body = arena_copy(&f->entry_arena, a.body);
		return false;
	}
	if (a.err == ANSWER_AGAIN_SHORT) {
		if (rest_resume(f, e->items[i].op, *body, a.body, body))
			return false;
		a.err = ERR_OUTCOME_UNKNOWN;
	}
	if (a.err == ERR_OUTCOME_UNKNOWN)
		a.body = str_from(err_text(ERR_OUTCOME_UNKNOWN));
	replies[i] = (struct reply){ .err = a.err,
				     .seq = a.seq,
				     .at = f->out.n,
				     .n = a.body.n,
				     .is_again = true };
	buf_put_str(&f->out, a.body);
	return true;
}

/* One item; its reply is appended to f->out. */
static void apply_item(struct fsm *f, const struct entry *e, size_t i,
		       struct reply *replies)
{
	struct entry_item item = e->items[i];
	struct reply *ret = &replies[i];
	int r;

	arena_reset(&f->item_arena);
	budget_take(f, item.body.n);
	f->flags = item.flags;
	f->draws = 0;
	f->looked = 0;
	f->counters.ops++;
	if (item.caller != 0 && fsm_is_resend(f) &&
	    answer_again(f, e, i, replies, &item.body))
		return;
	ret->at = f->out.n;
	if (f->skips.is_on)
		r = skip_refuse(f);
	else if (fault_is_undone(f, i))
		r = fault_refuse(f);
	else
		r = fault_guard(f, &item, apply_decoded);
	CHECK(r <= 0 || r == APPLY_REST);
	if (r < 0)
		buf_put_str(&f->out, buf_str(&f->why));
	ret->err = r == APPLY_REST ? FSM_AGAIN : -r;
	ret->seq = f->last_seq;
	ret->n = f->out.n - ret->at;
}

/* Of what is too large to be kept, as much as a resend needs. */
static void fit_answer(struct fsm *f, const struct entry_item *item,
		       struct answer *a)
{
	if (a->is_none || item->caller == 0 ||
	    a->body.n <= LIMIT_ANSWER_BYTES || f->cluster.level < 2)
		return;
	if (a->err == FSM_AGAIN && rest_shorten(f, item->op, a->body, &a->body))
		a->err = ANSWER_AGAIN_SHORT;
	else if (a->err == 0)
		a->is_none = rest_is_given_again(f, item->op, item->body);
}

static void keep_answers(struct fsm *f, const struct entry *e,
			 const struct reply *replies)
{
	struct answer *all;

	if (e->callers_n == 0)
		return;
	all = arena_alloc(&f->entry_arena, e->n * sizeof(*all));
	for (size_t i = 0; i < e->n; i++) {
		all[i] = (struct answer){ replies[i].err, replies[i].seq,
					  reply_body(f, &replies[i]),
					  replies[i].is_again ||
					      replies[i].left.p != NULL };
		fit_answer(f, &e->items[i], &all[i]);
	}
	answers_keep(f, e, all);
}

/*
 * The entry has done enough before it comes to this one. The first always has
 * its turn, so every item gets done in the end. Renewals too: a reclaim that
 * overtook them would take jobs from workers that live.
 */
static bool must_wait(const struct fsm *f, const struct entry_item *item)
{
	return f->item > 0 && item->op != OP_RENEW &&
	       (budget_is_spent(f) || !budget_has(f, item->body.n) ||
		faults_are_many(f, f->item));
}

static struct reply *apply_items(struct fsm *f, const struct entry *e)
{
	struct reply *ret = arena_zalloc(&f->entry_arena, e->n * sizeof(*ret));

	budget_begin(f);
	for (size_t i = 0; i < e->n && f->fatal == 0 && !f->faults.hit; i++) {
		const struct entry_item *item = &e->items[i];

		f->item = (uint32_t)i;
		if (must_wait(f, item))
			ret[i] = (struct reply){ .err = FSM_AGAIN,
						 .seq = f->last_seq,
						 .left = item->body };
		else
			apply_item(f, e, i, ret);
	}
	f->weight = budget_spent(f);
	return ret;
}

static void write_meta(struct fsm *f)
{
	struct record_meta m = {
		.applied_index = f->applied_index,
		.last_seq = f->last_seq,
		.last_job_seq = f->last_job_seq,
		.first_seq = f->first_seq,
		.origin = f->origin,
		.now_ns = f->now_ns,
	};
	char v[RECORD_META_BYTES];
	struct key k;

	record_meta_encode(&m, v);
	key_meta(&k);
	txn_put(f->txn, key_str(&k), str_of(v, sizeof(v)));
}

static void send_replies(struct fsm *f, const struct reply *replies, size_t n,
			 fsm_reply_fn *fn, void *ctx)
{
	for (size_t i = 0; fn != NULL && i < n; i++) {
		const struct reply *r = &replies[i];

		fn(ctx, i, r->err, r->seq, reply_body(f, r));
	}
}

/* A large entry came: the next ones need not carry its memory along. */
static void give_back(struct fsm *f)
{
	arena_reset(&f->item_arena);
	arena_reset(&f->entry_arena);
	buf_shrink(&f->out, KEEP_BYTES);
	buf_shrink(&f->events, KEEP_BYTES);
	buf_shrink(&f->scratch, KEEP_BYTES);
	buf_shrink(&f->data, KEEP_BYTES);
	buf_shrink(&f->payload, KEEP_BYTES);
	buf_shrink(&f->why, KEEP_BYTES);
}

bool fsm_is_behind(struct fsm *f)
{
	return kv_is_behind(f->kv);
}

void fsm_on_progress(struct fsm *f, void (*fn)(void *ctx), void *ctx)
{
	f->progress.fn = fn;
	f->progress.ctx = ctx;
}

void fsm_write_behind(struct fsm *f, size_t bytes)
{
	f->behind_max = bytes;
}

/* A batch that was not written is gone, though the entries were applied. */
int fsm_flush(struct fsm *f)
{
	if (f->broken == 0 && txn_bytes(f->txn) > 0) {
		answers_store(f);
		f->broken = txn_commit(f->txn);
	}
	return f->broken;
}

bool fsm_is_broken(const struct fsm *f)
{
	return f->broken < 0;
}

static void begin(struct fsm *f, uint64_t raft_index, const struct entry *e)
{
	f->now_ns = e->now_ns;
	f->rates_slot = rates_slot_number(e->now_ns);
	if (f->since_ns == 0 || e->now_ns < f->since_ns)
		f->since_ns = e->now_ns;
	f->seed = e->seed;
	f->entry_index = raft_index;
	f->entry_format = e->format;
	f->ids_made = 0;
	f->committed_seq = f->last_seq;
	skip_begin(f);
}

/*
 * What an op did before it failed a check is undone with the whole entry, and
 * what is in memory made anew: the entry begins once more. Those before it do
 * the same as they did, and it is left out if that does not help.
 */
static int begin_anew(struct fsm *f)
{
	int r;

	txn_back(f->txn);
	r = fsm_flush(f); /* what entries before it have left */
	if (r == 0)
		r = fsm_rewind(f);
	if (r == 0)
		faults_loaded(f);
	return r;
}

static int apply_entry(struct fsm *f, uint64_t raft_index, struct str raw,
		       struct entry *e, struct reply **ret)
{
	int r;

	do {
		arena_reset(&f->entry_arena);
		buf_clear(&f->out);
		r = entry_decode(raw, &f->entry_arena, e);
		if (r < 0)
			return r;
		txn_mark(f->txn);
		begin(f, raft_index, e);
		*ret = apply_items(f, e);
		faults_settle(f, e);
		if (!f->faults.hit)
			return 0;
		r = begin_anew(f);
	} while (r == 0);
	return r;
}

int fsm_apply(struct fsm *f, uint64_t raft_index, struct str raw,
	      fsm_reply_fn *fn, void *ctx)
{
	struct reply *replies;
	struct entry e;
	int r;

	if (f->broken < 0)
		return f->broken;
	faults_begin(f);
	if (raft_index <= f->applied_index)
		return 0;
	f->fatal = 0; /* a question met it, and was told */
	r = apply_entry(f, raft_index, raw, &e, &replies);
	if (r < 0)
		return r;
	if (f->fatal < 0) {
		f->broken = f->fatal; /* half of the entry is done */
		return f->broken;
	}
	f->applied_index = raft_index;
	f->origin = f->next_origin;
	keep_answers(f, &e, replies);
	queue_write_dirty(f);
	sdb_write(f);
	providers_write_dirty(f);
	write_events(f);
	write_meta(f);
	if (txn_bytes(f->txn) >= f->behind_max) {
		r = fsm_flush(f);
		if (r < 0)
			return r;
	}
	send_replies(f, replies, e.n, fn, ctx);
	give_back(f);
	return 0;
}

void fsm_set_origin(struct fsm *f, const struct entry_origin *o)
{
	f->next_origin = *o;
}

struct str fsm_stop_text(const struct fsm *f)
{
	return buf_str(&f->why);
}

const struct entry_origin *fsm_origin(const struct fsm *f)
{
	return &f->origin;
}
