#include "pb_world.h"

static int reads(struct pb_world *w, const struct pb_desc *d, const char *text,
		 void *m)
{
	struct msg_reader rd = pb_reader(w);
	struct json_error e;

	memset(m, 0, d->msg->size);
	assert_true(json_validate(str_from(text), LIMIT_JSON_DEPTH, &e));
	return pb_read_json(&rd, d, json_root(str_from(text)), m);
}

static void test_names_in_either_form(void **state)
{
	struct pb_world *w = *state;
	struct m_fetch m;

	assert_int_equal(reads(w, &pb_FetchBatchRequest,
			       "{\"queues\": [\"a\", \"b\"], \"workerId\": "
			       "\"w\", \"lease_duration\": 7, \"waitMs\": "
			       "\"250\", \"count\": 3.0}",
			       &m),
			 0);
	assert_int_equal(m.queues_n, 2);
	assert_str_is(m.worker_id, "w");
	assert_int_equal(m.lease_duration, 7 * NS_PER_S);
	assert_int_equal(m.timeout, 250 * NS_PER_MS);
	assert_int_equal(m.count, 3);
	assert_int_equal(w->ignored.n, 0);
}

static void test_maps_and_times(void **state)
{
	struct pb_world *w = *state;
	struct m_heartbeat m;
	struct m_enqueue e;

	assert_int_equal(reads(w, &pb_HeartbeatRequest,
			       "{\"jobs\": {\"j1\": {\"progressJson\": "
			       "\"{\\\"n\\\":1}\"}, \"j2\": {}}}",
			       &m),
			 0);
	assert_int_equal(m.jobs_n, 2);
	assert_str_is(m.jobs[0].job_id, "j1");
	assert_str_is(m.jobs[0].progress, "{\"n\":1}");
	assert_str_is(m.jobs[1].job_id, "j2");
	assert_int_equal(reads(w, &pb_EnqueueRequest,
			       "{\"queue\": \"q\", \"scheduledAt\": "
			       "\"1970-01-01T00:00:01.5Z\"}",
			       &e),
			 0);
	assert_int_equal(e.scheduled_at, 1500 * NS_PER_MS);
}

static void test_refusals_name_the_field(void **state)
{
	static const struct {
		const char *text;
		int err;
		const char *why;
	} rows[] = {
		{ "{\"queue\": 1}", ERR_VALIDATION_ERROR,
		  "queue: must be a string, not a number" },
		{ "{\"queue\": \"q\", \"maxRetries\": 1.5}",
		  ERR_VALIDATION_ERROR,
		  "max_retries: must be a whole number of 64 bits" },
		{ "{\"queue\": \"q\", \"maxRetries\": \"1e3\"}",
		  ERR_VALIDATION_ERROR,
		  "max_retries: must be a whole number of 64 bits" },
		{ "{\"queue\": \"q\", \"delayMs\": \"99999999999999999999\"}",
		  ERR_VALIDATION_ERROR,
		  "delay_ms: must be a whole number of 64 bits" },
		{ "{\"queue\": \"q\", \"max_retries\": 1, \"maxRetries\": 2}",
		  ERR_PARSE_ERROR, "max_retries: is given twice" },
		{ "{\"queue\": \"q\", \"dependsOn\": \"x\"}",
		  ERR_VALIDATION_ERROR,
		  "depends_on: must be an array, not a string" },
		{ "{\"queue\": \"q\", \"retryJitter\": \"NaN\"}",
		  ERR_VALIDATION_ERROR,
		  "retry_jitter: must be a finite number" },
		{ "[]", ERR_VALIDATION_ERROR,
		  "the message must be an object, not an array" },
	};
	struct pb_world *w = *state;
	struct m_enqueue m;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(reads(w, &pb_EnqueueRequest, rows[i].text, &m),
				 -rows[i].err);
		assert_str_is(buf_str(&w->why), rows[i].why);
	}
}

#define DIGITS_MANY (65u << 10)

/* Reading millions of digits would hold up others. */
static void test_numbers_of_too_many_digits(void **state)
{
	static const struct {
		const char *name, *why;
	} rows[] = {
		{ "retryJitter", "retry_jitter: is too large a number" },
		{ "maxRetries",
		  "max_retries: must be a whole number of 64 bits" },
	};
	static char text[DIGITS_MANY + 100], zeros[DIGITS_MANY + 1];
	struct pb_world *w = *state;
	struct m_enqueue m;

	memset(zeros, '0', sizeof(zeros) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(text, sizeof(text),
			       "{\"queue\": \"q\", \"%s\": 1.%s}", rows[i].name,
			       zeros);
		assert_int_equal(reads(w, &pb_EnqueueRequest, text, &m),
				 -ERR_VALIDATION_ERROR);
		assert_str_is(buf_str(&w->why), rows[i].why);
	}
}

static void test_defaults_are_no_news(void **state)
{
	struct pb_world *w = *state;
	struct m_ack m;

	assert_int_equal(reads(w, &pb_AckRequest,
			       "{\"jobId\": \"j\", \"usage\": null, "
			       "\"traceJson\": \"\", \"sooner\": \"x\", "
			       "\"later\": 1}",
			       &m),
			 0);
	assert_int_equal(w->ignored.n, 2);
	assert_str_is(w->ignored.paths[0], "sooner");
	assert_str_is(w->ignored.paths[1], "later");
}

static void test_a_lease_in_seconds_is_not_taken_back(void **state)
{
	struct pb_world *w = *state;
	struct m_fetch m;

	assert_int_equal(reads(w, &pb_FetchRequest,
			       "{\"queues\": [\"a\"], \"leaseDuration\": 9, "
			       "\"leaseDurationMs\": \"0\"}",
			       &m),
			 0);
	assert_int_equal(m.lease_duration, 9 * NS_PER_S);
}

static void test_answers_are_proto3_json(void **state _unused_)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&out);
	struct m_fetched m = { 0 };

	MSG_SET(&m, fetched, job_id, STR("j"));
	MSG_SET(&m, fetched, payload, STR("{\"a\":1}"));
	MSG_SET(&m, fetched, attempt, 1);
	MSG_SET(&m, fetched, max_retries, 0);
	MSG_SET(&m, fetched, lease_duration, 1500 * NS_PER_MS);
	MSG_SET(&m, fetched, lease_token, UINT64_C(9007199254740993));
	pb_write_json(&pb_FetchResponse, &m, &w);
	assert_str_is(buf_str(&out),
		      "{\"found\":true,\"jobId\":\"j\",\"payloadJson\":"
		      "\"{\\\"a\\\":1}\",\"attempt\":1,\"leaseDuration\":1,"
		      "\"leaseToken\":\"9007199254740993\","
		      "\"leaseDurationMs\":\"1500\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PB_TEST(test_names_in_either_form),
		PB_TEST(test_maps_and_times),
		PB_TEST(test_refusals_name_the_field),
		PB_TEST(test_numbers_of_too_many_digits),
		PB_TEST(test_defaults_are_no_news),
		PB_TEST(test_a_lease_in_seconds_is_not_taken_back),
		cmocka_unit_test(test_answers_are_proto3_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
