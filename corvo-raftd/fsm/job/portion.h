/*
 * Jobs deleted in bounded portions.
 */
#ifndef CORVO_FSM_JOB_PORTION_H
#define CORVO_FSM_JOB_PORTION_H

#include "fsm/job/job.h"

/* What one entry may do. Zeroed but for max, nothing is done yet. */
struct portion {
	uint32_t jobs, max;      /* deleted, and how many may be */
	uint32_t looked_at;      /* keys, deleted or not */
	uint64_t records, bytes; /* that went with them */
};

bool portion_is_full(const struct portion *p);
/* A job was looked at; with_records: and deleted with all it has. */
void portion_count(struct portion *p, const struct job *j, bool with_records);

/*
 * Deletes the job, unless its place in the queue is after upto_seq (0: in any
 * case). 0 or -ERR_*.
 */
int portion_delete(struct fsm *f, struct portion *p, struct str id,
		   uint64_t upto_seq, enum event_type type);

#endif
