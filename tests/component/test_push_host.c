/*
 * A host that is called: how many at a time and per second, and the breaker.
 * Moments are made up.
 */
#include "push/host.h"

#include "lib/testlib.h"

#define T0 (1000 * NS_PER_S)

static const struct host_limits limits = {
	.concurrency = 2,
	.failures = 3,
	.pause_ns = NS_PER_S,
};

static bool may(struct host *h, const struct host_limits *l, uint64_t now)
{
	uint64_t at;

	return host_may_call(h, l, now, &at);
}

static bool fails(struct host *h, uint64_t now)
{
	host_called(h, &limits, now);
	return host_ended(h, &limits, now, "no");
}

static bool works(struct host *h, uint64_t now)
{
	host_called(h, &limits, now);
	return host_ended(h, &limits, now, NULL);
}

static void test_calls_at_a_time(void **state _unused_)
{
	struct host h = { 0 };

	assert_true(may(&h, &limits, T0));
	host_called(&h, &limits, T0);
	host_called(&h, &limits, T0);
	assert_false(may(&h, &limits, T0));
	assert_false(host_ended(&h, &limits, T0, NULL));
	assert_true(may(&h, &limits, T0));
	host_dropped(&h);
	assert_int_equal(h.open, 0);
}

static void test_failures_in_a_row_open_it(void **state _unused_)
{
	struct host h = { 0 };
	uint64_t at;

	assert_false(fails(&h, T0));
	assert_false(fails(&h, T0));
	assert_false(works(&h, T0)); /* not in a row */
	assert_false(fails(&h, T0));
	assert_false(fails(&h, T0));
	assert_true(fails(&h, T0));
	assert_int_equal(h.breaker, BREAKER_OPEN);
	assert_false(host_may_call(&h, &limits, T0, &at));
	assert_int_equal(at, T0 + NS_PER_S);
	assert_false(may(&h, &limits, at - 1));
	assert_true(may(&h, &limits, at));
	assert_int_equal(h.breaker, BREAKER_HALF_OPEN);
}

static void trip(struct host *h, uint64_t now)
{
	while (h->breaker != BREAKER_OPEN)
		fails(h, now);
}

static void test_one_call_tries_it(void **state _unused_)
{
	struct host h = { 0 };
	uint64_t now = T0 + NS_PER_S;

	trip(&h, T0);
	assert_true(may(&h, &limits, now));
	host_called(&h, &limits, now);
	assert_false(may(&h, &limits, now)); /* one, not more */
	assert_true(host_ended(&h, &limits, now, NULL));
	assert_int_equal(h.breaker, BREAKER_CLOSED);
	assert_true(may(&h, &limits, now));
	assert_false(fails(&h, now)); /* and counts from the beginning */
}

static void test_one_that_tried_in_vain_pauses_longer(void **state _unused_)
{
	struct host h = { 0 };
	uint64_t now = T0, pause = NS_PER_S;

	trip(&h, now);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(h.until_ns, now + pause);
		now = h.until_ns;
		assert_true(may(&h, &limits, now));
		assert_true(fails(&h, now));
		pause = MIN(pause * 2, HOST_PAUSE_MAX_NS);
	}
	assert_int_equal(pause, HOST_PAUSE_MAX_NS);
}

static void test_one_that_is_given_up_tries_nothing(void **state _unused_)
{
	struct host h = { 0 };
	uint64_t now = T0 + NS_PER_S;

	trip(&h, T0);
	assert_true(may(&h, &limits, now));
	host_called(&h, &limits, now);
	host_dropped(&h);
	assert_int_equal(h.breaker, BREAKER_HALF_OPEN);
	assert_true(may(&h, &limits, now));
}

static void test_calls_begun_before_it_opened(void **state _unused_)
{
	static const struct host_limits many = { .concurrency = 9,
						 .failures = 2,
						 .pause_ns = NS_PER_S };
	struct host h = { 0 };

	for (int i = 0; i < 4; i++)
		host_called(&h, &many, T0);
	assert_false(host_ended(&h, &many, T0, "a"));
	assert_true(host_ended(&h, &many, T0, "b"));
	/* a late failure does not make the pause longer */
	assert_false(host_ended(&h, &many, T0 + 5, "c"));
	assert_int_equal(h.until_ns, T0 + NS_PER_S);
	/* a late answer says that it works */
	assert_true(host_ended(&h, &many, T0 + 6, NULL));
	assert_int_equal(h.breaker, BREAKER_CLOSED);
}

static void test_never_more_than_the_rate(void **state _unused_)
{
	struct bucket b = { 0 };
	uint64_t now = T0, at;
	uint32_t made = 0;

	for (; now < T0 + 10 * NS_PER_S; now += NS_PER_MS) {
		while (bucket_has(&b, 50, now, &at)) {
			bucket_take(&b, 50, now);
			made++;
		}
		assert_true(at > now);
	}
	/* fifty a second, and a tenth of that at once */
	assert_true(made >= 500 && made <= 506);
	assert_int_equal(bucket_left(&b, 50, now + NS_PER_S), 5);
	assert_true(bucket_has(&b, 0, now, &at));
}

static void ended_with(struct host *h, const char *error)
{
	host_called(h, &limits, T0);
	(void)host_ended(h, &limits, T0, error);
}

static void test_what_is_kept_of_an_error_is_text(void **state _unused_)
{
	char text[HOST_ERROR_BYTES + 8];
	struct host h = { 0 };

	ended_with(&h, "no \xc3\xbc");
	assert_string_equal(h.error, "no \xc3\xbc");
	for (size_t before = 0; before < 4; before++) {
		struct str kept;

		memset(text, 'x', before);
		for (size_t i = before; i + 4 < sizeof(text); i += 4)
			memcpy(text + i, "\xf0\x9f\x98\x80", 5);
		ended_with(&h, text);
		kept = str_from(h.error);
		assert_true(str_is_utf8(kept));
		assert_true(kept.n + 4 >= sizeof(h.error));
		assert_memory_equal(kept.p, text, kept.n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_at_a_time),
		cmocka_unit_test(test_failures_in_a_row_open_it),
		cmocka_unit_test(test_one_call_tries_it),
		cmocka_unit_test(test_one_that_tried_in_vain_pauses_longer),
		cmocka_unit_test(test_one_that_is_given_up_tries_nothing),
		cmocka_unit_test(test_calls_begun_before_it_opened),
		cmocka_unit_test(test_never_more_than_the_rate),
		cmocka_unit_test(test_what_is_kept_of_an_error_is_text),
	};

	return cmocka_run_group_tests_name("push_host", tests, NULL, NULL);
}
