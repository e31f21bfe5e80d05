/*
 * Random entries. The state machine on RocksDB is restarted again and again
 * while the one in memory lives on: what a replica remembers must not change
 * what it answers. Fetches are compared with a scan of the store. Crashes lose
 * what was not flushed, and replaying the log must give the same store.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/job.h"
#include "fsm/order/lane.h"
#include "random_bulk.h"
#include "random_clock.h"

#define ENTRIES    400
#define PLACES_MAX 8000

/* --- one operation each --- */

static void add_unique_key(struct world *w, struct m_enqueue *m)
{
	MSG_SET(m, enqueue, unique_key, text(w, "q", rng_below(&w->r, 5)));
	MSG_SET(m, enqueue, unique_period, rng_below(&w->r, 200));
	if (one_in(w, 2))
		MSG_SET(m, enqueue, unique_action, UNIQUE_REPLACE);
	if (one_in(w, 2))
		MSG_SET(m, enqueue, payload, text(w, "q", 1));
}

/* Mostly one that is there. */
static struct str some_parent(struct world *w)
{
	struct str id;
	struct m_job j;
	int tries = 8;

	do
		id = some_id(w, rng_below(&w->r, IDS));
	while (tries-- > 0 &&
	       record_job(w->x->side[0].kv, id, 0, &w->arena, &j) == 0);
	return id;
}

/* Ties to other jobs. */
static void add_links(struct world *w, struct m_enqueue *m)
{
	struct m_chain *c = arena_zalloc(&w->arena, sizeof(*c));
	struct m_chain_step *steps =
	    arena_zalloc(&w->arena, 3 * sizeof(*steps));
	struct str *ids = arena_alloc(&w->arena, 3 * sizeof(*ids));
	size_t n = rng_below(&w->r, 4);

	for (size_t i = 0; i < 3; i++) {
		ids[i] = some_parent(w);
		MSG_SET(&steps[i], chain_step, queue, some_queue(w));
	}
	if (n > 0 && one_in(w, 2)) {
		MSG_SET_LIST(m, enqueue, depends_on, ids, n);
		MSG_SET(m, enqueue, on_dependency_failure,
			(uint32_t)rng_below(&w->r, 2));
	}
	if (one_in(w, 3)) {
		MSG_SET(&steps[0], chain_step, queue, m->queue);
		MSG_SET_LIST(c, chain, steps, steps, 2);
		MSG_SET(c, chain, on_failure, &steps[2]);
		if (one_in(w, 2))
			MSG_SET(c, chain, on_exit, &steps[2]);
		MSG_SET(m, enqueue, chain_id, m->job_id);
		MSG_SET(m, enqueue, chain, c);
	}
	if (one_in(w, 3))
		MSG_SET(m, enqueue, batch_id, some_batch(w));
	if (one_in(w, 2))
		MSG_SET(m, enqueue, group, text(w, "q", rng_below(&w->r, 3)));
}

static void add_enqueue(struct world *w)
{
	struct m_enqueue m = { 0 };
	uint64_t i = rng_below(&w->r, IDS);

	if (w->known[i] && !one_in(w, 4)) { /* the earlier one lives on */
		w->known[i] = false;
		w->gone[i]++;
	}
	MSG_SET(&m, enqueue, job_id, some_id(w, i));
	MSG_SET(&m, enqueue, queue, some_queue(w));
	MSG_SET(&m, enqueue, priority, (uint32_t)rng_below(&w->r, PRIORITIES));
	MSG_SET(&m, enqueue, max_retries, (uint32_t)rng_below(&w->r, 4));
	MSG_SET(&m, enqueue, retry_backoff, (uint32_t)rng_below(&w->r, 4));
	MSG_SET(&m, enqueue, retry_base_delay, rng_below(&w->r, 50));
	MSG_SET(&m, enqueue, retry_jitter, rng_unit(&w->r));
	if (one_in(w, 3))
		MSG_SET(&m, enqueue, scheduled_at,
			w->x->now_ns + rng_below(&w->r, 100));
	if (one_in(w, 3))
		MSG_SET(&m, enqueue, expire_after, 1 + rng_below(&w->r, 300));
	if (one_in(w, 4))
		MSG_SET(&m, enqueue, timeout, 1 + rng_below(&w->r, 100));
	if (one_in(w, 4))
		add_unique_key(w, &m);
	if (one_in(w, 2))
		add_links(w, &m);
	if (one_in(w, 8)) {
		MSG_SET(&m, enqueue, idempotency_key,
			text(w, "q", rng_below(&w->r, 5)));
		MSG_SET(&m, enqueue, idempotency_hash, rng_below(&w->r, 2));
	}
	/* Ids are unique unless it is a resend. */
	fx_add(w->x, OP_ENQUEUE, w->known[i] ? FRAME_RESEND : 0, &m);
	w->known[i] = true;
}

