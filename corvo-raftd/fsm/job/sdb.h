/*
 * Jobs of Scheduled-DB in numbers: what those that have not ended take, which
 * is bounded, and how many there are of each status. Kept in one record, sd|,
 * that is written once for an entry.
 */
#ifndef CORVO_FSM_JOB_SDB_H
#define CORVO_FSM_JOB_SDB_H

#include "fsm/core/entry.h"
#include "fsm/job/job.h"

int sdb_load(struct fsm *f);
void sdb_write(struct fsm *f); /* if something has changed */

/* A job comes into its state, or leaves it; of EXTRA_SDB. */
void sdb_enter(struct fsm *f, struct job *j);
void sdb_leave(struct fsm *f, const struct job *j);
/* It has been created. */
void sdb_created(struct fsm *f, const struct m_sdb *s);
/* It is about to change: its room is free when it ends, and taken again when
 * it has another life. JOB_STATE_MAX: it is deleted. */
void sdb_room(struct fsm *f, struct job *j, enum job_state to);
/* An error is recorded: *e gets what history wants to know. */
void sdb_error(struct fsm *f, struct job *j, struct m_job_error *e);

/* Room of so many bytes is taken, by a job or recurrente; or free again. */
void sdb_take(struct fsm *f, uint64_t bytes, bool recurring);
void sdb_release(struct fsm *f, uint64_t bytes, bool recurring);

#endif
