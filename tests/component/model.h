/*
 * A naive model of the rules of jobs: arrays and linear scans, no indexes. It
 * is written from the documented rules, not from the state machine, which is
 * held against it op by op in test_fsm_model.c.
 *
 * What the rules leave open the model learns from the state machine and only
 * checks: ids of jobs the server makes, numbers of places and tokens, random
 * delays inside their bounds, the turn of groups inside a queue.
 *
 * Texts live in the model's arena until model_done.
 */
#ifndef CORVO_MODEL_H
#define CORVO_MODEL_H

#include "lib/testlib.h"

#include "proto/job.h"
#include "proto/proto.h"

#define MODEL_JOBS      1024
#define MODEL_QUEUES    16
#define MODEL_BATCHES   512
#define MODEL_HANDED    4096
#define MODEL_DEPS      8
#define MODEL_GROUPS    8
#define MODEL_KEYS      256
#define MODEL_SCHEDULES 16
#define MODEL_PRICES    4
#define MODEL_BUDGETS   32
#define MODEL_USAGES    512
#define MODEL_SCORES    12
#define MODEL_HOOKS     3
#define MODEL_WEBHOOKS  3
#define MODEL_TRIES     500 /* LIMIT_WEBHOOK_TRIES */
#define MODEL_POLICIES  4
#define MODEL_PASSED    64
#define MODEL_LINKS     8
#define MODEL_REPORTS   4096
#define MODEL_DELETED   JOB_STATE_MAX /* how a job ends that is deleted */

struct fx;

struct model_dep {
	struct str id;
	bool met;
};

/* What was used; with names, of all jobs. */
struct model_usage {
	struct str queue, model, provider;
	uint64_t count, input, output, cached, read, cost, unpriced;
};

/* Scores of one name, summed up; in millionths. */
struct model_scores {
	bool used;
	struct str name, queue, model, provider;
	uint64_t count;
	int64_t total;
};

struct model_score {
	struct str name, by;
	uint32_t iteration; /* 0: of all */
	int64_t value;
	struct model_scores *in; /* what it is counted under; NULL: no score */
};

/* Of a provider, by an ack or a fail. */
struct model_heard {
	struct str provider;
	uint64_t at, latency;
	bool failed;
};

struct model_price {
	bool used;
	struct str provider, model;
	uint64_t input, output;
};

/* Of one day, in usd. */
struct model_budget {
	bool used;
	uint32_t scope;
	struct str target;
	uint64_t amount, spent, day;
};

/* One that ended; they are kept newest first. */
struct model_iteration {
	uint32_t n, attempt;
	enum agent_status status;
	struct str hold_reason; /* or how it begins */
	struct str checkpoint;
	uint64_t at, cost, input;
	struct model_iteration *before;
};

struct model_agent {
	bool used; /* it is an agent's job */
	uint32_t iteration, max_iterations;
	uint64_t max_cost, timeout, max_tokens;
	uint64_t cost_before, input_before; /* the present iteration */
	uint32_t replays;
	struct str replay_of;
	struct model_iteration *last;
};

/* A delivery that waits for another try. */
struct model_try {
	uint64_t seq, next_at;
	uint32_t tries;
};

/* A webhook, and how far it is. */
struct model_webhook {
	bool used, enabled;
	struct str id, url, secret;
	uint32_t retry_limit;
	uint64_t disable_after, number, position, delivered, failed, lost;
	uint64_t failing_since; /* 0: it is not */
	uint64_t replay_at, replay_to, replay_id;
	uint64_t lines; /* of its log, so far */
	struct model_try tries[MODEL_TRIES];
	size_t tries_n;
};

/* An inbound webhook. */
struct model_hook {
	bool used;
	struct str name, queue, secret, previous;
	uint32_t verify;
	uint64_t created_at;
};

/* Who holds a job. */
struct model_hold {
	enum hold_kind kind;
	struct str by, policy; /* its id */
	uint64_t since, number;
	uint64_t made; /* of the policy */
	enum policy_point at;
	uint32_t iteration;
	uint64_t resume_at, deadline;
	enum on_deadline on_deadline;
	bool escalated;
};

struct model_policy {
	bool used;
	struct str name, id, tag;
	struct m_policy m;
	unsigned at; /* a bit for each point */
	uint64_t above;
	uint64_t made; /* the n-th that ever was */
};

struct model_link {
	struct str job_id, approve, reject;
	uint64_t number, until;
};

