/*
 * Requests say what they mean, over all messages of the tables: values of
 * enums are exact, members nothing is done with are named, and a filter has
 * none that say nothing.
 */
#include "lib/testlib.h"
#include "proto/msg_json.h"

#define ODD "no-such-thing"

struct reading {
	struct arena a;
	struct buf why;
	struct ignored ignored;
	bool compat_03;
	void *m;
	int r;
};

static void reading_done(struct reading *x)
{
	arena_done(&x->a);
	buf_done(&x->why);
}

_printf_(3, 4) static void read_text(struct reading *x,
				     const struct msg_desc *d, const char *fmt,
				     ...)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct json_error err;
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	assert_true(json_validate(buf_str(&text), LIMIT_JSON_DEPTH, &err));
	buf_clear(&x->why);
	x->ignored = (struct ignored){ 0 };
	x->m = arena_zalloc(&x->a, d->size);
	x->r = msg_from_json(&(struct msg_reader){ .a = &x->a,
						   .why = &x->why,
						   .ignored = &x->ignored,
						   .compat_03 = x->compat_03 },
			     d, json_root(arena_copy(&x->a, buf_str(&text))),
			     x->m);
}

static bool is_read(const struct field_desc *f)
{
	return (f->flags & (F_INTERNAL | F_PATH | F_ANSWER)) == 0;
}

static bool why_has(const struct reading *x, const char *text)
{
	return memmem(x->why.p, x->why.n, text, strlen(text)) != NULL;
}

static void assert_ignored(const struct reading *x, const char *path)
{
	assert_int_equal(x->ignored.n, 1);
	assert_str_is(x->ignored.paths[0], path);
}

static void check_odd_value(struct reading *x, const struct msg_desc *d,
			    const struct field_desc *f)
{
	if (f->kind == K_strs)
		read_text(x, d, "{\"%s\":[\"" ODD "\"]}", f->name);
	else
		read_text(x, d, "{\"%s\":\"" ODD "\"}", f->name);
	assert_int_equal(x->r, -ERR_VALIDATION_ERROR);
	assert_true(str_starts(buf_str(&x->why), str_from(f->name)));
	for (size_t i = 0; i < f->values->n; i++)
		if (!why_has(x, f->values->values[i].text))
			fail_msg("%s.%s: %.*s", d->name, f->name,
				 STR_ARG(buf_str(&x->why)));
}

static void test_every_enum_is_exact_and_names_its_values(void **state _unused_)
{
	_cleanup_(reading_done) struct reading x = { 0 };
	const struct msg_desc *d;
	size_t checked = 0;

	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		for (size_t k = 0; k < d->n; k++) {
			if (d->fields[k].values == NULL ||
			    !is_read(&d->fields[k]))
				continue;
			check_odd_value(&x, d, &d->fields[k]);
			checked++;
		}
	}
	assert_true(checked > 20);
}

static void test_a_misspelt_value_deep_inside_is_named(void **state _unused_)
{
	_cleanup_(reading_done) struct reading x = { 0 };

	read_text(&x, &msg_enqueue_batch,
		  "{\"jobs\":[{\"queue\":\"q\"},{\"queue\":\"q\",\"chain\":"
		  "{\"steps\":[{\"queue\":\"q\",\"priority\":\"HIGH\"}]}}]}");
	assert_int_equal(x.r, -ERR_VALIDATION_ERROR);
	assert_str_is(buf_str(&x.why),
		      "jobs[1].chain.steps[0].priority: must be one of "
		      "critical, high, normal");
	read_text(&x, &msg_bulk_request,
		  "{\"action\":\"delete\",\"filter\":{\"priority\":"
		  "\"critcal\"}}");
	assert_int_equal(x.r, -ERR_VALIDATION_ERROR);
	assert_true(why_has(&x, "filter.priority"));
}

