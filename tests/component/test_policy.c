/*
 * Approval policies: what can be read, and which jobs one is for; and names
 * with stars in them.
 */
#include "jq/policy.h"
#include "lib/testlib.h"
#include "util/glob.h"

static void test_patterns(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} all[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "*", "", true },
		{ "*", "abc", true },
		{ "abc", "abc", true },
		{ "abc", "abcd", false },
		{ "a*", "a", true },
		{ "a*", "abc", true },
		{ "a*", "ba", false },
		{ "*c", "abc", true },
		{ "*c", "abcd", false },
		{ "a*c", "ac", true },
		{ "a*c", "abbc", true },
		{ "a*c", "acb", false },
		{ "a*c", "acbc", true },
		{ "*a*b*", "xxaxxbxx", true },
		{ "*a*b*", "xxbxxa", false },
		{ "**", "a", true },
		{ "a.c", "abc", false },
		{ "a?c", "abc", false },
		{ "mail.*", "mail.eu", true },
		{ "mail.*", "mailx", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (glob_matches(str_from(all[i].pattern),
				 str_from(all[i].text)) != all[i].matches)
			fail_msg("%s and %s", all[i].pattern, all[i].text);
}

/* The worst there can be ends soon. */
static void test_a_pattern_of_stars(void **state)
{
	char pattern[255], text[255];

	(void)state;
	memset(text, 'a', sizeof(text));
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = i % 2 == 0 ? '*' : 'a';
	pattern[253] = 'b';
	for (int i = 0; i < 1000; i++)
		assert_false(glob_matches(str_of(pattern, sizeof(pattern)),
					  str_of(text, sizeof(text))));
}

static struct policy_subject subject = {
	.queue = STR("mail.eu"),
	.tags = STR("{\"risk\":\"high\",\"a \\\"b\":\"\\u00e9\"}"),
	.payload = STR("{\"n\":5,\"to\":[\"x\"]}"),
	.cost = 1500000000,
	.iteration = 3,
	.provider = PROVIDER_DEGRADED,
};

static bool matches(const struct m_policy *m, struct policy_subject *s)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct arena a = ARENA_INIT;
	struct policy p;
	bool r;

	if (!policy_read(m, &a, &p, &why))
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
	r = policy_matches(&p, s);
	assert_int_equal(policy_matches(&p, s), r);
	policy_done(&p);
	arena_done(&a);
	return r;
}

#define ONE(member, value)                           \
	({                                           \
		struct m_policy m_ = { 0 };          \
		MSG_SET(&m_, policy, member, value); \
		matches(&m_, &subject);              \
	})

static void test_single_conditions(void **state)
{
	struct m_policy m = { 0 };
	struct policy_subject none = { .queue = STR("q") };

	(void)state;
	assert_true(ONE(queue, STR("mail.*")));
	assert_false(ONE(queue, STR("mail")));
	assert_true(ONE(cost_min, 1500000000));
	assert_false(ONE(cost_min, 1500000001));
	assert_true(ONE(iteration_min, 3));
	assert_false(ONE(iteration_min, 4));
	assert_true(ONE(provider_state, PROVIDER_DEGRADED));
	assert_false(ONE(provider_state, PROVIDER_FAILING));
	assert_true(ONE(tag_key, STR("risk")));
	assert_true(ONE(tag_key, STR("a \"b")));
	assert_false(ONE(tag_key, STR("a")));
	assert_true(ONE(payload_jq, STR(".n > 4 and .to[0] == \"x\"")));
	assert_false(ONE(payload_jq, STR(".n > 5")));
	MSG_SET(&m, policy, tag_key, STR("a \"b"));
	MSG_SET(&m, policy, tag_value, STR("\xc3\xa9"));
	assert_true(matches(&m, &subject));
	MSG_SET(&m, policy, tag_value, STR("e"));
	assert_false(matches(&m, &subject));
	assert_false(matches(&m, &none));
	/* a job without a payload has {} */
	m = (struct m_policy){ 0 };
	MSG_SET(&m, policy, payload_jq, STR(".x == null"));
	assert_true(matches(&m, &none));
	m = (struct m_policy){ 0 };
	MSG_SET(&m, policy, iteration_min, 1);
	assert_false(matches(&m, &none));
}

