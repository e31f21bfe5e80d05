/* Messages and jobs as JSON. */
#include "lib/testlib.h"
#include "msg_fill.h"
#include "proto/job_json.h"

static void assert_json(const struct msg_desc *d, const void *m,
			struct json_style style, const char *want)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);
	struct json_error err;

	msg_to_json(d, m, &style, &w);
	assert_true(json_validate(buf_str(&b), LIMIT_JSON_DEPTH, &err));
	assert_str_is(buf_str(&b), want);
}

static const struct json_style plain;
static const struct json_style compat = { .compat_03 = true };

static void test_absent_members(void **state _unused_)
{
	struct m_enqueue_reply reply = { 0 };
	struct m_fetch_reply fetch = { 0 };
	struct m_fetched fetched = { 0 };
	struct m_job_error error = { 0 };
	struct m_nothing nothing = { 0 };

	MSG_SET(&reply, enqueue_reply, job_id, STR("job_1"));
	MSG_SET(&reply, enqueue_reply, created_at, 5); /* F_INTERNAL */
	assert_json(&msg_enqueue_reply, &reply, plain,
		    "{\"job_id\":\"job_1\",\"unique_existing\":false}");
	assert_json(&msg_fetch_reply, &fetch, plain, "{\"jobs\":[]}");
	assert_json(&msg_fetched, &fetched, plain,
		    "{\"attempt\":0,\"max_retries\":0,\"lease_duration\":0,"
		    "\"lease_token\":0}");
	assert_json(&msg_job_error, &error, plain,
		    "{\"id\":0,\"attempt\":0,\"error\":\"\"}");
	assert_json(&msg_nothing, &nothing, plain, "{}");
}

static void test_kinds(void **state _unused_)
{
	struct m_enqueue e = { 0 };
	struct m_fetch f = { 0 };
	struct str queues[] = { STR("a"), STR("b\"") };

	MSG_SET(&e, enqueue, queue, STR("q\n\xc3\xa4"));
	MSG_SET(&e, enqueue, payload, STR("{ \"a\": 1 }"));
	MSG_SET(&e, enqueue, priority, PRIORITY_CRITICAL);
	MSG_SET(&e, enqueue, retry_base_delay, 5400 * NS_PER_S);
	MSG_SET(&e, enqueue, retry_max_delay, 1500 * NS_PER_US);
	MSG_SET(&e, enqueue, retry_jitter, 0.5);
	MSG_SET(&e, enqueue, scheduled_at, 1500 * NS_PER_MS);
	assert_json(&msg_enqueue, &e, plain,
		    "{\"queue\":\"q\\n\xc3\xa4\",\"payload\":{ \"a\": 1 },"
		    "\"priority\":\"critical\","
		    "\"retry_base_delay\":\"1h30m\","
		    "\"retry_base_delay_ms\":5400000,"
		    "\"retry_max_delay\":\"1.5ms\",\"retry_max_delay_ms\":1,"
		    "\"retry_jitter\":0.5,"
		    "\"scheduled_at\":\"1970-01-01T00:00:01.5Z\"}");
	MSG_SET_LIST(&f, fetch, queues, queues, 2);
	MSG_SET(&f, fetch, timeout, 30 * NS_PER_S);
	MSG_SET(&f, fetch, lease_duration, 1500 * NS_PER_MS);
	MSG_SET(&f, fetch, fetch_id, 9);
	assert_json(&msg_fetch, &f, plain,
		    "{\"queues\":[\"a\",\"b\\\"\"],\"timeout\":30,"
		    "\"lease_duration\":1.5}");
}

