/*
 * Lines of a job's log.
 */
#ifndef CORVO_FSM_JOB_LOG_H
#define CORVO_FSM_JOB_LOG_H

#include "fsm/job/job.h"

/* Appends and drops the oldest over the limit; the caller saves the job. */
void log_append(struct fsm *f, struct job *j, const struct str *lines,
		size_t n);
void log_delete(struct fsm *f, const struct job *j);

#endif