struct model_job {
	bool used;
	bool
	    unnamed; /* the server made it in this op: its id is to be learnt */
	bool parent_unknown; /* that was made and went in the same op */
	bool placed;         /* stands at the end since this op */
	bool touched;        /* by this op */
	struct str id, queue, payload, tags, parent, group;
	enum job_state state;
	uint32_t prio, attempt, max_retries, backoff;
	uint64_t base, cap;
	double jitter;
	uint64_t seq;
	uint64_t created_at, scheduled_at, started_at, completed_at, failed_at;
	uint64_t cancelled_at, ended_at, expire_at;
	uint32_t as_numbers;
	uint64_t timeout, timeout_at;
	struct str worker;
	uint64_t token, lease_ns, lease_end, fetch_id;
	bool cancel_requested;
	uint64_t delay_min, delay_max; /* of a random delay just drawn */
	struct str progress, checkpoint, result, hold_reason, last_error;
	struct str response; /* of the last attempt */
	uint32_t errors, lost_leases, log_lines;
	/* unique key; the lock is (key_queue, key) until key_until */
	struct str key, key_queue;
	uint64_t key_period, key_until;
	struct model_dep deps[MODEL_DEPS];
	size_t deps_n;
	uint32_t policy;
	struct str batch, schedule_id;
	bool counted;
	const struct m_chain *chain;
	struct str chain_id;
	int64_t step;
	bool chained;    /* what follows it was made already */
	bool exit_chain; /* its ack said so */
	/* what ended its last attempt, if that named a token */
	uint64_t spent_token;
	struct str spent_by;
	struct m_fail_reply spent_reply;
	uint64_t spent_at;
	struct str spent_error; /* of an ack that failed it */
	struct model_usage usage;
	struct str last_report, last_model, last_provider;
	struct model_score scores[MODEL_SCORES];
	struct model_agent agent;
	uint64_t
	    sdb_size; /* of Scheduled-DB: what it counts for; 0: it is not */
	struct model_hold held; /* while it is */
	bool decided;
	enum verdict verdict;
	enum decided_via via;
	struct str decided_by, comment, decided_policy;
	uint64_t decided_at;
	uint64_t passed[MODEL_PASSED];
	size_t passed_n;
	enum policy_point passed_at;
	uint32_t passed_in;
	/* Texts the payload must hold, of a job the server made. */
	struct str holds[4];
};

/* Counted by the limits that were set at that time. */
struct model_handed {
	uint64_t at;
	struct str group;
	bool by_queue, by_group;
};

struct model_queue {
	struct str name;
	bool used, paused;
	struct m_set_queue set;
	struct m_group_limit groups[MODEL_GROUPS];
	struct model_handed handed[MODEL_HANDED];
	size_t handed_n;
};

struct model_batch {
	bool used, sealed;
	struct str id, callback_queue, parent;
	struct str callback_payload;
	uint64_t total, succeeded, failed, created_at, ended_at, changed_at;
	struct model_job *callback; /* made by this op */
	struct str callback_id;
	bool callback_lost; /* deleted by the op that made it */
};

struct model_schedule {
	bool used, paused, ended, has_job;
	struct str id, name, queue, last_job_id;
	struct m_schedule_job job;
	uint32_t overlap;
	uint64_t max_runs, runs, next_run, last_run;
};

/* An enqueue that was answered under an Idempotency-Key. */
struct model_key {
	struct str key;
	uint64_t hash, expires_at;
	struct str job_id;
	bool existing, replaced;
	enum job_state status;
};

/* An end that dependents are to be told of after the op. */
struct model_ended {
	struct str id;
	enum job_state how;
};

struct model {
	struct arena arena;
	uint64_t now;
	uint64_t failed_at; /* when the last fail that was answered came */
	/* of the last ack whose result is no good, else error is empty */
	struct str ack_error;
	enum job_state ack_status;
	struct model_job jobs[MODEL_JOBS];
	size_t top; /* none is used from here on */
	struct model_queue queues[MODEL_QUEUES];
	struct model_batch batches[MODEL_BATCHES];
	struct model_key keys[MODEL_KEYS];
	struct model_schedule schedules[MODEL_SCHEDULES];
	struct model_usage usage[MODEL_USAGES];
	struct model_scores scores[MODEL_USAGES]; /* those with a count */
	struct model_heard heard[MODEL_REPORTS];
	size_t heard_n;
	struct model_price prices[MODEL_PRICES];
	struct model_budget budgets[MODEL_BUDGETS];
	struct model_hook hooks[MODEL_HOOKS];
	struct model_webhook webhooks[MODEL_WEBHOOKS];
	struct model_policy policies[MODEL_POLICIES];
	struct model_link links[MODEL_LINKS];
	uint64_t policies_made, holds_made, links_made;
	struct model_ended ended[MODEL_JOBS];
	size_t ended_n;
	uint64_t last_token, made;
	/* settings of the cluster */
	uint64_t max_queues;     /* 0: any number */
	uint64_t lease_duration; /* 0: nobody has set it */
	uint64_t retention;      /* the same */
	/* Refusals that would be right now; none: the op must succeed. */
	int errs[8];
	size_t errs_n;
};

