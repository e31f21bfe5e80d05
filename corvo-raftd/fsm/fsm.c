/*
 * Applies raft entries: decodes the items, runs each through its apply
 * function, and writes all changes of an entry, with the applied index, as
 * one batch. Entries come from our own leader through the raft log; an item
 * that makes no sense is refused by itself, an entry that cannot be read
 * stops the node.
 *
 * Loop thread only. The arenas live for one entry and one item.
 */
#include "fsm/fsm_impl.h"

#include <stdlib.h>

#include "store/event_pack.h"
#include "store/record.h"
#include "util/id.h"
#include "util/json.h"
#include "util/rng.h"

#define ENTRY_ARENA_BYTES (64u << 10)
#define ITEM_ARENA_BYTES  (64u << 10)
#define OUT_KEEP_BYTES    (8u << 20) /* larger reply buffers are let go */

struct reply {
	int err;
	uint64_t seq;
	size_t at, n; /* in f->out */
};

struct fsm *fsm_new(struct kv *kv)
{
	struct fsm *f = xcalloc(1, sizeof(*f));

	f->kv = kv;
	f->txn = txn_new(kv);
	f->entry_arena.block_size = ENTRY_ARENA_BYTES;
	f->item_arena.block_size = ITEM_ARENA_BYTES;
	f->first_seq = 1;
	f->expiry_from = f->keys_from = NEVER;
	f->batches_from = f->open_from = NEVER;
	list_init(&f->dirty);
	list_init(&f->woken);
	list_init(&f->ended);
	list_init(&f->dirty_lanes);
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
	hmap_done(&f->queues);
	hmap_done(&f->workers);
	heap_done(&f->due);
	heap_done(&f->purge_own);
	heap_done(&f->purge_default);
	heap_done(&f->leases);
	heap_done(&f->timeouts);
	heap_done(&f->seen);
	hmap_done(&f->deps.parents);
	heap_done(&f->idle);
	heap_done(&f->looks);
	schedules_free(f);
	bulks_free(f);
	await_free(f);
}

void fsm_free(struct fsm *f)
{
	if (f == NULL)
		return;
	free_sets(f);
	txn_free(f->txn);
	arena_done(&f->entry_arena);
	arena_done(&f->item_arena);
	buf_done(&f->why);
	buf_done(&f->scratch);
	buf_done(&f->data);
	buf_done(&f->out);
	buf_done(&f->events);
	free(f);
}

/* --- what apply functions use --- */

int fsm_refuse(struct fsm *f, int err, const char *fmt, ...)
{
	va_list ap;

	buf_clear(&f->why);
	va_start(ap, fmt);
	buf_vprintf(&f->why, fmt, ap);
	va_end(ap);
	return -err;
}

int fsm_fail(struct fsm *f, int r)
{
	CHECK(r < 0);
	f->fatal = r;
	return r;
}

int fsm_get(struct fsm *f, const struct key *k, struct str *ret)
{
	int r = txn_get(f->txn, key_str(k), ret);

	if (r < 0)
		return fsm_fail(f, r);
	if (r > 0)
		*ret = arena_copy(&f->item_arena, *ret);
	return r;
}

int fsm_read(struct fsm *f, const struct key *k, const struct msg_desc *d,
	     void *ret)
{
	struct str raw;
	int r = fsm_get(f, k, &raw);

	if (r <= 0)
		return r;
	if (msg_decode(d, raw, &f->item_arena, ret) < 0)
		return fsm_fail(f, -ERR_INTERNAL_ERROR);
	return 1;
}

void fsm_put(struct fsm *f, const struct key *k, const struct msg_desc *d,
	     const void *m)
{
	buf_clear(&f->scratch);
	msg_encode(d, m, &f->scratch);
	txn_put(f->txn, key_str(k), buf_str(&f->scratch));
}

void fsm_delete(struct fsm *f, const struct key *k)
{
	txn_delete(f->txn, key_str(k));
}

uint64_t fsm_event(struct fsm *f, struct m_event *e)
{
	MSG_SET(e, event, at, f->now_ns);
	event_pack_add(&f->events, ++f->last_seq, e);
	return f->last_seq;
}

/* One record for all events of the entry. */
static void write_events(struct fsm *f)
{
	struct key k;

	if (f->events.n == 0)
		return;
	key_event(&k, f->last_seq);
	txn_put(f->txn, key_str(&k), buf_str(&f->events));
	if (f->events.cap > OUT_KEEP_BYTES)
		buf_done(&f->events);
	else
		buf_clear(&f->events);
}

struct str fsm_event_text(struct fsm *f, const char *name, struct str text)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, name);
	jw_str(&w, text);
	jw_object_end(&w);
	return buf_str(&f->data);
}

