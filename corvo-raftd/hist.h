/*
 * Latency histogram with fixed bounds, 50 microseconds to one second.
 */
#ifndef CORVO_HIST_H
#define CORVO_HIST_H

#include "util/base.h"

#define HIST_BOUNDS 14

struct hist {
	uint64_t count[HIST_BOUNDS + 1]; /* the last one: above all bounds */
	uint64_t total;
	double sum_s;
};

extern const double hist_bounds_s[HIST_BOUNDS];

void hist_add(struct hist *h, uint64_t ns);

#endif
