#include "fsm/ties/ties.h"

#include "fsm/ties/batch.h"
#include "fsm/ties/bulk.h"
#include "fsm/ties/chain.h"
#include "fsm/ties/deps.h"
#include "fsm/ties/unique.h"

/* A job that has none of these pays for none of them. */
void ties_on_end(struct fsm *f, struct job *j, enum job_state end)
{
	if (f->bulks.canaries.n > 0)
		canary_on_end(f, j, end);
	if (j->extras & EXTRA_UNIQUE)
		unique_release(f, j);
	if (j->extras & EXTRA_BATCH && !j->live.counted)
		batch_on_end(f, j, end);
	if (j->extras & EXTRA_CHAIN)
		chain_on_end(f, j, end);
	if (j->live.dependents)
		deps_on_end(f, j, end);
	if (j->live.waiting_on > 0)
		deps_unlink(f, j);
}

void ties_on_error(struct fsm *f, const struct job *j)
{
	if (f->bulks.canaries.n > 0)
		canary_on_error(f, j);
}
