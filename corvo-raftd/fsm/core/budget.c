/*
 * See budget.h.
 */
#include "fsm/core/budget.h"

#include "fsm/core/state.h"

#define RECORDS_MAX (10 * LIMIT_MAINTAIN_JOBS)

void budget_begin(struct fsm *f)
{
	f->budget = (struct budget){
		.max = f->budget.max,
		.written = txn_written(f->txn),
	};
}

uint64_t budget_spent(const struct fsm *f)
{
	return f->budget.taken + (txn_written(f->txn) - f->budget.written) +
	       f->out.n + f->events.n;
}

/* A job takes some ten microseconds, with what hangs on it: a turn of the loop
 * is to be over before anybody notices. */
uint32_t budget_jobs_left(const struct fsm *f)
{
	uint32_t most =
	    f->cluster.level >= 2 ? LIMIT_ENTRY_JOBS_2 : LIMIT_MAINTAIN_JOBS;

	return most - MIN(most, f->budget.jobs);
}

bool budget_is_spent(const struct fsm *f)
{
	return budget_spent(f) >= f->budget.max || budget_jobs_left(f) == 0 ||
	       f->budget.records >= RECORDS_MAX;
}

bool budget_has(const struct fsm *f, uint64_t bytes)
{
	return budget_spent(f) + bytes <= f->budget.max;
}

void budget_take(struct fsm *f, uint64_t bytes)
{
	f->budget.taken += bytes;
}

void budget_take_job(struct fsm *f)
{
	f->budget.jobs++;
}

void budget_take_records(struct fsm *f, uint32_t n)
{
	f->budget.records += n;
}

void fsm_set_budget(struct fsm *f, uint64_t bytes)
{
	f->budget.max = bytes;
}

uint64_t fsm_entry_weight(const struct fsm *f)
{
	return f->weight;
}
