/*
 * See model_run.h: what people do to queues.
 */
#include "model_run.h"

void run_pause(struct run *n)
{
	struct m_queue_ref m = { 0 };
	bool pause = run_chance(n, 35);

	MSG_SET(&m, queue_ref, queue, run_queue(n));
	model_pause(n->m, m.queue, pause);
	run_must(n, pause ? OP_PAUSE : OP_RESUME, &m, NULL);
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
		MSG_SET(op, set_queue, retention,
			NS_PER_S + run_below(n, 60 * NS_PER_S));
	if (run_chance(n, 20))
		MSG_SET(op, set_queue, max_backlog, run_below(n, 12));
}

/* Some members given as null. */
static void remove_some(struct run *n, struct m_set_queue *op)
{
	static const char *const names[] = {
		"max_retries",     "retry_backoff", "retry_base_delay",
		"retry_max_delay", "retry_jitter",  "lease_duration",
		"retention",       "max_backlog",
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

void run_set_queue(struct run *n)
{
	struct m_set_queue op = { 0 };

	MSG_SET(&op, set_queue, queue, run_queue(n));
	if (run_chance(n, 40))
		remove_some(n, &op);
	else
		set_rules(n, &op);
	model_set_queue(n->m, &op);
	run_must(n, OP_SET_QUEUE, &op, NULL);
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
