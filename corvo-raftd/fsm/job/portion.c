/*
 * Many jobs, some at a time: those of a queue that is cleared or deleted, those
 * past their retention, those of a bulk operation. Ids come from our own
 * indexes.
 */
#include "fsm/job/portion.h"

#include "fsm/core/state.h"
#include "fsm/job/job.h"

bool portion_is_full(const struct fsm *f, const struct portion *p)
{
	return p->jobs >= p->max || budget_is_spent(f);
}

int portion_delete(struct fsm *f, struct portion *p, struct str id,
		   uint64_t upto_seq, enum event_type type)
{
	struct job j;
	int r = job_find(f, id, &j);

	if (r < 0)
		return r;
	MUST(f, r > 0);     /* it stands in an index */
	budget_take_job(f); /* also one that stays */
	if (upto_seq != 0 && j.live.seq > upto_seq)
		return 0;
	p->jobs++;
	job_delete(f, &j, type);
	return 0;
}
