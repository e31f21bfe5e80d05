/*
 * Agents' loops: iterations, limits, replays. See model.h.
 */
#include "fsm_fixture.h"
#include "model.h"

#define TOKENS "{\"tokens\":"

/* --- what holds a loop --- */

static uint64_t tokens_of(const struct model_job *j)
{
	return j->usage.input + j->usage.output + j->usage.cached +
	       j->usage.read;
}

/* The name of the limit that is reached, or NULL. */
static const char *limit_reached(const struct model_job *j)
{
	const struct model_agent *a = &j->agent;

	if (a->max_iterations > 0 && a->iteration + 1 > a->max_iterations)
		return "max_iterations exceeded (";
	if (a->max_cost > 0 && j->usage.cost > a->max_cost)
		return "max_cost_usd exceeded (";
	if (tokens_of(j) > a->max_tokens)
		return "limits.tokens exceeded (";
	return NULL;
}

/* The only limit of other units these jobs have is {"tokens":N}; one that is
 * named is a limit also if it is 0. */
static uint64_t tokens_limit(struct str limits)
{
	struct str number;
	uint64_t n = 0;

	if (limits.n == 0)
		return UINT64_MAX;
	number = str_skip(limits, sizeof(TOKENS) - 1);
	assert_true(str_parse_u64(str_of(number.p, number.n - 1), &n));
	return n;
}

void model_agent_create(struct model_job *j, const struct m_agent *a)
{
	if (a == NULL)
		return;
	j->agent = (struct model_agent){
		.used = true,
		.iteration = 1,
		.max_iterations = a->max_iterations,
		.max_cost =
		    MSG_HAS(a, agent, max_cost) ? a->max_cost : a->max_cost_usd,
		.timeout = a->iteration_timeout,
		.max_tokens = tokens_limit(a->limits),
	};
}

/* --- acks --- */

static const char policy_matched[] = "approval policy matched: p";

static enum agent_status status_of(const struct m_ack *op)
{
	return MSG_HAS(op, ack, agent_status) ? op->agent_status
					      : op->ack_status;
}

bool model_agent_fits(struct model *m, const struct model_job *j,
		      const struct m_ack *op)
{
	enum agent_status s = status_of(op);
	bool by_ack_status = !MSG_HAS(op, ack, agent_status);

	if (j->agent.used || s == AGENT_DONE ||
	    (s == AGENT_HOLD && by_ack_status))
		return true;
	model_refuse(m, ERR_ACK_ERROR);
	return false;
}

static struct model_iteration *record(struct model *m, struct model_job *j)
{
	struct model_agent *a = &j->agent;
	struct model_iteration *it = arena_zalloc(&m->arena, sizeof(*it));

	it->n = a->iteration;
	it->at = m->now;
	it->checkpoint = j->checkpoint;
	it->cost = j->usage.cost - a->cost_before;
	it->input = j->usage.input - a->input_before;
	it->attempt = j->attempt;
	it->before = a->last;
	a->last = it;
	a->cost_before = j->usage.cost;
	a->input_before = j->usage.input;
	return it;
}

/* By whom, as its iteration ended. */
static void hold(struct model *m, struct model_job *j, struct str reason,
		 const char *limit, uint32_t iteration)
{
	uint32_t next = j->agent.iteration;

	if (j->agent.used)
		j->agent.iteration = iteration;
	if (limit == policy_matched)
		(void)model_policy_hold(m, j, POINT_CONTINUE);
	else
		model_held_by(
		    m, j, limit != NULL ? HELD_BY_GUARDRAIL : HELD_BY_WORKER,
		    limit != NULL ? STR_NULL : j->worker, reason);
	j->hold_reason = model_copy(m, reason);
	j->agent.iteration = next;
}

bool model_agent_turn(struct model *m, struct model_job *j,
		      const struct m_ack *op)
{
	enum agent_status s = status_of(op);
	const char *limit = NULL;
	struct model_iteration *it = NULL;
	uint32_t iteration = j->agent.iteration;

	if (s == AGENT_CONTINUE && !j->cancel_requested) {
		limit = limit_reached(j);
		if (limit == NULL && model_policy_fits(m, j, POINT_CONTINUE))
			limit = policy_matched;
	}
	if (limit != NULL)
		s = AGENT_HOLD;
	if (j->agent.used) {
		it = record(m, j);
		it->status = s;
		it->hold_reason = s == AGENT_HOLD ? op->hold_reason : STR_NULL;
		if (limit != NULL && op->hold_reason.n == 0)
			it->hold_reason = str_from(limit);
		it->hold_reason = model_copy(m, it->hold_reason);
	}
	if (op->result.n > 0 && s != AGENT_CONTINUE)
		j->result = model_copy(m, op->result);
	if (j->agent.used && s != AGENT_DONE) {
		j->agent.iteration++;
		j->attempt = 0;
	}
	if (j->cancel_requested || s == AGENT_DONE)
		return false;
	if (s == AGENT_CONTINUE)
		model_to_pending(m, j);
	else
		hold(m, j, it != NULL ? it->hold_reason : op->hold_reason,
		     limit, iteration);
	return true;
}

uint32_t model_iterations(const struct model_job *j)
{
	const struct model_agent *a = &j->agent;
	uint32_t ended = a->last != NULL ? a->last->n : 0;

	if (!a->used)
		return 0;
	return a->iteration > ended && j->attempt > 0 ? a->iteration : ended;
}

void model_agent_rerun(struct model_job *j)
{
	struct model_agent *a = &j->agent;

	if (a->used && a->last != NULL && a->last->n == a->iteration)
		a->iteration++;
}

uint64_t model_agent_timeout(const struct model_job *j)
{
	uint64_t a = j->timeout, b = j->agent.timeout;

	return a == 0 ? b : b == 0 ? a : MIN(a, b);
}

