/*
 * Inputs nobody thought of. A target is one function that is given bytes, and
 * examples to begin with; fuzz.c changes those again and again and keeps what
 * leads to places no other input led to, so that the next ones begin there. The
 * compiler tells it of the places, where it is built so
 * (-fsanitize-coverage=trace-pc), the sanitizers of what goes wrong.
 *
 *   fuzz_NAME [--runs N] [--seconds N] [--seed N] [--corpus FILE]
 *   fuzz_NAME --input HEX     one of them again, as a failure shows it
 *
 * A corpus has an input in each line. `make fuzz` builds the same targets with
 * libFuzzer in the place of fuzz.c (fuzz_clang.c).
 */
#ifndef CORVO_FUZZ_H
#define CORVO_FUZZ_H

#include "util/arena.h"
#include "util/buf.h"
#include "util/rng.h"

/* --- of a target --- */

/* Anything but its end, by a CHECK or a sanitizer, is good. */
void fuzz_one(struct str in);
/* An example at random. */
void fuzz_example(struct rng *rng, struct buf *out);

/* --- for targets --- */

/* Takes the first byte off, as a choice of n; 0 of nothing. */
static inline unsigned fuzz_choice(struct str *in, unsigned n)
{
	unsigned c = in->n > 0 ? (unsigned char)in->p[0] : 0;

	*in = str_skip(*in, MIN(in->n, (size_t)1));
	return c % n;
}

#endif
