/*
 * Is what a fetch answered right? Job by job: which ones could stand first,
 * under pauses, limits and rates. See model.h.
 *
 * A rate is counted in slots by the state machine and by single moments here.
 * Between "certainly over" and "certainly under" lies a slot; the driver picks
 * its moments so that no count stands there (model_rates_are_clear).
 */
#include "model.h"

#define SLOTS 32 /* the state machine has at least so many in a period */

/* --- limits --- */

/* Handed out in (now - ns, now]; of one group, or all. */
static uint64_t handed_since(const struct model *m, const struct model_queue *q,
			     uint64_t ns, const struct str *group)
{
	uint64_t n = 0;

	for (size_t i = 0; i < q->handed_n; i++) {
		const struct model_handed *h = &q->handed[i];

		n += h->at + ns > m->now &&
		     (group == NULL ? h->by_queue
				    : h->by_group && str_eq(h->group, *group));
	}
	return n;
}

static const struct m_group_limit *group_limit(const struct model_queue *q,
					       struct str group)
{
	for (size_t i = 0; i < MODEL_GROUPS; i++) {
		if (q->groups[i].name.n > 0 && str_eq(q->groups[i].name, group))
			return &q->groups[i];
	}
	return NULL;
}

static bool queue_is_open(struct model *m, const struct model_queue *q)
{
	const struct m_set_queue *s = &q->set;

	if (q->paused)
		return false;
	if (s->max_concurrency > 0 &&
	    model_active(m, q->name, NULL) >= s->max_concurrency)
		return false;
	return s->rate == 0 || handed_since(m, q, s->period, NULL) < s->rate;
}

/* The limits of a group: its own, else those of all groups. */
struct limits {
	uint32_t max;
	uint64_t rate, period;
	bool paused;
};

static struct limits limits_of(const struct model_queue *q, struct str group)
{
	const struct m_group_limit *g = group_limit(q, group);
	struct limits l = { .max = q->set.group_max_concurrency,
			    .rate = q->set.group_rate,
			    .period = q->set.group_period };

	if (g == NULL)
		return l;
	l.paused = g->paused;
	if (MSG_HAS(g, group_limit, max_concurrency))
		l.max = g->max_concurrency;
	if (MSG_HAS(g, group_limit, rate)) {
		l.rate = g->rate;
		l.period = g->period;
	}
	return l;
}

static bool group_is_open(struct model *m, const struct model_queue *q,
			  struct str group)
{
	struct limits l;

	if (group.n == 0) /* the limits of groups are for groups */
		return true;
	l = limits_of(q, group);
	if (l.paused)
		return false;
	if (l.max > 0 && model_active(m, q->name, &group) >= l.max)
		return false;
	return l.rate == 0 || handed_since(m, q, l.period, &group) < l.rate;
}

/* Nothing was handed out at the far end of the period. */
static bool is_clear(const struct model *m, const struct model_queue *q,
		     uint64_t rate, uint64_t period, const struct str *group)
{
	return rate == 0 ||
	       handed_since(m, q, period, group) ==
		   handed_since(m, q, period + 2 * (period / SLOTS) + 2, group);
}

bool model_rates_are_clear(struct model *m)
{
	for (size_t i = 0; i < MODEL_QUEUES; i++) {
		const struct model_queue *q = &m->queues[i];

		if (!q->used)
			continue;
		if (!is_clear(m, q, q->set.rate, q->set.period, NULL))
			return false;
		for (size_t k = 0; k < q->handed_n; k++) {
			const struct str *g = &q->handed[k].group;
			struct limits l = limits_of(q, *g);

			if (g->n > 0 && !is_clear(m, q, l.rate, l.period, g))
				return false;
		}
	}
	return true;
}

static void note_handed(struct model *m, struct model_queue *q,
			struct str group)
{
	struct limits l = limits_of(q, group);
	size_t kept = 0;

