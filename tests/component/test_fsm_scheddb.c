/*
 * Jobs of Scheduled-DB: created, replaced, cancelled and deleted; what they
 * take, and that it is free when they end; recurrentes and their ends.
 */
#include "fsm/core/state.h"
#include "fsm_fixture.h"
#include "proto/scheddb.h"
#include "util/id.h"

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

#define QUEUE "scheduled-db"
#define URL   "http://h/hook"
#define SIZE  (192 + 1 + sizeof(URL) - 1) /* of one whose id has one byte */

static struct m_sdb_settings settings;

static struct m_sdb_create some(const struct fx *x, const char *id)
{
	struct m_sdb_create m = { 0 };

	settings = (struct m_sdb_settings){ 0 };
	MSG_SET(&settings, sdb_settings, history_retention, 3600 * NS_PER_S);
	MSG_SET(&settings, sdb_settings, execution_timeout, 300 * NS_PER_S);
	MSG_SET(&settings, sdb_settings, inprogress_timeout, 30 * NS_PER_S);
	MSG_SET(&settings, sdb_settings, max_attempts, 2);
	MSG_SET(&settings, sdb_settings, concurrency, 100);
	MSG_SET(&m, sdb_create, id, str_from(id));
	MSG_SET(&m, sdb_create, webhook_url, STR(URL));
	MSG_SET(&m, sdb_create, timestamp, x->now_ns + NS_PER_S);
	MSG_SET(&m, sdb_create, settings, &settings);
	return m;
}

static struct m_sdb_create every(const struct fx *x, const char *id)
{
	struct m_sdb_create m = some(x, id);

	MSG_UNSET(&m, sdb_create, timestamp);
	m.timestamp = 0;
	MSG_SET(&m, sdb_create, type, SDB_RECURRING);
	MSG_SET(&m, sdb_create, cron_expression, STR("* * * * *"));
	MSG_SET(&m, sdb_create, next_ns, x->now_ns + 60 * NS_PER_S);
	return m;
}

static void create(struct fx *x, const struct m_sdb_create *m)
{
	struct m_sdb_job r = { 0 };

	assert_int_equal(fx_do(x, OP_SDB_CREATE, m, &r), 0);
	assert_null(r.refusal);
}

static struct m_sdb_numbers numbers(struct fx *x)
{
	struct m_sdb_numbers n;

	fsm_sdb(x->side[FX_MEM].f, &n);
	return n;
}

static void expect_room(struct fx *x, uint64_t bytes, uint64_t jobs)
{
	struct m_sdb_numbers n = numbers(x);

	assert_int_equal(n.bytes, bytes);
	assert_int_equal(n.jobs, jobs);
}

/* The next job; its id outlives the next entry. */
static struct m_fetched fetch(struct fx *x)
{
	static char id[LIMIT_JOB_ID_BYTES];
	struct m_fetched got;

	assert_true(fx_fetch(x, QUEUE, &got));
	memcpy(id, got.job_id.p, got.job_id.n);
	got.job_id.p = id;
	return got;
}

static struct m_fetched take(struct fx *x)
{
	x->now_ns += 2 * NS_PER_S;
	(void)fx_maintain(x, OP_PROMOTE, 100, NULL);
	return fetch(x);
}

static void ack(struct fx *x, const struct m_fetched *got)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, got->job_id);
	MSG_SET(&m, ack, lease_token, got->lease_token);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

static void fail_with(struct fx *x, const struct m_fetched *got,
		      const char *error)
{
	struct m_fail m = { 0 };

	MSG_SET(&m, fail, job_id, got->job_id);
	MSG_SET(&m, fail, lease_token, got->lease_token);
	MSG_SET(&m, fail, error, str_from(error));
	MSG_SET(&m, fail, retry_after, NS_PER_S);
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
}

static void delete (struct fx *x, const char *id)
{
	struct m_sdb_ref m = { 0 };

	MSG_SET(&m, sdb_ref, id, str_from(id));
	assert_int_equal(fx_do(x, OP_SDB_DELETE, &m, NULL), 0);
}

