/*
 * Approval policies: jobs that are held, at their enqueue, at a fetch or when
 * an agent's loop goes on, until somebody approves them.
 *
 * All of them are in memory, in the order they are asked in. There are few, and
 * together they look at few places of a payload, so that what a job costs is
 * bounded; it is weighed too. Where there is no policy of a point, nothing is
 * asked there.
 *
 * Each policy that is for a job wants an approval of its own. One that was
 * given counts at its point, in its iteration: it does not hold the job there
 * again.
 */
#ifndef CORVO_FSM_TIES_POLICY_H
#define CORVO_FSM_TIES_POLICY_H

#include "fsm/job/job.h"
#include "jq/policy.h"

struct fsm_policy {
	struct policy p;
	struct arena arena;
};

int policies_load(struct fsm *f);
void policies_free(struct fsm *f);

/* By id or by name; NULL: there is none. */
struct fsm_policy *policy_find(const struct fsm *f, struct str ref);
struct fsm_policy *policy_find_name(const struct fsm *f, struct str name);
/* Creates it, or puts it in the place of that with its id. */
void policy_save(struct fsm *f, const struct m_policy *m);
void policy_remove(struct fsm *f, struct fsm_policy *p);

/* 1: one of them holds the job there, *ret says how; 0: none; -ERR_*. */
int policy_ask(struct fsm *f, struct job *j, enum policy_point at,
	       struct hold *ret);
/* The same, and it is held. */
int policy_hold(struct fsm *f, struct job *j, enum policy_point at);

/*
 * A request may bring many jobs, and is carried out as a whole. Once enough was
 * looked at for it, those that are left are asked for when they are fetched.
 * Says so in the doc of one that is about to be put.
 */
void policy_put_off(const struct fsm *f, struct m_job_doc *d);
/* As policy_hold, of one that is about to be handed out, with its doc. */
int policy_hold_at_fetch(struct fsm *f, struct job *j);

/* For job_hooks. */
bool policy_on_create(struct fsm *f, struct str id, const struct m_job_doc *d);
/* A waiting job has got another payload: what was approved was the old one. */
void policy_on_replace(struct fsm *f, struct job *j);

/* A held job is approved: it goes on, or the next policy holds it. 0 or
 * -ERR_*. */
int policy_approve(struct fsm *f, struct job *j, const struct ruling *r);

#endif
