/*
 * payload_jq: each form against documents, positions of errors, limits, and
 * random texts that must neither crash nor hang.
 */
#include <stdio.h>

#include "jq/jq.h"
#include "lib/testlib.h"
#include "proto/limits.h"
#include "util/rng.h"

static const char doc[] =
    "{\"a\": 1, \"big\": 9007199254740993, \"f\": -2.5e1,"
    " \"s\": \"caf\\u00e9\","
    " \"t\": true, \"n\": null, \"l\": [1, \"x\", [\"in\"], {\"k\": \"v\"}],"
    " \"o\": {\"p\": {\"q\": \"deep\"}}, \"a.b\": 7, \"q\\\"uote\": 8,"
    " \"\\ud83d\\ude00\": \"smile\", \"$\": \"path\", \"d\": 1, \"d\": 2,"
    " \"\": \"empty\", \"num\": \"5\", \"e\": []}";

static bool run(const char *text, const char *json)
{
	struct arena a = ARENA_INIT;
	struct jq_error err = { 0 };
	struct jq *jq = jq_parse(str_from(text), &a, &err);
	bool r;

	if (jq == NULL)
		fail_msg("%s: %s at %zu", text, err.text, err.pos);
	r = jq_matches(jq, str_from(json));
	jq_done(jq);
	arena_done(&a);
	return r;
}

static void assert_true_of_doc(const char *text)
{
	if (!run(text, doc))
		fail_msg("should match: %s", text);
}

static void assert_false_of_doc(const char *text)
{
	if (run(text, doc))
		fail_msg("should not match: %s", text);
}

