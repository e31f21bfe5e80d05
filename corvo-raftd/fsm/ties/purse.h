/*
 * Budgets of users: what a queue, a group, a tag or all together may spend.
 * (core/budget.h is another thing: what an entry may do.) Here one is called a
 * purse, with a count for each of its limits.
 *
 * Everything that is asked at a fetch or a report is in memory and takes the
 * same time whatever was spent: at most one purse of each scope, and one per
 * tag name that purses are of. A cluster without budgets pays for none of it.
 *
 * Amounts are billionths of a unit, tokens too. A period is a day or month of
 * the zone of usage settings, or the last so many slots of a window; time moves
 * it on only forward, so a clock that is set back gives nothing again.
 */
#ifndef CORVO_FSM_TIES_PURSE_H
#define CORVO_FSM_TIES_PURSE_H

#include "fsm/job/job.h"

struct purse_count {
	uint64_t period, spent, reports, next_ns;
	/* Exact, whatever jobs say they expect: what one of them adds is taken
	 * off again when it ends. */
	unsigned __int128 reserved;
	uint64_t since;    /* the last event before it */
	uint64_t aside_ns; /* when the last one comes back that it set aside */
	bool told;
	/* of a window, LIMIT_BUDGET_SLOTS: what was spent in each, and then
	 * how many reports that was */
	uint64_t *slots;
};

struct fsm_purse {
	struct m_budget m; /* as stored, in the arena */
	struct arena arena;
	struct purse_count counts[LIMIT_BUDGET_LIMITS];
};

/* What keeps a job or queue from going on. */
struct purse_block {
	const struct fsm_purse *purse; /* NULL: nothing */
	const struct m_budget_limit *limit;
	uint64_t until; /* time alone may free it then */
};

int purses_load(struct fsm *f);
void purses_free(struct fsm *f);

struct fsm_purse *purse_find(const struct fsm *f, enum budget_scope scope,
			     struct str target);
/* Creates it or changes it; counts of limits that stay go on. */
void purse_set(struct fsm *f, const struct m_budget *m);
void purse_remove(struct fsm *f, struct fsm_purse *p);
/* There is no room for the name of its tag. */
bool purse_tags_are_full(const struct fsm *f, struct str target);
/*
 * What it had set aside goes back to its place, also of one that is gone: 1:
 * all of it; 0: the entry's budget is spent before that; -ERR_*. *cursor: the
 * last job that came back, in the item's arena. A budget that is still spent
 * may set that aside again before the next portion, which has to end as well.
 */
int purse_take_back(struct fsm *f, struct str id, struct str *cursor);
/* The counts have changed. */
void purse_save(struct fsm *f, const struct fsm_purse *p);
/* A limit that a report can be over, but that is no period. */
static inline bool purse_is_per_job(const struct m_budget_limit *l)
{
	return l->per == BUDGET_PER_JOB;
}

/* What is held for jobs that run, as an amount: amounts have an end. */
static inline uint64_t purse_reserved(const struct purse_count *c)
{
	return c->reserved > UINT64_MAX ? UINT64_MAX : (uint64_t)c->reserved;
}

/* --- periods (purse_period.c) --- */

/* Spent by that moment; nothing is changed. */
uint64_t purse_spent(const struct fsm *f, const struct m_budget_limit *l,
		     const struct purse_count *c, uint64_t now);
/* Begins a new period, if it is time. */
void purse_roll(const struct fsm *f, const struct m_budget_limit *l,
		struct purse_count *c, uint64_t now);
/* In the present period, which was rolled. */
void purse_add(struct purse_count *c, uint64_t amount);
/* When the present period began and ends, which is to come; of a window, when
 * something of it falls out. */
uint64_t purse_from(const struct fsm *f, const struct m_budget_limit *l,
		    uint64_t now);
uint64_t purse_until(const struct fsm *f, const struct m_budget_limit *l,
		     uint64_t now);

/* --- for clients (purse_show.c) --- */

/* With how far it is used by then; in the arena, slices are ours. */
void purse_show(const struct fsm *f, const struct fsm_purse *p, uint64_t now,
		struct arena *a, struct m_budget *ret);

/* --- jobs (purse_job.c) --- */

/* Its budgets and that of all are not spent, as far as the queue tells. */
bool purse_queue_is_open(const struct fsm *f, const struct fsm_queue *q,
			 uint64_t now, struct purse_block *ret);

enum purse_verdict {
	PURSE_GO,
	PURSE_WAIT,  /* it stays in its queue, which waits with it */
	PURSE_ASIDE, /* it waits alone: others of its queue may go on */
	PURSE_HOLD,  /* there never will be room for it */
};

/* May the job be handed out? -ERR_*, or enum purse_verdict. */
int purse_judge(struct fsm *f, struct job *j, uint64_t now,
		struct purse_block *ret);
/* After PURSE_ASIDE: sets it aside until the budget may have room for it. */
void purse_set_aside(struct fsm *f, struct job *j, const struct purse_block *b);
/* It was: for throttles. */
int purse_handed_out(struct fsm *f, struct job *j);
/* For job_hooks: reserves what it expects, or lets go of what is left of it
 * after its reports. */
void purse_handed(struct fsm *f, struct job *j, int change);
/* That the i-th limit is spent. */
void purse_tell(struct fsm *f, const struct fsm_purse *p, size_t i);
/* In words: budget of queue "q": 10 of 10 usd per day are spent. */
void purse_describe(const struct fsm *f, const struct purse_block *b,
		    struct buf *ret);
/* -ERR_BUDGET_EXCEEDED, with that. */
int purse_refuse(struct fsm *f, const struct purse_block *b);

/* What a report meant for the job's budgets. */
struct purse_report {
	bool exceeded;             /* of one of them a limit is spent */
	bool over_job;             /* the job has spent more than it may */
	enum budget_action action; /* then: the strictest */
	struct purse_block block;  /* by this one */
};

/* Would this report be too much for one job? 0 or -ERR_*. */
int purse_foresee(struct fsm *f, struct job *j, const struct m_usage_sum *more,
		  struct purse_report *ret);
/* The report counts: j->live.usage has it already, `before` has not (NULL: it
 * is the first). 0 or -ERR_*. */
int purse_spend(struct fsm *f, struct job *j, const struct m_usage_sum *before,
		const struct m_usage_sum *more, struct purse_report *ret);

/* What an enqueue says it will cost. */
int purse_check_expected(struct fsm *f, const struct m_enqueue *op);

#endif
