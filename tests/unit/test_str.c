#include "util/str.h"

#include "lib/testlib.h"

static void test_cmp_orders_like_keys(void **state _unused_)
{
	/* Every slice sorts before all that follow it. */
	const struct str sorted[] = {
		STR(""),  STR("\0"),   STR("\0\0"),     STR("A"),
		STR("a"), STR("a\0"),  STR("aa"),       STR("ab"),
		STR("b"), STR("\x7f"), STR("\x80\x01"), STR("\xff"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(sorted); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(sorted); j++) {
			int want = (i > j) - (i < j);

			assert_int_equal(str_cmp(sorted[i], sorted[j]), want);
			assert_int_equal(str_eq(sorted[i], sorted[j]), i == j);
		}
	}
	assert_int_equal(str_cmp(STR_NULL, STR("")), 0);
}

static void test_starts_and_skip(void **state _unused_)
{
	assert_true(str_starts(STR("job_1"), STR("job_")));
	assert_true(str_starts(STR("job_"), STR("job_")));
	assert_true(str_starts(STR("x"), STR_NULL));
	assert_true(str_starts(STR_NULL, STR_NULL));
	assert_false(str_starts(STR("job"), STR("job_")));
	assert_false(str_starts(STR_NULL, STR("a")));

	assert_str_is(str_skip(STR("abc"), 0), "abc");
	assert_str_is(str_skip(STR("abc"), 2), "c");
	assert_str_is(str_skip(STR("abc"), 3), "");
	assert_str_is(str_skip(STR("abc"), 99), "");
	assert_null(str_skip(STR_NULL, 1).p);
}

static void test_trim(void **state _unused_)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "", "" },       { "a", "a" },           { "  a", "a" },
		{ "a  ", "a" },   { " a b ", "a b" },     { " \t\r\n\v\f", "" },
		{ "\ta\n", "a" }, { "\x01 a", "\x01 a" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_str_is(str_trim(str_from(cases[i].in)), cases[i].out);
	assert_int_equal(str_trim(STR_NULL).n, 0);
}

static void test_split(void **state _unused_)
{
	static const struct {
		const char *in;
		bool found;
		const char *head, *tail;
	} cases[] = {
		{ "a=b", true, "a", "b" }, { "a=b=c", true, "a", "b=c" },
		{ "=", true, "", "" },     { "a=", true, "a", "" },
		{ "=b", true, "", "b" },   { "ab", false, "ab", "" },
		{ "", false, "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str head, tail;

		assert_int_equal(
		    str_split(str_from(cases[i].in), '=', &head, &tail),
		    cases[i].found);
		assert_str_is(head, cases[i].head);
		assert_str_is(tail, cases[i].tail);
	}
}

static void test_parse_u64(void **state _unused_)
{
	static const struct {
		const char *in;
		uint64_t out;
	} good[] = {
		{ "0", 0 },
		{ "7", 7 },
		{ "007", 7 },
		{ "1844674407370955161", 1844674407370955161ULL },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = {
		"",
		"-1",
		"+1",
		" 1",
		"1 ",
		"1.0",
		"1e3",
		"0x1",
		"a",
		"1a",
		"18446744073709551616",
		"18446744073709551620",
		"99999999999999999999",
		"100000000000000000000",
	};
	uint64_t v = 42;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_false(str_parse_u64(str_from(bad[i]), &v));
		assert_int_equal(v, 42);
	}
	assert_false(str_parse_u64(STR("1\0"), &v));
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_true(str_parse_u64(str_from(good[i].in), &v));
		assert_true(v == good[i].out);
	}
}

static void test_parse_i64(void **state _unused_)
{
	static const struct {
		const char *in;
		int64_t out;
	} good[] = {
		{ "0", 0 },
		{ "-0", 0 },
		{ "-1", -1 },
		{ "9223372036854775807", INT64_MAX },
		{ "-9223372036854775808", INT64_MIN },
	};
	static const char *const bad[] = {
		"",
		"-",
		"+1",
		"--1",
		"- 1",
		"9223372036854775808",
		"-9223372036854775809",
		"18446744073709551615",
	};
	int64_t v = 42;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_false(str_parse_i64(str_from(bad[i]), &v));
		assert_int_equal(v, 42);
	}
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_true(str_parse_i64(str_from(good[i].in), &v));
		assert_true(v == good[i].out);
	}
}