struct model *model_new(void);
void model_done(struct model *m);

/* Before each op. */
void model_begin(struct model *m, uint64_t now);
/* The op may be refused with this. */
void model_refuse(struct model *m, int err);

/* --- looking --- */

struct model_job *model_find(struct model *m, struct str id); /* or NULL */
struct model_queue *model_queue(struct model *m, struct str name);
bool model_has_queue(const struct model *m, struct str name);
/* Those of them that are not there may be made; else the op is refused. */
bool model_may_name(struct model *m, const struct str *names, size_t n);
struct model_batch *model_find_batch(struct model *m, struct str id);
struct model_job *model_lock_holder(struct model *m, struct str queue,
				    struct str key);
bool model_is_waiting(const struct model_job *j); /* not active, not ended */
uint32_t model_unmet(const struct model_job *j);
size_t model_active(struct model *m, struct str queue, const struct str *group);
#define MODEL_EACH(m, j)                                                     \
	for (struct model_job *j = (m)->jobs; j < (m)->jobs + (m)->top; j++) \
		if (j->used)

/* How many more may wait in it. */
uint64_t model_room(struct model *m, struct str queue);

/* --- the life of a job (model.c) --- */

struct str model_copy(struct model *m, struct str s);
struct model_job *model_add(struct model *m);
/* Of tags whose names and values are simple, and no name ends another. */
struct str model_tag(struct str tags, struct str name);
void model_to_pending(struct model *m, struct model_job *j);
/* The last it waited for is done: it may have a time of its own. */
void model_release(struct model *m, struct model_job *j);
void model_end(struct model *m, struct model_job *j, enum job_state how);
void model_error(struct model *m, struct model_job *j, struct str text);
void model_expire_job(struct model *m, struct model_job *j);
uint32_t model_attempts_left(const struct model_job *j);
/* Leaves the hands of its worker. */
void model_leave(struct model_job *j);
/* After an error; the delay may be given. */
void model_retry_or_die(struct model *m, struct model_job *j,
			const uint64_t *delay);
/* It may have ended. */
void model_batch_look(struct model *m, struct model_batch *b);
/* After each op: tells those that wait for what ended in it. */
void model_settle(struct model *m);
void model_chain_end(struct model *m, struct model_job *j, enum job_state how);
/* Retry rules, group and the like of a new job that names none. */
void model_defaults(struct model *m, struct model_job *j, unsigned named);

/* --- ops: each sets m->errs, or changes the model --- */

/* ids: of the jobs as the reply must name them; new: they were created. */
struct model_made {
	struct str id;
	bool existing, replaced;
	enum job_state status;
};

void model_enqueue(struct model *m, const struct m_enqueue *ops, size_t n,
		   struct str batch_id, const struct m_batch_options *batch,
		   struct model_made *ret);
/* True: the request was answered before under its key, with *ret. */
bool model_replay(struct model *m, const struct m_enqueue *op,
		  struct model_made *ret);
void model_keep(struct model *m, const struct m_enqueue *op,
		const struct model_made *made);
void model_open_batch(struct model *m, const struct m_open_batch *op);
void model_seal_batch(struct model *m, const struct m_batch_ref *op);
/* Sets ack_error and ack_status. */
void model_ack(struct model *m, const struct m_ack *op, int not_found);
void model_fail(struct model *m, const struct m_fail *op,
		struct m_fail_reply *ret);
void model_beat(struct model *m, struct str worker, const struct m_beat *b,
		struct m_beat_reply *ret);
void model_renew(struct model *m, const struct m_renewal *r);
const char *model_job_op(struct model *m, enum op_id op, struct str id);
void model_move(struct model *m, const struct m_move *op);
void model_priority(struct model *m, const struct m_set_priority *op);
void model_hold(struct model *m, const struct m_hold *op);
void model_reject(struct model *m, const struct m_hold *op);
void model_pause(struct model *m, struct str queue, bool paused);
void model_set_queue(struct model *m, const struct m_set_queue *op);
uint32_t model_clear(struct model *m, struct str queue);
/* Dependents are told after each of the portions. */
uint32_t model_delete_queue(struct model *m, struct str queue,
			    uint32_t portions);
uint32_t model_promote(struct model *m);
uint32_t model_reclaim(struct model *m);
uint32_t model_expire(struct model *m);
void model_purge(struct model *m, uint64_t retention);

/* --- schedules (model_schedule.c); each answers the status --- */

struct model_schedule *model_find_schedule(struct model *m, struct str id);
void model_set_schedule(struct model *m, const struct m_schedule *op);
void model_delete_schedule(struct model *m, struct str id);
void model_pause_schedule(struct model *m, const struct m_pause_schedule *op);
const char *model_run_schedule(struct model *m, const struct m_fire *op);
const char *model_fire(struct model *m, const struct m_fire *op, bool is_void);

