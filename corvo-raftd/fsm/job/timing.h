/*
 * How long jobs wait and run. A note costs a few additions.
 */
#ifndef CORVO_FSM_JOB_TIMING_H
#define CORVO_FSM_JOB_TIMING_H

#include "fsm/job/job.h"

/* Clocks of leaders differ: what would be negative is 0. */
static inline uint64_t timing_passed(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

/* Of a job whose doc is read. */
uint64_t timing_pending_since(const struct job *j);
/* How long one attempt of it may take; 0: as long as it likes. The same. */
uint64_t timing_limit(const struct job *j);
/* A pending job is being handed out. */
void timing_note_start(struct fsm *f, struct job *j);
/* Its attempt ended by ack or fail. */
void timing_note_run(struct fsm *f, struct job *j);

#endif
