/*
 * Histograms of times, with one of two fixed scales.
 */
#ifndef CORVO_HIST_H
#define CORVO_HIST_H

#include "util/base.h"

#define HIST_BOUNDS 14

struct hist_scale {
	uint64_t ns[HIST_BOUNDS];    /* ascending */
	const char *le[HIST_BOUNDS]; /* the same in seconds, as text */
};

extern const struct hist_scale hist_short; /* 50 microseconds to 1 second */
extern const struct hist_scale hist_long;  /* 1 millisecond to 1 hour */

struct hist {
	uint64_t count[HIST_BOUNDS + 1]; /* the last one: above all bounds */
	uint64_t total;
	double sum_s;
};

/* Always with the same scale. */
void hist_add(struct hist *h, const struct hist_scale *s, uint64_t ns);

/* Seconds that a share of them (0 to 1) took at most: by its bucket, evenly
 * within; above all bounds: the last bound. None: 0. */
double hist_quantile(const struct hist *h, const struct hist_scale *s,
		     double share);

#endif
