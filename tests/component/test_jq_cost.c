/*
 * What a condition on a document costs: how much of it is walked over, and what
 * whoever bounds that is told.
 */
#include "jq/jq.h"
#include "lib/testlib.h"
#include "proto/limits.h"
#include "util/turn.h"

static void count_look(void *ctx)
{
	++*(size_t *)ctx;
}

/* How often it could have stopped: by that, how much was walked over. */
static size_t steps_of(const char *text, struct str json)
{
	static const bool never;
	struct arena a = ARENA_INIT;
	struct jq_error err = { 0 };
	struct jq *jq = jq_parse(str_from(text), &a, &err);
	size_t n = 0;

	assert_non_null(jq);
	turn_take_by(count_look, &never, &n);
	turn_open();
	assert_false(jq_matches(jq, json));
	turn_close();
	turn_take_by(NULL, NULL, NULL);
	jq_done(jq);
	arena_done(&a);
	return n;
}

/* Who asks for something far inside makes nobody walk over it again and again.
 */
static void test_a_deep_path_is_walked_once(void **state)
{
	struct buf b = BUF_INIT(0), path = BUF_INIT(0);
	const int depth = LIMIT_JSON_DEPTH - 1;

	(void)state;
	for (int i = 0; i < depth; i++) {
		buf_puts(&b, i % 2 == 0 ? "{\"a\":" : "[");
		buf_puts(&path, i % 2 == 0 ? ".a" : "[0]");
	}
	buf_puts(&b, "[0");
	while (b.n < (64u << 10))
		buf_puts(&b, ",{\"b\": \"text\"}");
	buf_putc(&b, ']');
	for (int i = depth; i-- > 0;)
		buf_puts(&b, i % 2 == 0 ? "}" : "]");
	buf_puts(&path, " == 1");
	buf_putc(&path, '\0');
	assert_true(steps_of(".b == 1", buf_str(&b)) > 4);
	assert_true(steps_of(path.p, buf_str(&b)) <
		    4 * steps_of(".b == 1", buf_str(&b)));
	buf_done(&b);
	buf_done(&path);
}

static size_t tests_of(const char *text)
{
	struct arena a = ARENA_INIT;
	struct jq_error err = { 0 };
	struct jq *jq = jq_parse(str_from(text), &a, &err);
	size_t n;

	assert_non_null(jq);
	n = jq_tests(jq);
	jq_done(jq);
	arena_done(&a);
	return n;
}

/* To count from an end is to walk there first. */
static void test_what_matching_costs(void **state)
{
	(void)state;
	assert_int_equal(tests_of(".a.b.c == 1"), 1);
	assert_int_equal(tests_of(".a == 1 and not (.b == 2 or .c[3] > 1)"), 3);
	assert_int_equal(tests_of(".a[-1] == 1"), 2);
	assert_int_equal(tests_of(".[-1][-2] == 1 or .[0] == 1"), 4);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_deep_path_is_walked_once),
		cmocka_unit_test(test_what_matching_costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