static struct m_sdb_cancelled cancel(struct fx *x, const char *id)
{
	struct m_sdb_cancel m = { 0 };
	struct m_sdb_cancelled r = { 0 };

	MSG_SET(&m, sdb_cancel, id, str_from(id));
	MSG_SET(&m, sdb_cancel, reason, STR("enough"));
	assert_int_equal(fx_do(x, OP_SDB_CANCEL, &m, &r), 0);
	return r;
}

static void refused_for(struct fx *x, const struct m_sdb_create *m,
			const char *type, uint64_t current, uint64_t limit,
			uint64_t requested)
{
	struct m_sdb_job r = { 0 };

	assert_int_equal(fx_do(x, OP_SDB_CREATE, m, &r), 0);
	assert_non_null(r.refusal);
	assert_str_is(r.refusal->type, type);
	assert_int_equal(r.refusal->current, current);
	assert_int_equal(r.refusal->limit, limit);
	assert_int_equal(r.refusal->requested, requested);
}

/* --- tests --- */

static void test_a_unico_takes_room_until_it_ends(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "a");
	struct m_fetched got;
	struct m_sdb_numbers n;

	create(x, &m);
	expect_room(x, SIZE, 1);
	fx_restart(x, FX_MEM);
	expect_room(x, SIZE, 1);
	got = take(x);
	assert_str_is(got.scheduled_db->webhook_url, URL);
	expect_room(x, SIZE, 1);
	ack(x, &got);
	expect_room(x, 0, 0);
	n = numbers(x);
	assert_int_equal(n.completed, 1);
	assert_int_equal(n.last_executed_at, x->now_ns);
	/* another life takes it again */
	fx_job_op(x, OP_RETRY, "a", "retried");
	expect_room(x, SIZE, 1);
	fx_job_op(x, OP_DELETE, "a", "deleted");
	expect_room(x, 0, 0);
	assert_int_equal(numbers(x).completed, 0);
}

static void test_memory_is_looked_at_first_then_the_number(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "a");

	create(x, &m);
	m = some(x, "b");
	MSG_SET(&m, sdb_create, limit_jobs, 1);
	MSG_SET(&m, sdb_create, limit_bytes, 2 * SIZE - 1);
	refused_for(x, &m, "memory", SIZE, 2 * SIZE - 1, SIZE);
	MSG_SET(&m, sdb_create, limit_bytes, 2 * SIZE);
	refused_for(x, &m, "job_count", 1, 1, 0);
	assert_false(fx_job_exists(x, "b"));
	MSG_SET(&m, sdb_create, limit_jobs, 2);
	create(x, &m);
	expect_room(x, 2 * SIZE, 2);
	/* one that is put in the place of another needs no room beside it */
	m = some(x, "b");
	MSG_SET(&m, sdb_create, limit_jobs, 2);
	MSG_SET(&m, sdb_create, limit_bytes, 2 * SIZE);
	create(x, &m);
	delete (x, "a");
	expect_room(x, SIZE, 1);
}

static void test_failures_and_timeouts_are_told_apart(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "a");
	struct m_fetched got;

	create(x, &m);
	got = take(x);
	fail_with(x, &got, "http_error: the receiver answered 500");
	assert_int_equal(numbers(x).failed, 1);
	got = take(x);
	fail_with(x, &got, "timeout: it took too long");
	fx_expect_state(x, "a", JOB_DEAD);
	assert_int_equal(numbers(x).failed, 0);
	assert_int_equal(numbers(x).timeout, 1);
	expect_room(x, 0, 0);
	assert_int_equal(fx_job(x, "a")->errors_n, 2);
	assert_int_equal(fx_job(x, "a")->errors[1].started_at, x->now_ns);
}

static void test_a_lost_node_is_a_timeout_and_it_is_tried_again(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "a");
	struct m_fetched got;

	create(x, &m);
	got = take(x);
	x->now_ns += 31 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 100, NULL), 1);
	assert_int_equal(numbers(x).timeout, 1);
	expect_room(x, SIZE, 1);
	x->now_ns += 20 * NS_PER_S;
	got = take(x);
	assert_int_equal(got.attempt, 2);
	ack(x, &got);
	assert_int_equal(numbers(x).timeout, 0);
}

