/*
 * Times of one kind, and how evenly work was done. Both take a fixed amount of
 * memory, or one number per second, however long a run is.
 */
#ifndef CORVO_LOAD_TIMES_H
#define CORVO_LOAD_TIMES_H

#include "util/base.h"

/*
 * A histogram whose buckets are at most 1/128 of their value wide, up to 18
 * minutes; least and most are exact. Times may be negative: too early.
 */
#define TIMES_STEPS   128 /* buckets per power of two */
#define TIMES_BUCKETS (34 * TIMES_STEPS)

struct times {
	uint64_t count[TIMES_BUCKETS];
	uint64_t n;
	int64_t min, max;   /* nanoseconds; 0 while n is 0 */
	uint64_t max_at_ns; /* when it was added, as whoever adds says */
};

void times_add(struct times *t, int64_t ns);
void times_add_at(struct times *t, int64_t ns, uint64_t at_ns);
/* Nanoseconds that a share of them (0 to 1) took at most; none: 0. */
double times_at(const struct times *t, double share);

/* What was done in each second since a start. */
struct rates {
	uint64_t *done;
	size_t n;
};

void rates_add(struct rates *r, uint64_t since_start_ns, uint64_t done);
void rates_clear(struct rates *r);

struct rates_summary {
	double min, max, stddev; /* per second */
};

/*
 * Over the whole seconds of a run that took so long. False: they are fewer
 * than two, and say nothing.
 */
bool rates_sum_up(const struct rates *r, uint64_t took_ns,
		  struct rates_summary *ret);

#endif
