#include "util/crc32.h"

#include <pthread.h>

#define POLYNOMIAL 0x04c11db7u
#define SLICES     8

/* slice[k][b]: what byte b does to the checksum k bytes later. */
static uint32_t slice[SLICES][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b << 24;

		for (int bit = 0; bit < 8; bit++)
			crc = crc << 1 ^ (crc >> 31 ? POLYNOMIAL : 0);
		slice[0][b] = crc;
	}
	for (int k = 1; k < SLICES; k++)
		for (uint32_t b = 0; b < 256; b++) {
			uint32_t before = slice[k - 1][b];

			slice[k][b] = before << 8 ^ slice[0][before >> 24];
		}
}

static uint32_t eight_bytes(uint32_t crc, const unsigned char *p)
{
	return slice[7][(crc >> 24) ^ p[0]] ^
	       slice[6][(crc >> 16 & 0xff) ^ p[1]] ^
	       slice[5][(crc >> 8 & 0xff) ^ p[2]] ^
	       slice[4][(crc & 0xff) ^ p[3]] ^ slice[3][p[4]] ^ slice[2][p[5]] ^
	       slice[1][p[6]] ^ slice[0][p[7]];
}

uint32_t crc32_add(uint32_t crc, struct str bytes)
{
	const unsigned char *p = (const unsigned char *)bytes.p;
	size_t n = bytes.n;

	CHECK(pthread_once(&once, fill_tables) == 0);
	for (; n >= 8; p += 8, n -= 8)
		crc = eight_bytes(crc, p);
	for (; n > 0; p++, n--)
		crc = crc << 8 ^ slice[0][(crc >> 24) ^ *p];
	return crc;
}