/* Views have the error that such an end records, from the feed: without it they
 * are another than one that is made anew. */
static void test_the_feed_has_the_error_of_a_run_that_is_cancelled(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "a");
	struct m_tail_reply r;
	uint64_t before;

	create(x, &m);
	(void)take(x);
	before = fsm_last_seq(x->side[FX_MEM].f);
	(void)cancel(x, "a");
	assert_int_equal(
	    record_feed(x->side[FX_MEM].kv, before, 100, &x->arena, &r), 0);
	assert_int_equal(r.errors_n, 1);
	assert_str_is(r.errors[0].job_id, "a");
	assert_true(str_eq(r.errors[0].error, fx_job(x, "a")->last_error));
}

static void test_cancel_ends_an_attempt_at_once(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "a");
	struct m_fetched got;
	struct m_sdb_cancelled r;
	struct m_ack late = { 0 };

	create(x, &m);
	got = take(x);
	r = cancel(x, "a");
	assert_int_equal(r.status, SDB_CANCELLED);
	assert_true(r.message.n > 0);
	assert_str_is(fx_job(x, "a")->cancel_reason, "enough");
	MSG_SET(&late, ack, job_id, got.job_id);
	MSG_SET(&late, ack, lease_token, got.lease_token);
	assert_int_equal(fx_do(x, OP_ACK, &late, NULL), ERR_LEASE_LOST);
	r = cancel(x, "a");
	assert_int_equal(r.status, SDB_CANCELLED);
	assert_int_equal(r.cancelled_at, 0);
	assert_int_equal(r.message.n, 0);
}

static void test_one_that_is_held_can_be_cancelled(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "a");
	struct m_hold hold = { 0 };

	create(x, &m);
	MSG_SET(&hold, hold, job_id, STR("a"));
	assert_int_equal(fx_do(x, OP_HOLD, &hold, NULL), 0);
	assert_int_equal(cancel(x, "a").status, SDB_CANCELLED);
	expect_room(x, 0, 0);
}

static void test_an_id_is_replaced_whatever_its_type(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "a");

	create(x, &m);
	(void)take(x); /* its attempt is under way */
	m = every(x, "a");
	create(x, &m);
	assert_false(fx_job_exists(x, "a"));
	expect_room(x, SIZE + 9, 1);
	assert_int_equal(numbers(x).recurring, 1);
	m = some(x, "a");
	create(x, &m);
	assert_int_equal(numbers(x).recurring, 0);
	expect_room(x, SIZE, 1);
	fx_expect_state(x, "a", JOB_SCHEDULED);
}

static void test_ids_of_others_are_left_alone(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "j");
	struct m_schedule s = { 0 };
	struct m_sdb_ref ref = { 0 };

	fx_enqueue(x, "j", "q");
	fx_refused(x, OP_SDB_CREATE, &m, ERR_VALIDATION_ERROR,
		   "id: it is that of something else, which is not of "
		   "Scheduled-DB");
	MSG_SET(&s, schedule, id, STR("sch_1"));
	MSG_SET(&s, schedule, name, STR("nightly"));
	MSG_SET(&s, schedule, queue, STR("q"));
	MSG_SET(&s, schedule, cron, STR("0 3 * * *"));
	MSG_SET(&s, schedule, create, true);
	MSG_SET(&s, schedule, next_run, x->now_ns + NS_PER_S);
	assert_int_equal(fx_do(x, OP_SET_SCHEDULE, &s, NULL), 0);
	m = some(x, "nightly");
	fx_refused(x, OP_SDB_CREATE, &m, ERR_VALIDATION_ERROR,
		   "id: it is that of something else, which is not of "
		   "Scheduled-DB");
	MSG_SET(&ref, sdb_ref, id, STR("nightly"));
	fx_refused(x, OP_SDB_DELETE, &ref, ERR_NOT_FOUND, "Job not found");
	MSG_SET(&ref, sdb_ref, id, STR("j"));
	fx_refused(x, OP_SDB_DELETE, &ref, ERR_NOT_FOUND, "Job not found");
}

