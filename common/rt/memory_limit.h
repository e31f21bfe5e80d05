/*
 * How much memory a node may use: the smallest of what the machine has, what
 * the control groups of this process allow (versions 1 and 2; containers,
 * MemoryMax= and MemoryHigh= of a unit) and RLIMIT_AS.
 *
 * Nobody asks this for a budget of their own: budgets are settings, and
 * proto/defs/budgets.def says which settings are shares of this memory.
 */
#ifndef CORVO_MEMORY_LIMIT_H
#define CORVO_MEMORY_LIMIT_H

#include "util/base.h"

struct memory_limit {
	uint64_t bytes; /* 0: nothing tells */
	char from[200]; /* "the machine", "the control group /a/b", ... */
};

void memory_limit_read(struct memory_limit *ret);

/* The part of it that can be tried: /proc and /sys are looked for under
 * `root`; address_space is RLIMIT_AS, UINT64_MAX for none. */
void memory_limit_find(const char *root, uint64_t address_space,
		       struct memory_limit *ret);

#endif