/* --- people --- */

const char *model_approve(struct model *m, const struct m_approve *op)
{
	struct model_job *j = model_find(m, op->job_id);
	struct model_agent *a = j != NULL ? &j->agent : NULL;
	bool limits =
	    (op->has &
	     ~(MSG_BIT(approve, job_id) | MSG_BIT(approve, by) |
	       MSG_BIT(approve, comment) | MSG_BIT(approve, number))) != 0;
	const char *status;

	/* the run draws none that a hold has */
	if (j != NULL && j->state == JOB_HELD && MSG_HAS(op, approve, number)) {
		model_refuse(m, ERR_CONFLICT);
		return "";
	}
	if (j != NULL && j->state == JOB_HELD && limits && !a->used) {
		model_refuse(m, ERR_VALIDATION_ERROR);
		return "";
	}
	status = model_job_op(m, OP_APPROVE, op->job_id);
	if (m->errs_n > 0)
		return "";
	j->decided_by = model_copy(m, op->by);
	j->comment = model_copy(m, op->comment);
	if (!limits)
		return status;
	if (MSG_HAS(op, approve, max_iterations))
		a->max_iterations = op->max_iterations;
	if (MSG_HAS(op, approve, max_cost_usd))
		a->max_cost = op->max_cost_usd;
	if (MSG_HAS(op, approve, max_cost))
		a->max_cost = op->max_cost;
	if (MSG_HAS(op, approve, iteration_timeout))
		a->timeout = op->iteration_timeout;
	if (MSG_HAS(op, approve, limits))
		a->max_tokens = tokens_limit(op->limits);
	return status;
}

static const struct model_iteration *find(const struct model_job *j, uint32_t n)
{
	const struct model_iteration *it = j->agent.last;

	while (it != NULL && it->n != n)
		it = it->before;
	return it;
}

void model_replay_agent(struct model *m, const struct m_replay *op)
{
	struct model_job *old = model_find(m, op->job_id), *j;
	const struct model_iteration *it =
	    old != NULL ? find(old, op->from) : NULL;

	if (old == NULL)
		model_refuse(m, ERR_NOT_FOUND);
	else if (op->from == 0)
		model_refuse(m, ERR_VALIDATION_ERROR);
	else if (it == NULL)
		model_refuse(m, ERR_REPLAY_ERROR);
	else if (model_room(m, old->queue) == 0)
		model_refuse(m, ERR_QUEUE_FULL);
	if (m->errs_n > 0)
		return;
	j = model_add(m);
	j->id = model_copy(m, op->new_job_id);
	j->state = JOB_PENDING;
	j->queue = old->queue;
	j->payload = old->payload;
	j->tags = old->tags;
	j->group = old->group;
	j->prio = old->prio;
	j->max_retries = old->max_retries;
	j->backoff = old->backoff;
	j->base = old->base;
	j->cap = old->cap;
	j->jitter = old->jitter;
	model_defaults(m, j, ~0u); /* only the group, which a tag may say */
	j->timeout = old->timeout;
	j->checkpoint = it->checkpoint;
	j->agent = old->agent;
	j->agent.iteration = 1;
	j->agent.replays = 0;
	j->agent.cost_before = j->agent.input_before = 0;
	j->agent.last = NULL;
	j->agent.replay_of = old->id;
	old->agent.replays++;
	old->touched = true;
	(void)model_policy_hold(m, j, POINT_ENQUEUE);
}

/* --- against the state machine --- */

static void same_iteration(const struct model_job *j,
			   const struct model_iteration *it,
			   const struct m_iteration *r)
{
	assert_int_equal(r->iteration, it->n);
	assert_str_is(r->status, enum_text(&enum_agent_status, it->status));
	if (!str_starts(r->hold_reason, it->hold_reason) ||
	    (it->hold_reason.n == 0 && r->hold_reason.n > 0))
		fail_msg("job %.*s, iteration %u: held for '%.*s', the rules "
			 "say '%.*s'",
			 STR_ARG(j->id), it->n, STR_ARG(r->hold_reason),
			 STR_ARG(it->hold_reason));
	assert_int_equal(r->created_at, it->at);
	assert_int_equal(r->cost_usd, it->cost);
	assert_int_equal(r->input_tokens, it->input);
	assert_int_equal(r->attempt, it->attempt);
	assert_true(str_eq(r->checkpoint, it->checkpoint));
}

void model_compare_agent(const struct model_job *j, const struct m_job *r,
			 struct fx *x)
{
	const struct model_agent *a = &j->agent;
	const struct model_iteration *it = a->last;
	struct m_iteration_list list;

	model_compare_hold(j, r);
	assert_int_equal(a->used, MSG_HAS(r, job, agent));
	if (!a->used)
		return;
	assert_int_equal(r->agent->iteration, a->iteration);
	assert_int_equal(r->agent->max_iterations, a->max_iterations);
	assert_int_equal(r->agent->max_cost_usd, a->max_cost);
	assert_int_equal(r->agent->iteration_timeout, a->timeout);
	assert_int_equal(r->agent->total_cost_usd, j->usage.cost);
	assert_int_equal(tokens_limit(r->agent->limits), a->max_tokens);
	assert_int_equal(r->agent->replays_n, MIN(a->replays, LIMIT_REPLAYS));
	assert_true(str_eq(r->agent->replay_of, a->replay_of));
	assert_int_equal(record_iterations(x->side[FX_MEM].kv, j->id, 0, 1000,
					   &x->arena, &list),
			 0);
	assert_int_equal(list.iterations_n, it != NULL ? it->n : 0);
	for (size_t i = list.iterations_n; i-- > 0; it = it->before)
		same_iteration(j, it, &list.iterations[i]);
}
