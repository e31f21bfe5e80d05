/*
 * Chains: jobs that follow one another. Every job of a chain carries the whole
 * chain and its own place in it, so the end of one is all it takes to make the
 * next: there is no record of the chain itself.
 *
 * The parts of a chain come from clients and were checked as JSON; results and
 * errors come from workers. All slices live in the item's arena.
 */
#include "fsm/ties/chain.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/create.h"
#include "fsm/job/job.h"
#include "fsm/order/queue.h"
#include "fsm/ties/payload.h"

#define STEPS_MIN       2
#define STEP_ON_EXIT    (-1)
#define STEP_ON_FAILURE (-2)

/* --- checks --- */

static int check_step(struct fsm *f, const struct m_chain_step *s)
{
	if (s == NULL || queue_name_fits(s->queue))
		return 0;
	return fsm_refuse(f, ERR_VALIDATION_ERROR,
			  "chain: the queue of a step must have 1 to %d bytes",
			  LIMIT_QUEUE_NAME_BYTES);
}

int chain_check(struct fsm *f, const struct m_enqueue *op)
{
	const struct m_chain *c = op->chain;
	size_t bytes = chain_bytes(c);
	int r;

	if (c->steps_n < STEPS_MIN || c->steps_n > LIMIT_CHAIN_STEPS)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "chain.steps: must have %d to %d steps",
				  STEPS_MIN, LIMIT_CHAIN_STEPS);
	if (!str_eq(c->steps[0].queue, op->queue))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "chain.steps[0].queue: must be the queue of "
				  "the job, \"%.*s\"",
				  STR_ARG(op->queue));
	if (bytes > LIMIT_CHAIN_BYTES)
		return fsm_refuse(f, ERR_PAYLOAD_TOO_LARGE,
				  "chain too large: payloads and tags of its "
				  "steps have %zu bytes together (max %u)",
				  bytes, LIMIT_CHAIN_BYTES);
	r = check_step(f, c->on_failure);
	if (r == 0)
		r = check_step(f, c->on_exit);
	for (size_t i = 0; r == 0 && i < c->steps_n; i++)
		r = check_step(f, &c->steps[i]);
	return r;
}

/* --- what a job hands over --- */

/* The member's name is written, unless the step itself has that member. */
static bool put_key(struct fsm *f, struct json_writer *w,
		    const struct m_chain_step *s, const char *name)
{
	if (payload_has(f, s->payload, name))
		return false;
	jw_key(w, name);
	return true;
}

static void put_previous(struct fsm *f, const struct job *j,
			 const struct m_chain_step *s, struct json_writer *w)
{
	if (put_key(f, w, s, "previous_job_id"))
		jw_str(w, j->id);
	if (MSG_HAS(&j->live, job_live, result) &&
	    put_key(f, w, s, "previous_result"))
		jw_raw(w, j->live.result);
}

/* Text of the newest error; empty when the job has none. */
static struct str last_error(struct fsm *f, const struct job *j)
{
	struct m_job_error e;
	struct key k;

	if (j->live.errors == 0)
		return STR("");
	key_error(&k, j->id, j->live.errors);
	return fsm_read(f, &k, &msg_job_error, &e) > 0 ? e.error : STR("");
}

static void put_failure(struct fsm *f, const struct job *j,
			const struct m_chain_step *s, struct json_writer *w)
{
	if (put_key(f, w, s, "failed_job_id"))
		jw_str(w, j->id);
	if (put_key(f, w, s, "failed_step"))
		jw_i64(w, j->doc.chain_step);
	if (put_key(f, w, s, "error"))
		jw_str(w, last_error(f, j));
}

/* --- the job that follows --- */

/* What the step does not say is as in the job before. */
#define INHERIT(member)                                               \
	do {                                                          \
		if (MSG_HAS(s, chain_step, member))                   \
			MSG_SET(ret, enqueue, member, s->member);     \
		else if (MSG_HAS(&j->doc, job_doc, member))           \
			MSG_SET(ret, enqueue, member, j->doc.member); \
	} while (0)