static void test_compare(void **state)
{
	static const char *const yes[] = {
		".a == 1",
		".a==1.0",
		".a != 2",
		".a < 2",
		".a <= 1",
		".a >= 1",
		".a > 0.5",
		".big == 9007199254740993",
		".big != 9007199254740992",
		".f == -25",
		".f < -24.9",
		".s == \"caf\\u00e9\"",
		".s == \"café\"",
		".s > \"ca\"",
		".s >= \"café\"",
		".s != \"cafe\"",
		".t == true",
		".t != false",
		".t > false",
		".n == null",
		".missing == null",
		".a != null",
		".a != \"1\"",
		".num != 5",
		".num == \"5\"",
		".l != 1",
		".d == 2",
		"\t.a\n==\r 1 ",
	};
	static const char *const no[] = {
		".a == 2",       ".a != 1",
		".a == \"1\"",   ".a < 1",
		".a > 1",        ".num == 5",
		".num > 1",      ".s > 1",
		".missing != 1", ".n != 1",
		".n != null",    ".missing != null",
		".t == 1",       ".t == \"true\"",
		".l == 1",       ".l > 0",
		".missing < 1",  ".n < 1",
		".d == 1",       ".big == 9007199254740992",
		".o == null",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		assert_true_of_doc(yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		assert_false_of_doc(no[i]);
}

static void test_paths(void **state)
{
	(void)state;
	assert_true_of_doc(".o.p.q == \"deep\"");
	assert_true_of_doc(".o[\"p\"].q == \"deep\"");
	assert_true_of_doc(".[\"o\"].\"p\"[\"q\"] == \"deep\"");
	assert_true_of_doc(".\"a.b\" == 7");
	assert_true_of_doc(".[\"a.b\"] == 7");
	assert_false_of_doc(".a.b == 7");
	assert_true_of_doc(".\"q\\\"uote\" == 8");
	assert_true_of_doc(".\"\\ud83d\\ude00\" == \"smile\"");
	assert_true_of_doc(".\"😀\" == \"smile\"");
	assert_true_of_doc(".\"$\" == \"path\"");
	assert_true_of_doc(".\"\" == \"empty\"");
	assert_true_of_doc(".l[0] == 1");
	assert_true_of_doc(".l.[1] == \"x\"");
	assert_true_of_doc(".l[ -1 ].k == \"v\"");
	assert_true_of_doc(".l[2][0] == \"in\"");
	assert_true_of_doc(".l[4] == null");
	assert_true_of_doc(".l[-5] == null");
	assert_true_of_doc(".l.k == null");
	assert_true_of_doc(".o[0] == null");
	assert_true(run(". == 5", "5"));
	assert_true(run(".[1] == true", " [ 0 , true ] "));
	assert_true(run(". | startswith(\"a\")", "\"ab\""));
	assert_true(run(".and == 1 and .not == 2", "{\"and\":1,\"not\":2}"));
}

static void test_functions(void **state)
{
	(void)state;
	assert_true_of_doc(".s | startswith(\"caf\")");
	assert_true_of_doc(".s|startswith(\"\")");
	assert_true_of_doc(".s | startswith ( \"caf\\u00e9\" )");
	assert_false_of_doc(".s | startswith(\"afé\")");
	assert_false_of_doc(".a | startswith(\"1\")");
	assert_false_of_doc(".missing | startswith(\"\")");
	assert_true_of_doc(".l | contains(\"x\")");
	assert_false_of_doc(".l | contains(\"in\")");
	assert_false_of_doc(".l | contains(\"1\")");
	assert_true_of_doc(".s | contains(\"fé\")");
	assert_true_of_doc(".s | contains(\"\")");
	assert_false_of_doc(".s | contains(\"Fé\")");
	assert_false_of_doc(".o | contains(\"p\")");
	assert_true_of_doc(".l | length == 4");
	assert_true_of_doc(".l | length > 3");
	assert_true_of_doc(".e | length == 0");
	assert_true_of_doc(".s | length == 4");
	assert_true_of_doc(".o | length <= 1");
	assert_true_of_doc(".l | length != -1");
	assert_false_of_doc(".a | length == 1");
	assert_false_of_doc(".missing | length == 0");
	assert_false_of_doc(".n | length == 0");
}

static void test_logic(void **state)
{
	(void)state;
	assert_true_of_doc(".a == 1 and .t == true");
	assert_false_of_doc(".a == 1 and .t == false");
	assert_true_of_doc(".a == 2 or .t == true");
	assert_true_of_doc(".a == 1 or .a == 2 and .a == 3");
	assert_false_of_doc("(.a == 1 or .a == 2) and .a == 3");
	assert_true_of_doc("not .a == 2");
	assert_false_of_doc("not not .a == 2");
	assert_true_of_doc("not (.a == 2 or .a == 3)");
	assert_true_of_doc("not .a == 2 and .a == 1");
	assert_true_of_doc(".a == 2 | not");
	assert_false_of_doc(".a == 1 or .a == 2 | not");
	assert_true_of_doc(".a == 1 and (.a == 2 | not)");
	assert_true_of_doc(".a == 1 and .a == 2 | not");
	assert_true_of_doc(".a == 2 | not | not | not");
	assert_true_of_doc(".l | contains(\"x\") and .a == 1");
	assert_true_of_doc("(.l | length > 1) and ((.a == 1))");
	assert_true_of_doc("not .missing == 1");
	assert_false(run(".a == 1", "not json"));
	assert_false(run("not .a == 1", ""));
}

static void assert_fails_at(const char *text, size_t pos)
{
	struct arena a = ARENA_INIT;
	struct jq_error err = { 0 };

	if (jq_parse(str_from(text), &a, &err) != NULL)
		fail_msg("should be refused: %s", text);
	if (err.pos != pos || err.text == NULL)
		fail_msg("%s: at %zu, not %zu", text, err.pos, pos);
	arena_done(&a);
}

static void test_errors(void **state)
{
	(void)state;
	assert_fails_at("", 0);
	assert_fails_at("  ", 2);
	assert_fails_at("a == 1", 0);
	assert_fails_at(".a", 2);
	assert_fails_at(".a = 1", 3);
	assert_fails_at(".a == ", 6);
	assert_fails_at(".a == x", 6);
	assert_fails_at(".a == nullx", 6);
	assert_fails_at(".a == 'x'", 6);
	assert_fails_at(".a == 01", 7);
	assert_fails_at(".a == 1e999", 6);
	assert_fails_at(".a == \"x", 6);
	assert_fails_at(".a == \"\\x\"", 8);
	assert_fails_at(".a == \"\\ud800\"", 13);
	assert_fails_at(".a < null", 5);
	assert_fails_at(".a == .b", 6);
	assert_fails_at(".a-b == 1", 2);
	assert_fails_at(".a. == 1", 3);
	assert_fails_at(".a[ == 1", 4);
	assert_fails_at(".a[1 == 1", 5);
	assert_fails_at(".a[1.5] == 1", 3);
	assert_fails_at(".a[99999999999999999999] == 1", 3);
	assert_fails_at(".a | not", 5);
	assert_fails_at(".a | foo(1)", 5);
	assert_fails_at(".a | contains(1)", 14);
	assert_fails_at(".a | contains \"x\"", 14);
	assert_fails_at(".a | contains(\"x\"", 17);
	assert_fails_at(".a | length", 11);
	assert_fails_at(".a | length > 1.5", 14);
	assert_fails_at(".a | length > x", 14);
	assert_fails_at(".a == 1 .b == 2", 8);
	assert_fails_at(".a == 1 and", 11);
	assert_fails_at("(.a == 1", 8);
	assert_fails_at(".a == 1)", 7);
	assert_fails_at(".a == 1 | not and .b == 1", 14);
	assert_fails_at(".a == 1; drop table jobs", 7);
}

static void test_depth(void **state)
{
	struct arena a = ARENA_INIT;
	struct jq_error err;
	struct buf b = BUF_INIT(0);

	(void)state;
	for (size_t extra = 0; extra < 2; extra++) {
		buf_clear(&b);
		for (size_t i = 0; i < JQ_DEPTH + extra; i++)
			buf_putc(&b, '(');
		buf_puts(&b, ".a == 1");
		for (size_t i = 0; i < JQ_DEPTH + extra; i++)
			buf_putc(&b, ')');
		assert_int_equal(jq_parse(buf_str(&b), &a, &err) != NULL,
				 extra == 0);
	}
	buf_clear(&b);
	while (b.n < LIMIT_JQ_BYTES)
		buf_puts(&b, "not ");
	buf_puts(&b, ".a==1");
	while (b.n < 2 * LIMIT_JQ_BYTES)
		buf_puts(&b, " or .a==1");
	assert_non_null(jq_parse(buf_str(&b), &a, &err));
	buf_done(&b);
	arena_done(&a);
}

static void test_paths_go_by_the_last_member(void **state)
{
	static const char twice[] =
	    "{\"a\": {\"b\": 1, \"c\": 5}, \"x\": [[1, 2], [3, {\"y\": 4}, 6]],"
	    " \"a\": {\"b\": 2, \"b\": 3}, \"z\": {\"a\": 1}, \"z\": 7}";

	(void)state;
	assert_true(run(".a.b == 3", twice));
	assert_true(run(".a.c == null", twice));
	assert_true(run(".z.a == null", twice));
	assert_true(run(".x[1][1].y == 4", twice));
	assert_true(run(".x[-1][-2].y == 4", twice));
	assert_true(run(".x[-1][2] == 6", twice));
	assert_true(run(".x[-2][-2] == 1", twice));
	assert_true(run(".x[-2][-3] == null", twice));
	assert_true(run(".x[0][2] == null", twice));
	assert_true(run(".x[2] == null", twice));
}

/* What is no JSON matches nothing, wherever it is broken. */
static void test_broken_documents(void **state)
{
	static const char *const broken[] = {
		"\"",
		"\"a",
		"{",
		"[",
		"{\"a\": 1",
		"{\"a\": 1]",
		"{\"a\" 1}",
		"{\"a\": }",
		"{\"a\"}",
		"{a: 1}",
		"{\"a\": 1,}",
		"{\"a\": 01}",
		"{\"a\": x}",
		"{\"a\": \"x}",
		"{\"a\": [}",
		"{\"a\": {\"b\"}}",
		"[1, 2",
		"[1 2]",
		"[\"a\" : 1]",
		"[,]",
		"}",
		"]",
		"{\"a\": 1} x",
		"\"a\" \"b\"",
		"\"a\\\"",
		"{\"a\\\": 1}",
		"{\"a\": \"\\\"}",
		"{\"a\": \"\n\"}",
		"tru",
		"1x",
		"{\"a\": \"\xff\"}",
		"[[[[",
	};
	static const char *const conditions[] = {
		".a == 1",
		"not .a == 1",
		".a == null",
		".a != 1",
		". | length >= 0",
		"not . | length < 0",
		".a | contains(\"\") | not",
		".[0] != 7",
		".[-1] == null",
		". == 1 | not",
		".a.b == null or .a | startswith(\"\")",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++)
		for (size_t k = 0; k < ARRAY_SIZE(conditions); k++)
			if (run(conditions[k], broken[i]))
				fail_msg("%s matches %s", conditions[k],
					 broken[i]);
}

/* A document of every kind of value, written in some way or other. */
static void put_value(struct buf *b, struct rng *rng, unsigned depth)
{
	static const char *const scalars[] = {
		"1",       "-2.5e1", "true",        "null", "\"x\"",
		"\"a b\"", "\"\"",   "\"x,]}{[:\"", "0",    "\"\\\"\\\\\""
	};
	static const char *const keys[] = { "\"a\"", "\"l\"", "\"\"",
					    "\"\\u0061\"", "\"x\"" };
	static const char *const spaces[] = { "", " ", "\n\t", "" };
	uint64_t kind = rng_below(rng, depth < 4 ? 4 : 2);
	bool object = kind == 2;

	if (kind < 2) {
		buf_puts(b, scalars[rng_below(rng, ARRAY_SIZE(scalars))]);
		return;
	}
	buf_putc(b, object ? '{' : '[');
	for (uint64_t i = 0, n = rng_below(rng, 4); i < n; i++) {
		buf_puts(b, i > 0 ? "," : "");
		buf_puts(b, spaces[rng_below(rng, ARRAY_SIZE(spaces))]);
		if (object) {
			buf_puts(b, keys[rng_below(rng, ARRAY_SIZE(keys))]);
			buf_puts(b, " : ");
		}
		put_value(b, rng, depth + 1);
		buf_puts(b, spaces[rng_below(rng, ARRAY_SIZE(spaces))]);
	}
	buf_putc(b, object ? '}' : ']');
}

/* The last member of that name, by the reader of validated text. */
static bool member_of(struct json v, const char *name, struct arena *a,
		      struct json *ret)
{
	struct json_iter it;
	struct json item;
	struct str key;
	bool found = false;

	if (json_type_of(v) != JSON_OBJECT)
		return false;
	it = json_iter(v);
	while (json_next_member(&it, a, &key, &item))
		if (str_is(key, name)) {
			*ret = item;
			found = true;
		}
	return found;
}

/* Path .a.l | length, as the other reader of JSON finds it; -1: none. */
static int64_t length_at(struct str text, struct arena *a)
{
	struct json v = json_root(text);

	if (!member_of(v, "a", a, &v) || !member_of(v, "l", a, &v))
		return -1;
	if (json_type_of(v) == JSON_STRING)
		return (int64_t)json_string(v, a).n;
	if (json_type_of(v) != JSON_ARRAY && json_type_of(v) != JSON_OBJECT)
		return -1;
	return (int64_t)json_count(v);
}

/* Whole documents, and ones with a byte changed or missing. */
static void test_documents_are_read_as_json(void **state)
{
	struct arena a = ARENA_INIT;
	struct buf b = BUF_INIT(0);
	unsigned found = 0;
	struct rng rng;

	(void)state;
	test_rng(&rng);
	for (unsigned i = 0; i < 100000; i++) {
		struct json_error err;
		char text[64];
		int64_t n = -1;
		bool valid;

		buf_clear(&b);
		if (i % 2 == 0)
			buf_puts(&b, "{\"a\": {\"l\": ");
		put_value(&b, &rng, 0);
		buf_puts(&b, i % 2 == 0 ? "}}" : "");
		if (rng_below(&rng, 3) == 0)
			b.p[rng_below(&rng, b.n)] = "{}[]\",:x\\ "[i % 10];
		valid = json_validate(buf_str(&b), LIMIT_JSON_DEPTH, &err);
		if (valid)
			n = length_at(buf_str(&b), &a);
		(void)snprintf(text, sizeof(text), ".a.l | length == %lld",
			       (long long)n);
		buf_putc(&b, '\0');
		assert_int_equal(run(text, b.p), n >= 0);
		assert_int_equal(run("not .zzz == 1", b.p), valid);
		found += n >= 0;
		arena_reset(&a);
	}
	assert_true(found > 1000);
	buf_done(&b);
	arena_done(&a);
}

/* Pieces of the language in any order: read or refused, and run. */
static void test_random(void **state)
{
	static const char *const pieces[] = {
		".",       ".a",    "[0]", "[\"k\"]",     "\"x\"", " ",
		"==",      "!=",    "<",   ">=",          "1",     "-2.5",
		"null",    "true",  "and", "or",          "not",   "|",
		"(",       ")",     ".l",  "startswith(", "\"",    "\\",
		"length",  "[-1]",  "\n",  "contains(",   ".s",    "'",
		" and ",   " or ",  ".\"", "\xc3\xa9",    "\xff",  "]",
		".a == 1", "| not",
	};
	struct arena a = ARENA_INIT;
	struct buf b = BUF_INIT(0);
	struct rng rng;
	unsigned read = 0;

	(void)state;
	test_rng(&rng);
	for (unsigned i = 0; i < 200000; i++) {
		struct jq_error err = { .pos = SIZE_MAX };
		struct jq *jq;

		buf_clear(&b);
		for (uint64_t n = rng_below(&rng, 12); n > 0; n--)
			buf_puts(&b,
				 pieces[rng_below(&rng, ARRAY_SIZE(pieces))]);
		if (b.n > 0 && rng_below(&rng, 4) == 0)
			b.p[rng_below(&rng, b.n)] = (char)rng_below(&rng, 256);
		jq = jq_parse(buf_str(&b), &a, &err);
		if (jq != NULL) {
			(void)jq_matches(jq, str_from(doc));
			(void)jq_matches(jq, buf_str(&b));
			read++;
		} else {
			assert_true(err.pos <= b.n);
			assert_non_null(err.text);
		}
		jq_done(jq);
		arena_reset(&a);
	}
	assert_true(read > 100);
	buf_done(&b);
	arena_done(&a);
}

static struct str find(const char *path, struct arena *a)
{
	struct jq_error err = { 0 };
	struct jq *jq = jq_parse_path(str_from(path), a, &err);
	struct json v;
	bool found;

	if (jq == NULL)
		fail_msg("%s: %s at %zu", path, err.text, err.pos);
	found = jq_find(jq, STR(doc), &v);
	jq_done(jq);
	return found ? v.raw : STR("nowhere");
}

static void test_a_path_alone_finds_a_value(void **state _unused_)
{
	struct arena a = ARENA_INIT;
	struct jq_error err = { 0 };

	assert_str_is(find(".o.p", &a), "{\"q\": \"deep\"}");
	assert_str_is(find(".big", &a), "9007199254740993");
	assert_str_is(find(".l[-1].k", &a), "\"v\"");
	assert_str_is(find(".[\"a.b\"]", &a), "7");
	assert_str_is(find(".\"q\\\"uote\"", &a), "8");
	assert_str_is(find(".d", &a), "2");
	assert_str_is(find(".n", &a), "null");
	assert_int_equal(find(" . ", &a).n, sizeof(doc) - 1);
	assert_str_is(find(".a.b", &a), "nowhere");
	assert_str_is(find(".l.k", &a), "nowhere");
	assert_null(jq_parse_path(STR(".a == 1"), &a, &err));
	assert_int_equal(err.pos, 3);
	assert_null(jq_parse_path(STR("a"), &a, &err));
	assert_null(jq_parse_path(STR(""), &a, &err));
	arena_done(&a);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compare),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_logic),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_paths_go_by_the_last_member),
		cmocka_unit_test(test_broken_documents),
		cmocka_unit_test(test_documents_are_read_as_json),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_a_path_alone_finds_a_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
