/*
 * See model_run.h: what people do to queues.
 */
#include "model_run.h"

/* One for all rates, so that a change of settings asks for no conversion. */
#define PERIOD (20 * NS_PER_S)

void run_pause(struct run *n)
{
	struct m_queue_ref m = { 0 };
	bool pause = run_chance(n, 35);
	struct m_status_reply r;
	bool known;

	MSG_SET(&m, queue_ref, queue,
		run_chance(n, 30) ? STR("seldom") : run_queue(n));
	known = model_has_queue(n->m, m.queue);
	model_pause(n->m, m.queue, pause);
	if (run_do(n, pause ? OP_PAUSE : OP_RESUME, &m, &r))
		assert_int_equal(r.created, !known);
}

static void set_settings(struct run *n)
{
	struct m_cluster_settings m = { 0 }, r;

	MSG_SET(&m, cluster_settings, max_queues, run_below(n, 6));
	if (run_chance(n, 50))
		MSG_SET(&m, cluster_settings, lease_duration,
			NS_PER_S + run_below(n, 30 * NS_PER_S));
	if (run_chance(n, 50))
		MSG_SET(&m, cluster_settings, retention,
			NS_PER_S + run_below(n, 60 * NS_PER_S));
	run_must(n, OP_SET_SETTINGS, &m, &r);
	n->m->max_queues = m.max_queues;
	if (m.lease_duration != 0)
		n->m->lease_duration = m.lease_duration;
	if (m.retention != 0)
		n->m->retention = m.retention;
	assert_int_equal(r.max_queues, n->m->max_queues);
	assert_int_equal(r.lease_duration, n->m->lease_duration);
	assert_int_equal(r.retention, n->m->retention);
}

void run_limits(struct run *n)
{
	struct m_limits m = { 0 };

	if (run_chance(n, 50)) {
		set_settings(n);
		return;
	}

	if (run_chance(n, 60))
		MSG_SET(&m, limits, max_queues, 1 + run_below(n, 5));
	n->m->max_queues = m.max_queues;
	run_must(n, OP_SET_LIMITS, &m, NULL);
}

/* --- settings --- */

static void set_rules(struct run *n, struct m_set_queue *op)
{
	if (run_chance(n, 20))
		MSG_SET(op, set_queue, max_retries, (uint32_t)run_below(n, 4));
	if (run_chance(n, 20))
		MSG_SET(op, set_queue, retry_backoff,
			(uint32_t)run_below(n, 4));
	if (run_chance(n, 20))
		MSG_SET(op, set_queue, retry_base_delay,
			run_below(n, 3 * NS_PER_S));
	if (run_chance(n, 20))
		MSG_SET(op, set_queue, retry_max_delay,
			NS_PER_S + run_below(n, 9 * NS_PER_S));
	if (run_chance(n, 20))
		MSG_SET(op, set_queue, retry_jitter, 0.25);
	if (run_chance(n, 20))
		MSG_SET(op, set_queue, lease_duration,
			NS_PER_S + run_below(n, 30 * NS_PER_S));
	if (run_chance(n, 20))
		MSG_SET(op, set_queue, retention,
			NS_PER_S + run_below(n, 60 * NS_PER_S));
	if (run_chance(n, 20))
		MSG_SET(op, set_queue, max_backlog, run_below(n, 12));
	if (run_chance(n, 20))
		MSG_SET(op, set_queue, result_schema,
			STR("{\"type\":\"object\"}"));
	if (run_chance(n, 20)) {
		struct m_push *p = arena_zalloc(&n->arena, sizeof(*p));

		/* it is for others to call: here it changes nothing */
		MSG_SET(p, push, url, STR("http://example.com/"));
		MSG_SET(p, push, concurrency, (uint32_t)run_below(n, 4));
		MSG_SET(op, set_queue, push, p);
	}
}

static void fill_group(struct run *n, struct m_group_limit *g)
{
	static const char *const names[] = { "g0", "g1", "g2" };

	MSG_SET(g, group_limit, name,
		str_from(names[run_below(n, ARRAY_SIZE(names))]));
	if (run_chance(n, 40))
		MSG_SET(g, group_limit, weight, 1 + (uint32_t)run_below(n, 4));
	if (run_chance(n, 40))
		MSG_SET(g, group_limit, max_concurrency,
			1 + (uint32_t)run_below(n, 3));
	if (run_chance(n, 30)) {
		MSG_SET(g, group_limit, rate, 1 + run_below(n, 4));
		MSG_SET(g, group_limit, period, PERIOD);
	}
	if (run_chance(n, 30))
		MSG_SET(g, group_limit, paused, run_chance(n, 50));
}

