/*
 * Money and other amounts as whole numbers of billionths: what is added up is
 * exact to the last of them. Text is the decimal number of JSON.
 */
#ifndef CORVO_NANO_H
#define CORVO_NANO_H

#include "util/buf.h"

#define NANO_PER_UNIT 1000000000ULL

/*
 * A JSON number; what is beyond nine decimals is rounded, half of the last one
 * up. False: it is negative, or too large.
 */
bool nano_parse(struct str number, uint64_t *ret);

/* Exactly, without an exponent and without zeros at the end: "0.0031". */
void nano_format(struct buf *b, uint64_t nano);

/* The nearest one; false: it is negative, not finite or too large. */
bool nano_from_double(double v, uint64_t *ret);

/* Sums stay at the largest number there is: they never start anew. */
static inline uint64_t nano_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

#endif
