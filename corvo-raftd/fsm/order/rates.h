/*
 * How fast jobs come to a queue and leave it, over the last minute: a ring of
 * counters by the time of the entries, so nothing is sampled and an idle queue
 * costs nothing. In memory only.
 */
#ifndef CORVO_FSM_RATES_H
#define CORVO_FSM_RATES_H

#include "util/base.h"

#define RATES_SLOT_NS (10 * NS_PER_S)
#define RATES_SLOTS   8 /* a power of two */
#define RATES_WINDOW  6 /* whole slots, and the one that has begun */

struct rates_slot {
	uint32_t in;   /* jobs that became pending */
	uint32_t out;  /* handed out */
	uint32_t runs; /* attempts that ended with ack or fail */
	uint64_t run_ns;
};

/* Zeroed: nothing has happened. */
struct rates {
	uint64_t newest;  /* number of the newest slot */
	uint64_t mean_ns; /* of the runs of the last slot that went */
	struct rates_slot slots[RATES_SLOTS];
};

/* Where what happens at that time is counted. */
static inline uint64_t rates_slot_number(uint64_t now_ns)
{
	return now_ns / RATES_SLOT_NS;
}

/* Begins a later slot, or all anew when the clock was set back. */
struct rates_slot *rates_turn(struct rates *r, uint64_t number);

static inline struct rates_slot *rates_now(struct rates *r, uint64_t number)
{
	if (r->newest != number)
		return rates_turn(r, number);
	return &r->slots[number % RATES_SLOTS];
}

struct rates_sum {
	double in_s, out_s; /* a second */
	double run_s;       /* mean; 0: not known */
};

/* since_ns: nothing was counted before. */
void rates_read(const struct rates *r, uint64_t now_ns, uint64_t since_ns,
		struct rates_sum *ret);

/*
 * Jobs to run at a time so that what comes is done, and what waits is done
 * within a minute. 0 only when nothing waits or runs.
 */
uint64_t rates_workers(const struct rates_sum *s, uint64_t waiting,
		       uint64_t active);

#endif