struct str fsm_event_number(struct fsm *f, const char *name, uint64_t n)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, name);
	jw_u64(&w, n);
	jw_object_end(&w);
	return buf_str(&f->data);
}

struct str fsm_event_change(struct fsm *f, struct str from, struct str to)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "from");
	jw_str(&w, from);
	jw_key(&w, "to");
	jw_str(&w, to);
	jw_object_end(&w);
	return buf_str(&f->data);
}

struct str fsm_event_time(struct fsm *f, const char *name, uint64_t ns)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, name);
	jw_time(&w, ns);
	jw_object_end(&w);
	return buf_str(&f->data);
}

uint64_t fsm_random(const struct fsm *f, uint32_t draw)
{
	struct rng r;

	rng_seed(&r, f->seed ^ ((uint64_t)f->item << 32 | draw));
	return rng_u64(&r);
}

struct str fsm_make_id(struct fsm *f, const char *prefix)
{
	char *id = arena_alloc(&f->item_arena, ID_LEN_MAX);
	size_t n =
	    id_derive(prefix, f->now_ns, f->entry_index, f->ids_made++, id);

	return str_of(id, n);
}

/* --- apply --- */

static int apply_decoded(struct fsm *f, const struct entry_item *item)
{
	const struct call_info *info = op_info(item->op);
	void *request, *reply;
	int r;

	if (info == NULL)
		return fsm_refuse(f, ERR_INTERNAL_ERROR,
				  "operation %u is not known to this node",
				  item->op);
	request = arena_alloc(&f->item_arena, info->request->size);
	reply = arena_zalloc(&f->item_arena, info->reply->size);
	if (msg_decode(info->request, item->body, &f->item_arena, request) < 0)
		return fsm_refuse(f, ERR_BAD_MESSAGE,
				  "the operation could not be read");
	r = fsm_dispatch(f, item->op, request, reply);
	deps_settle(f);
	if (r == 0)
		msg_encode(info->reply, reply, &f->out);
	return r;
}

/* One item; its reply is appended to f->out. */
static void apply_item(struct fsm *f, const struct entry_item *item,
		       struct reply *ret)
{
	int r;

	arena_reset(&f->item_arena);
	f->flags = item->flags;
	ret->at = f->out.n;
	r = apply_decoded(f, item);
	if (r < 0)
		buf_put_str(&f->out, buf_str(&f->why));
	ret->err = -r;
	ret->seq = f->last_seq;
	ret->n = f->out.n - ret->at;
	f->counters.ops++;
}

static void write_meta(struct fsm *f)
{
	struct key k;
	char v[32];

	put_be64(v, f->applied_index);
	put_be64(v + 8, f->last_seq);
	put_be64(v + 16, f->last_job_seq);
	put_be64(v + 24, f->first_seq);
	key_meta(&k);
	txn_put(f->txn, key_str(&k), str_of(v, sizeof(v)));
}

static void send_replies(struct fsm *f, const struct reply *replies, size_t n,
			 fsm_reply_fn *fn, void *ctx)
{
	for (size_t i = 0; fn != NULL && i < n; i++)
		fn(ctx, i, replies[i].err, replies[i].seq,
		   str_of(f->out.p + replies[i].at, replies[i].n));
	if (f->out.cap > OUT_KEEP_BYTES)
		buf_done(&f->out);
}

void fsm_write_behind(struct fsm *f, size_t bytes)
{
	f->behind_max = bytes;
}

int fsm_flush(struct fsm *f)
{
	int r = txn_bytes(f->txn) == 0 ? 0 : txn_commit(f->txn);

	return r < 0 ? fsm_fail(f, r) : 0;
}

/* Events are trimmed by ranges, which takes them to be in the store. */
static bool needs_flush_before(const struct entry *e)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->items[i].op == OP_TRIM_EVENTS)
			return true;
	return false;
}

int fsm_apply(struct fsm *f, uint64_t raft_index, struct str raw,
	      fsm_reply_fn *fn, void *ctx)
{
	struct reply *replies;
	struct entry e;
	int r;

	if (raft_index <= f->applied_index)
		return 0;
	arena_reset(&f->entry_arena);
	buf_clear(&f->out);
	r = entry_decode(raw, &f->entry_arena, &e);
	if (r == 0 && needs_flush_before(&e))
		r = fsm_flush(f);
	if (r < 0)
		return r;
	f->now_ns = e.now_ns;
	f->rates_slot = rates_slot_number(e.now_ns);
	if (f->since_ns == 0)
		f->since_ns = e.now_ns;
	f->seed = e.seed;
	f->entry_index = raft_index;
	f->ids_made = 0;
	f->deps.left = LIMIT_MAINTAIN_JOBS;
	f->committed_seq = f->last_seq;
	replies = arena_alloc(&f->entry_arena, e.n * sizeof(*replies));
	for (size_t i = 0; i < e.n && f->fatal == 0; i++) {
		f->item = (uint32_t)i;
		apply_item(f, &e.items[i], &replies[i]);
	}
	if (f->fatal < 0)
		return f->fatal;
	f->applied_index = raft_index;
	queue_write_dirty(f);
	write_events(f);
	write_meta(f);
	if (txn_bytes(f->txn) >= f->behind_max) {
		r = fsm_flush(f);
		if (r < 0)
			return r;
	}
	send_replies(f, replies, e.n, fn, ctx);
	return 0;
}

