#include "util/buf.h"

#include "lib/testlib.h"

static void test_append_pieces(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	buf_append(&b, NULL, 0);
	assert_int_equal(b.n, 0);
	buf_append(&b, "ab\0c", 4);
	buf_putc(&b, 'd');
	buf_puts(&b, "");
	buf_puts(&b, "ef");
	buf_put_str(&b, STR("gh"));
	assert_true(str_eq(buf_str(&b), STR("ab\0cdefgh")));
	assert_false(b.full);
}

static void test_numbers(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	buf_put_u64(&b, 0);
	buf_putc(&b, ' ');
	buf_put_u64(&b, UINT64_MAX);
	buf_putc(&b, ' ');
	buf_put_i64(&b, 0);
	buf_putc(&b, ' ');
	buf_put_i64(&b, -7);
	buf_putc(&b, ' ');
	buf_put_i64(&b, INT64_MIN);
	buf_putc(&b, ' ');
	buf_put_i64(&b, INT64_MAX);
	assert_str_is(buf_str(&b), "0 18446744073709551615 0 -7 "
				   "-9223372036854775808 9223372036854775807");
}

static void test_printf_any_length(void **state _unused_)
{
	/* Around the first capacity and far past it. */
	static const int lens[] = { 0, 1, 62, 63, 64, 65, 127, 128, 5000 };

	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);

		buf_printf(&b, "%*s|", lens[i], "");
		buf_printf(&b, "%d", 42);
		assert_int_equal(b.n, (size_t)lens[i] + 3);
		assert_str_is(str_skip(buf_str(&b), b.n - 3), "|42");
	}
}

static void test_maximum_is_exact(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(10);

	buf_puts(&b, "0123456789");
	assert_false(b.full);
	assert_int_equal(b.n, 10);
	buf_append(&b, "", 0);
	assert_false(b.full);
	buf_putc(&b, 'x');
	assert_true(b.full);
	assert_str_is(buf_str(&b), "0123456789");

	buf_clear(&b);
	assert_false(b.full);
	buf_printf(&b, "%s", "0123456789");
	assert_false(b.full);
	assert_str_is(buf_str(&b), "0123456789");

	buf_clear(&b);
	buf_printf(&b, "%s", "0123456789x");
	assert_true(b.full);
	assert_int_equal(b.n, 0);
}

static void test_refusal_is_for_good(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(4);

	buf_puts(&b, "ab");
	buf_puts(&b, "cde"); /* does not fit: nothing of it is taken */
	assert_true(b.full);
	buf_putc(&b, 'c'); /* would fit */
	buf_puts(&b, "d");
	buf_put_u64(&b, 1);
	buf_printf(&b, "%c", 'e');
	assert_null(buf_reserve(&b, 1));
	assert_str_is(buf_str(&b), "ab");

	buf_clear(&b);
	buf_puts(&b, "abcd");
	assert_false(b.full);
	assert_str_is(buf_str(&b), "abcd");
}

static void test_reserve(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(1000);
	char *p;

	assert_non_null(buf_reserve(&b, 0));
	p = buf_reserve(&b, 1000);
	assert_non_null(p);
	memset(p, 'a', 1000);
	b.n += 1000;
	assert_non_null(buf_reserve(&b, 0));
	assert_false(b.full);
	assert_null(buf_reserve(&b, 1));
	assert_true(b.full);
}

static void test_done_leaves_it_usable(void **state _unused_)
{
	struct buf b = BUF_INIT(3);

	buf_puts(&b, "abcd");
	assert_true(b.full);
	buf_done(&b);
	assert_null(b.p);
	assert_int_equal(b.max, 3);
	buf_puts(&b, "abc");
	assert_str_is(buf_str(&b), "abc");
	buf_done(&b);
	buf_done(&b);
}

/* Random pieces against a flat array, with and without a maximum. */
static void test_random_appends(void **state _unused_)
{
	static char want[4096], piece[300];
	struct rng r;

	test_rng(&r);
	for (int round = 0; round < 200; round++) {
		size_t max = round % 2 ? 1 + rng_below(&r, 2000) : 0;
		struct buf b = BUF_INIT(max);
		size_t n = 0;
		bool full = false;

		for (int i = 0; i < 12; i++) {
			size_t len = rng_below(&r, sizeof(piece));

			memset(piece, 'a' + i, len);
			buf_append(&b, piece, len);
			full = full || (max != 0 && n + len > max);
			if (full)
				continue;
			memcpy(want + n, piece, len);
			n += len;
		}
		assert_int_equal(b.full, full);
		assert_true(str_eq(buf_str(&b), str_of(want, n)));
		buf_done(&b);
	}
}

static void test_a_text_as_a_url_has_it(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	buf_put_percent(&b, STR("a-Z_0.~ %&/\xc3\xa4\0"));
	assert_true(str_is(buf_str(&b), "a-Z_0.~%20%25%26%2F%C3%A4%00"));
}

static void test_fit_gives_back_what_is_behind(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	buf_fit(&b, 0);
	for (int i = 0; i < 1000; i++)
		buf_putc(&b, 'x');
	buf_fit(&b, 1000);
	assert_int_equal(b.cap, 1024);
	buf_fit(&b, 23);
	assert_int_equal(b.cap, 1000);
	buf_puts(&b, "yz");
	assert_int_equal(b.n, 1002);
	assert_memory_equal(b.p + 999, "xyz", 3);
}

static void test_a_text_as_a_terminal_may_have_it(void **state)
{
	static const char nul[] = "a\0b";
	struct buf b = BUF_INIT(0);

	(void)state;
	buf_put_clean(&b, str_of(nul, 3), "\t");
	assert_str_is(buf_str(&b), "a\\x00b");
	buf_clear(&b);
	buf_put_clean(&b, STR("\t\n\x1b[m\x7f"), "\t");
	assert_str_is(buf_str(&b), "\t\\x0a\\x1b[m\\x7f");
	buf_clear(&b);
	/* U+0080, U+009F, U+00A0, a euro, and bytes that are no text */
	buf_put_clean(
	    &b, STR("\xc2\x80\xc2\x9f\xc2\xa0\xe2\x82\xac\x9f\xff\xe2\x82"),
	    "");
	assert_str_is(buf_str(&b), "\\x80\\x9f\xc2\xa0\xe2\x82\xac"
				   "\\x9f\\xff\\xe2\\x82");
	buf_clear(&b);
	/* U+061B, U+061C, U+200D to U+2010, U+2027, U+2028 */
	buf_put_clean(
	    &b, STR("\u061b\u061c\u200d\u200e\u200f\u2010\u2027\u2028"), "");
	assert_str_is(buf_str(&b), "\u061b\\u061c\u200d\\u200e\\u200f\u2010"
				   "\u2027\\u2028");
	buf_clear(&b);
	buf_put_clean(&b, STR("\u202e\u202f\u2065\u2066\u2069\u206a\U0001f600"),
		      "");
	assert_str_is(buf_str(&b), "\\u202e\u202f\u2065\\u2066\\u2069\u206a"
				   "\U0001f600");
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_append_pieces),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_printf_any_length),
		cmocka_unit_test(test_maximum_is_exact),
		cmocka_unit_test(test_refusal_is_for_good),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_done_leaves_it_usable),
		cmocka_unit_test(test_random_appends),
		cmocka_unit_test(test_a_text_as_a_url_has_it),
		cmocka_unit_test(test_a_text_as_a_terminal_may_have_it),
		cmocka_unit_test(test_fit_gives_back_what_is_behind),
	};

	return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
