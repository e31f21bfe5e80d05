#include "fsm_break.h"

#include "fsm/ties/purse.h"

void fsm_break_budget(struct fsm *f, struct str queue)
{
	struct fsm_purse *p = purse_find(f, BUDGET_QUEUE, queue);

	CHECK(p != NULL && p->counts[0].reserved > 0);
	p->counts[0].reserved = 0;
	purse_save(f, p);
	CHECK(fsm_flush(f) == 0);
}
