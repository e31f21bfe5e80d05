/*
 * What one entry may still do. Everything it reads, writes, answers and tells
 * in events is weighed in bytes, so that neither its memory nor the time it
 * takes grows with what clients stored; jobs that are dealt with beside what
 * was asked for, and records that go with them, are counted too. Whoever works
 * off a list of things stops when the budget is spent and goes on in a later
 * entry.
 *
 * The budget decides what an entry does, so it is the same on all replicas: it
 * follows from the entry and the store, never from what happens to be cached.
 * A record weighs what it has in the store, wherever it was read from.
 */
#ifndef CORVO_BUDGET_H
#define CORVO_BUDGET_H

#include "util/base.h"

struct fsm;

struct budget {
	uint64_t max;     /* bytes: LIMIT_ENTRY_BYTES, less in tests */
	uint64_t taken;   /* read, and what was told by budget_take */
	uint64_t written; /* by the store's changes when the entry began */
	uint32_t jobs, records;
};

/* A new entry: nothing is spent. */
void budget_begin(struct fsm *f);
/* Bytes so far, in this entry. */
uint64_t budget_spent(const struct fsm *f);
bool budget_is_spent(const struct fsm *f);
/* So many more bytes fit in. */
bool budget_has(const struct fsm *f, uint64_t bytes);
/* Bytes beside the store's changes, answers and events. */
void budget_take(struct fsm *f, uint64_t bytes);
/* So many more jobs may be dealt with. */
uint32_t budget_jobs_left(const struct fsm *f);
/* One job of many, however small it is. */
void budget_take_job(struct fsm *f);
/* Small records that go with a job. */
void budget_take_records(struct fsm *f, uint32_t n);

#endif
