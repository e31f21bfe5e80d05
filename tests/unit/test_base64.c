#include "util/base64.h"

#include "lib/testlib.h"

static void test_known_texts(void **state _unused_)
{
	static const struct {
		const char *bytes, *text;
	} rows[] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "\xfb\xff", "+/8=" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);

		base64_write(&b, str_from(rows[i].bytes), true);
		assert_str_is(buf_str(&b), rows[i].text);
		buf_clear(&b);
		assert_true(base64_read(&b, str_from(rows[i].text)));
		assert_str_is(buf_str(&b), rows[i].bytes);
	}
}

static void test_other_alphabet_and_no_padding(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	assert_true(base64_read(&b, STR("-_8")));
	assert_str_is(buf_str(&b), "\xfb\xff");
	buf_clear(&b);
	base64_write(&b, STR("f"), false);
	assert_str_is(buf_str(&b), "Zg");
}

static void test_bad_ones_leave_nothing(void **state _unused_)
{
	static const char *const bad[] = { "Z",    "Zg=",  "Zg===", "=",
					   "Z g=", "Zh==", "Zm9=",  "Zg==Zg==",
					   "é",    "Zm9vY" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);

		buf_puts(&b, "x");
		assert_false(base64_read(&b, str_from(bad[i])));
		assert_str_is(buf_str(&b), "x");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_texts),
		cmocka_unit_test(test_other_alphabet_and_no_padding),
		cmocka_unit_test(test_bad_ones_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
