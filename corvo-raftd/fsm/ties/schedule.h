/*
 * Schedules.
 */
#ifndef CORVO_FSM_TIES_SCHEDULE_H
#define CORVO_FSM_TIES_SCHEDULE_H

#include "fsm/core/entry.h"
#include "fsm/job/portion.h"

/* When one is due whose time has to be computed anew. */
#define SCHEDULE_AT_ONCE 1

void schedules_order(struct fsm *f); /* of heaps; before they are loaded */
int schedules_load(struct fsm *f);
void schedules_free(struct fsm *f);
bool schedule_exists(const struct fsm *f, struct str ref); /* id or name */
/* By id or name: 1 found, 0 absent, -ERR_*. */
int schedule_find(struct fsm *f, struct str ref, struct m_schedule *ret);
void schedule_save(struct fsm *f, const struct m_schedule *m);
void schedule_remove(struct fsm *f, const struct m_schedule *m);

/* What it has of Scheduled-DB, to be changed; NULL: it is not of it. */
struct m_sdb *schedule_own_sdb(struct fsm *f, struct m_schedule *m);
/* Those of Scheduled-DB that have ended by then are forgotten. 0 or -ERR_*. */
int schedules_purge(struct fsm *f, uint64_t upto_ns, struct portion *p);
/* When the first of them ended; NEVER: there is none. */
uint64_t schedules_purge_from(const struct fsm *f);

/* What an event says beside which schedule it is about; 0, NULL: nothing. */
struct schedule_note {
	struct str job_id;
	uint64_t scheduled_for;
	const char *reason;
	uint64_t missed;
};

void schedule_event(struct fsm *f, enum event_type type,
		    const struct m_schedule *s, const struct schedule_note *n);

#endif