	for (size_t i = 0; i < q->handed_n; i++) {
		if (q->handed[i].at + 4 * 86400 * NS_PER_S > m->now)
			q->handed[kept++] = q->handed[i];
	}
	q->handed_n = kept;
	if (q->set.rate == 0 && l.rate == 0)
		return;
	assert_true(kept < MODEL_HANDED);
	q->handed[q->handed_n++] =
	    (struct model_handed){ m->now, group, q->set.rate > 0,
				   group.n > 0 && l.rate > 0 };
}

/* --- order --- */

static bool may_be_taken(struct model *m, const struct m_fetch *op,
			 const struct model_job *j)
{
	bool listed = false;

	for (size_t i = 0; i < op->queues_n; i++)
		listed |= str_eq(op->queues[i], j->queue);
	return listed && j->state == JOB_PENDING &&
	       queue_is_open(m, model_queue(m, j->queue)) &&
	       group_is_open(m, model_queue(m, j->queue), j->group);
}

static bool is_fair(struct model *m, const struct model_job *j)
{
	return model_queue(m, j->queue)->set.fairness == FAIRNESS_GROUP;
}

static bool same_lane(const struct model_job *a, const struct model_job *b)
{
	return str_eq(a->queue, b->queue) && str_eq(a->group, b->group);
}

static bool before(const struct model_job *a, const struct model_job *b)
{
	return a->prio != b->prio ? a->prio < b->prio : a->seq < b->seq;
}

/* The first in order of all that may be taken. */
static struct model_job *first(struct model *m, const struct m_fetch *op)
{
	struct model_job *best = NULL;

	MODEL_EACH(m, j)
	{
		if ((best == NULL || before(j, best)) && may_be_taken(m, op, j))
			best = j;
	}
	return best;
}

/* Nothing in its lane stands before it. */
static bool is_first_of_lane(struct model *m, const struct model_job *j)
{
	MODEL_EACH(m, o)
	{
		if (o->state == JOB_PENDING && same_lane(o, j) && before(o, j))
			return false;
	}
	return true;
}

/*
 * With fairness the turn of the groups decides inside a queue; between queues
 * the place of the job that is offered. So j may be handed out if it is of the
 * best priority, the first of its lane, and in every other queue some lane
 * offers a later one.
 */
static bool fair_choice(struct model *m, const struct m_fetch *op,
			const struct model_job *j, const struct model_job *best)
{
	if (j->prio != best->prio || !is_first_of_lane(m, j) ||
	    !may_be_taken(m, op, j))
		return false;
	if (!is_fair(m, j) && is_fair(m, best))
		return true; /* the other queue may have offered a later one */
	if (str_eq(j->queue, best->queue))
		return is_fair(m, j);
	return is_fair(m, best);
}

/* --- an answer --- */

/* It begins now, under a token nobody had. */
static void begin(struct model *m, const struct m_fetch *op,
		  const struct m_fetched *r, struct model_job *j)
{
	struct model_queue *q = model_queue(m, j->queue);
	uint64_t lease = op->lease_duration      ? op->lease_duration
			 : q->set.lease_duration ? q->set.lease_duration
			 : m->lease_duration     ? m->lease_duration
						 : 60 * NS_PER_S;

	j->started_at = m->now;
	j->lease_ns = lease;
	j->lease_end = m->now + lease;
	j->timeout_at =
	    model_agent_timeout(j) > 0 ? m->now + model_agent_timeout(j) : 0;
	assert_true(r->lease_token > m->last_token);
	m->last_token = j->token = r->lease_token;
	assert_true(str_eq(r->queue, j->queue));
	assert_int_equal(r->priority, j->prio);
	assert_int_equal(r->timeout_at, j->timeout_at);
	assert_true(str_eq(r->group, j->group));
	assert_true(str_eq(r->chain_id, j->chain_id));
	assert_int_equal(r->chain_step, j->step);
	assert_true(str_eq(r->batch_id, j->batch));
	assert_int_equal(r->attempt, j->attempt);
	assert_int_equal(r->lease_duration, lease);
	assert_true(str_eq(r->checkpoint, j->checkpoint));
}

