/*
 * Times of one kind, and what to say about them.
 */
#ifndef CORVO_LOAD_STATS_H
#define CORVO_LOAD_STATS_H

#include "util/base.h"

struct stats {
	int64_t *ns;
	size_t n, cap;
};

void stats_add(struct stats *s, int64_t ns);
void stats_done(struct stats *s);

/*
 * Lines "<name>_p50_us 123", also p90, p99, max, min and how many there are.
 * Sorts the values.
 */
void stats_print(struct stats *s, const char *name);

/* One line "name value", for people and scripts. */
void print_rate(const char *name, uint64_t count, uint64_t ns);

#endif