/* --- what the leader asks --- */

static uint64_t heap_first(const struct heap *h)
{
	const struct heap_node *n = heap_min(h);

	return n != NULL && n->key != NEVER ? n->key : 0;
}

uint64_t fsm_applied_index(const struct fsm *f)
{
	return f->applied_index;
}

uint64_t fsm_last_seq(const struct fsm *f)
{
	return f->last_seq;
}

uint64_t fsm_first_seq(const struct fsm *f)
{
	return f->first_seq;
}

uint64_t fsm_queue_takeable(struct fsm *f, struct str queue, uint64_t now)
{
	const struct fsm_queue *q = queue_find(f, queue);

	if (q == NULL || q->paused)
		return 0;
	return q->lanes.plain ? q->counts[JOB_PENDING] : lanes_takeable(q, now);
}

bool fsm_queue_is_open(struct fsm *f, struct str queue, uint64_t now)
{
	const struct fsm_queue *q = queue_find(f, queue);

	return q == NULL || (!q->paused && lanes_queue_is_open(q, now));
}

uint64_t fsm_look_ns(const struct fsm *f)
{
	return heap_first(&f->looks);
}

void fsm_take_looks(struct fsm *f, uint64_t now,
		    void (*fn)(void *ctx, struct str queue), void *ctx)
{
	struct heap_node *n;

	while ((n = heap_min(&f->looks)) != NULL && n->key <= now) {
		heap_remove(&f->looks, n);
		fn(ctx, container_of(n, struct fsm_queue, lanes.look)->name);
	}
}

bool fsm_queue(struct fsm *f, struct str name, struct m_queue *ret)
{
	const struct fsm_queue *q = queue_find(f, name);

	if (q == NULL)
		return false;
	queue_show(q, ret);
	return true;
}

void fsm_take_woken(struct fsm *f, void (*fn)(void *ctx, struct str queue),
		    void *ctx)
{
	while (!list_empty(&f->woken)) {
		struct fsm_queue *q =
		    list_entry(f->woken.next, struct fsm_queue, woken);

		list_remove(&q->woken);
		fn(ctx, q->name);
	}
}

enum fsm_lease_state fsm_lease_check(struct fsm *f, const struct m_beat *b,
				     struct str worker_id,
				     struct fsm_lease *ret)
{
	struct claim c = {
		.job_id = b->job_id,
		.worker = b->worker_id.n > 0 ? b->worker_id : worker_id,
		.has_token = MSG_HAS(b, beat, lease_token),
		.token = b->lease_token,
	};
	struct fsm_active *a;
	enum fsm_lease_state s = claim_judge(f, &c, &a);

	*ret = (struct fsm_lease){ 0 };
	if (a != NULL) {
		ret->token = a->token;
		ret->granted_ns = a->granted_ns;
		ret->expires_ns = a->lease.key;
	}
	return s;
}

void fsm_due(struct fsm *f, struct m_due_reply *ret)
{
	MSG_SET(ret, due_reply, promote_ns, heap_first(&f->due));
	MSG_SET(ret, due_reply, reclaim_ns,
		min_nonzero(heap_first(&f->leases), heap_first(&f->timeouts)));
	MSG_SET(ret, due_reply, expire_ns,
		f->expiry_from == NEVER ? 0 : f->expiry_from);
	/* Long ago, whatever the clock says, and another moment with each
	 * entry: so sched hears of the other moments too, for as long as this
	 * takes. */
	if (deps_is_due(f))
		MSG_SET(ret, due_reply, release_ns, f->applied_index + 1);
	MSG_SET(ret, due_reply, fire_ns, heap_first(&f->fires));
	MSG_SET(ret, due_reply, bulk_ns, heap_first(&f->bulks.due));
}

const struct fsm_counters *fsm_counters(const struct fsm *f)
{
	return &f->counters;
}

uint64_t fsm_now_ns(const struct fsm *f)
{
	return f->now_ns;
}
