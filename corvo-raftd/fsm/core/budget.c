/*
 * See budget.h.
 */
#include "fsm/core/budget.h"

#include "fsm/core/state.h"

#define JOBS_MAX    LIMIT_MAINTAIN_JOBS
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

bool budget_is_spent(const struct fsm *f)
{
	return budget_spent(f) >= f->budget.max || f->budget.jobs >= JOBS_MAX ||
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