static void set_limits(struct run *n, struct m_set_queue *op)
{
	if (run_chance(n, 25))
		MSG_SET(op, set_queue, max_concurrency,
			(uint32_t)run_below(n, 6));
	if (run_chance(n, 25)) {
		MSG_SET(op, set_queue, rate, 1 + run_below(n, 8));
		MSG_SET(op, set_queue, period, PERIOD);
	}
	if (run_chance(n, 25))
		MSG_SET(op, set_queue, fairness, (uint32_t)run_below(n, 2));
	if (run_chance(n, 25))
		MSG_SET(op, set_queue, group_tag,
			run_chance(n, 70) ? STR("g") : STR("a"));
	if (run_chance(n, 25))
		MSG_SET(op, set_queue, group_max_concurrency,
			(uint32_t)run_below(n, 4));
	if (run_chance(n, 25)) {
		MSG_SET(op, set_queue, group_rate, 1 + run_below(n, 5));
		MSG_SET(op, set_queue, group_period, PERIOD);
	}
	if (run_chance(n, 40)) {
		struct m_group_limit *g = arena_zalloc(&n->arena, sizeof(*g));

		fill_group(n, g);
		MSG_SET_LIST(op, set_queue, groups, g, 1);
	}
}

/* Some members given as null. */
static void remove_some(struct run *n, struct m_set_queue *op)
{
	static const char *const names[] = {
		"max_retries",     "retry_backoff", "retry_base_delay",
		"retry_max_delay", "retry_jitter",  "lease_duration",
		"retention",       "max_backlog",   "max_concurrency",
		"fairness",        "group_tag",     "group_max_concurrency",
		"result_schema",
	};
	struct str *remove =
	    arena_alloc(&n->arena, ARRAY_SIZE(names) * sizeof(*remove));
	size_t k = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (run_chance(n, 20))
			remove[k++] = str_from(names[i]);
	}
	if (k > 0)
		MSG_SET_LIST(op, set_queue, remove, remove, k);
}

/* A rate goes with its period. */
static void remove_rates(struct run *n, struct m_set_queue *op)
{
	static struct str both[] = { { "rate", 4 },
				     { "period", 6 },
				     { "group_rate", 10 },
				     { "group_period", 12 } };

	MSG_SET_LIST(op, set_queue, remove, both + (run_chance(n, 50) ? 0 : 2),
		     2);
}

void run_set_queue(struct run *n)
{
	static const char *const groups[] = { "g0", "g1", "g2" };
	struct m_set_queue op = { 0 };
	struct str group = str_from(groups[run_below(n, ARRAY_SIZE(groups))]);

	MSG_SET(&op, set_queue, queue, run_queue(n));
	switch (run_below(n, 4)) {
	case 0:
		remove_some(n, &op);
		break;
	case 1:
		remove_rates(n, &op);
		MSG_SET_LIST(&op, set_queue, remove_groups, &group, 1);
		break;
	case 2:
		set_limits(n, &op);
		break;
	default:
		set_rules(n, &op);
	}
	model_set_queue(n->m, &op);
	if (!run_do(n, OP_SET_QUEUE, &op, NULL))
		return;
	/* Whether a group's rate that is gone and comes again remembers what
	 * was counted is left open: then nothing is in its window. */
	if (op.remove_n + op.remove_groups_n + op.groups_n > 0)
		n->x->now_ns += 2 * PERIOD;
}

/* --- all jobs of a queue --- */

/* Portions until nothing is left. */
static uint32_t repeat(struct run *n, enum op_id op, struct m_clear_queue *m,
		       uint32_t *portions)
{
	struct m_clear_queue_reply r;
	uint32_t count = 0;

	*portions = 0;
	do {
		run_must(n, op, m, &r);
		count += r.count;
		*portions += 1;
		MSG_SET(m, clear_queue, upto_seq, r.upto_seq);
	} while (r.more);
	return count;
}

static void delete_queue(struct run *n)
{
	struct m_clear_queue m = { 0 };
	uint32_t portions, count;

	MSG_SET(&m, clear_queue, queue, run_queue(n));
	if (!model_has_queue(n->m, m.queue)) {
		model_refuse(n->m, ERR_NOT_FOUND);
		(void)run_do(n, OP_DELETE_QUEUE, &m, NULL);
		return;
	}
	count = repeat(n, OP_DELETE_QUEUE, &m, &portions);
	assert_int_equal(model_delete_queue(n->m, m.queue, portions), count);
}

void run_clear(struct run *n)
{
	struct m_clear_queue m = { 0 };
	uint32_t portions;

	if (run_chance(n, 30)) {
		delete_queue(n);
		return;
	}
	MSG_SET(&m, clear_queue, queue, run_queue(n));
	assert_int_equal(repeat(n, OP_CLEAR_QUEUE, &m, &portions),
			 model_clear(n->m, m.queue));
}
