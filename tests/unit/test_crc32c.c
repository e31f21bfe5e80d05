#include "util/crc32c.h"

#include "lib/testlib.h"

/* Bit by bit, as the polynomial is written down. */
static uint32_t by_the_book(struct str s)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < s.n; i++) {
		crc ^= (unsigned char)s.p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

static void known_values(void **state _unused_)
{
	static const char zeros[32];

	/* RFC 3720, B.4, and the catalogue's check value */
	assert_int_equal(crc32c_add(0, STR_NULL), 0);
	assert_int_equal(crc32c_add(0, STR("123456789")), 0xe3069283);
	assert_int_equal(crc32c_add(0, str_of(zeros, 32)), 0x8a9136aa);
}

static void any_length_any_place_and_any_split(void **state _unused_)
{
	char bytes[128];
	struct rng r;

	test_rng(&r);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)rng_u64(&r);
	for (size_t n = 0; n <= 100; n++) {
		struct str all = str_of(bytes + rng_below(&r, 20), n);
		size_t half = rng_below(&r, n + 1);
		uint32_t first = crc32c_add(0, str_of(all.p, half));

		assert_int_equal(crc32c_add(0, all), by_the_book(all));
		assert_int_equal(crc32c_add_soft(0, all), by_the_book(all));
		assert_int_equal(crc32c_add(first, str_skip(all, half)),
				 by_the_book(all));
		assert_int_equal(crc32c_add_soft(first, str_skip(all, half)),
				 by_the_book(all));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values),
		cmocka_unit_test(any_length_any_place_and_any_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
