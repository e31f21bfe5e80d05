/*
 * A job's checkpoint. A small one is part of the job's record; a large one, and
 * each of an agent's job, has a record of its own under cp|, so that it is
 * written once and not with every change of the job.
 */
#ifndef CORVO_FSM_JOB_CHECKPOINT_H
#define CORVO_FSM_JOB_CHECKPOINT_H

#include "fsm/job/job.h"

/* Replaces it. Of an agent, that of the present iteration. The caller saves. */
void checkpoint_set(struct fsm *f, struct job *j, struct str value);

/* Of a job that is being created: where it goes, and what the doc says. */
void checkpoint_create(struct fsm *f, struct str id, struct str value,
		       struct m_job_doc *doc);

/* Empty: there is none. The job has its doc. 0 or -ERR_*. */
int checkpoint_get(struct fsm *f, const struct job *j, struct str *ret);
/* The one under that number; or, when `in` is NULL, the initial one. */
int checkpoint_read(struct fsm *f, const struct job *j, const uint32_t *in,
		    struct str *ret);

/* The job goes; those of earlier iterations go with them. */
void checkpoint_delete(struct fsm *f, const struct job *j);

#endif
