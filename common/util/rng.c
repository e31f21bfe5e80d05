/*
 * xoshiro256** by Blackman and Vigna, seeded through splitmix64 as they
 * advise: small, fast, good enough for simulations and jitter, and no secret
 * may come from it.
 */
#include "util/rng.h"

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t v, int bits)
{
	return v << bits | v >> (64 - bits);
}

void rng_seed(struct rng *r, uint64_t seed)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->s); i++)
		r->s[i] = splitmix64(&seed);
}

uint64_t rng_u64(struct rng *r)
{
	uint64_t *s = r->s;
	uint64_t ret = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return ret;
}

/*
 * The high half of a product (Lemire). The few low halves that would make
 * some results likelier than others are thrown again.
 */
uint64_t rng_below(struct rng *r, uint64_t n)
{
	unsigned __int128 m;

	CHECK(n > 0);
	m = (unsigned __int128)rng_u64(r) * n;
	if ((uint64_t)m < n) {
		uint64_t uneven = (0 - n) % n;

		while ((uint64_t)m < uneven)
			m = (unsigned __int128)rng_u64(r) * n;
	}
	return (uint64_t)(m >> 64);
}

double rng_unit(struct rng *r)
{
	return (double)(rng_u64(r) >> 11) * 0x1p-53;
}
