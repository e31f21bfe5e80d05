/* Navigation of validated text. */
#include "util/json.h"

#include <math.h>

#include "lib/testlib.h"

static struct json parse(struct str text)
{
	struct json_error err;

	if (!json_validate(text, 32, &err))
		fail_msg("%.*s: %zu %s", STR_ARG(text), err.pos, err.text);
	return json_root(text);
}

static struct json parse_cstr(const char *text)
{
	return parse(str_from(text));
}

static void test_types(void **state _unused_)
{
	static const struct {
		const char *text;
		enum json_type type;
		const char *name;
	} cases[] = {
		{ "null", JSON_NULL, "null" },
		{ " true ", JSON_BOOL, "a boolean" },
		{ "false", JSON_BOOL, "a boolean" },
		{ "-1", JSON_NUMBER, "a number" },
		{ "0.5", JSON_NUMBER, "a number" },
		{ "\t\"x\"\n", JSON_STRING, "a string" },
		{ "[]", JSON_ARRAY, "an array" },
		{ "\r{}", JSON_OBJECT, "an object" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum json_type t = json_type_of(parse_cstr(cases[i].text));

		assert_int_equal(t, cases[i].type);
		assert_string_equal(json_type_name(t), cases[i].name);
	}
}

static void test_root_has_no_space_around(void **state _unused_)
{
	assert_str_is(parse_cstr(" \n[ 1 ]\t ").raw, "[ 1 ]");
	assert_str_is(parse_cstr("7").raw, "7");
}

static void test_items(void **state _unused_)
{
	static const char *const want[] = {
		"1",    "-2.5e+3",   "\"a,]b\"", "[ 1, [2] ]", "{\"]\":\"[}\"}",
		"null", "\"\\\"]\"", "[]",
	};
	struct json v = parse_cstr("[1, -2.5e+3 ,\"a,]b\",[ 1, [2] ],"
				   "{\"]\":\"[}\"} ,null,\"\\\"]\", [] ]");
	struct json_iter it = json_iter(v);
	struct json item;
	size_t i = 0;

	while (json_next_item(&it, &item)) {
		assert_true(i < ARRAY_SIZE(want));
		assert_str_is(item.raw, want[i]);
		i++;
	}
	assert_int_equal(i, ARRAY_SIZE(want));
	assert_false(json_next_item(&it, &item)); /* the end stays the end */
	assert_int_equal(json_count(v), i);
}

static void test_members(void **state _unused_)
{
	static const struct {
		const char *key, *raw;
	} want[] = {
		{ "a", "1" },       { "", "{ }" },
		{ "b\n", "[1,2]" }, { "\xf0\x9f\x98\x80", "\"}\"" },
		{ "a", "true" },
	};
	struct json v = parse_cstr("{ \"a\" : 1 ,\"\":{ } , \"b\\n\":[1,2],"
				   "\"\\ud83d\\ude00\" :\"}\" , \"a\": true }");
	struct json_iter it = json_iter(v);
	struct arena a = ARENA_INIT;
	struct json value;
	struct str key;
	size_t i = 0;

	while (json_next_member(&it, &a, &key, &value)) {
		assert_true(i < ARRAY_SIZE(want));
		assert_str_is(key, want[i].key);
		assert_str_is(value.raw, want[i].raw);
		i++;
	}
	assert_int_equal(i, ARRAY_SIZE(want));
	assert_false(json_next_member(&it, &a, &key, &value));
	assert_int_equal(json_count(v), i);
	arena_done(&a);
}

static void test_empty_containers(void **state _unused_)
{
	static const char *const texts[] = { "[]", "[ ]", "{}", "{\n}" };
	struct json item;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct json v = parse_cstr(texts[i]);
		struct json_iter it = json_iter(v);

		assert_false(json_next_item(&it, &item));
		assert_int_equal(json_count(v), 0);
	}
}

static void test_member_lookup(void **state _unused_)
{
	struct json v = parse_cstr("{\"n\":{\"x\":1},\"x\":2,\"x\":3,"
				   "\"\\u0079\":4,\"xx\":5}");
	struct arena a = ARENA_INIT;
	struct json got;

	assert_true(json_member(v, "x", &a, &got));
	assert_str_is(got.raw, "2"); /* the first, and not the nested one */
	assert_true(json_member(v, "y", &a, &got));
	assert_str_is(got.raw, "4");
	assert_true(json_member(v, "xx", &a, &got));
	assert_str_is(got.raw, "5");
	assert_false(json_member(v, "z", &a, &got));
	assert_str_is(got.raw, "5"); /* untouched */
	assert_false(json_member(v, "", &a, &got));
	arena_done(&a);
}

static void test_string_decoding(void **state _unused_)
{
	static const struct {
		const char *text;
		struct str want;
	} cases[] = {
		{ "\"\"", { "", 0 } },
		{ "\"plain\"", { "plain", 5 } },
		{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", { "\"\\/\b\f\n\r\t", 8 } },
		{ "\"a\\u0000b\"", { "a\0b", 3 } },
		{ "\"\\u007f\\u0080\"", { "\x7f\xc2\x80", 3 } },
		{ "\"\\u07ff\\u0800\"", { "\xdf\xbf\xe0\xa0\x80", 5 } },
		{ "\"\\uFFFF\"", { "\xef\xbf\xbf", 3 } },
		{ "\"\\ud800\\udc00\"", { "\xf0\x90\x80\x80", 4 } },
		{ "\"\\udbff\\udfff\"", { "\xf4\x8f\xbf\xbf", 4 } },
		{ "\"x\\ud83d\\ude00y\"", { "x\xf0\x9f\x98\x80y", 6 } },
		{ "\"\xc3\xab\\n\"", { "\xc3\xab\n", 3 } },
		{ "\"\\\\n\"", { "\\n", 2 } },
		{ "\"\\\\\"", { "\\", 1 } },
	};
	struct arena a = ARENA_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_true(str_eq(json_string(parse_cstr(cases[i].text), &a),
				   cases[i].want));
	arena_done(&a);
}

