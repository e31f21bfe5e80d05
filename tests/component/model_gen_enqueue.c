/*
 * See model_run.h: new jobs with all that may come with them, and batches.
 */
#include "model_run.h"

#define BATCH_MAX 5
#define DEPS_MAX  3

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
	if (run_chance(n, 15))
		MSG_SET(op, enqueue, expire_after,
			1 + run_below(n, 30 * NS_PER_S));
	if (run_chance(n, 5))
		MSG_SET(op, enqueue, checkpoint, STR("[0]"));
	if (run_chance(n, 5))
		MSG_SET(op, enqueue, parent_id, run_job(n));
	if (run_chance(n, 25))
		fill_deps(n, op, batch_n);
}

static bool waits_for_item(const struct m_enqueue *op)
{
	for (size_t i = 0; i < op->depends_on_n; i++) {
		if (op->depends_on[i].p[0] == '#')
			return true;
	}
	return false;
}

/* One that died with another of its request may still be told pending. */
static void check_made(const struct m_enqueue *op, const struct model_made *say,
		       const struct m_enqueue_reply *r)
{
	bool open = say->status == JOB_DEAD && waits_for_item(op);

	assert_true(str_eq(r->job_id, say->id));
	assert_int_equal(r->unique_existing, say->existing);
	if (!say->existing && !(open && r->status == JOB_PENDING))
		assert_int_equal(r->status, say->status);
}

void run_enqueue(struct run *n)
{
	struct m_enqueue op;
	struct m_enqueue_reply r;
	struct model_made say;

	run_fill_job(n, &op, 1);
	model_enqueue(n->m, &op, 1, STR_NULL, NULL, &say);
	if (run_do(n, OP_ENQUEUE, &op, &r))
		check_made(&op, &say, &r);
}

void run_enqueue_batch(struct run *n)
{
	struct m_enqueue ops[BATCH_MAX];
	struct model_made say[BATCH_MAX];
	struct m_enqueue_batch op = { 0 };
	struct m_enqueue_batch_reply r;
	size_t jobs = 1 + run_below(n, BATCH_MAX);

	for (size_t i = 0; i < jobs; i++)
		run_fill_job(n, &ops[i], jobs);
	MSG_SET_LIST(&op, enqueue_batch, jobs, ops, jobs);
	model_enqueue(n->m, ops, jobs, STR_NULL, NULL, say);
	if (!run_do(n, OP_ENQUEUE_BATCH, &op, &r))
		return;
	assert_int_equal(r.job_ids_n, jobs);
	for (size_t i = 0; i < jobs; i++)
		check_made(&ops[i], &say[i], &r.jobs[i]);
}
