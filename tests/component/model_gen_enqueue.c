/*
 * See model_run.h: new jobs with all that may come with them, and batches.
 */
#include "model_run.h"

#define BATCH_MAX 5
#define DEPS_MAX  3

/* How often a job has it, in percent. */
enum {
	WITH_DEPS = 25,
	WITH_KEY = 15, /* unique */
	WITH_TIMEOUT = 15,
	WITH_GROUP = 40,
	WITH_CHAIN = 12,
	WITH_BATCH = 15,
	WITH_AGENT = 20,
	WITH_REPLAY = 4, /* an Idempotency-Key */
};

static struct str text(struct run *n, const char *prefix, uint64_t i)
{
	return arena_printf(&n->arena, "%s%llu", prefix, (unsigned long long)i);
}

static void fill_retries(struct run *n, struct m_enqueue *op)
{
	if (run_chance(n, 70))
		MSG_SET(op, enqueue, max_retries, (uint32_t)run_below(n, 5));
	if (run_chance(n, 50))
		MSG_SET(op, enqueue, retry_backoff, (uint32_t)run_below(n, 4));
	if (run_chance(n, 60))
		MSG_SET(op, enqueue, retry_base_delay,
			run_below(n, 4 * NS_PER_S));
	if (run_chance(n, 20))
		MSG_SET(op, enqueue, retry_max_delay,
			1 + run_below(n, 8 * NS_PER_S));
	if (run_chance(n, 20))
		MSG_SET(op, enqueue, retry_jitter, rng_unit(&n->rng));
}

/* Jobs that are there, others of the same request, rarely none of both. */
static void fill_deps(struct run *n, struct m_enqueue *op, size_t batch_n)
{
	struct str *ids = arena_alloc(&n->arena, DEPS_MAX * sizeof(*ids));
	size_t k = 1 + run_below(n, DEPS_MAX);

	for (size_t i = 0; i < k; i++) {
		ids[i] = run_job(n);
		if (batch_n > 1 && run_chance(n, 50))
			ids[i] = text(n, "#", run_below(n, batch_n));
		if (run_chance(n, 1))
			ids[i] = run_chance(n, 50) ? text(n, "#", batch_n)
						   : STR("job_unknown");
	}
	MSG_SET_LIST(op, enqueue, depends_on, ids, k);
	if (run_chance(n, 50))
		MSG_SET(op, enqueue, on_dependency_failure,
			(uint32_t)run_below(n, 2));
}

static void fill_unique(struct run *n, struct m_enqueue *op)
{
	MSG_SET(op, enqueue, unique_key, text(n, "u", run_below(n, 3)));
	if (run_chance(n, 50))
		MSG_SET(op, enqueue, unique_period,
			run_below(n, 40 * NS_PER_S));
	if (run_chance(n, 40))
		MSG_SET(op, enqueue, unique_action, (uint32_t)run_below(n, 2));
}

static void fill_group(struct run *n, struct m_enqueue *op)
{
	if (run_chance(n, 50))
		MSG_SET(op, enqueue, tags,
			arena_printf(&n->arena, "{\"g\":\"g%d\",\"a\":\"a%d\"}",
				     (int)run_below(n, 3),
				     (int)run_below(n, 2)));
	else
		MSG_SET(op, enqueue, group, text(n, "g", run_below(n, 3)));
}

/* --- chains --- */

static void fill_step(struct run *n, struct m_chain_step *s)
{
	MSG_SET(s, chain_step, queue, run_queue(n));
	if (run_chance(n, 50))
		MSG_SET(s, chain_step, payload, STR("{\"own\":1}"));
	if (run_chance(n, 20))
		MSG_SET(s, chain_step, priority, (uint32_t)run_below(n, 3));
	if (run_chance(n, 20))
		MSG_SET(s, chain_step, max_retries, (uint32_t)run_below(n, 3));
	if (run_chance(n, 10))
		MSG_SET(s, chain_step, group, text(n, "g", run_below(n, 3)));
	if (run_chance(n, WITH_TIMEOUT))
		MSG_SET(s, chain_step, timeout, 9 * NS_PER_S);
	if (run_chance(n, 10))
		MSG_SET(s, chain_step, delay, run_below(n, 9 * NS_PER_S));
}

static struct m_chain_step *new_step(struct run *n)
{
	struct m_chain_step *s = arena_zalloc(&n->arena, sizeof(*s));

	fill_step(n, s);
	return s;
}

