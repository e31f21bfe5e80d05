#include "util/crc32c.h"

#include <pthread.h>

#include "util/le.h"

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41, its bits reversed */
#define SLICES     8

/* slice[k][b]: what byte b does to the checksum k bytes later. */
static uint32_t slice[SLICES][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		slice[0][b] = crc;
	}
	for (int k = 1; k < SLICES; k++)
		for (uint32_t b = 0; b < 256; b++) {
			uint32_t before = slice[k - 1][b];

			slice[k][b] = before >> 8 ^ slice[0][before & 0xff];
		}
}

static uint32_t eight_bytes(uint32_t crc, const char *p)
{
	uint64_t v = get_le64(p) ^ crc;
	uint32_t ret = 0;

	for (int k = SLICES - 1; k >= 0; k--, v >>= 8)
		ret ^= slice[k][v & 0xff];
	return ret;
}

uint32_t crc32c_add_soft(uint32_t crc, struct str bytes)
{
	const char *p = bytes.p;
	size_t n = bytes.n;

	CHECK(pthread_once(&once, fill_tables) == 0);
	crc = ~crc;
	for (; n >= 8; p += 8, n -= 8)
		crc = eight_bytes(crc, p);
	for (; n > 0; p++, n--)
		crc = crc >> 8 ^ slice[0][(crc ^ (unsigned char)*p) & 0xff];
	return ~crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("sse4.2"))) static uint32_t add_hard(uint32_t crc,
							   struct str bytes)
{
	const char *p = bytes.p;
	size_t n = bytes.n;
	uint64_t c = (uint32_t)~crc;

	for (; n >= 8; p += 8, n -= 8)
		c = _mm_crc32_u64(c, get_le64(p));
	for (; n > 0; p++, n--)
		c = _mm_crc32_u8((uint32_t)c, (unsigned char)*p);
	return ~(uint32_t)c;
}

uint32_t crc32c_add(uint32_t crc, struct str bytes)
{
	return __builtin_cpu_supports("sse4.2") ? add_hard(crc, bytes)
						: crc32c_add_soft(crc, bytes);
}
#else
uint32_t crc32c_add(uint32_t crc, struct str bytes)
{
	return crc32c_add_soft(crc, bytes);
}
#endif