/* The default at enqueue, the codes of that version elsewhere. */
static void test_unknown_values_of_clients_of_0_3(void **state _unused_)
{
	_cleanup_(reading_done) struct reading x = { .compat_03 = true };
	const struct m_enqueue *e;

	read_text(&x, &msg_enqueue,
		  "{\"queue\":\"q\",\"priority\":\"HIGH\","
		  "\"retry_backoff\":\"wild\"}");
	assert_int_equal(x.r, 0);
	e = x.m;
	assert_false(MSG_HAS(e, enqueue, priority));
	assert_false(MSG_HAS(e, enqueue, retry_backoff));
	read_text(&x, &msg_enqueue,
		  "{\"queue\":\"q\",\"unique_action\":\"odd\"}");
	assert_int_equal(x.r, -ERR_VALIDATION_ERROR);
	read_text(&x, &msg_search, "{\"priority\":\"HIGH\"}");
	assert_int_equal(x.r, -ERR_VALIDATION_ERROR);
	read_text(&x, &msg_ack_item,
		  "{\"job_id\":\"j\",\"step_status\":\"odd\"}");
	assert_int_equal(x.r, -ERR_ACK_ERROR);
	read_text(&x, &msg_bulk_request, "{\"action\":\"odd\"}");
	assert_int_equal(x.r, -ERR_BULK_ERROR);
}

static void check_nested(struct reading *x, const struct msg_desc *d,
			 const struct field_desc *f)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	bool is_list = f->kind == K_msgs;

	read_text(x, d, "{\"%s\":%s{\"" ODD "\":1}%s}", f->name,
		  is_list ? "[" : "", is_list ? "]" : "");
	if ((f->flags & F_FILTER) != 0) {
		assert_int_equal(x->r, -ERR_VALIDATION_ERROR);
		assert_true(why_has(x, "filter." ODD));
		return;
	}
	buf_printf(&path, "%s%s." ODD, f->name, is_list ? "[0]" : "");
	buf_putc(&path, '\0');
	assert_ignored(x, path.p);
}

static void test_every_message_names_unknown_members(void **state _unused_)
{
	_cleanup_(reading_done) struct reading x = { 0 };
	const struct msg_desc *d;

	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		read_text(&x, d, "{\"" ODD "\":{\"a\":[1]}}");
		assert_ignored(&x, ODD);
		for (size_t k = 0; k < d->n; k++)
			if (d->fields[k].sub != NULL && is_read(&d->fields[k]))
				check_nested(&x, d, &d->fields[k]);
	}
}

static void test_members_of_the_server_are_named(void **state _unused_)
{
	_cleanup_(reading_done) struct reading x = { 0 };

	read_text(&x, &msg_enqueue,
		  "{\"queue\":\"q\",\"job_id\":\"mine\",\"chain_id\":null}");
	assert_int_equal(x.r, 0);
	assert_ignored(&x, "job_id");
	read_text(&x, &msg_schedule, "{\"next_run\":\"tomorrow\"}");
	assert_int_equal(x.r, 0);
	assert_ignored(&x, "next_run");
	assert_false(MSG_HAS((struct m_schedule *)x.m, schedule, next_run));
}

static void test_at_most_ten_are_named(void **state _unused_)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(reading_done) struct reading x = { 0 };

	for (int i = 0; i < 99; i++)
		buf_printf(&text, ",\"m%d\":1", i);
	read_text(&x, &msg_enqueue, "{\"queue\":\"q\"%.*s}",
		  STR_ARG(buf_str(&text)));
	assert_int_equal(x.r, 0);
	assert_int_equal(x.ignored.n, LIMIT_IGNORED);
	assert_str_is(x.ignored.paths[9], "m9");
}