static void test_job(void **state _unused_)
{
	struct m_job_error errors[1] = { 0 };
	struct m_event events[1] = { 0 };
	struct m_job j = { 0 };
	struct m_search_reply page = { 0 };

	MSG_SET(&errors[0], job_error, id, 1);
	MSG_SET(&errors[0], job_error, attempt, 1);
	MSG_SET(&errors[0], job_error, error, STR("boom"));
	MSG_SET(&errors[0], job_error, at, 0);
	MSG_SET(&events[0], event, type, EVENT_ENQUEUED);
	MSG_SET(&events[0], event, seq, 4);
	MSG_SET(&events[0], event, prev, 3);
	MSG_SET(&j, job, id, STR("job_1"));
	MSG_SET(&j, job, state, JOB_ACTIVE);
	MSG_SET(&j, job, priority, PRIORITY_HIGH);
	MSG_SET(&j, job, worker_id, STR("w"));
	MSG_SET(&j, job, hostname, STR("h"));
	MSG_SET(&j, job, seq, 77);
	MSG_SET_LIST(&j, job, errors, errors, 1);
	MSG_SET_LIST(&j, job, timeline, events, 1);
#define JOB_AFTER_PRIORITY                                            \
	"\"attempt\":0,\"max_retries\":0,\"retry_backoff\":\"none\"," \
	"\"retry_base_delay\":\"0s\",\"retry_base_delay_ms\":0,"      \
	"\"retry_max_delay\":\"0s\",\"retry_max_delay_ms\":0,"        \
	"\"worker_id\":\"w\",\"hostname\":\"h\","                     \
	"\"errors\":[{\"id\":1,\"attempt\":1,\"error\":\"boom\","     \
	"\"at\":\"1970-01-01T00:00:00Z\"}],"                          \
	"\"timeline\":[{\"type\":\"enqueued\",\"seq\":4}],"           \
	"\"worker\":{\"id\":\"w\",\"hostname\":\"h\"}}"
	assert_json(&msg_job, &j, plain,
		    "{\"id\":\"job_1\",\"state\":\"active\","
		    "\"priority\":\"high\"," JOB_AFTER_PRIORITY);
	assert_json(&msg_job, &j, compat,
		    "{\"id\":\"job_1\",\"state\":\"active\","
		    "\"priority\":1," JOB_AFTER_PRIORITY);
	MSG_SET_LIST(&page, search_reply, jobs, &j, 1);
	assert_json(&msg_search_reply, &page, compat,
		    "{\"jobs\":[{\"id\":\"job_1\",\"state\":\"active\","
		    "\"priority\":1," JOB_AFTER_PRIORITY
		    "],\"total\":0,\"has_more\":false,\"duration_ms\":0}");
}

static void test_job_from_enqueue(void **state _unused_)
{
	struct m_enqueue e = { 0 };
	struct m_enqueue_reply r = { 0 };
	struct m_agent_state agent;
	struct m_job j;

	MSG_SET(&e, enqueue, queue, STR("q"));
	MSG_SET(&e, enqueue, scheduled_at, 5);
	MSG_SET(&r, enqueue_reply, job_id, STR("job_1"));
	MSG_SET(&r, enqueue_reply, status, JOB_PENDING);
	MSG_SET(&r, enqueue_reply, created_at, 1000 * NS_PER_S);
	job_from_enqueue(&e, &r, &agent, &j);
	assert_json(&msg_job, &j, plain,
		    "{\"id\":\"job_1\",\"queue\":\"q\",\"state\":\"pending\","
		    "\"payload\":{},\"priority\":\"normal\",\"attempt\":0,"
		    "\"max_retries\":3,\"retry_backoff\":\"exponential\","
		    "\"retry_base_delay\":\"5s\",\"retry_base_delay_ms\":5000,"
		    "\"retry_max_delay\":\"10m\","
		    "\"retry_max_delay_ms\":600000,"
		    "\"created_at\":\"1970-01-01T00:16:40Z\"}");

	MSG_SET(&e, enqueue, max_retries, 0);
	MSG_SET(&e, enqueue, tags, STR("{\"a\":\"b\"}"));
	MSG_SET(&e, enqueue, expire_after, 60 * NS_PER_S);
	MSG_SET(&e, enqueue, scheduled_at, 2000 * NS_PER_S);
	MSG_SET(&r, enqueue_reply, status, JOB_SCHEDULED);
	job_from_enqueue(&e, &r, &agent, &j);
	assert_true(MSG_HAS(&j, job, max_retries));
	assert_int_equal(j.max_retries, 0);
	assert_int_equal(j.scheduled_at, 2000 * NS_PER_S);
	assert_int_equal(j.expire_at, 1060 * NS_PER_S);
	assert_str_is(j.tags, "{\"a\":\"b\"}");
}

/* Whatever the values, the text is JSON. */
static void test_every_message(void **state _unused_)
{
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	const struct msg_desc *d;
	struct rng rng;

	test_rng(&rng);
	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);
		struct json_writer w = JSON_WRITER(&b);
		void *m = arena_alloc(&a, d->size);
		struct json_error err;

		msg_fill(d, &rng, 1, &a, m);
		for (size_t f = 0; f < d->n; f++) /* raw: not JSON, drop */
			if (d->fields[f].kind == K_raw ||
			    d->fields[f].kind == K_msg ||
			    d->fields[f].kind == K_msgs)
				*(uint64_t *)m &= ~(1ULL << f);
		for (size_t f = 0; f < d->n; f++)
			if (d->fields[f].kind == K_msgs)
				*(size_t *)((char *)m +
					    d->fields[f].count_offset) = 0;
		msg_to_json(d, m, &plain, &w);
		if (!json_validate(buf_str(&b), LIMIT_JSON_DEPTH, &err))
			fail_msg("%s: %zu %s: %.*s", d->name, err.pos, err.text,
				 STR_ARG(buf_str(&b)));
		arena_reset(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_absent_members),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_job),
		cmocka_unit_test(test_job_from_enqueue),
		cmocka_unit_test(test_every_message),
	};

	return cmocka_run_group_tests_name("msg_json_out", tests, NULL, NULL);
}
