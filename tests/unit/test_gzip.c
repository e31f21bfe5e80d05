#include "rpc/form/gzip.h"

#include "lib/testlib.h"
#include "proto/err.h"

static void test_packed_comes_back(void **state _unused_)
{
	_cleanup_(buf_done) struct buf in = BUF_INIT(0);
	_cleanup_(buf_done) struct buf packed = BUF_INIT(0);
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	struct rng rng;

	test_rng(&rng);
	for (size_t n = 0; n < 100000; n = n * 3 + 1) {
		buf_clear(&in);
		buf_clear(&packed);
		buf_clear(&out);
		for (size_t i = 0; i < n; i++)
			buf_putc(&in, (char)(rng_u64(&rng) & 15));
		gzip_pack(buf_str(&in), &packed);
		assert_int_equal(gzip_unpack(buf_str(&packed), n, &out), 0);
		assert_true(str_eq(buf_str(&in), buf_str(&out)));
	}
}

/* A thousandfold of it: no more than the limit is ever unpacked. */
static void test_a_bomb_is_refused(void **state _unused_)
{
	_cleanup_(buf_done) struct buf zeros = BUF_INIT(0);
	_cleanup_(buf_done) struct buf packed = BUF_INIT(0);
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	char part[4096] = { 0 };

	for (size_t i = 0; i < (16u << 20) / sizeof(part); i++)
		buf_append(&zeros, part, sizeof(part));
	gzip_pack(buf_str(&zeros), &packed);
	assert_true(packed.n < zeros.n / 100);
	assert_int_equal(gzip_unpack(buf_str(&packed), 100000, &out),
			 -ERR_BODY_TOO_LARGE);
	assert_int_equal(out.n, 0);
	assert_true(out.cap < 1000000);
}

static void test_bad_ones_are_refused(void **state _unused_)
{
	_cleanup_(buf_done) struct buf packed = BUF_INIT(0);
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	struct str s;

	gzip_pack(STR("hello, hello, hello"), &packed);
	s = buf_str(&packed);
	for (size_t n = 0; n < s.n; n++)
		assert_int_equal(gzip_unpack(str_of(s.p, n), 1000, &out),
				 -ERR_PARSE_ERROR);
	buf_putc(&packed, 'x');
	assert_int_equal(gzip_unpack(buf_str(&packed), 1000, &out),
			 -ERR_PARSE_ERROR);
	packed.n--;
	packed.p[packed.n - 6] ^= 1; /* the sum */
	assert_int_equal(gzip_unpack(buf_str(&packed), 1000, &out),
			 -ERR_PARSE_ERROR);
	assert_int_equal(gzip_unpack(STR("no gzip at all, never"), 1000, &out),
			 -ERR_PARSE_ERROR);
	assert_int_equal(out.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packed_comes_back),
		cmocka_unit_test(test_a_bomb_is_refused),
		cmocka_unit_test(test_bad_ones_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
