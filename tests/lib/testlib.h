/*
 * What every cmocka test needs: cmocka with the headers it wants before it,
 * and one seed for all random choices of a test program.
 */
#ifndef CORVO_TESTLIB_H
#define CORVO_TESTLIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util/rng.h"
#include "util/str.h"

/*
 * CORVO_TEST_SEED, or a fresh one; printed, so that a failure is repeated by
 * running the program again with that number.
 */
static inline uint64_t test_seed(void)
{
	const char *given = getenv("CORVO_TEST_SEED");
	uint64_t seed;

	if (given == NULL || *given == '\0')
		rng_system(&seed, sizeof(seed));
	else if (!str_parse_u64(str_from(given), &seed))
		fail_msg("CORVO_TEST_SEED=%s is not a number", given);
	print_message("CORVO_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static inline void test_rng(struct rng *r)
{
	rng_seed(r, test_seed());
}

/* Compares a slice with a C string and shows both when they differ. */
#define assert_str_is(s, cstr)                                    \
	do {                                                      \
		struct str got_ = (s);                            \
		if (!str_is(got_, cstr))                          \
			fail_msg("got \"%.*s\", expected \"%s\"", \
				 STR_ARG(got_), cstr);            \
	} while (0)

#endif