static void fill_chain(struct run *n, struct m_enqueue *op)
{
	struct m_chain *c = arena_zalloc(&n->arena, sizeof(*c));
	size_t steps = 2 + run_below(n, 2);
	struct m_chain_step *s = arena_zalloc(&n->arena, steps * sizeof(*s));

	for (size_t i = 0; i < steps; i++)
		fill_step(n, &s[i]);
	MSG_SET(&s[0], chain_step, queue, op->queue);
	MSG_SET_LIST(c, chain, steps, s, steps);
	if (run_chance(n, 50))
		MSG_SET(c, chain, on_failure, new_step(n));
	else if (run_chance(n, 50))
		MSG_SET(c, chain, after_failure, AFTER_FAILURE_CONTINUE);
	if (run_chance(n, 50))
		MSG_SET(c, chain, on_exit, new_step(n));
	MSG_SET(op, enqueue, chain, c);
	MSG_SET(op, enqueue, chain_id, text(n, "chn_", n->ids));
}

/* --- batches --- */

/* One of the last few: open, sealed, ended or gone. */
static struct str some_batch(struct run *n)
{
	uint64_t back = run_below(n, 6);

	return text(n, "batch_", n->batches > back ? n->batches - back : 0);
}

static struct str open_batch(struct run *n)
{
	for (size_t i = 0; i < MODEL_BATCHES; i++) {
		const struct model_batch *b = &n->m->batches[i];

		if (b->used && !b->sealed && run_chance(n, 60))
			return b->id;
	}
	return some_batch(n);
}

void run_fill_job(struct run *n, struct m_enqueue *op, size_t batch_n)
{
	*op = (struct m_enqueue){ 0 };
	MSG_SET(op, enqueue, job_id, text(n, "job_", n->ids++));
	MSG_SET(op, enqueue, queue, run_queue(n));
	if (run_chance(n, 80))
		MSG_SET(op, enqueue, payload, text(n, "", n->ids));
	if (run_chance(n, 50))
		MSG_SET(op, enqueue, priority, (uint32_t)run_below(n, 3));
	fill_retries(n, op);
	if (run_chance(n, 15))
		MSG_SET(op, enqueue, scheduled_at,
			n->x->now_ns - NS_PER_S + run_below(n, 9 * NS_PER_S));
	else if (run_chance(n, 10))
		MSG_SET(op, enqueue, delay, run_below(n, 9 * NS_PER_S));
	if (run_chance(n, 15))
		MSG_SET(op, enqueue, expire_after,
			1 + run_below(n, 30 * NS_PER_S));
	if (run_chance(n, 15))
		MSG_SET(op, enqueue, as_numbers, (uint32_t)run_below(n, 4));
	if (run_chance(n, 5))
		MSG_SET(op, enqueue, checkpoint, STR("[0]"));
	if (run_chance(n, 5))
		MSG_SET(op, enqueue, parent_id, run_job(n));
	if (run_chance(n, WITH_DEPS))
		fill_deps(n, op, batch_n);
	if (run_chance(n, WITH_KEY))
		fill_unique(n, op);
	if (run_chance(n, WITH_TIMEOUT))
		MSG_SET(op, enqueue, timeout, 1 + run_below(n, 9 * NS_PER_S));
	if (run_chance(n, WITH_GROUP))
		fill_group(n, op);
	if (run_chance(n, WITH_AGENT))
		run_fill_agent(n, op);
	if (run_chance(n, WITH_CHAIN))
		fill_chain(n, op);
	if (run_chance(n, batch_n > 1 ? WITH_BATCH / 4 : WITH_BATCH))
		MSG_SET(op, enqueue, batch_id, open_batch(n));
}

static bool waits_for_item(const struct m_enqueue *op)
{
	for (size_t i = 0; i < op->depends_on_n; i++) {
		if (op->depends_on[i].p[0] == '#')
			return true;
	}
	return false;
}

/*
 * What became of it by the end of another of its request (it died with it, or
 * waits for its time only) may come after the answer, which says that it is
 * pending then, or held by a policy.
 */
static void check_made(const struct m_enqueue *op, const struct model_made *say,
		       const struct m_enqueue_reply *r)
{
	bool open = waits_for_item(op) &&
		    (r->status == JOB_PENDING || r->status == JOB_HELD);

	assert_true(str_eq(r->job_id, say->id));
	assert_int_equal(r->unique_existing, say->existing);
	assert_int_equal(r->replaced, say->replaced);
	if (!say->existing && !open)
		assert_int_equal(r->status, say->status);
}