static void inherit(const struct job *j, const struct m_chain_step *s,
		    struct m_enqueue *ret)
{
	/* Also when that is none: the queue's would take its place. */
	MSG_SET(ret, enqueue, retry_jitter,
		MSG_HAS(s, chain_step, retry_jitter) ? s->retry_jitter
						     : j->doc.retry_jitter);
	MSG_SET(ret, enqueue, priority,
		MSG_HAS(s, chain_step, priority) ? s->priority : j->prio);
	INHERIT(tags);
	INHERIT(max_retries);
	INHERIT(retry_backoff);
	INHERIT(retry_base_delay);
	INHERIT(retry_max_delay);
	INHERIT(timeout);
	INHERIT(group);
}

/* Makes the job of the step, or nothing when there is none; returns its id. */
static struct str make_next(struct fsm *f, const struct job *j,
			    const struct m_chain_step *s, int64_t number)
{
	struct json_writer w = JSON_WRITER(&f->payload);
	struct m_enqueue op = { 0 };
	struct new_job n = { .op = &op, .chain_step = number };
	struct m_enqueue_reply reply = { 0 };

	if (s == NULL)
		return STR_NULL;
	buf_clear(&f->payload);
	jw_object(&w);
	if (number == STEP_ON_FAILURE)
		put_failure(f, j, s, &w);
	else
		put_previous(f, j, s, &w);
	(void)payload_put_members(f, &w, s->payload, NULL);
	jw_object_end(&w);
	inherit(j, s, &op);
	MSG_SET(&op, enqueue, job_id, fsm_make_id(f, "job_"));
	MSG_SET(&op, enqueue, queue, s->queue);
	MSG_SET(&op, enqueue, payload, buf_str(&f->payload));
	if (s->delay > 0)
		MSG_SET(&op, enqueue, delay, s->delay);
	MSG_SET(&op, enqueue, parent_id, j->id);
	MSG_SET(&op, enqueue, chain_id, j->doc.chain_id);
	MSG_SET(&op, enqueue, chain, j->doc.chain);
	job_create(f, &n, &reply);
	return op.job_id;
}

/* --- the end of a step --- */

/* next: the job made, if any; why: how the chain ended, NULL: it goes on. */
static void tell(struct fsm *f, struct job *j, struct str next, int64_t number,
		 const char *why)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "chain_id");
	jw_str(&w, j->doc.chain_id);
	if (why != NULL) {
		jw_key(&w, "reason");
		jw_cstr(&w, why);
	}
	if (next.n > 0) {
		jw_key(&w, "next_job_id");
		jw_str(&w, next);
		jw_key(&w, "step");
		jw_i64(&w, number);
	}
	jw_object_end(&w);
	job_event(f, j, why != NULL ? EVENT_CHAIN_ENDED : EVENT_CHAIN_STEP,
		  buf_str(&f->data));
}

static const char *end_text(const struct job *j, enum job_state end)
{
	if (end == JOB_COMPLETED)
		return j->exit_chain ? "exit" : "completed";
	if (end == JOB_DEAD)
		return "failed";
	return end == JOB_CANCELLED ? "cancelled" : "deleted";
}

/*
 * A step that is retried by hand and ends again does not run what follows it a
 * second time. One that died has nothing behind it yet, unless the chain shall
 * continue: its chain goes on when it completes after all.
 */
void chain_on_end(struct fsm *f, struct job *j, enum job_state end)
{
	const struct m_chain *c;
	int64_t next;
	bool goes_on;

	if (j->live.chained || job_need_doc(f, j) < 0 || j->doc.chain_step < 0)
		return;
	c = j->doc.chain;
	MUST(f, c != NULL && (size_t)j->doc.chain_step < c->steps_n);
	next = j->doc.chain_step + 1;
	goes_on = end == JOB_DEAD && c->after_failure == AFTER_FAILURE_CONTINUE;
	if (end == JOB_DEAD && !goes_on) {
		tell(f, j, make_next(f, j, c->on_failure, STEP_ON_FAILURE),
		     STEP_ON_FAILURE, "failed");
		return;
	}
	MSG_SET(&j->live, job_live, chained, true);
	goes_on = goes_on || (end == JOB_COMPLETED && !j->exit_chain);
	if (goes_on && (size_t)next < c->steps_n) {
		tell(f, j, make_next(f, j, &c->steps[next], next), next, NULL);
		return;
	}
	tell(f, j, make_next(f, j, c->on_exit, STEP_ON_EXIT), STEP_ON_EXIT,
	     end_text(j, end));
}
