/*
 * What the parts of the checks of a store share. Keys come without their kind.
 */
#ifndef CORVO_FSM_CHECK_H
#define CORVO_FSM_CHECK_H

#include "fsm/core/state.h"
#include "fsm/order/bounds.h"
#include "fsm/order/lane.h"
#include "fsm_check_lane.h"
#include "fsm_fixture.h"

struct tally {
	uint64_t counts[JOB_STATE_MAX];
	bool seen[BOUNDS]; /* a job of the kind */
};

struct check {
	struct kv *kv;
	struct fsm *f;
	uint64_t latest_ns; /* 0: not known */
	uint64_t back_ns;   /* that the clock was set back */
	struct arena arena;
	struct hmap queues; /* name -> struct tally */
	struct lane_check lanes;
	uint64_t jobs[JOB_STATE_MAX];
	uint64_t expiring; /* jobs that should have an x| key */
	uint64_t keys_a, keys_s, keys_r, keys_x, keys_qs, keys_w, keys_mb;
	uint64_t keys_h, keys_hd, keys_bl, keys_t, keys_ik, keys_ie;
	uint64_t deadlines; /* of held jobs, to come */
	uint64_t capped;    /* queues with max_backlog */
	uint64_t pushed;    /* push queues */
	uint64_t timeouts;  /* active jobs whose attempt has an end */
	uint64_t given;     /* active jobs of a fetch that can be sent again */
	uint64_t keys_d, keys_dr;
	struct hmap waiting; /* id -> struct tally: d| keys of a child */
	uint64_t linked;     /* d| keys that jobs account for */
	uint64_t events, last_event;
	struct str *by_seq; /* encoded events from first_seq on, once read */
	uint64_t first_seq;
	uint64_t first_s, first_x;
	uint64_t errors; /* of the job whose je| keys are being read */
	struct str errors_of;
	uint64_t answer_bytes;     /* of an| records */
	uint64_t lines, lines_due; /* l| keys, and those jobs should have */
	/* it| keys, and those jobs should have; cp| keys, and those in use */
	uint64_t iterations, iterations_due, checkpoints, checkpoints_due;
};

/* Nothing is counted from a time that is yet to come. */
static inline bool check_moved_all(const struct check *c)
{
	return c->latest_ns != 0 && !c->f->clock.open;
}

bool check_has_key(struct check *c, const struct key *k);
bool check_read_msg(struct check *c, const struct key *k,
		    const struct msg_desc *d, void *ret);
struct tally *tally_of(struct check *c, struct str queue);
/* Also of a job that is as it was created. */
void check_read_live(struct check *c, struct str id, const struct m_job_doc *d,
		     struct m_job_live *ret);

/* --- fsm_check_agent.c --- */

/* What a job should have under it| and cp|. */
void check_agent(struct check *c, struct str id, const struct m_job_doc *d,
		 const struct m_job_live *l);
/* One of them, with its kind. */
void check_agent_key(struct check *c, struct str key, struct str value);
/* There is nothing else. */
void check_agents_end(const struct check *c);

/* --- fsm_check_policy.c --- */

/* A held job has the key of its deadline. */
void check_deadline(struct check *c, struct str id, const struct m_job_live *l);

/* --- fsm_check_ties.c --- */

void check_member(struct check *c, struct str key, struct str value);
void check_dependent(struct check *c, struct str key);
void check_release(struct check *c, struct str key);
void check_releases_end(struct check *c);
void check_waiting(struct check *c, struct str id, const struct m_job_live *l);
void check_holds_key(struct check *c, struct str id, const struct m_job_doc *d);
void check_lock(struct check *c, struct str key, struct str value);
void check_kept_answer(struct check *c, struct str key, struct str value);
void check_answer_end(struct check *c, struct str key);

#endif
