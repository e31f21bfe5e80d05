/*
 * The only files with randomness: system entropy (rng_system.c), and a seeded
 * generator for everything that must be repeatable.
 */
#ifndef CORVO_RNG_H
#define CORVO_RNG_H

#include "util/base.h"

struct rng {
	uint64_t s[4];
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* uniform in [0, n), n > 0 */
double rng_unit(struct rng *r);                /* uniform in [0, 1) */

void rng_system(void *p, size_t n); /* getrandom; aborts if it cannot */

#endif
