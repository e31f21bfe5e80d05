/*
 * When time next does something to jobs of a queue: the moments of the first
 * scheduled, the first retrying and the first ended job. In memory, exact
 * after each entry and so the same on all replicas.
 *
 * A job that comes moves its bound at once. When the first of its kind leaves,
 * what comes after it has to be read: once for all that left, by
 * bounds_settle, before anything is decided by it and at the end of the entry.
 * Each such look counts as a record of the entry's budget.
 */
#ifndef CORVO_BOUNDS_H
#define CORVO_BOUNDS_H

#include "proto/job.h"
#include "util/heap.h"
#include "util/list.h"

struct fsm;
struct fsm_queue;

enum bound { BOUND_SCHEDULED, BOUND_RETRYING, BOUND_ENDED, BOUNDS };

/* A member of struct fsm_queue. */
struct bounds {
	uint64_t first[BOUNDS]; /* NEVER: there is none */
	struct heap_node due;   /* in f->due, by the first two */
	struct heap_node purge; /* in f->purge_own or f->purge_default */
	bool purge_is_own;
	struct list unsure;    /* in f->unsure, while one has to be read */
	uint8_t unsure_bounds; /* which: one bit each */
	uint32_t unsure_item;  /* of the entry: the first that made it so */
};

void bounds_init(struct fsm_queue *q, uint64_t tie);
/* The queue goes. */
void bounds_done(struct fsm *f, struct fsm_queue *q);
/* A job of the state came, with that moment, or left; counts are right. */
void bounds_add(struct fsm *f, struct fsm_queue *q, enum job_state s,
		uint64_t ns);
void bounds_leave(struct fsm *f, struct fsm_queue *q, enum job_state s,
		  uint64_t ns);
/* As loaded. */
void bounds_set(struct fsm *f, struct fsm_queue *q, enum bound b, uint64_t ns);
/* The queue has jobs of the kind at all. */
bool bounds_has(const struct fsm_queue *q, enum bound b);
/* The keys of the kind begin so. */
const char *bounds_prefix(enum bound b);
/* Its retention is another one now. */
void bounds_settings_changed(struct fsm *f, struct fsm_queue *q);
int bounds_settle(struct fsm *f); /* 0 or -ERR_* */
/* There is more to settle: true, and *ret is the item that made it so. */
bool bounds_are_unsure(const struct fsm *f, uint32_t *ret);
/* Settles what that is about alone. 0 or -ERR_*. */
int bounds_settle_first(struct fsm *f);

#endif
