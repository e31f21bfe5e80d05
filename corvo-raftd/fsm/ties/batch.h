/*
 * Batches of jobs.
 */
#ifndef CORVO_FSM_TIES_BATCH_H
#define CORVO_FSM_TIES_BATCH_H

#include "fsm/job/job.h"
#include "fsm/job/portion.h"

/* Jobs may be added to it: 0, or refused. */
int batch_check(struct fsm *f, struct str id);
int batch_exists(struct fsm *f, struct str id); /* 1, 0 or -ERR_* */
/* 0; refused when the parent is not open, or the nesting is too deep. */
int batch_create(struct fsm *f, struct str id, const struct m_batch_options *o,
		 bool sealed);
/*
 * n jobs were added, perhaps none; a sealed one without any has ended. Comes
 * before anything may end those jobs.
 */
void batch_add(struct fsm *f, struct str id, uint32_t n);
/* A job of a batch ended for the first time. */
void batch_on_end(struct fsm *f, struct job *j, enum job_state end);
/* Nothing is added any more; 1 found, sealed before or now; 0 absent; -ERR_* */
int batch_seal(struct fsm *f, struct str id);
/*
 * Open ones go that have nothing to wait for and did not change after that
 * time: nobody seals them any more. 0 or -ERR_*.
 */
int batches_purge_open(struct fsm *f, uint64_t upto_ns, struct portion *p);
/* The event of a batch whose record is gone. */
void batch_purged(struct fsm *f, struct str id);
/* As clients see it; 1 found, 0 absent, -ERR_*. */
int batch_read(struct fsm *f, struct str id, struct m_batch *ret);

#endif
