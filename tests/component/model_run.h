/*
 * A run of test_fsm_model.c: makes random operations and gives each to the
 * state machine and to the model.
 */
#ifndef CORVO_MODEL_RUN_H
#define CORVO_MODEL_RUN_H

#include "fsm_fixture.h"
#include "model.h"

#define RUN_LOG 4000 /* ops remembered for a report */

struct run_line {
	char *text; /* own memory */
};

struct run {
	struct rng rng;
	struct fx *x;
	struct model *m;
	uint64_t op; /* number of the present one */
	uint64_t ids, batches, fetches;
	uint64_t accepted, refused, resent;
	bool done;
	struct arena arena; /* of the op being made */
	struct buf last;    /* request of the last op, if it may be resent */
	enum op_id last_op;
	struct run_line log[RUN_LOG];
};

/* One operation, with the comparison of its replies. */
void run_step(struct run *n);
/*
 * Now and then: the answer got lost and the request comes again. It must be
 * accepted and change nothing, which the caller compares. Jobs of a fetch have
 * other tokens afterwards.
 */
bool run_resend(struct run *n);
/* What failed, how to repeat it, and what led to it. */
void run_report(const struct run *n);
void run_summary(const struct run *n);
void run_done(struct run *n);

/* --- shared by model_run.c and model_gen.c --- */

/*
 * Applies it to the state machine and compares the refusal with what the
 * model says (it has been asked before). True: it was accepted, *reply is set.
 */
bool run_do(struct run *n, enum op_id op, const void *request, void *reply);
/* Without the model's opinion: of what it judges by the answer. */
void run_must(struct run *n, enum op_id op, const void *request, void *reply);

typedef void run_fn(struct run *n);
struct run_kind {
	unsigned weight;
	run_fn *fn;
};
extern const struct run_kind run_kinds[];
extern const size_t run_kinds_n;

bool run_chance(struct run *n, unsigned percent);
uint64_t run_below(struct run *n, uint64_t upto);
/* The id of some job, mostly of one that is there. */
struct str run_job(struct run *n);
struct str run_queue(struct run *n);

/* Makes a job; without its id's use in a batch of n. */
void run_fill_job(struct run *n, struct m_enqueue *op, size_t batch_n);
run_fn run_enqueue, run_enqueue_batch, run_open_batch, run_seal_batch;
run_fn run_pause, run_set_queue, run_clear, run_limits;
run_fn run_schedule, run_bulk, run_price, run_budget, run_score;
run_fn run_approve, run_replay;
void run_fill_agent(struct run *n, struct m_enqueue *op);
/* What an ack says of an agent's loop. */
void run_fill_turn(struct run *n, struct m_ack *op);
run_fn run_hook, run_sdb, run_webhook, run_policy, run_link;
/* What a worker may have used; NULL: it says nothing. */
struct m_usage *run_usage(struct run *n);

#endif
