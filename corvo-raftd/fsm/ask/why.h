/*
 * Inside the answer to "why is it waiting": what its files share. Reads only;
 * everything is put into the caller's arena.
 */
#ifndef CORVO_FSM_WHY_H
#define CORVO_FSM_WHY_H

#include "fsm/job/job.h"

#define WHY_SHOWN 10 /* most jobs or workers named in one reason */

struct why {
	struct fsm *f;
	struct job *j;
	uint64_t now_ns;
	struct arena *a;
	struct m_reason *reasons;
	size_t n;
	struct buf text; /* of the reason being made */
};

/* Ends a reason whose text is in w->text. */
struct m_reason *why_add(struct why *w, const char *code);
/* " at T (in D)", and w's reason changes then. */
void why_put_moment(struct why *w, uint64_t ns);

/* --- ask/why_limits.c --- */

/* Limits of the queue and of the job's group that are reached. */
int why_limits(struct why *w);
/* Of a job that a budget has set aside. */
int why_aside(struct why *w);
/* Jobs handed out before this one. */
int why_ahead(struct why *w);

/* --- ask/why_push.c --- */

/* Of a push queue: what keeps its calls back; s: as sched tells, or NULL. */
void why_push(struct why *w, const struct m_push_state *s);

#endif