static void add_fetch(struct world *w)
{
	struct m_fetch m = { 0 };
	size_t n = 1 + rng_below(&w->r, QUEUES);
	struct str *queues = arena_alloc(&w->arena, n * sizeof(*queues));

	for (size_t i = 0; i < n; i++)
		queues[i] = some_queue(w);
	MSG_SET_LIST(&m, fetch, queues, queues, n);
	MSG_SET(&m, fetch, count, (uint32_t)rng_below(&w->r, 4));
	MSG_SET(&m, fetch, lease_duration, 1 + rng_below(&w->r, 100));
	MSG_SET(&m, fetch, fetch_id, rng_below(&w->r, 20));
	if (!one_in(w, 4))
		MSG_SET(&m, fetch, worker_id,
			text(w, "q", rng_below(&w->r, 3)));
	fx_add(w->x, OP_FETCH, one_in(w, 8) ? FRAME_RESEND : 0, &m);
}

static uint32_t some_flags(struct world *w)
{
	return one_in(w, 8) ? FRAME_RESEND : 0;
}

static void add_ack(struct world *w)
{
	struct m_ack m = { 0 };
	uint64_t i = rng_below(&w->r, IDS);

	MSG_SET(&m, ack, job_id, some_id(w, i));
	if (one_in(w, 2))
		MSG_SET(&m, ack, lease_token, w->tokens[i]);
	if (one_in(w, 6))
		MSG_SET(&m, ack, worker_id, text(w, "q", rng_below(&w->r, 3)));
	if (one_in(w, 3))
		MSG_SET(&m, ack, result, STR("{\"n\":1}"));
	fx_add(w->x, OP_ACK, some_flags(w), &m);
}

static void add_ack_batch(struct world *w)
{
	struct m_ack_item items[4] = { 0 };
	struct m_ack_batch m = { 0 };

	for (int i = 0; i < 4; i++) {
		uint64_t n = rng_below(&w->r, IDS);

		MSG_SET(&items[i], ack_item, job_id, some_id(w, n));
		if (one_in(w, 2))
			MSG_SET(&items[i], ack_item, lease_token, w->tokens[n]);
	}
	MSG_SET_LIST(&m, ack_batch, acks, items, 4);
	fx_add(w->x, OP_ACK_BATCH, some_flags(w), &m);
}

static void add_fail(struct world *w)
{
	struct m_fail m = { 0 };
	uint64_t i = rng_below(&w->r, IDS);

	MSG_SET(&m, fail, job_id, some_id(w, i));
	MSG_SET(&m, fail, error, STR("boom"));
	if (one_in(w, 2))
		MSG_SET(&m, fail, lease_token, w->tokens[i]);
	if (one_in(w, 4))
		MSG_SET(&m, fail, requeue, true);
	if (one_in(w, 5))
		MSG_SET(&m, fail, retry, false);
	if (one_in(w, 5))
		MSG_SET(&m, fail, retry_after, rng_below(&w->r, 60));
	fx_add(w->x, OP_FAIL, some_flags(w), &m);
}

static void add_heartbeat(struct world *w)
{
	struct m_beat beats[3] = { 0 };
	struct str line = STR("a line");
	struct m_heartbeat m = { 0 };

	for (int i = 0; i < 3; i++) {
		uint64_t n = rng_below(&w->r, IDS);

		MSG_SET(&beats[i], beat, job_id, some_id(w, n));
		if (one_in(w, 2))
			MSG_SET(&beats[i], beat, lease_token, w->tokens[n]);
		if (one_in(w, 2))
			MSG_SET(&beats[i], beat, progress, STR("[1]"));
		if (one_in(w, 3))
			MSG_SET(&beats[i], beat, checkpoint, STR("[2]"));
		if (one_in(w, 4))
			MSG_SET_LIST(&beats[i], beat, logs, &line, 1);
	}
	MSG_SET_LIST(&m, heartbeat, jobs, beats, 3);
	fx_add(w->x, OP_HEARTBEAT, 0, &m);
}

