/*
 * What is sent for a job, by the example of Standard Webhooks, and what
 * receivers say about waiting.
 */
#include "push/letter.h"

#include "lib/testlib.h"
#include "push/outcome.h"

/* The example of the specification's own libraries. */
static void test_the_signature_of_the_specification(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct m_push p = { 0 };

	MSG_SET(&p, push, secret,
		STR("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
	letter_sign(&b, &p, STR("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330,
		    STR("{\"test\": 2432232314}"));
	assert_str_is(buf_str(&b),
		      "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

static void test_headers_and_body(void **state _unused_)
{
	struct arena a = ARENA_INIT;
	struct m_push p = { 0 };
	struct m_fetched j = { 0 };
	struct letter l = { .push = &p, .job = &j, .now_ns = 7 * NS_PER_S };
	struct call_request r = { 0 };
	const char *why;
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);

	MSG_SET(&p, push, url, STR("https://example.com:444/x"));
	MSG_SET(&p, push, headers,
		STR("{\"User-Agent\":\"me\",\"X\":\"\\u0079\"}"));
	MSG_SET(&j, fetched, job_id, STR("job_1"));
	MSG_SET(&j, fetched, queue, STR("a b"));
	MSG_SET(&j, fetched, payload, STR("{\"n\": 1}"));
	MSG_SET(&j, fetched, attempt, 2);
	MSG_SET(&j, fetched, lease_token, 9);
	assert_true(letter_write(&l, &a, &r, &why));
	assert_string_equal(r.url, "https://example.com:444/x");
	assert_str_is(r.host, "example.com");
	assert_string_equal(r.method, "POST");
	assert_str_is(r.body, "{\"n\": 1}");
	for (size_t i = 0; i < r.headers_n; i++)
		buf_printf(&all, "%s\n", r.headers[i]);
	assert_str_is(buf_str(&all), "User-Agent: me\n"
				     "X: y\n"
				     "webhook-id: job_1\n"
				     "webhook-timestamp: 7\n"
				     "Idempotency-Key: job_1\n"
				     "Content-Type: application/json\n"
				     "X-Corvo-Job-Id: job_1\n"
				     "X-Corvo-Attempt: 2\n"
				     "X-Corvo-Max-Retries: 0\n"
				     "X-Corvo-Lease-Token: 9\n"
				     "X-Corvo-Queue: a%20b\n");
	arena_done(&a);
}

static void test_retry_after(void **state _unused_)
{
	uint64_t now = 784111777 * NS_PER_S; /* 1994-11-06T08:49:37Z */
	uint64_t ns;

	assert_true(outcome_retry_after("120", now, &ns));
	assert_int_equal(ns, 120 * NS_PER_S);
	assert_true(outcome_retry_after(" 0 ", now, &ns));
	assert_int_equal(ns, 0);
	assert_true(outcome_retry_after("99999999999", now, &ns));
	assert_int_equal(ns, 86400 * NS_PER_S);
	assert_true(
	    outcome_retry_after("Sun, 06 Nov 1994 08:50:07 GMT", now, &ns));
	assert_int_equal(ns, 30 * NS_PER_S);
	assert_true(
	    outcome_retry_after("Sun, 06 Nov 1994 08:49:00 GMT", now, &ns));
	assert_int_equal(ns, 0);
	assert_true(
	    outcome_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", now, &ns));
	assert_int_equal(ns, 86400 * NS_PER_S);
	/* 2^64 nanoseconds after 1970 */
	assert_true(
	    outcome_retry_after("Sun, 21 Jul 2554 23:34:34 GMT", now, &ns));
	assert_int_equal(ns, 86400 * NS_PER_S);
	assert_false(
	    outcome_retry_after("Sun, 06 Nov -999 08:49:37 GMT", now, &ns));
	assert_false(outcome_retry_after(NULL, now, &ns));
	assert_false(outcome_retry_after("", now, &ns));
	assert_false(outcome_retry_after("-1", now, &ns));
	assert_false(outcome_retry_after("soon", now, &ns));
	assert_false(
	    outcome_retry_after("Sun, 99 Nov 1994 08:49:37 GMT", now, &ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_signature_of_the_specification),
		cmocka_unit_test(test_headers_and_body),
		cmocka_unit_test(test_retry_after),
	};

	return cmocka_run_group_tests_name("push_letter", tests, NULL, NULL);
}
