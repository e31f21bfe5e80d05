/*
 * At most one job per key.
 */
#ifndef CORVO_FSM_TIES_UNIQUE_H
#define CORVO_FSM_TIES_UNIQUE_H

#include "fsm/job/job.h"

/* 1: an earlier job holds the key, *holder is it; 0: free; -ERR_*. */
int unique_find(struct fsm *f, struct str queue, struct str key,
		struct str *holder);
void unique_take(struct fsm *f, struct str queue, struct str key, struct str id,
		 uint64_t period);
/* The job has ended: frees its key, if it still is its own. */
void unique_release(struct fsm *f, struct job *j);
/* A job could take its key again: 0; refused when another has it. */
int unique_check(struct fsm *f, struct job *j);
/* It is to be pending again: takes its key; refused when another has it. */
int unique_retake(struct fsm *f, struct job *j);
/*
 * Jobs of one request, n of them: 0, or refused when those they replace are
 * too large together.
 */
int unique_check_all(struct fsm *f, const struct m_enqueue *ops, size_t n);
/* A duplicate arrived: answers for it, and replaces the payload if asked. */
int unique_answer(struct fsm *f, const struct m_enqueue *op, struct str holder,
		  struct m_enqueue_reply *ret);

#endif
