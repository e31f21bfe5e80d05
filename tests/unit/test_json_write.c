/* The writer; what it writes is read back by the reader. */
#include "util/json.h"

#include <math.h>

#include "lib/testlib.h"

static void check_valid(const struct buf *b)
{
	struct json_error err;

	assert_false(b->full);
	if (!json_validate(buf_str(b), 32, &err))
		fail_msg("wrote %.*s: %zu %s", STR_ARG(buf_str(b)), err.pos,
			 err.text);
}

static void test_commas(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);

	jw_object(&w);
	jw_key(&w, "a");
	jw_u64(&w, 1);
	jw_key(&w, "b");
	jw_array(&w);
	jw_i64(&w, -1);
	jw_array(&w);
	jw_array_end(&w);
	jw_object(&w);
	jw_object_end(&w);
	jw_null(&w);
	jw_bool(&w, true);
	jw_bool(&w, false);
	jw_cstr(&w, "x");
	jw_raw(&w, STR("{\"r\": 1}"));
	jw_array_end(&w);
	jw_key_str(&w, STR("\"c\n"));
	jw_object(&w);
	jw_key(&w, "d");
	jw_double(&w, 0.5);
	jw_object_end(&w);
	jw_key(&w, "t");
	jw_time(&w, 1770804000 * NS_PER_S);
	jw_object_end(&w);
	assert_str_is(buf_str(&b),
		      "{\"a\":1,\"b\":[-1,[],{},null,true,false,\"x\","
		      "{\"r\": 1}],\"\\\"c\\n\":{\"d\":0.5},"
		      "\"t\":\"2026-02-11T10:00:00Z\"}");
	check_valid(&b);
}

static void test_escaping(void **state _unused_)
{
	static const struct {
		struct str in;
		const char *out;
	} cases[] = {
		{ { NULL, 0 }, "\"\"" },
		{ { "plain", 5 }, "\"plain\"" },
		{ { "\"\\/", 3 }, "\"\\\"\\\\/\"" },
		{ { "\b\f\n\r\t", 5 }, "\"\\b\\f\\n\\r\\t\"" },
		{ { "\0\x01\x1f\x7f", 4 }, "\"\\u0000\\u0001\\u001f\x7f\"" },
		{ { "a\x1b"
		    "b",
		    3 },
		  "\"a\\u001bb\"" },
		{ { "\xc3\xab\xf0\x9f\x98\x80", 6 },
		  "\"\xc3\xab\xf0\x9f\x98\x80\"" },
		{ { "abcdefgh\"ijklmnop\xc3\xabqrstuvwx\n", 28 },
		  "\"abcdefgh\\\"ijklmnop\xc3\xabqrstuvwx\\n\"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);
		struct json_writer w = JSON_WRITER(&b);

		jw_str(&w, cases[i].in);
		assert_str_is(buf_str(&b), cases[i].out);
		check_valid(&b);
	}
}

/* Any text comes back as it was. */
static void test_string_round_trip(void **state _unused_)
{
	static const char *const pieces[] = {
		"a",    "bcdefghij", "\"",           "\\",
		"\n",   "\x01",      "\x1f",         "/",
		"\x7f", "\xc3\xab",  "\xe2\x82\xac", "\xf0\x9f\x98\x80",
		" ",
	};
	struct arena a = ARENA_INIT;
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < 5000; i++) {
		_cleanup_(buf_done) struct buf in = BUF_INIT(0);
		_cleanup_(buf_done) struct buf out = BUF_INIT(0);
		struct json_writer w = JSON_WRITER(&out);
		struct str got;

		for (uint64_t k = rng_below(&r, 40); k > 0; k--)
			buf_puts(&in,
				 pieces[rng_below(&r, ARRAY_SIZE(pieces))]);
		jw_str(&w, buf_str(&in));
		check_valid(&out);
		got = json_string(json_root(buf_str(&out)), &a);
		assert_true(str_eq(got, buf_str(&in)));
		arena_reset(&a);
	}
	arena_done(&a);
}

static void test_doubles(void **state _unused_)
{
	static const struct {
		double in;
		const char *out;
	} cases[] = {
		{ 0, "0" },
		{ -0.0, "-0" },
		{ 1, "1" },
		{ -1.5, "-1.5" },
		{ 0.1, "0.1" },
		{ 0.1 + 0.2, "0.30000000000000004" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ 100, "100" },
		{ 1e21, "1e+21" },
		{ 1e-7, "1e-07" },
		{ 123456789012345, "123456789012345" },
		{ INFINITY, "null" },
		{ -INFINITY, "null" },
		{ NAN, "null" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);
		struct json_writer w = JSON_WRITER(&b);

		jw_double(&w, cases[i].in);
		assert_str_is(buf_str(&b), cases[i].out);
		check_valid(&b);
	}
}

static void test_double_round_trip(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < 20000; i++) {
		uint64_t bits = rng_u64(&r);
		struct json_writer w = JSON_WRITER(&b);
		double in, out;

		memcpy(&in, &bits, sizeof(in));
		if (!isfinite(in))
			continue;
		buf_clear(&b);
		jw_double(&w, in);
		check_valid(&b);
		assert_true(json_double(json_root(buf_str(&b)), &out));
		assert_memory_equal(&in, &out, sizeof(in));
	}
}

static void test_full_buffer_is_told_once(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(20);
	struct json_writer w = JSON_WRITER(&b);

	jw_array(&w);
	for (int i = 0; i < 100; i++)
		jw_cstr(&w, "\n");
	jw_array_end(&w);
	assert_true(b.full);
	assert_true(b.n <= 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commas),
		cmocka_unit_test(test_escaping),
		cmocka_unit_test(test_string_round_trip),
		cmocka_unit_test(test_doubles),
		cmocka_unit_test(test_double_round_trip),
		cmocka_unit_test(test_full_buffer_is_told_once),
	};

	return cmocka_run_group_tests_name("json_write", tests, NULL, NULL);
}