static void add_renew(struct world *w)
{
	struct m_renewal l = { 0 };
	struct m_renew m = { 0 };
	uint64_t i = rng_below(&w->r, IDS);

	MSG_SET(&l, renewal, job_id, some_id(w, i));
	MSG_SET(&l, renewal, lease_token, w->tokens[i]);
	MSG_SET(&l, renewal, lease_expires_at,
		w->x->now_ns + rng_below(&w->r, 100));
	MSG_SET_LIST(&m, renew, leases, &l, 1);
	fx_add(w->x, OP_RENEW, 0, &m);
}

static void add_job_op(struct world *w)
{
	static const enum op_id ops[] = {
		OP_CANCEL, OP_CANCEL,  OP_RETRY,   OP_RETRY,
		OP_DELETE, OP_APPROVE, OP_APPROVE, OP_REQUEUE,
	};
	enum op_id op = ops[rng_below(&w->r, ARRAY_SIZE(ops))];
	uint64_t i = rng_below(&w->r, IDS);
	struct m_job_ref m = { 0 };

	MSG_SET(&m, job_ref, job_id, some_id(w, i));
	fx_add(w->x, op, some_flags(w), &m);
	if (op == OP_DELETE) {
		w->known[i] = false;
		w->gone[i]++;
	}
}

static void add_hold(struct world *w)
{
	struct m_hold m = { 0 };

	MSG_SET(&m, hold, job_id, text(w, "job", rng_below(&w->r, IDS)));
	if (one_in(w, 2))
		MSG_SET(&m, hold, reason, STR("wait"));
	fx_add(w->x, one_in(w, 3) ? OP_REJECT : OP_HOLD, some_flags(w), &m);
}

static void add_move(struct world *w)
{
	struct m_move m = { 0 };

	MSG_SET(&m, move, job_id, text(w, "job", rng_below(&w->r, IDS)));
	MSG_SET(&m, move, queue, some_queue(w));
	fx_add(w->x, OP_MOVE, some_flags(w), &m);
}

static void add_priority(struct world *w)
{
	struct m_set_priority m = { 0 };

	MSG_SET(&m, set_priority, job_id,
		text(w, "job", rng_below(&w->r, IDS)));
	MSG_SET(&m, set_priority, priority,
		(uint32_t)rng_below(&w->r, PRIORITIES));
	fx_add(w->x, OP_PRIORITY, some_flags(w), &m);
}

static void add_queue_op(struct world *w)
{
	struct m_queue_ref m = { 0 };

	MSG_SET(&m, queue_ref, queue, some_queue(w));
	fx_add(w->x, one_in(w, 3) ? OP_PAUSE : OP_RESUME, 0, &m);
}

static void add_maintain(struct world *w)
{
	static const enum op_id ops[] = { OP_PROMOTE, OP_RECLAIM, OP_EXPIRE,
					  OP_RELEASE, OP_PURGE };
	struct m_maintain m = { 0 };

	MSG_SET(&m, maintain, idle_ns, rng_below(&w->r, 50));
	MSG_SET(&m, maintain, limit, 1 + (uint32_t)rng_below(&w->r, 5));
	if (one_in(w, 10)) {
		MSG_SET(&m, maintain, upto_seq,
			rng_below(&w->r, w->x->side[0].f->last_seq + 2));
		fx_add(w->x, OP_TRIM_EVENTS, 0, &m);
		return;
	}
	if (one_in(w, 2)) /* of purge */
		MSG_SET(&m, maintain, retention_ns,
			100 + rng_below(&w->r, 2000));
	fx_add(w->x, ops[rng_below(&w->r, ARRAY_SIZE(ops))], 0, &m);
}

static void add_batch_op(struct world *w)
{
	struct m_open_batch open = { 0 };
	struct m_batch_ref seal = { 0 };

	if (one_in(w, 2)) {
		MSG_SET(&seal, batch_ref, batch_id, some_batch(w));
		fx_add(w->x, OP_SEAL_BATCH, some_flags(w), &seal);
		return;
	}
	if (one_in(w, 2))
		MSG_SET(&open, open_batch, parent_id, some_batch(w));
	MSG_SET(&open, open_batch, batch_id, text(w, "q", w->batches++));
	MSG_SET(&open, open_batch, callback_queue, some_queue(w));
	fx_add(w->x, OP_OPEN_BATCH, some_flags(w), &open);
}