static void fire(struct fx *x, const char *id, const char *job_id,
		 uint64_t next_ns)
{
	struct m_schedule s;
	struct m_fire m = { 0 };
	struct m_fire_reply r = { 0 };

	assert_int_equal(
	    fsm_schedule(x->side[FX_MEM].f, str_from(id), &x->arena, &s), 1);
	x->now_ns = s.next_run;
	MSG_SET(&m, fire, id, str_from(id));
	MSG_SET(&m, fire, job_id, str_from(job_id));
	MSG_SET(&m, fire, due_ns, s.next_run);
	MSG_SET(&m, fire, version, s.version);
	MSG_SET(&m, fire, next_ns, next_ns);
	assert_int_equal(fx_do(x, OP_FIRE, &m, &r), 0);
	assert_str_is(r.status, "created");
}

static void test_a_recurrente_runs_by_its_times_and_ends(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = every(x, "r");
	struct m_fetched got;

	create(x, &m);
	fx_expect_none(x, QUEUE); /* not at creation */
	expect_room(x, SIZE + 9, 1);
	fire(x, "r", "run1", x->now_ns + 3600 * NS_PER_S);
	expect_room(x, SIZE + 9, 1); /* a run takes nothing */
	got = fetch(x);
	assert_str_is(got.scheduled_db->run_of, "r");
	ack(x, &got);
	expect_room(x, SIZE + 9, 1);
	fire(x, "r", "run2", 0); /* its last time */
	expect_room(x, 0, 0);
	assert_int_equal(numbers(x).recurring, 0);
	fx_restart(x, FX_ROCKS);
	expect_room(x, 0, 0);
}

static void test_one_that_ended_is_forgotten_after_its_retention(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = every(x, "r");
	struct m_schedule s;

	create(x, &m);
	assert_int_equal(cancel(x, "r").status, SDB_CANCELLED);
	expect_room(x, 0, 0);
	x->now_ns += 3599 * NS_PER_S;
	(void)fx_maintain(x, OP_PURGE, 100, NULL);
	assert_int_equal(
	    fsm_schedule(x->side[FX_MEM].f, STR("r"), &x->arena, &s), 1);
	assert_true(s.ended && s.next_run == 0);
	x->now_ns += 2 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_PURGE, 100, NULL), 1);
	assert_int_equal(
	    fsm_schedule(x->side[FX_MEM].f, STR("r"), &x->arena, &s), 0);
}

static void test_run_at_creation_when_asked_and_cancel_ends_it(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = every(x, "r");
	struct m_fetched got;
	struct m_sdb_cancelled r;

	MSG_SET(&m, sdb_create, run_id, STR("first"));
	create(x, &m);
	got = fetch(x);
	assert_str_is(got.job_id, "first");
	r = cancel(x, "r");
	assert_true(r.message.n > 0);
	fx_expect_state(x, "first", JOB_CANCELLED);
	delete (x, "r");
	assert_true(fx_job_exists(x, "first")); /* until its retention */
}

static void test_others_cannot_take_it_from_a_schedule(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = every(x, "r");
	struct m_schedule s = { 0 }, r = { 0 };

	create(x, &m);
	MSG_SET(&s, schedule, id, STR("r"));
	MSG_SET(&s, schedule, name, STR("r"));
	MSG_SET(&s, schedule, queue, STR(QUEUE));
	MSG_SET(&s, schedule, cron, STR("5 * * * *"));
	MSG_SET(&s, schedule, next_run, x->now_ns + NS_PER_S);
	assert_int_equal(fx_do(x, OP_SET_SCHEDULE, &s, &r), 0);
	assert_non_null(r.job->scheduled_db);
	expect_room(x, SIZE + 9, 1);
}

