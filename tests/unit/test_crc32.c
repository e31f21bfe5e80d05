#include "util/crc32.h"

#include "lib/testlib.h"

/* Bit by bit, as the polynomial is written down. */
static uint32_t by_the_book(uint32_t crc, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		crc ^= (uint32_t)(unsigned char)s.p[i] << 24;
		for (int bit = 0; bit < 8; bit++)
			crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7u : 0);
	}
	return crc;
}

static void known_values(void **state _unused_)
{
	assert_int_equal(crc32_add(0, STR_NULL), 0);
	/* "CRC-32/POSIX" without its inversion and length */
	assert_int_equal(crc32_add(0, STR("123456789")), 0x89a1897f);
}

static void any_length_and_any_split(void **state _unused_)
{
	char bytes[100];
	struct rng r;

	test_rng(&r);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)rng_u64(&r);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		struct str all = str_of(bytes, n);
		size_t half = rng_below(&r, n + 1);
		uint32_t first = crc32_add(0, str_of(bytes, half));

		assert_int_equal(crc32_add(0, all), by_the_book(0, all));
		assert_int_equal(crc32_add(first, str_skip(all, half)),
				 by_the_book(0, all));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values),
		cmocka_unit_test(any_length_and_any_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