/* Limits and fairness, but not of the queues checked_fetch looks at. */
static void add_settings(struct world *w)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, queue,
		text(w, "q", 1 + 2 * rng_below(&w->r, QUEUES / 2)));
	MSG_SET(&m, set_queue, fairness, (uint32_t)rng_below(&w->r, 2));
	MSG_SET(&m, set_queue, max_concurrency, (uint32_t)rng_below(&w->r, 6));
	MSG_SET(&m, set_queue, group_max_concurrency,
		(uint32_t)rng_below(&w->r, 4));
	MSG_SET(&m, set_queue, group_rate, rng_below(&w->r, 3));
	MSG_SET(&m, set_queue, group_period, NS_PER_S);
	MSG_SET(&m, set_queue, retention, 500 + rng_below(&w->r, 5000));
	fx_add(w->x, OP_SET_QUEUE, 0, &m);
}

static void add_sweep(struct world *w)
{
	struct m_clear_queue m = { 0 };

	if (!one_in(w, 25))
		return;
	MSG_SET(&m, clear_queue, queue, some_queue(w));
	fx_add(w->x, one_in(w, 2) ? OP_CLEAR_QUEUE : OP_DELETE_QUEUE,
	       some_flags(w), &m);
}

typedef void add_fn(struct world *w);

static add_fn *const adds[] = {
	add_enqueue,  add_enqueue,   add_enqueue,   add_enqueue,  add_fetch,
	add_fetch,    add_fetch,     add_ack,       add_ack,      add_fail,
	add_fail,     add_heartbeat, add_ack_batch, add_renew,    add_job_op,
	add_queue_op, add_maintain,  add_maintain,  add_maintain, add_job_op,
	add_hold,     add_move,      add_priority,  add_batch_op, add_settings,
	add_sweep,    add_bulk,      add_bulk,
};

/* --- a fetch by itself, against a scan --- */

struct place {
	uint8_t prio;
	uint64_t seq;
	struct str id;
};

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->prio != y->prio)
		return x->prio - y->prio;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

/* Every pending job of the queue. */
static size_t scan_index(struct world *w, const char *kind, struct str queue,
			 struct place *ret)
{
	struct kv_iter *it;
	struct key from, upto;
	struct pending p;
	size_t n = 0;

	key_prefix_queue(&from, kind, SPACE_DEFAULT, queue);
	key_prefix_end(&from, &upto);
	it = kv_iter_new(w->x->side[0].kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it)) {
		struct str k = kv_iter_key(it);

		assert_true(n < PLACES_MAX / 4);
		lane_value(kv_iter_value(it), &p);
		ret[n++] = (struct place){ (uint8_t)k.p[k.n - 9],
					   get_be64(k.p + k.n - 8),
					   arena_copy(&w->arena, p.id) };
	}
	kv_iter_free(it);
	return n;
}

static void checked_fetch(struct world *w)
{
	struct str queues[2] = { text(w, "q", 0), text(w, "q", 2) };
	struct place *places =
	    arena_alloc(&w->arena, PLACES_MAX * sizeof(*places));
	struct m_fetch m = { 0 };
	struct m_fetch_reply r;
	bool more = true;
	size_t n = 0;

	/* One that the fetch finds expired may be followed by others. */
	while (more)
		fx_maintain(w->x, OP_EXPIRE, 0, &more);
	for (int i = 0; i < 2; i++) {
		if (fsm_queue_takeable(w->x->side[0].f, queues[i],
				       w->x->now_ns) == 0)
			continue;
		n += scan_index(w, "p|", queues[i], places + n);
		n += scan_index(w, "group-jobs|", queues[i], places + n);
	}
	qsort(places, n, sizeof(*places), by_place);
	MSG_SET_LIST(&m, fetch, queues, queues, 2);
	MSG_SET(&m, fetch, count, 3);
	MSG_SET(&m, fetch, lease_duration, 50);
	assert_int_equal(fx_do(w->x, OP_FETCH, &m, &r), 0);
	assert_int_equal(r.jobs_n, MIN(n, (size_t)3));
	for (size_t i = 0; i < r.jobs_n; i++)
		assert_true(str_eq(r.jobs[i].job_id, places[i].id));
}

/* --- runs --- */

/* Tokens handed out by the entry, so that later acks can be right. */
static void learn_tokens(struct world *w)
{
	for (uint64_t i = 0; i < IDS; i++) {
		const struct fsm_active *a =
		    active_find(w->x->side[0].f, some_id(w, i));

		if (a != NULL)
			w->tokens[i] = a->token;
	}
}

static void random_entry(struct world *w)
{
	struct fx *x = w->x;

	begin_entry(w);
	for (uint64_t n = 1 + rng_below(&w->r, 12); n > 0; n--)
		adds[rng_below(&w->r, ARRAY_SIZE(adds))](w);
	fx_commit(x);
	learn_tokens(w);
	arena_reset(&w->arena);
}