static void start(struct model *m, const struct m_fetch *op,
		  const struct m_fetched *r, struct model_job *j)
{
	assert_true(j->expire_at == 0 || j->expire_at > m->now);
	assert_false(model_policy_fits(m, j, POINT_FETCH));
	j->touched = true;
	j->state = JOB_ACTIVE;
	j->attempt++;
	j->response = STR_NULL;
	j->worker = model_copy(m, op->worker_id);
	j->fetch_id = op->fetch_id;
	begin(m, op, r, j);
	note_handed(m, model_queue(m, j->queue), j->group);
}

void model_fetch_again(struct model *m, const struct m_fetch *op,
		       const struct m_fetch_reply *r)
{
	size_t held = 0;

	for (size_t i = 0; i < r->jobs_n; i++) {
		struct model_job *j = model_find(m, r->jobs[i].job_id);

		assert_non_null(j);
		assert_int_equal(j->state, JOB_ACTIVE);
		assert_int_equal(j->fetch_id, op->fetch_id);
		begin(m, op, &r->jobs[i], j);
	}
	MODEL_EACH(m, j)
	held += j->state == JOB_ACTIVE && j->fetch_id == op->fetch_id;
	assert_int_equal(r->jobs_n, held);
}

/* The job the answer names; one just made by the server gets its name. */
static struct model_job *named(struct model *m, const struct m_fetched *r,
			       struct model_job *best)
{
	struct model_job *j = model_find(m, r->job_id);

	if (j == NULL && best->unnamed) {
		j = best;
		j->id = model_copy(m, r->job_id);
		j->payload = model_copy(m, r->payload);
		j->unnamed = false;
	}
	if (j == NULL)
		fail_msg("got unknown job %.*s, expected %.*s",
			 STR_ARG(r->job_id), STR_ARG(best->id));
	return j;
}

/* Jobs found expired on the way die; the first that has not, or NULL. */
static struct model_job *first_alive(struct model *m, const struct m_fetch *op)
{
	struct model_job *j = first(m, op);

	while (j != NULL && j->expire_at != 0 && j->expire_at <= m->now) {
		model_expire_job(m, j);
		j = first(m, op);
	}
	return j;
}

/* What stands between the job and a worker, for a report. */
static void print_limits(struct model *m, const struct model_job *j)
{
	const struct model_queue *q = model_queue(m, j->queue);
	struct limits l = limits_of(q, j->group);

	print_message(
	    "%.*s, group '%.*s': %zu active of %u, handed out %llu "
	    "of %llu; its group %zu of %u, %llu of %llu%s%s\n",
	    STR_ARG(q->name), STR_ARG(j->group), model_active(m, q->name, NULL),
	    q->set.max_concurrency,
	    (unsigned long long)handed_since(m, q, q->set.period, NULL),
	    (unsigned long long)q->set.rate,
	    model_active(m, q->name, &j->group), l.max,
	    (unsigned long long)handed_since(m, q, l.period, &j->group),
	    (unsigned long long)l.rate, l.paused ? ", paused" : "",
	    q->set.fairness == FAIRNESS_GROUP ? ", fair" : "");
}

void model_fetch(struct model *m, const struct m_fetch *op,
		 const struct m_fetch_reply *r)
{
	size_t max = MAX(op->count, 1u);

	assert_true(r->jobs_n <= max);
	for (size_t i = 0; i < max; i++) {
		struct model_job *best = first_alive(m, op), *j;

		if (best == NULL && i < r->jobs_n)
			fail_msg("got %.*s, expected none",
				 STR_ARG(r->jobs[i].job_id));
		if (best != NULL && i >= r->jobs_n)
			print_limits(m, best);
		if (best != NULL && i >= r->jobs_n)
			fail_msg("got none, expected %.*s", STR_ARG(best->id));
		if (best == NULL)
			return;
		j = named(m, &r->jobs[i], best);
		if (j != best && !fair_choice(m, op, j, best))
			fail_msg("got %.*s, expected %.*s", STR_ARG(j->id),
				 STR_ARG(best->id));
		start(m, op, &r->jobs[i], j);
	}
}
