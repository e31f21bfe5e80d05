/*
 * What jobs have used: reports of their workers, added to the job and to sums.
 *
 * A sum is a row of an hour: for each combination of queue, provider, model and
 * values of the named tags that was reported in it, there is one. Everything
 * that is asked for later is a sum of rows. A row also has the local day, which
 * an hour may have two of, so days of both kinds are exact. Rows of an hour are
 * LIMIT_USAGE_ROWS at most; what comes beyond is added to one row `other`.
 */
#ifndef CORVO_FSM_TIES_USAGE_H
#define CORVO_FSM_TIES_USAGE_H

#include "fsm/job/portion.h"
#include "fsm/ties/purse.h"
#include "store/key.h"

/* What one report came to. */
struct usage_counted {
	uint64_t tokens; /* of all kinds */
	uint64_t cost;   /* billionths of a usd */
	struct purse_report budget;
};

/* A report that says what cannot be is refused before anything is done. */
int usage_check(struct fsm *f, const struct m_usage *u);

/* Refused when a budget says that one job must not spend so much. */
int usage_check_job(struct fsm *f, struct job *j, const struct m_usage *u);

/*
 * Adds a checked report to the job, which the caller saves, and to the sums,
 * and tells of it. phase: ack, heartbeat or fail. 0 or -ERR_*.
 */
int usage_add(struct fsm *f, struct job *j, const struct m_usage *u,
	      const char *phase, struct usage_counted *ret);

/* Of a job, in all attempts so far. */
uint64_t usage_cost_of(const struct m_job_live *l);
uint64_t usage_tokens_of(const struct m_job_live *l);

/* --- rows (usage_row.c) --- */

/* Where a row is. */
struct usage_place {
	uint64_t hour_ns;
	uint32_t day; /* local */
	struct key key;
	struct m_usage_row found; /* as it is stored; slices in the arena */
};

/* What a job is counted under: its queue, these, and the named tags. */
int usage_row_name(struct fsm *f, struct job *j, struct str model,
		   struct str provider, struct m_usage_row *ret);

/*
 * The row of this hour with these names, which have no sums yet. When the hour
 * has as many as it may have, *row becomes the one of all others. 1: it is
 * there, in at->found; 0: it is new, or there is no place and the key is
 * empty; -ERR_*.
 */
int usage_row_open(struct fsm *f, struct m_usage_row *row,
		   struct usage_place *at);
/* The row of the hour and day in *at. 1, 0 or -ERR_*. */
int usage_row_find(struct fsm *f, const struct m_usage_row *row,
		   struct usage_place *at);

/* --- scores (score.c) --- */

/*
 * Records a checked score of the job, which the caller saves, and tells of it.
 * One of the same name, by and iteration goes. *ret: as it is stored.
 */
int score_record(struct fsm *f, struct job *j, const struct m_score *op,
		 struct m_score *ret);

/* --- how it is summed up (usage_set.c) --- */

int usage_load(struct fsm *f); /* 0 or -ERR_* */
void usage_free(struct fsm *f);
/* Writes the settings, units included, and keeps them. */
void usage_settings_save(struct fsm *f, const struct m_usage_settings *m);
bool usage_unit_is_known(const struct fsm *f, struct str name);
/* Days since 1970 by the clock of the zone. */
uint32_t usage_local_day(const struct fsm *f, uint64_t ns);
/* The first moment that is of that day or of a later one, from after_ns on. */
uint64_t usage_day_ns(const struct fsm *f, uint64_t day, uint64_t after_ns);
uint64_t usage_retention(const struct fsm *f); /* 0: for ever */

/* --- the price list (price.c) --- */

const struct m_price *price_find(const struct fsm *f, struct str provider,
				 struct str model);
void price_save(struct fsm *f, const struct m_price *m);
void price_remove(struct fsm *f, const struct m_price *m);
int prices_load(struct fsm *f);
void prices_free(struct fsm *f);
/* All of them, in no order; room for f->usage.prices.n. Slices are ours. */
size_t prices_copy(const struct fsm *f, struct m_price *ret);
/* What a report costs by a price, rounded once. */
uint64_t price_cost(const struct m_price *p, const struct m_usage *u,
		    struct arena *a);

/* --- sums that are too old (usage_purge.c) --- */

int usage_purge(struct fsm *f, struct portion *p);
/* When the first of them is; NEVER: none, or they stay. */
uint64_t usage_purge_from(const struct fsm *f);

#endif
