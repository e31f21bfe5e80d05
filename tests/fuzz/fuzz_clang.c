/*
 * The same targets for libFuzzer, in a build with clang and CORVO_FUZZ.
 */
#include <stdio.h>

#include "fuzz.h"

#define EXAMPLE_IN 64 /* so many changes */

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *p, size_t n, size_t max);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	fuzz_one(str_of((const char *)p, n));
	return 0;
}

/* Now and then an example in its place: what it was made of stays known. */
size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t max, unsigned seed)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct rng rng;

	rng_seed(&rng, seed);
	if (rng_below(&rng, EXAMPLE_IN) > 0)
		return LLVMFuzzerMutate(p, n, max);
	fuzz_example(&rng, &b);
	n = MIN(b.n, max);
	if (n > 0)
		memcpy(p, b.p, n);
	return n;
}
