/*
 * Signed links: whoever has one may decide about one held job, until somebody
 * has, or the link expires. A link is what it says and a signature of that
 * (HMAC-SHA256); nothing is kept of it, for it is good for one hold of the job
 * only, and a decision ends that.
 */
#ifndef CORVO_FSM_TIES_LINK_H
#define CORVO_FSM_TIES_LINK_H

#include "fsm/job/job.h"

/* The number of a held job's hold; of one held by a node of level 1: 0. */
static inline uint64_t link_number(const struct job *j)
{
	return j->live.held != NULL ? j->live.held->number : 0;
}

/* The text of a link, in the item's arena. The secret is made of the salt and
 * the entry's own randomness when there is none yet. 0 or -ERR_*. */
int link_make(struct fsm *f, struct str salt, const struct m_link_claim *c,
	      struct str *ret);

/*
 * The held job a link is about, by then. Refused with LINK_ERROR: it was not
 * made here; LINK_OVER: it has expired, or the job is not held as it was.
 */
int link_open(struct fsm *f, struct str token, uint64_t now_ns,
	      struct m_link_claim *ret, struct job *ret_job);

#endif
