/*
 * Whatever an entry walks has one order, that of names or numbers that are
 * stored: a replica that was started again does the same as one that saw all of
 * it come.
 */
#include "fsm/core/state.h"
#include "fsm_fixture.h"
#include "store/key.h"
#include "util/hash.h"

#define HOUR (3600 * NS_PER_S)
#define DAY  (24 * HOUR)
#define USD  NS_PER_S /* billionths */

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

/* --- budgets of tags --- */

static void set_daily(struct fx *x, const char *tag, uint64_t usd)
{
	struct m_budget m = { 0 };

	MSG_SET(&m, budget, scope, BUDGET_TAG);
	MSG_SET(&m, budget, target, str_from(tag));
	MSG_SET(&m, budget, daily_usd, usd);
	assert_int_equal(fx_do(x, OP_SET_BUDGET, &m, NULL), 0);
}

static void enqueue(struct fx *x, const char *id, const char *tags,
		    uint64_t expected)
{
	struct m_enqueue m = fx_new(id, "q");

	MSG_SET(&m, enqueue, tags, str_from(tags));
	if (expected > 0)
		MSG_SET(&m, enqueue, expected_cost, expected);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static void ack(struct fx *x, const char *id, uint64_t cost)
{
	struct m_usage u = { 0 };
	struct m_ack m = { 0 };

	MSG_SET(&u, usage, cost_usd, cost);
	MSG_SET(&m, ack, job_id, str_from(id));
	MSG_SET(&m, ack, usage, &u);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

/* Which of two budgets stops a job is said in its record. */
static void test_tags_are_asked_by_name(void **state)
{
	struct fx *x = *state;

	set_daily(x, "team:a", USD);
	set_daily(x, "customer:b", USD);
	enqueue(x, "first", "{\"team\":\"a\",\"customer\":\"b\"}", 0);
	fx_expect(x, "q", "first");
	ack(x, "first", 2 * USD);
	enqueue(x, "next", "{\"team\":\"a\",\"customer\":\"b\"}", 0);
	fx_restart(x, FX_ROCKS);
	fx_expect_none(x, "q");
}

/* And whether it is set aside for good or waits. */
static void test_tags_are_judged_by_name(void **state)
{
	struct fx *x = *state;

	set_daily(x, "team:a", USD);
	set_daily(x, "customer:b", 10 * USD);
	enqueue(x, "spends", "{\"team\":\"a\"}", 0);
	fx_expect(x, "q", "spends");
	ack(x, "spends", 2 * USD);
	enqueue(x, "runs", "{\"customer\":\"b\"}", 9 * USD);
	fx_expect(x, "q", "runs");
	enqueue(x, "both", "{\"team\":\"a\",\"customer\":\"b\"}", 3 * USD / 2);
	fx_restart(x, FX_ROCKS);
	fx_expect_none(x, "q");
}

/* A name that goes leaves the others in their order. */
static void test_tags_that_go_leave_the_order(void **state)
{
	static const char *const tags[] = { "c:1", "a:1", "d:1", "b:1" };
	struct m_budget_ref gone = { 0 };
	struct fx *x = *state;

	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		set_daily(x, tags[i], USD);
	MSG_SET(&gone, budget_ref, scope, STR("tag"));
	MSG_SET(&gone, budget_ref, target, STR("a:1"));
	assert_int_equal(fx_do(x, OP_DELETE_BUDGET, &gone, NULL), 0);
	enqueue(x, "first", "{\"d\":\"1\",\"b\":\"1\",\"c\":\"1\"}", 0);
	fx_expect(x, "q", "first");
	ack(x, "first", 2 * USD);
	enqueue(x, "next", "{\"d\":\"1\",\"b\":\"1\",\"c\":\"1\"}", 0);
	fx_restart(x, FX_ROCKS);
	fx_expect_none(x, "q");
}

/* --- recurrentes --- */

static void recurring(struct fx *x, const char *id)
{
	struct m_sdb_settings s = { 0 };
	struct m_sdb_create m = { 0 };

	MSG_SET(&s, sdb_settings, history_retention, HOUR);
	MSG_SET(&s, sdb_settings, execution_timeout, 10 * NS_PER_S);
	MSG_SET(&s, sdb_settings, inprogress_timeout, 30 * NS_PER_S);
	MSG_SET(&s, sdb_settings, max_attempts, 3);
	MSG_SET(&s, sdb_settings, concurrency, 100);
	MSG_SET(&m, sdb_create, id, str_from(id));
	MSG_SET(&m, sdb_create, webhook_url, STR("http://x.example/"));
	MSG_SET(&m, sdb_create, settings, &s);
	MSG_SET(&m, sdb_create, type, SDB_RECURRING);
	MSG_SET(&m, sdb_create, cron_expression, STR("* * * * *"));
	MSG_SET(&m, sdb_create, next_ns, x->now_ns + 60 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_SDB_CREATE, &m, NULL), 0);
}

static void test_recurrentes_are_forgotten_in_one_order(void **state)
{
	static const char *const ids[] = { "e", "b", "d", "a", "c" };
	struct m_maintain p = { 0 };
	struct fx *x = *state;

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		recurring(x, ids[i]);
	fx_begin(x);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct m_sdb_cancel m = { 0 };

		MSG_SET(&m, sdb_cancel, id, str_from(ids[i]));
		fx_add(x, OP_SDB_CANCEL, 0, &m);
	}
	fx_commit(x);
	fx_restart(x, FX_ROCKS);
	x->now_ns += 2 * HOUR;
	assert_int_equal(fx_do(x, OP_PURGE, &p, NULL), 0);
}

