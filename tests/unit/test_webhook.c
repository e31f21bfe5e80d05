/*
 * Webhooks: which events one takes, and how deliveries are called; patterns.
 */
#include "proto/webhook.h"

#include "lib/testlib.h"
#include "util/glob.h"

static void test_patterns(void **state _unused_)
{
	static const struct {
		const char *pattern, *name;
		bool matches;
	} rows[] = {
		{ "", "", true },           { "", "a", false },
		{ "*", "", true },          { "*", "anything", true },
		{ "a*", "a", true },        { "a*", "ba", false },
		{ "*a", "ba", true },       { "a*b", "ab", true },
		{ "a*b", "axxb", true },    { "a*b", "axxbc", false },
		{ "*.a.*", "x.a.y", true }, { "*.a.*", "x.ab.y", false },
		{ "a**b", "ab", true },     { "*ab*ab", "abab", true },
		{ "*ab*ab", "ab", false },  { "a?", "ab", false },
		{ "a?", "a?", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (glob_matches(str_from(rows[i].pattern),
				 str_from(rows[i].name)) != rows[i].matches)
			fail_msg("%s and %s", rows[i].pattern, rows[i].name);
}

/* It would take for ever if each star tried all there is after the last. */
static void test_many_stars_take_no_time(void **state _unused_)
{
	char pattern[255], name[255];

	for (size_t i = 0; i < sizeof(pattern); i++) {
		pattern[i] = i % 2 ? 'a' : '*';
		name[i] = 'a';
	}
	pattern[sizeof(pattern) - 1] = 'b';
	assert_false(glob_matches(str_of(pattern, sizeof(pattern)),
				  str_of(name, sizeof(name))));
}

static bool takes(const struct m_webhook *w, uint32_t type, const char *queue,
		  const char *data)
{
	struct event_types t;
	struct m_event e = { 0 };

	webhook_types(w, &t);
	MSG_SET(&e, event, type, type);
	if (queue != NULL)
		MSG_SET(&e, event, queue, str_from(queue));
	if (data != NULL)
		MSG_SET(&e, event, data, str_from(data));
	return webhook_takes(w, &t, &e);
}

static void test_which_events_it_takes(void **state _unused_)
{
	struct str events[] = { STR("Completed"), STR("queue_*") };
	struct str queues[] = { STR("mail.*") };
	struct m_webhook w = { 0 };

	MSG_SET(&w, webhook, id, STR("w"));
	MSG_SET_LIST(&w, webhook, events, events, 2);
	assert_true(takes(&w, EVENT_COMPLETED, "a", NULL));
	assert_true(takes(&w, EVENT_QUEUE_PAUSED, "a", NULL));
	assert_false(takes(&w, EVENT_DEAD, "a", NULL));
	assert_false(takes(&w, EVENT_TYPE_MAX + 7, "a", NULL));
	MSG_SET_LIST(&w, webhook, queues, queues, 1);
	assert_false(takes(&w, EVENT_COMPLETED, "a", NULL));
	assert_true(takes(&w, EVENT_COMPLETED, "mail.a", NULL));
	assert_false(takes(&w, EVENT_COMPLETED, NULL, NULL));
	events[0] = STR("*");
	queues[0] = STR("*");
	assert_false(takes(&w, EVENT_LEADER_CHANGED, NULL, NULL));
	w.queues_n = 0;
	assert_true(takes(&w, EVENT_LEADER_CHANGED, NULL, NULL));
	/* a test is for one of them, whatever it takes otherwise */
	assert_false(
	    takes(&w, EVENT_WEBHOOK_TEST, NULL, "{\"webhook_id\":\"v\"}"));
	events[0] = events[1] = STR("dead");
	assert_true(
	    takes(&w, EVENT_WEBHOOK_TEST, NULL, "{\"webhook_id\":\"w\"}"));
}

static void test_names_of_deliveries(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	uint64_t seq = 0;

	webhook_put_delivery_id(&b, STR("a_7"), 12);
	assert_str_is(buf_str(&b), "a_7_12");
	assert_true(webhook_read_delivery_id(buf_str(&b), STR("a_7"), &seq));
	assert_int_equal(seq, 12);
	assert_true(webhook_read_delivery_id(STR("13"), STR("a_7"), &seq));
	assert_int_equal(seq, 13);
	assert_false(webhook_read_delivery_id(STR("b_12"), STR("a_7"), &seq));
	assert_false(webhook_read_delivery_id(STR("a_7_"), STR("a_7"), &seq));
	assert_false(webhook_read_delivery_id(STR("0"), STR("a_7"), &seq));
	assert_true(webhook_id_fits(STR("a-Z_9")));
	assert_false(webhook_id_fits(STR("a.b")));
	assert_false(webhook_id_fits(STR("")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_many_stars_take_no_time),
		cmocka_unit_test(test_which_events_it_takes),
		cmocka_unit_test(test_names_of_deliveries),
	};

	return cmocka_run_group_tests_name("webhook", tests, NULL, NULL);
}