/* Also when entries have no room for all: that is the same on both sides. */
static void test_restarts(void **state)
{
	struct world w = { .x = *state };
	size_t left = 0;

	test_rng(&w.r);
	for (int i = 0; i < ENTRIES; i++) {
		if (i == ENTRIES / 2)
			fx_set_budget(w.x, 4000);
		random_entry(&w);
		for (size_t k = 0; k < w.x->n; k++)
			left += w.x->replies[k].err == FSM_AGAIN;
		if (one_in(&w, 10))
			fx_restart(w.x, FX_ROCKS);
		if (i < ENTRIES / 2 && one_in(&w, 4))
			checked_fetch(&w);
	}
	assert_true(left > 0);
	arena_done(&w.arena);
}

/* The log of a run, to be applied again. */
struct log {
	struct buf bytes[ENTRIES];
	size_t n;
};

static void record_run(struct world *w, struct log *log)
{
	w->x->unchecked = true;
	while (log->n < ENTRIES) {
		random_entry(w);
		buf_put_str(&log->bytes[log->n++], buf_str(&w->x->entry));
	}
}

static void log_done(struct log *log)
{
	for (size_t i = 0; i < log->n; i++)
		buf_done(&log->bytes[i]);
}

static void apply_from(struct fsm *f, const struct log *log, size_t upto)
{
	for (size_t i = 0; i < upto; i++)
		assert_int_equal(
		    fsm_apply(f, i + 1, buf_str(&log->bytes[i]), NULL, NULL),
		    0);
}

static void assert_same_store(struct kv *a, struct kv *b)
{
	struct buf x = BUF_INIT(0), y = BUF_INIT(0);

	fx_dump(a, &x);
	fx_dump(b, &y);
	assert_true(str_eq(buf_str(&x), buf_str(&y)));
	buf_done(&x);
	buf_done(&y);
}

static void test_same_log_same_store(void **state)
{
	struct world w = { .x = *state };
	struct log log = { .n = 0 };
	struct kv *kv = kv_mem_new();
	struct fsm *f = fsm_new(kv);

	test_rng(&w.r);
	record_run(&w, &log);
	apply_from(f, &log, log.n);
	assert_same_store(kv, w.x->side[FX_MEM].kv);
	fx_check_same(w.x);
	fsm_free(f);
	kv_close(kv);
	log_done(&log);
	arena_done(&w.arena);
}

/* Some write each entry by itself, some let many gather. */
static struct fsm *some_fsm(struct world *w, struct kv *kv, bool behind)
{
	struct fsm *f = fsm_new(kv);

	if (behind)
		fsm_write_behind(f, rng_below(&w->r, 64 * 1024));
	assert_int_equal(fsm_load(f), 0);
	return f;
}

/* Flushes and crashes at random; the log is applied from its start. */
static void crash_and_replay(struct fx *x, bool behind)
{
	struct world w = { .x = x };
	struct log log = { .n = 0 };
	struct kv *below = kv_mem_new();
	struct kv *kv = behind ? kv_behind_new(below, 16 * 1024) : below;
	struct fsm *f;

	test_rng(&w.r);
	record_run(&w, &log);
	f = some_fsm(&w, kv, behind);
	for (size_t at = 0; at < log.n; at++) {
		apply_from(f, &log, at + 1);
		if (one_in(&w, 15))
			assert_int_equal(kv_flush(kv, NULL), 0);
		if (one_in(&w, 25)) {
			fsm_free(f);
			if (behind)
				kv_behind_crash(kv);
			kv_mem_crash(below);
			f = some_fsm(&w, kv, behind);
			assert_true(fsm_applied_index(f) <= at + 1);
		}
	}
	apply_from(f, &log, log.n);
	assert_int_equal(fsm_flush(f), 0);
	assert_same_store(kv, w.x->side[FX_MEM].kv);
	fsm_free(f);
	kv_close(kv);
	log_done(&log);
	arena_done(&w.arena);
}

static void test_crashes(void **state)
{
	crash_and_replay(*state, false);
}

static void test_crashes_with_writes_behind(void **state)
{
	crash_and_replay(*state, true);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_restarts),
		TEST(test_same_log_same_store),
		TEST(test_crashes),
		TEST(test_crashes_with_writes_behind),
	};

	return cmocka_run_group_tests_name("fsm_random", tests, NULL, NULL);
}
