/*
 * Inside the state machine: bulk operations, which act on many jobs step by
 * step. All of it is in their records; in memory are only what is due and
 * which jobs are canaries.
 */
#ifndef CORVO_FSM_TIES_BULK_H
#define CORVO_FSM_TIES_BULK_H

#include "fsm/job/job.h"
#include "fsm/job/portion.h"

/* Behind the struct: the id. */
struct fsm_bulk {
	struct str id;
	enum bulk_status status;
	struct heap_node due;  /* in due, while a step has something to do */
	struct heap_node ends; /* in ends, while only time moves it */
};

int bulks_load(struct fsm *f);
void bulks_free(struct fsm *f);

bool bulk_has_ended(const struct m_bulk *m);
/* A record: 1 found, 0 absent, -ERR_*. */
int bulk_find(struct fsm *f, struct str id, struct m_bulk *ret);
/* The same; refused when absent. 0 or -ERR_*. */
int bulk_must_find(struct fsm *f, struct str id, struct m_bulk *ret);
/* Writes it, a new one too. */
void bulk_save(struct fsm *f, const struct m_bulk *m);
/* There is room for one more, perhaps after the oldest ended one went. */
bool bulk_make_room(struct fsm *f);
/* Tells watchers what it is like now; the caller saves. */
void bulk_event(struct fsm *f, enum event_type type, struct m_bulk *m);

/*
 * It is over: with event, without canaries; also saves. error: why it failed.
 * What is left of its ids goes now or in later steps.
 */
void bulk_end(struct fsm *f, struct m_bulk *m, enum bulk_status how,
	      struct str error);
/* Ids of an ended one are left; frees some of them. Also saves. */
bool bulk_has_leftovers(const struct m_bulk *m);
void bulk_free_some(struct fsm *f, struct m_bulk *m);

/* A page of ids becomes parts. */
void bulk_add_page(struct fsm *f, const struct m_bulk *m, uint32_t page,
		   struct str *ids, size_t n);
/* The next part: its number and ids, in the item's arena. 0 or -ERR_*. */
int bulk_next_part(struct fsm *f, const struct m_bulk *m, uint32_t *ret_n,
		   struct m_job_ids *ret);

/* --- canaries: the first jobs, which must not fail again --- */

void canary_add(struct fsm *f, const struct m_bulk *m, struct str job_id);
bool canary_exists(const struct fsm *f, struct str job_id); /* of any */
/* While there are any: an attempt of a job failed; a job ended
 * (JOB_STATE_MAX: is deleted). */
void canary_on_error(struct fsm *f, const struct job *j);
void canary_on_end(struct fsm *f, const struct job *j, enum job_state end);

/* --- purge --- */

uint64_t bulks_purge_from(const struct fsm *f); /* NEVER: nothing to do */
int bulks_purge(struct fsm *f, struct portion *p);

#endif