/* Each member of the filter, in every way to say nothing with it. */
static void test_a_filter_has_no_member_that_says_nothing(void **state _unused_)
{
	static const char *const nothings[] = { "null", "\"\"", "[]", "{}" };
	_cleanup_(reading_done) struct reading x = { 0 };

	for (size_t k = 0; k < msg_search.n; k++) {
		const struct field_desc *f = &msg_search.fields[k];

		for (size_t i = 0; i < ARRAY_SIZE(nothings); i++) {
			read_text(&x, &msg_bulk_request,
				  "{\"action\":\"delete\",\"filter\":"
				  "{\"queue\":\"q\",\"%s\":%s}}",
				  strcmp(f->name, "queue") == 0 ? "queue_x"
								: f->name,
				  nothings[i]);
			assert_int_equal(x.r, -ERR_VALIDATION_ERROR);
			assert_true(why_has(&x, "filter."));
		}
	}
	read_text(&x, &msg_bulk_request,
		  "{\"action\":\"delete\",\"filter\":{}}");
	assert_int_equal(x.r, -ERR_VALIDATION_ERROR);
	assert_true(why_has(&x, "{\"all\": true}"));
	read_text(&x, &msg_bulk_request,
		  "{\"action\":\"delete\",\"filter\":{\"all\":true}}");
	assert_int_equal(x.r, 0);
}

/* Every duration of every message. */
static void test_an_empty_duration_is_absent(void **state _unused_)
{
	_cleanup_(reading_done) struct reading x = { 0 };
	const struct msg_desc *d;

	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		for (size_t k = 0; k < d->n; k++) {
			const struct field_desc *f = &d->fields[k];

			if ((f->kind != K_dur && f->kind != K_secs) ||
			    !is_read(f))
				continue;
			read_text(&x, d, "{\"%s\":\"\"}", f->name);
			assert_false(why_has(&x, "duration"));
			assert_int_equal(*(uint64_t *)x.m, 0);
		}
	}
}

static void test_on_failure_of_a_chain(void **state _unused_)
{
	static const char head[] = "{\"steps\":[{\"queue\":\"a\"}],"
				   "\"on_failure\":";
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	_cleanup_(reading_done) struct reading x = { 0 };
	struct json_writer w = JSON_WRITER(&out);
	struct json_style style = { 0 };
	const struct m_chain *c;

	read_text(&x, &msg_chain, "%s\"continue\"}", head);
	assert_int_equal(x.r, 0);
	c = x.m;
	assert_int_equal(c->after_failure, AFTER_FAILURE_CONTINUE);
	assert_false(MSG_HAS(c, chain, on_failure));
	msg_to_json(&msg_chain, c, &style, &w);
	assert_true(memmem(out.p, out.n, "\"on_failure\":\"continue\"", 23));
	read_text(&x, &msg_chain, "%s\"stop\"}", head);
	assert_int_equal(x.r, 0);
	c = x.m;
	assert_int_equal(c->after_failure, AFTER_FAILURE_STOP);
	read_text(&x, &msg_chain, "%snull}", head);
	assert_int_equal(x.r, 0);
	read_text(&x, &msg_chain, "%s{\"queue\":\"b\"}}", head);
	assert_int_equal(x.r, 0);
	assert_true(MSG_HAS((struct m_chain *)x.m, chain, on_failure));
	read_text(&x, &msg_chain, "%s\"go on\"}", head);
	assert_int_equal(x.r, -ERR_VALIDATION_ERROR);
	assert_str_is(buf_str(&x.why),
		      "on_failure: must be one of stop, continue");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_enum_is_exact_and_names_its_values),
		cmocka_unit_test(test_a_misspelt_value_deep_inside_is_named),
		cmocka_unit_test(test_unknown_values_of_clients_of_0_3),
		cmocka_unit_test(test_every_message_names_unknown_members),
		cmocka_unit_test(test_members_of_the_server_are_named),
		cmocka_unit_test(test_at_most_ten_are_named),
		cmocka_unit_test(test_a_filter_has_no_member_that_says_nothing),
		cmocka_unit_test(test_an_empty_duration_is_absent),
		cmocka_unit_test(test_on_failure_of_a_chain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