static void test_modes(void **state)
{
	struct m_policy m = { 0 };

	(void)state;
	MSG_SET(&m, policy, queue, STR("other"));
	MSG_SET(&m, policy, tag_key, STR("risk"));
	assert_true(matches(&m, &subject));
	MSG_SET(&m, policy, mode, POLICY_ALL);
	assert_false(matches(&m, &subject));
	MSG_SET(&m, policy, queue, STR("*"));
	assert_true(matches(&m, &subject));
	MSG_SET(&m, policy, payload_jq, STR(".n == 6"));
	assert_false(matches(&m, &subject));
	MSG_SET(&m, policy, mode, POLICY_ANY);
	assert_true(matches(&m, &subject));
	MSG_SET(&m, policy, queue, STR("x"));
	MSG_SET(&m, policy, tag_key, STR("x"));
	MSG_SET(&m, policy, cost_min, 2000000000);
	assert_false(matches(&m, &subject));
}

static void wrong(const struct m_policy *m, const char *begins)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct arena a = ARENA_INIT;
	struct policy p;

	assert_false(policy_read(m, &a, &p, &why));
	if (!str_starts(buf_str(&why), str_from(begins)))
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
	arena_done(&a);
}

static void test_what_cannot_be_read(void **state)
{
	struct m_policy m = { 0 };
	struct str at[] = { STR("fetch"), STR("never") };

	(void)state;
	wrong(&m, "queue: a policy needs a condition");
	MSG_SET(&m, policy, payload_jq, STR(".a >"));
	wrong(&m, "payload_jq: expected a text in quotes");
	m = (struct m_policy){ 0 };
	MSG_SET(&m, policy, provider_state, PROVIDER_OK);
	wrong(&m, "provider_state: must be degraded or failing");
	m = (struct m_policy){ 0 };
	MSG_SET(&m, policy, queue, STR("q"));
	MSG_SET(&m, policy, tag_value, STR("v"));
	wrong(&m, "tag_value: must stand beside tag_key");
	MSG_UNSET(&m, policy, tag_value);
	m.tag_value = STR_NULL;
	MSG_SET_LIST(&m, policy, at, at, 2);
	wrong(&m, "at: must be enqueue, fetch or continue");
	MSG_SET_LIST(&m, policy, at, at, 1);
	MSG_SET(&m, policy, on_deadline, DEADLINE_REJECT);
	wrong(&m, "on_deadline: must stand beside deadline");
}

static void test_points(void **state)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct str at[] = { STR("enqueue"), STR("fetch") };
	struct m_policy m = { 0 };
	struct arena a = ARENA_INIT;
	struct policy p;

	(void)state;
	MSG_SET(&m, policy, queue, STR("q"));
	MSG_SET(&m, policy, enabled, true);
	assert_true(policy_read(&m, &a, &p, &why));
	assert_false(policy_is_at(&p, POINT_ENQUEUE));
	assert_true(policy_is_at(&p, POINT_CONTINUE));
	MSG_SET_LIST(&m, policy, at, at, 2);
	assert_true(policy_read(&m, &a, &p, &why));
	assert_true(policy_is_at(&p, POINT_ENQUEUE));
	assert_false(policy_is_at(&p, POINT_CONTINUE));
	MSG_SET(&m, policy, enabled, false);
	assert_true(policy_read(&m, &a, &p, &why));
	assert_false(policy_is_at(&p, POINT_ENQUEUE));
	MSG_SET(&m, policy, payload_jq, STR("not (.a == 1 or .b == 2)"));
	assert_true(policy_read(&m, &a, &p, &why));
	assert_int_equal(p.tests, 2);
	arena_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_a_pattern_of_stars),
		cmocka_unit_test(test_single_conditions),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_what_cannot_be_read),
		cmocka_unit_test(test_points),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