/* --- policies, holds and decisions (model_policy.c) --- */

void model_set_policy(struct model *m, const struct m_policy *op);
void model_learn_policy(struct model *m, const struct m_policy *reply);
void model_delete_policy(struct model *m, struct str name);
/* Some policy would hold it there. */
bool model_policy_fits(struct model *m, const struct model_job *j,
		       enum policy_point at);
/* The same, and it is held. */
bool model_policy_hold(struct model *m, struct model_job *j,
		       enum policy_point at);
/* It has another payload. */
void model_policy_replace(struct model *m, struct model_job *j);
void model_fetch_holds(struct model *m, const struct m_fetch *op, struct fx *x);
void model_held_by(struct model *m, struct model_job *j, enum hold_kind kind,
		   struct str by, struct str reason);
void model_decide(struct model *m, struct model_job *j, enum verdict verdict,
		  enum decided_via via, struct str by, struct str comment);
/* What a client is told. */
const char *model_approve_held(struct model *m, struct model_job *j,
			       enum decided_via via, struct str by,
			       struct str comment);
void model_reject_held(struct model *m, struct model_job *j,
		       enum decided_via via, struct str by, struct str comment);
uint32_t model_deadline(struct model *m);
/* NULL: it is refused. */
struct model_link *model_make_links(struct model *m, struct str job_id,
				    uint64_t good_for);
const char *model_decide_by_link(struct model *m, const struct model_link *l,
				 bool approve, struct str comment);
void model_compare_hold(const struct model_job *j, const struct m_job *r);
void model_compare_policies(struct model *m, struct fx *x);

/* --- usage (model_usage.c) --- */

void model_set_price(struct model *m, const struct m_price *op);
void model_delete_price(struct model *m, const struct m_price_ref *op);
/* A report of the job's worker; NULL: there is none. */
void model_report(struct model *m, struct model_job *j,
		  const struct m_usage *u);
/* For telling requests apart. */
void model_usage_said(struct buf *b, const struct m_usage *u);

/* --- scores (model_score.c) --- */

void model_score(struct model *m, const struct m_score *op);
void model_compare_scores(struct model *m, struct fx *x);

/* --- providers (model_provider.c) --- */

void model_heard(struct model *m, struct str provider, bool failed,
		 uint64_t latency);
void model_compare_providers(struct model *m, struct fx *x);

/* --- budgets (model_budget.c) --- */

void model_set_budget(struct model *m, const struct m_budget *op);
void model_delete_budget(struct model *m, const struct m_budget_ref *op);
void model_spend(struct model *m, const struct model_job *j, uint64_t cost);

/* --- agents (model_agent.c) --- */

/* a NULL: it is no agent's. */
void model_agent_create(struct model_job *j, const struct m_agent *a);
/* Else it is refused. */
bool model_agent_fits(struct model *m, const struct model_job *j,
		      const struct m_ack *op);
/* The attempt ends with it. True: the job goes on or is held; else its end is
 * the caller's. */
bool model_agent_turn(struct model *m, struct model_job *j,
		      const struct m_ack *op);
/* It is run again by hand. */
void model_agent_rerun(struct model_job *j);
/* Those that have ended, and the one a worker has been at. */
uint32_t model_iterations(const struct model_job *j);
uint64_t model_agent_timeout(const struct model_job *j); /* 0: none */
const char *model_approve(struct model *m, const struct m_approve *op);
void model_replay_agent(struct model *m, const struct m_replay *op);

/* --- fetch (model_fetch.c): is this a right answer? --- */

void model_fetch(struct model *m, const struct m_fetch *op,
		 const struct m_fetch_reply *r);
/* It was sent again: the same jobs, under other tokens and from now on. */
void model_fetch_again(struct model *m, const struct m_fetch *op,
		       const struct m_fetch_reply *r);
/* The limits of no queue are between two slots of its counters. */
bool model_rates_are_clear(struct model *m);

/* --- against the state machine (model_compare.c) --- */

/* As stored; false: there is none. */
bool model_read_schedule(struct fx *x, struct str id, struct m_schedule *ret);
/* The job that is being compared, for reports. */
extern struct str model_suspect;
/* Learns what the rules leave open, then compares what the op touched. */
void model_compare(struct model *m, struct fx *x, bool all);
void model_compare_job_usage(const struct model_job *j, const struct m_job *r);
void model_compare_agent(const struct model_job *j, const struct m_job *r,
			 struct fx *x);
/* The sums of all. */
void model_compare_usage(struct model *m, struct fx *x);
void model_compare_budgets(struct model *m, struct fx *x);
void model_compare_hooks(struct model *m, struct fx *x);
void model_compare_sdb(struct model *m, struct fx *x);
void model_compare_webhooks(struct model *m, struct fx *x);

#endif