static void test_plain_string_is_a_slice(void **state _unused_)
{
	struct str text = STR("{\"key\":\"value\"}");
	struct json_iter it = json_iter(parse(text));
	struct json v;
	struct str key;

	/* No arena given: nothing may be copied. */
	assert_true(json_next_member(&it, NULL, &key, &v));
	assert_ptr_equal(key.p, text.p + 2);
	assert_ptr_equal(json_string(v, NULL).p, text.p + 8);
}

/* A number in a slice with more digits right behind it. */
static void test_numbers_end_where_the_slice_ends(void **state _unused_)
{
	struct json v = { str_of("1234", 2) };
	uint64_t u;
	double d;

	assert_true(json_u64(v, &u));
	assert_int_equal(u, 12);
	assert_true(json_double(v, &d));
	assert_true(d == 12);
}

static void test_integers(void **state _unused_)
{
	static const struct {
		const char *text;
		bool u_ok, i_ok;
		uint64_t u;
		int64_t i;
	} cases[] = {
		{ "0", true, true, 0, 0 },
		{ "-0", false, true, 0, 0 },
		{ "42", true, true, 42, 42 },
		{ "-42", false, true, 0, -42 },
		{ "9223372036854775807", true, true, INT64_MAX, INT64_MAX },
		{ "9223372036854775808", true, false, 1ULL << 63, 0 },
		{ "-9223372036854775808", false, true, 0, INT64_MIN },
		{ "-9223372036854775809", false, false, 0, 0 },
		{ "18446744073709551615", true, false, UINT64_MAX, 0 },
		{ "18446744073709551616", false, false, 0, 0 },
		{ "1.0", false, false, 0, 0 },
		{ "1e3", false, false, 0, 0 },
		{ "\"1\"", false, false, 0, 0 },
		{ "true", false, false, 0, 0 },
		{ "null", false, false, 0, 0 },
		{ "[1]", false, false, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct json v = parse_cstr(cases[i].text);
		uint64_t u = 0;
		int64_t n = 0;

		assert_int_equal(json_u64(v, &u), cases[i].u_ok);
		assert_int_equal(json_i64(v, &n), cases[i].i_ok);
		assert_true(u == cases[i].u && n == cases[i].i);
	}
}

static void test_doubles(void **state _unused_)
{
	static const struct {
		const char *text;
		double want;
	} cases[] = {
		{ "0", 0 },
		{ "-1.5", -1.5 },
		{ "1e3", 1000 },
		{ "1E-2", 0.01 },
		{ "0.1", 0.1 },
		{ "1.7976931348623157e308", 1.7976931348623157e308 },
		{ "5e-324", 5e-324 },
		{ "1e-999", 0 },
		/* longer than the text kept on the stack */
		{ "1.0000000000000000000000000000000000000000000000000000"
		  "000000000000000000000000000000000000000000000000001",
		  1 },
	};
	double d = 7;

	assert_false(json_double(parse_cstr("1e999"), &d));
	assert_false(json_double(parse_cstr("-1e999"), &d));
	assert_false(json_double(parse_cstr("\"1\""), &d));
	assert_false(json_double(parse_cstr("null"), &d));
	assert_true(d == 7);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(json_double(parse_cstr(cases[i].text), &d));
		assert_true(d == cases[i].want);
	}
	assert_true(json_double(parse_cstr("-0"), &d));
	assert_true(d == 0 && signbit(d));
}

static void test_bools(void **state _unused_)
{
	bool b = false;

	assert_true(json_bool(parse_cstr("true"), &b));
	assert_true(b);
	assert_true(json_bool(parse_cstr("false"), &b));
	assert_false(b);
	assert_false(json_bool(parse_cstr("1"), &b));
	assert_false(json_bool(parse_cstr("\"true\""), &b));
	assert_false(json_bool(parse_cstr("null"), &b));
}

static void assert_unescaped(const char *text, const char *expected)
{
	char out[64];
	size_t n = json_unescape(str_from(text), out);

	assert_true(strlen(text) <= sizeof(out));
	assert_str_is(str_of(out, n), expected);
}

/* Any text, also one that is no JSON. */
static void test_unescape(void **state)
{
	(void)state;
	assert_unescaped("", "");
	assert_unescaped("{\"a\":\"b\"}", "{\"a\":\"b\"}");
	assert_unescaped("a\\nb\\\\c\\/d\\\"e", "a\nb\\c/d\"e");
	assert_unescaped("\\u00fc\\u20ac\\ud83d\\ude00.",
			 "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80.");
	assert_unescaped("a\\", "a\\");
	assert_unescaped("\\u", "\\u");
	assert_unescaped("\\u12", "\\u12");
	assert_unescaped("\\u12x4.", "\\u12x4.");
	assert_unescaped("\\ud83d", "\\ud83d");
	assert_unescaped("\\ud83d\\u", "\\ud83d\\u");
	assert_unescaped("\\ud83d\\u0041", "\\ud83dA");
	assert_unescaped("\\ude00.", "\\ude00.");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unescape),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_root_has_no_space_around),
		cmocka_unit_test(test_items),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_empty_containers),
		cmocka_unit_test(test_member_lookup),
		cmocka_unit_test(test_string_decoding),
		cmocka_unit_test(test_plain_string_is_a_slice),
		cmocka_unit_test(test_numbers_end_where_the_slice_ends),
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_doubles),
		cmocka_unit_test(test_bools),
	};

	return cmocka_run_group_tests_name("json_read", tests, NULL, NULL);
}
