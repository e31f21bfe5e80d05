/*
 * Runs seeds, each a cluster in a storm, in processes of their own: whatever
 * one of them dies of, the others are run.
 */
#ifndef CORVO_SIM_SEEDS_H
#define CORVO_SIM_SEEDS_H

#include "cluster.h"

/* What came of all seeds of a run. */
struct seeds {
	uint64_t first, last; /* seeds: from, to */
	bool stop_at_failure;
	bool is_quiet; /* nothing is printed */
	uint64_t failures;
	uint64_t failed; /* the first seed that did; 0: none */
	char verdict[VERDICT_BYTES];
	struct tally tally;
	uint64_t done, unknown, refused; /* proposals */
};

void seeds_run(struct seeds *s);

/* Runs one here. The hash of all that happened. */
uint64_t seed_run(uint64_t seed);

#endif
