/*
 * Settings of queues, and deleting their jobs. See model.h.
 */
#include "model.h"

static bool is_in(struct str name, const struct str *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(names[i], name))
			return true;
	}
	return false;
}

bool model_may_name(struct model *m, const struct str *names, size_t n)
{
	size_t there = 0, news = 0;

	for (size_t i = 0; i < MODEL_QUEUES; i++)
		there += m->queues[i].used;
	for (size_t i = 0; i < n; i++)
		news +=
		    !model_has_queue(m, names[i]) && !is_in(names[i], names, i);
	if (news == 0 || m->max_queues == 0 || there + news <= m->max_queues)
		return true;
	model_refuse(m, ERR_QUEUE_LIMIT);
	return false;
}

void model_pause(struct model *m, struct str queue, bool paused)
{
	if (!model_may_name(m, &queue, 1))
		return;
	model_queue(m, queue)->paused = paused;
}

uint32_t model_clear(struct model *m, struct str queue)
{
	uint32_t n = 0;

	MODEL_EACH(m, j)
	{
		/* What these ends put into the queue stays. */
		if (j->unnamed || !str_eq(j->queue, queue) ||
		    !model_is_waiting(j) || j->state == JOB_HELD)
			continue;
		model_end(m, j, MODEL_DELETED);
		n++;
	}
	return n;
}

/* Everything, also what the ends of these jobs put into the queue. */
static uint32_t delete_all(struct model *m, struct str queue)
{
	uint32_t n = 0, before;

	do {
		before = n;
		MODEL_EACH(m, j)
		{
			if (!str_eq(j->queue, queue))
				continue;
			model_end(m, j, MODEL_DELETED);
			n++;
		}
	} while (n > before);
	return n;
}

uint32_t model_delete_queue(struct model *m, struct str queue,
			    uint32_t portions)
{
	uint32_t n = 0;

	while (portions-- > 0) {
		n += delete_all(m, queue);
		if (portions == 0) /* what comes now makes it anew */
			model_queue(m, queue)->used = false;
		model_settle(m);
	}
	return n;
}

#define SET(field)                                                      \
	do {                                                            \
		if (MSG_HAS(op, set_queue, field))                      \
			MSG_SET(s, set_queue, field, op->field);        \
		for (size_t i_ = 0; i_ < op->remove_n; i_++)            \
			if (str_is(op->remove[i_], #field)) {           \
				MSG_UNSET(s, set_queue, field);         \
				memset(&s->field, 0, sizeof(s->field)); \
			}                                               \
	} while (0)

/* 0 is none. */
#define SET_LIMIT(field)                                \
	do {                                            \
		SET(field);                             \
		if (s->field == 0)                      \
			MSG_UNSET(s, set_queue, field); \
	} while (0)

static void set_group(struct model *m, struct model_queue *q,
		      const struct m_group_limit *g)
{
	struct m_group_limit *to = NULL;

	for (size_t i = 0; i < MODEL_GROUPS; i++) {
		if (str_eq(q->groups[i].name, g->name))
			to = &q->groups[i];
	}
	for (size_t i = 0; to == NULL && i < MODEL_GROUPS; i++) {
		if (q->groups[i].name.n == 0)
			to = &q->groups[i];
	}
	assert_non_null(to);
	to->name = model_copy(m, g->name);
	if (MSG_HAS(g, group_limit, weight))
		MSG_SET(to, group_limit, weight, g->weight);
	if (MSG_HAS(g, group_limit, max_concurrency))
		MSG_SET(to, group_limit, max_concurrency, g->max_concurrency);
	if (MSG_HAS(g, group_limit, paused))
		MSG_SET(to, group_limit, paused, g->paused);
	if (MSG_HAS(g, group_limit, rate)) {
		MSG_SET(to, group_limit, rate, g->rate);
		MSG_SET(to, group_limit, period, g->period);
	}
}

static void remove_group(struct model_queue *q, struct str name)
{
	for (size_t i = 0; i < MODEL_GROUPS; i++) {
		if (str_eq(q->groups[i].name, name))
			q->groups[i] = (struct m_group_limit){ 0 };
	}
}

void model_set_queue(struct model *m, const struct m_set_queue *op)
{
	struct model_queue *q;
	struct m_set_queue *s;

	if (!model_may_name(m, &op->queue, 1))
		return;
	q = model_queue(m, op->queue);
	s = &q->set;
	SET_LIMIT(max_concurrency);
	SET_LIMIT(rate);
	SET(period);
	SET(lease_duration);
	SET(max_retries);
	SET(retry_backoff);
	SET(retry_base_delay);
	SET(retry_max_delay);
	SET(retry_jitter);
	SET(retention);
	SET_LIMIT(max_backlog);
	SET(fairness);
	SET(group_tag);
	s->group_tag = model_copy(m, s->group_tag);
	SET(result_schema);
	s->result_schema = model_copy(m, s->result_schema);
	SET_LIMIT(group_max_concurrency);
	SET_LIMIT(group_rate);
	SET(group_period);
	SET(push);
	for (size_t i = 0; s->rate == 0 && i < q->handed_n; i++)
		q->handed[i].by_queue = false;
	for (size_t i = 0; i < op->groups_n; i++)
		set_group(m, q, &op->groups[i]);
	for (size_t i = 0; i < op->remove_groups_n; i++)
		remove_group(q, op->remove_groups[i]);
}
