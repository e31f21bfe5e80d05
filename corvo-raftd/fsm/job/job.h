/*
 * One job: finding it, moving it between states with everything that hangs on
 * its state, recording what happened to it.
 */
#ifndef CORVO_FSM_JOB_JOB_H
#define CORVO_FSM_JOB_JOB_H

#include "fsm/core/entry.h"
#include "fsm/job/active.h"
#include "fsm/order/queue.h"

/* What hangs on a job beside its queue; without any its end is cheap. */
enum job_extra {
	EXTRA_UNIQUE = 1,    /* doc: unique_key */
	EXTRA_BATCH = 2,     /* doc: batch_id */
	EXTRA_CHAIN = 4,     /* doc: chain */
	EXTRA_EXPECTED = 16, /* doc: expected_cost, expected */
	EXTRA_AGENT = 32,    /* doc: agent */
	EXTRA_APART = 64,    /* doc: checkpoint_apart */
	EXTRA_SDB = 128,     /* doc: scheduled_db */
};

/*
 * A job being changed. Slices live in the item's arena. The doc is read only
 * when needed: an active job is known well enough without it.
 */
struct job {
	struct str id;
	struct fsm_queue *q;
	struct str group; /* of its lane; empty: none */
	uint8_t prio;
	uint8_t extras;  /* enum job_extra */
	bool exit_chain; /* its ack said step_status exit */
	uint32_t max_retries;
	uint64_t expire_at; /* 0: never, or no more */
	bool has_doc;
	struct m_job_doc doc;
	struct m_job_live live;
	struct fsm_active *active; /* while it is active */
	bool taken;                /* off its window already */
};

/*
 * What hangs on jobs hears of them through these: the floors above set them,
 * so that a job knows nothing of what is tied to it.
 */
struct job_hooks {
	/* It ended. JOB_STATE_MAX: it is deleted before its end. */
	void (*ended)(struct fsm *f, struct job *j, enum job_state end);
	/* An error was recorded. */
	void (*failed)(struct fsm *f, const struct job *j);
	/* One that says what it will cost comes into a worker's hands, with its
	 * token, or leaves them: 1, -1. */
	void (*handed)(struct fsm *f, struct job *j, int change);
	/* One was created, and they are to be asked now: true, it is held. */
	bool (*created)(struct fsm *f, struct str id,
			const struct m_job_doc *d);
	/* One is about to be created while there are policies of that. */
	void (*creating)(const struct fsm *f, struct m_job_doc *d);
};

/* 1 found, 0 absent (also for an impossible id), -ERR_*. */
int job_find(struct fsm *f, struct str id, struct job *ret);
/* The same for a job known to have no live record; its doc, or empty. */
int job_find_as_created(struct fsm *f, struct str id, struct str doc,
			struct job *ret);
int job_need_doc(struct fsm *f, struct job *j); /* 0 or -ERR_* */
/* The live record a job without one would have. */
void job_live_as_created(const struct m_job_doc *d, struct m_job_live *ret);
/* Fills what follows from doc and live: queue, priority, expiry, extras. */
void job_compose(struct fsm *f, struct job *j);

/*
 * Moves the job: indexes, counts, windows, leases, expiry. Of a job that is
 * to be scheduled or retrying, live.scheduled_at is set before.
 */
void job_move(struct fsm *f, struct job *j, enum job_state to);
/*
 * Gives it another place without a change of state: queue, priority, seq. The
 * live record keeps what differs from its creation.
 */
void job_relink(struct fsm *f, struct job *j, struct fsm_queue *q, uint8_t prio,
		uint64_t seq);
/* Keys of a held job, with that of its deadline. */
void job_enter_held(struct fsm *f, const struct job *j);
void job_leave_held(struct fsm *f, const struct job *j);
/* The doc of a waiting job was changed: writes it. The caller saves. */
void job_rewrite(struct fsm *f, struct job *j);
/* Gives a scheduled job another time. The caller saves. */
void job_reschedule(struct fsm *f, struct job *j, uint64_t ns);
/*
 * Deletes it with everything that hangs on it: what waits for it is told, its
 * batch counts it, its chain ends. type: EVENT_DELETED or EVENT_PURGED.
 */
void job_delete(struct fsm *f, struct job *j, enum event_type type);
/* Writes the live record; the last step of every change. */
void job_save(struct fsm *f, struct job *j);
uint64_t job_event(struct fsm *f, struct job *j, enum event_type type,
		   struct str data);
void job_record_error(struct fsm *f, struct job *j, struct str error,
		      struct str backtrace);

/* Ends of a life that several operations share; they also save. */
void job_end_cancelled(struct fsm *f, struct job *j);
/* The same of an active job whose attempt ends with that error. */
void job_abort(struct fsm *f, struct job *j, struct str error);
void job_end_dead(struct fsm *f, struct job *j, const char *reason);
void job_end_expired(struct fsm *f, struct job *j);
void job_back_to_pending(struct fsm *f, struct job *j);
/*
 * The attempt of an active job failed, the error is recorded: to retrying,
 * pending or, without attempts left, dead. retry_after: NULL, or the delay
 * instead of the job's own. 0 or -ERR_*.
 */
int job_retry_or_die(struct fsm *f, struct job *j, const uint64_t *retry_after,
		     const char *reason);

/* Who holds a job, and what for. */
struct hold {
	enum hold_kind kind;
	struct str by, reason; /* empty: not said */
	/* of a policy */
	struct str policy; /* its id */
	enum policy_point at;
	uint32_t iteration;
	uint64_t deadline; /* 0: none */
	enum on_deadline on_deadline;
	bool keeps_time; /* once approved it waits for its time again */
};

/* What is decided about a held job. */
struct ruling {
	enum decided_via via;
	struct str by, comment; /* empty: not said */
};

/*
 * Takes it out of the order until it is approved. An active job's worker loses
 * its lease.
 */
void job_hold(struct fsm *f, struct job *j, const struct hold *h);
/* A pending job waits until then, for a budget; by is its id. It comes back as
 * one that was scheduled, to its place. */
void job_set_aside(struct fsm *f, struct job *j, const struct hold *h,
		   uint64_t until);
/* A held job was approved, and is held by another one now. */
void job_hold_on(struct fsm *f, struct job *j, const struct hold *h);
/* The decision stays with the job, and so do policies that it has passed. */
void job_decide(struct fsm *f, struct job *j, enum verdict decision,
		const struct ruling *v);
void job_tell_approved(struct fsm *f, struct job *j);
/* Tells of it, and puts it back to its place; one that still waits for other
 * jobs or for its time goes on waiting. */
void job_approve(struct fsm *f, struct job *j);
/* Ends a held job. */
void job_reject(struct fsm *f, struct job *j, struct str reason,
		const struct ruling *v);
/* Its deadline has passed: that is told, once. */
void job_escalate(struct fsm *f, struct job *j);

static inline bool job_is_expired(const struct fsm *f, const struct job *j)
{
	return j->expire_at != 0 && j->expire_at <= f->now_ns;
}

#endif
