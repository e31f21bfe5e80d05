/*
 * How many jobs were handed out lately: a ring of counters over a period.
 *
 * A slot counts as long as any part of it lies inside the period that ends
 * now. So in no window of the period, wherever it begins, more is handed out
 * than the rate allows; what it costs is that a job may come one slot (a 64th
 * of the period) later than it could. Every call takes a bounded time.
 *
 * A clock that is set back is followed: slots that are later than now do not
 * count, so a period after that may see twice its jobs, and nothing waits until
 * the clock catches up.
 *
 * Questions may be asked for another period than the one the ring was made
 * for (the setting has changed); the ring is refitted when it next counts. So
 * what is answered depends only on what is stored, and replicas agree.
 */
#ifndef CORVO_FSM_LIMITER_H
#define CORVO_FSM_LIMITER_H

#include "proto/proto.h"
#include "util/arena.h"

#define LIMITER_PARTS 64 /* slots in a period */
#define LIMITER_SLOTS (LIMITER_PARTS + 1)

/* Zeroed memory has counted nothing. */
struct limiter {
	uint64_t slot_ns;
	uint64_t newest; /* number of the newest slot since 1970 */
	uint64_t oldest; /* slots before this one are empty */
	uint64_t total;  /* of all slots */
	uint32_t counts[LIMITER_SLOTS]; /* slot n is at n % LIMITER_SLOTS */
};

/* Jobs a limit may allow: the rate per period; 0: no limit. */
struct rate {
	uint64_t jobs;
	uint64_t period_ns; /* not 0 when there is a limit */
};

/* Counts one job handed out now. */
void limiter_add(struct limiter *l, const struct rate *r, uint64_t now);
/* Jobs that may be handed out now. l: NULL when nothing was yet. */
uint64_t limiter_left(const struct limiter *l, const struct rate *r,
		      uint64_t now);
/* The first moment at which limiter_left is not 0. */
uint64_t limiter_next(const struct limiter *l, const struct rate *r,
		      uint64_t now);
/* From this moment on nothing of it counts any more. */
uint64_t limiter_end(const struct limiter *l, const struct rate *r);

/* As stored; the counts are in a. */
void limiter_write(const struct limiter *l, struct arena *a,
		   struct m_limiter *ret);
int limiter_read(const struct m_limiter *m, struct limiter *ret);

#endif
