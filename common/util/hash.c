/*
 * Hashes. See util/hash.h.
 */
#include "util/hash.h"

#include <endian.h>
#include <stdatomic.h>
#include <string.h>

#include "util/rng.h"

/* Odd, with about half of their bits set. */
#define STABLE_START 0x9e3779b97f4a7c15ULL
#define STABLE_KEY_1 0xd1b54a32d192ed03ULL
#define STABLE_KEY_2 0x8cb92ba72f3d8dd7ULL

static uint64_t secret[2];
static atomic_uint_fast64_t seeds;

/* Before any thread, and so before any table. */
__attribute__((constructor)) static void draw_secret(void)
{
	rng_system(secret, sizeof(secret));
}

static uint64_t load64(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static uint64_t load32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

/* The two halves of the 128-bit product, folded. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 m = (unsigned __int128)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/*
 * Multiply and fold, 16 bytes a step; the last step reads the final bytes,
 * overlapping where they are fewer.
 */
static inline uint64_t hash(uint64_t h, uint64_t k1, uint64_t k2,
			    const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t a = 0, b = 0;
	size_t left = n;

	for (; left > 16; left -= 16, p += 16)
		h = mix(load64(p) ^ k1, load64(p + 8) ^ h);
	if (left >= 8) {
		a = load64(p);
		b = load64(p + left - 8);
	} else if (left >= 4) {
		a = load32(p);
		b = load32(p + left - 4);
	} else if (left > 0) {
		a = (uint64_t)p[0] << 16 | (uint64_t)p[left / 2] << 8 |
		    p[left - 1];
	}
	return mix(k2 ^ n, mix(a ^ k1, b ^ h));
}

uint64_t hash_stable(const void *p, size_t n)
{
	return hash(STABLE_START, STABLE_KEY_1, STABLE_KEY_2, p, n);
}

uint64_t hash_secret(uint64_t seed, const void *p, size_t n)
{
	return hash(seed, secret[0], secret[1], p, n);
}

uint64_t hash_new_seed(void)
{
	uint64_t n = atomic_fetch_add(&seeds, 1);

	return hash_secret(STABLE_START, &n, sizeof(n));
}