static void fill_options(struct run *n, struct m_batch_options *o)
{
	if (run_chance(n, 60))
		MSG_SET(o, batch_options, callback_queue, run_queue(n));
	if (run_chance(n, 50))
		MSG_SET(o, batch_options, callback_payload,
			run_chance(n, 50) ? STR("{\"to\":\"x\"}") : STR("7"));
	if (run_chance(n, 30))
		MSG_SET(o, batch_options, parent_id, open_batch(n));
}

/* A request that is sent again under its key is answered again. */
static void fill_key(struct run *n, struct m_enqueue *op)
{
	MSG_SET(op, enqueue, idempotency_key, text(n, "k", run_below(n, 40)));
	MSG_SET(op, enqueue, idempotency_hash, run_below(n, 3));
}

void run_enqueue(struct run *n)
{
	struct m_enqueue op;
	struct m_enqueue_reply r;
	struct model_made say;
	bool again = false;

	run_fill_job(n, &op, 1);
	if (run_chance(n, WITH_REPLAY))
		fill_key(n, &op);
	if (op.idempotency_key.n > 0)
		again = model_replay(n->m, &op, &say);
	if (!again)
		model_enqueue(n->m, &op, 1, STR_NULL, NULL, &say);
	if (!run_do(n, OP_ENQUEUE, &op, &r))
		return;
	check_made(&op, &say, &r);
	assert_int_equal(r.replayed, again);
	if (op.idempotency_key.n > 0 && !again)
		model_keep(n->m, &op, &say);
}

void run_enqueue_batch(struct run *n)
{
	struct m_enqueue ops[BATCH_MAX];
	struct model_made say[BATCH_MAX];
	struct m_enqueue_batch op = { 0 };
	struct m_batch_options o = { 0 };
	struct m_enqueue_batch_reply r;
	size_t jobs = 1 + run_below(n, BATCH_MAX);

	for (size_t i = 0; i < jobs; i++)
		run_fill_job(n, &ops[i], MAX(jobs, (size_t)2));
	MSG_SET_LIST(&op, enqueue_batch, jobs, ops, jobs);
	if (run_chance(n, 2 * WITH_BATCH)) {
		fill_options(n, &o);
		MSG_SET(&op, enqueue_batch, batch, &o);
		MSG_SET(&op, enqueue_batch, batch_id,
			text(n, "batch_", ++n->batches));
	}
	model_enqueue(n->m, ops, jobs, op.batch_id, op.batch, say);
	if (!run_do(n, OP_ENQUEUE_BATCH, &op, &r))
		return;
	assert_int_equal(r.job_ids_n, jobs);
	assert_true(str_eq(r.batch_id, op.batch_id));
	for (size_t i = 0; i < jobs; i++)
		check_made(&ops[i], &say[i], &r.jobs[i]);
}

void run_open_batch(struct run *n)
{
	struct m_batch_options o = { 0 };
	struct m_open_batch op = { 0 };

	fill_options(n, &o);
	MSG_SET(&op, open_batch, batch_id, text(n, "batch_", ++n->batches));
	if (o.callback_queue.n > 0)
		MSG_SET(&op, open_batch, callback_queue, o.callback_queue);
	if (o.callback_payload.n > 0)
		MSG_SET(&op, open_batch, callback_payload, o.callback_payload);
	if (o.parent_id.n > 0)
		MSG_SET(&op, open_batch, parent_id, o.parent_id);
	model_open_batch(n->m, &op);
	(void)run_do(n, OP_OPEN_BATCH, &op, NULL);
}

void run_seal_batch(struct run *n)
{
	struct m_batch_ref op = { 0 };
	struct m_batch r;
	const struct model_batch *b;

	MSG_SET(&op, batch_ref, batch_id, open_batch(n));
	model_seal_batch(n->m, &op);
	if (!run_do(n, OP_SEAL_BATCH, &op, &r))
		return;
	b = model_find_batch(n->m, op.batch_id);
	assert_int_equal(r.total, b->total);
	assert_int_equal(r.succeeded, b->succeeded);
	assert_int_equal(r.failed, b->failed);
	assert_int_equal(r.pending, b->total - b->succeeded - b->failed);
	assert_str_is(r.status, b->ended_at != 0 ? "completed" : "running");
}