static void test_names(void **state _unused_)
{
	char all[256];
	unsigned good = 0;

	assert_true(str_is_name(STR("node-1.example_A"), 64));
	assert_true(str_is_name(STR("abcd"), 4));
	assert_false(str_is_name(STR("abcde"), 4));
	assert_false(str_is_name(STR(""), 4));
	for (int c = 0; c < 256; c++) {
		all[c] = (char)c;
		good += str_is_name(str_of(&all[c], 1), 4);
	}
	assert_int_equal(good, 26 + 26 + 10 + 3);
}

static void test_utf8_table(void **state _unused_)
{
	static const struct {
		struct str s;
		bool ok;
	} cases[] = {
		{ { "", 0 }, true },
		{ { "\0", 1 }, true },
		{ { "\x7f", 1 }, true },
		{ { "\x80", 1 }, false }, /* tail alone */
		{ { "\xbf", 1 }, false },
		{ { "\xc0\x80", 2 }, false }, /* overlong NUL */
		{ { "\xc1\xbf", 2 }, false },
		{ { "\xc2\x80", 2 }, true }, /* U+0080 */
		{ { "\xdf\xbf", 2 }, true }, /* U+07FF */
		{ { "\xdf", 1 }, false },    /* cut */
		{ { "\xdf\x7f", 2 }, false },
		{ { "\xdf\xc0", 2 }, false },
		{ { "\xe0\x9f\xbf", 3 }, false }, /* overlong */
		{ { "\xe0\xa0\x80", 3 }, true },  /* U+0800 */
		{ { "\xe2\x82\xac", 3 }, true },
		{ { "\xe2\x82", 2 }, false },
		{ { "\xe2\x28\xa1", 3 }, false },
		{ { "\xe2\x82\x28", 3 }, false },
		{ { "\xed\x9f\xbf", 3 }, true },  /* U+D7FF */
		{ { "\xed\xa0\x80", 3 }, false }, /* surrogate */
		{ { "\xed\xbf\xbf", 3 }, false },
		{ { "\xee\x80\x80", 3 }, true },      /* U+E000 */
		{ { "\xef\xbf\xbf", 3 }, true },      /* U+FFFF */
		{ { "\xf0\x8f\xbf\xbf", 4 }, false }, /* overlong */
		{ { "\xf0\x90\x80\x80", 4 }, true },  /* U+10000 */
		{ { "\xf0\x9f\x98\x80", 4 }, true },
		{ { "\xf0\x9f\x98", 3 }, false },
		{ { "\xf0\x9f\x98\x28", 4 }, false },
		{ { "\xf4\x8f\xbf\xbf", 4 }, true },  /* U+10FFFF */
		{ { "\xf4\x90\x80\x80", 4 }, false }, /* past the end */
		{ { "\xf5\x80\x80\x80", 4 }, false },
		{ { "\xff", 1 }, false },
		{ { "\xf8\x88\x80\x80\x80", 5 }, false },
	};
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str s = cases[i].s;

		/* At every offset of the word the fast path reads. */
		for (size_t before = 0; before < 20; before++) {
			size_t n = before + s.n;

			memset(text, 'x', sizeof(text));
			memcpy(text + before, s.p, s.n);
			assert_int_equal(str_is_utf8(str_of(text, n)),
					 cases[i].ok);
			assert_int_equal(str_is_utf8(str_of(text, n + 20)),
					 cases[i].ok);
		}
	}
	assert_true(str_is_utf8(STR_NULL));
}

/* Every code point, by an encoder that shares nothing with the decoder. */
static void test_utf8_all_code_points(void **state _unused_)
{
	for (unsigned v = 0x80; v < 0x200000; v++) {
		bool ok = v <= 0x10ffff && (v < 0xd800 || v > 0xdfff);
		unsigned tails = v < 0x800 ? 1 : v < 0x10000 ? 2 : 3;
		char s[4];

		s[0] = (char)(0xff00 >> (tails + 1) | v >> 6 * tails);
		for (unsigned i = 1; i <= tails; i++)
			s[i] = (char)(0x80 | (v >> 6 * (tails - i) & 0x3f));
		if (str_is_utf8(str_of(s, tails + 1)) != ok)
			fail_msg("U+%04X", v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cmp_orders_like_keys),
		cmocka_unit_test(test_starts_and_skip),
		cmocka_unit_test(test_trim),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_parse_u64),
		cmocka_unit_test(test_parse_i64),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_utf8_table),
		cmocka_unit_test(test_utf8_all_code_points),
	};

	return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