/* --- names with the same hash --- */

/* Whoever knows how names are hashed finds as many as they like. */
static void alike(char name[17], char last)
{
	memcpy(name,
	       "\x03\xed\x92\xd1\x32\x4a\xb5\xd1"
	       "queue__",
	       15);
	name[15] = last;
	name[16] = '\0';
}

static void test_queues_of_the_same_hash_have_an_order(void **state)
{
	static const char order[] = "dbace";
	struct fx *x = *state;
	char name[17], other[17];

	alike(name, 'a');
	alike(other, 'b');
	assert_int_equal(hash_stable(name, 16), hash_stable(other, 16));
	for (size_t i = 0; i < sizeof(order) - 1; i++) {
		struct m_enqueue m;
		char id[2] = { order[i], '\0' };

		alike(name, order[i]);
		m = fx_new(id, name);
		MSG_SET(&m, enqueue, scheduled_at, FX_START_NS + HOUR);
		assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	}
	fx_restart(x, FX_ROCKS);
	x->now_ns += 2 * HOUR;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 2, NULL), 2);
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 3);
}

/* So many were seen an hour from now. */
static void put_workers(struct kv *kv, uint64_t now_ns, int n)
{
	_cleanup_(buf_done) struct buf value = BUF_INIT(0);
	struct kv_batch *b = kv_batch_new(kv);
	struct m_worker m = { 0 };
	struct key k;

	MSG_SET(&m, worker, queues, STR("[]"));
	MSG_SET(&m, worker, last_heartbeat, now_ns + HOUR);
	MSG_SET(&m, worker, started_at, now_ns + HOUR);
	msg_encode(&msg_worker, &m, &value);
	for (int i = 0; i < n; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "w%d", i);
		key_worker(&k, SPACE_DEFAULT, str_from(name));
		kv_batch_put(b, key_str(&k), buf_str(&value));
	}
	assert_int_equal(kv_write(kv, b), 0);
	kv_batch_free(b);
}

/* Takes a job, and is known by that. */
static void worker_comes(struct fx *x, const char *name)
{
	struct str queues[] = { STR("q") };
	struct m_fetch m = { 0 };

	fx_enqueue(x, name, "q");
	MSG_SET_LIST(&m, fetch, queues, queues, 1);
	MSG_SET(&m, fetch, worker_id, str_from(name));
	assert_int_equal(fx_do(x, OP_FETCH, &m, NULL), 0);
}