static void test_the_queue_is_set_up_and_keeps_what_people_set(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "a");
	struct m_set_queue set = { 0 };
	struct m_queue q;

	create(x, &m);
	assert_true(fsm_queue(x->side[FX_MEM].f, STR(QUEUE), &q));
	assert_int_equal(q.settings->push->format, PUSH_SCHEDDB);
	assert_int_equal(q.settings->max_retries, 2);
	assert_int_equal(q.settings->retention, 3600 * NS_PER_S);
	MSG_SET(&set, set_queue, queue, STR(QUEUE));
	MSG_SET(&set, set_queue, max_retries, 9);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &set, NULL), 0);
	m = some(x, "b");
	create(x, &m);
	assert_true(fsm_queue(x->side[FX_MEM].f, STR(QUEUE), &q));
	assert_int_equal(q.settings->max_retries, 9);
	/* until flags say something new */
	m = some(x, "b");
	settings.max_attempts = 5;
	create(x, &m);
	assert_true(fsm_queue(x->side[FX_MEM].f, STR(QUEUE), &q));
	assert_int_equal(q.settings->max_retries, 5);
}

static void test_what_cannot_be_is_refused(void **state)
{
	struct fx *x = *state;
	struct m_sdb_create m = some(x, "a\nb");

	fx_refused(x, OP_SDB_CREATE, &m, ERR_VALIDATION_ERROR,
		   "id: must have 1 to 64 bytes, and no control characters");
	m = some(x, "a");
	m.timestamp = 0;
	fx_refused(x, OP_SDB_CREATE, &m, ERR_VALIDATION_ERROR,
		   "timestamp is required for unico jobs");
	m = every(x, "a");
	m.next_ns = 0;
	fx_refused(x, OP_SDB_CREATE, &m, ERR_VALIDATION_ERROR,
		   "cron_expression is required for recurrente jobs");
}

/* A chain makes the id of its next job from the entry, as anybody can. */
static void test_ids_we_make_cannot_be_chosen(void **state)
{
	static const char why[] = "id: looks like one that Corvo makes itself; "
				  "choose another form";
	struct fx *x = *state;
	char id[ID_LEN_MAX];
	struct m_sdb_create m;

	(void)id_derive("job_", x->now_ns + NS_PER_S, x->raft_index + 2, 0, id);
	m = some(x, id);
	fx_refused(x, OP_SDB_CREATE, &m, ERR_VALIDATION_ERROR, why);
	(void)id_derive("s07_job_", x->now_ns, 1, 0, id);
	m = some(x, id);
	fx_refused(x, OP_SDB_CREATE, &m, ERR_VALIDATION_ERROR, why);
	(void)id_derive("sch_", x->now_ns, 1, 0, id);
	m = every(x, id);
	fx_refused(x, OP_SDB_CREATE, &m, ERR_VALIDATION_ERROR, why);
	(void)id_derive("order_", x->now_ns, 1, 0, id);
	m = some(x, id);
	create(x, &m);
	m = some(x, "job_1");
	create(x, &m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_unico_takes_room_until_it_ends),
		TEST(test_memory_is_looked_at_first_then_the_number),
		TEST(test_failures_and_timeouts_are_told_apart),
		TEST(test_a_lost_node_is_a_timeout_and_it_is_tried_again),
		TEST(test_cancel_ends_an_attempt_at_once),
		TEST(test_the_feed_has_the_error_of_a_run_that_is_cancelled),
		TEST(test_one_that_is_held_can_be_cancelled),
		TEST(test_an_id_is_replaced_whatever_its_type),
		TEST(test_ids_of_others_are_left_alone),
		TEST(test_a_recurrente_runs_by_its_times_and_ends),
		TEST(test_one_that_ended_is_forgotten_after_its_retention),
		TEST(test_run_at_creation_when_asked_and_cancel_ends_it),
		TEST(test_others_cannot_take_it_from_a_schedule),
		TEST(test_the_queue_is_set_up_and_keeps_what_people_set),
		TEST(test_what_cannot_be_is_refused),
		TEST(test_ids_we_make_cannot_be_chosen),
	};

	return cmocka_run_group_tests_name("fsm_scheddb", tests, NULL, NULL);
}