/* As many as are known, and one more: of two that were seen at the same moment
 * one is forgotten. */
static void test_workers_of_the_same_hash_have_an_order(void **state)
{
	struct fx *x = *state;
	char name[17];

	for (int i = 0; i < FX_SIDES; i++) {
		put_workers(x->side[i].kv, x->now_ns, LIMIT_WORKERS - 2);
		fx_restart(x, (enum fx_side_id)i);
	}
	alike(name, 'b');
	worker_comes(x, name);
	alike(name, 'a');
	worker_comes(x, name);
	fx_restart(x, FX_ROCKS);
	x->now_ns += 2 * HOUR;
	worker_comes(x, "one more");
	assert_int_equal(x->side[FX_MEM].f->workers.n, LIMIT_WORKERS);
}

/* --- whether there is more to purge --- */

static void keyed(struct fx *x, const char *id)
{
	struct m_enqueue m = fx_new(id, "keyed");

	MSG_SET(&m, enqueue, idempotency_key, STR("key"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

/* A key that was used again has left its first end behind, in memory alone. */
static void test_a_purge_says_the_same_of_what_is_left(void **state)
{
	struct m_maintain p = { 0 };
	struct m_maintain_reply r;
	struct fx *x = *state;

	fx_enqueue(x, "done", "q");
	fx_expect(x, "q", "done");
	ack(x, "done", 0);
	keyed(x, "one");
	x->now_ns += DAY + HOUR;
	keyed(x, "two");
	fx_restart(x, FX_ROCKS);
	MSG_SET(&p, maintain, retention_ns, HOUR);
	MSG_SET(&p, maintain, limit, 1);
	assert_int_equal(fx_do(x, OP_PURGE, &p, &r), 0);
	assert_int_equal(r.count, 1);
	assert_false(r.more);
}

static void set_retention(struct fx *x, uint64_t ns)
{
	struct m_usage_settings m = { 0 };

	MSG_SET(&m, usage_settings, retention, ns);
	assert_int_equal(fx_do(x, OP_SET_USAGE, &m, NULL), 0);
}

/* A purge that had no room for all sums leaves a bound behind, in memory alone,
 * that is due when what it left is not. */
static void test_a_purge_says_the_same_of_sums_that_are_left(void **state)
{
	struct m_maintain p = { 0 };
	struct m_maintain_reply r;
	struct fx *x = *state;
	uint32_t gone = 0;

	x->now_ns -= x->now_ns % HOUR;
	set_retention(x, DAY);
	for (int i = 0; i < 2; i++) {
		char id[2] = { (char)('a' + i), '\0' };

		fx_enqueue(x, id, "q");
		fx_expect(x, "q", id);
		ack(x, id, USD);
		x->now_ns += HOUR;
	}
	x->now_ns += DAY;
	/* the two of the first hour, one after the other */
	for (uint64_t budget = 16; gone < 2; budget += 16) {
		fx_set_budget(x, budget);
		assert_int_equal(fx_do(x, OP_PURGE, &p, &r), 0);
		assert_true(r.count <= 1 && r.more);
		gone += r.count;
	}
	fx_set_budget(x, LIMIT_ENTRY_BYTES);
	set_retention(x, DAY + HOUR);
	fx_restart(x, FX_ROCKS);
	MSG_SET(&p, maintain, retention_ns, HOUR);
	MSG_SET(&p, maintain, limit, 2);
	assert_int_equal(fx_do(x, OP_PURGE, &p, &r), 0);
	assert_int_equal(r.count, 2); /* the jobs */
	assert_false(r.more);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_tags_are_asked_by_name),
		TEST(test_tags_are_judged_by_name),
		TEST(test_tags_that_go_leave_the_order),
		TEST(test_recurrentes_are_forgotten_in_one_order),
		TEST(test_queues_of_the_same_hash_have_an_order),
		TEST(test_workers_of_the_same_hash_have_an_order),
		TEST(test_a_purge_says_the_same_of_what_is_left),
		TEST(test_a_purge_says_the_same_of_sums_that_are_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
