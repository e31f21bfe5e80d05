/*
 * Unicos of Scheduled-DB: who may be created, and what those that have not
 * ended take. Runs and recurrentes are in test_fsm_scheddb.c. See model.h and
 * model_run.h.
 */
#include "fsm_fixture.h"
#include "model.h"
#include "model_run.h"
#include "proto/scheddb.h"

/* Of those that have not ended, all but one. */
static void sum_up(struct model *m, const struct model_job *but,
		   uint64_t *bytes, uint64_t *jobs)
{
	*bytes = *jobs = 0;
	MODEL_EACH(m, j)
	{
		if (j == but || j->sdb_size == 0 ||
		    job_state_is_terminal(j->state))
			continue;
		*bytes += j->sdb_size;
		++*jobs;
	}
}

static uint64_t size_of(const struct m_sdb_create *op)
{
	return 192 + op->id.n + op->webhook_url.n + op->payload.n;
}

/* What must be answered when there is no room; NULL: there is. */
static const char *refusal(struct model *m, const struct m_sdb_create *op,
			   const struct model_job *old)
{
	uint64_t bytes, jobs;

	sum_up(m, old, &bytes, &jobs);
	if (bytes + size_of(op) > op->limit_bytes)
		return "memory";
	return jobs >= op->limit_jobs ? "job_count" : NULL;
}

/* In the queue, once the old one has left it. */
static bool has_place(struct model *m, struct model_job *old)
{
	enum job_state was = old != NULL ? old->state : JOB_COMPLETED;
	bool yes;

	if (old != NULL)
		old->state = JOB_COMPLETED;
	yes = model_room(m, STR(SDB_QUEUE)) > 0;
	if (old != NULL)
		old->state = was;
	return yes;
}

static void create(struct model *m, const struct m_sdb_create *op,
		   struct model_job *old)
{
	struct m_enqueue e = { 0 };
	struct model_made made = { 0 };
	struct model_job *j;

	if (old != NULL)
		model_end(m, old, MODEL_DELETED);
	MSG_SET(&e, enqueue, job_id, op->id);
	MSG_SET(&e, enqueue, queue, STR(SDB_QUEUE));
	MSG_SET(&e, enqueue, payload,
		op->payload.n > 0 ? op->payload : STR("null"));
	MSG_SET(&e, enqueue, scheduled_at, op->timestamp);
	if (op->webhook_url.n > 0)
		MSG_SET(&e, enqueue, group, op->webhook_url);
	model_enqueue(m, &e, 1, STR_NULL, NULL, &made);
	j = model_find(m, op->id);
	assert_non_null(j);
	j->sdb_size = size_of(op);
}

static const char *model_sdb_create(struct model *m,
				    const struct m_sdb_create *op)
{
	struct model_job *old = model_find(m, op->id);
	struct str queue = STR(SDB_QUEUE);
	const char *no = refusal(m, op, old);

	if (no != NULL || !model_may_name(m, &queue, 1))
		return no;
	if (!has_place(m, old))
		model_refuse(m, ERR_QUEUE_FULL);
	else
		create(m, op, old);
	return NULL;
}

static struct model_job *find(struct model *m, struct str id)
{
	struct model_job *j = model_find(m, id);

	if (j == NULL)
		model_refuse(m, ERR_NOT_FOUND);
	return j;
}

/* --- some --- */

/* Names of no other jobs. */
static struct str some_id(struct run *n)
{
	static const char *const ids[] = { "sdb0", "sdb1", "sdb2", "sdb3",
					   "sdb4" };

	return str_from(ids[run_below(n, ARRAY_SIZE(ids))]);
}

static void run_create(struct run *n)
{
	struct m_sdb_create op = { 0 };
	struct m_sdb_job r = { 0 };
	const char *no;

	MSG_SET(&op, sdb_create, id, some_id(n));
	MSG_SET(&op, sdb_create, timestamp,
		n->m->now + run_below(n, 3 * NS_PER_S));
	if (run_chance(n, 70))
		MSG_SET(&op, sdb_create, webhook_url,
			run_chance(n, 50) ? STR("http://a/")
					  : STR("http://b/"));
	if (run_chance(n, 50))
		MSG_SET(&op, sdb_create, payload, STR("{\"a\":1}"));
	MSG_SET(&op, sdb_create, limit_jobs, 1 + run_below(n, 5));
	MSG_SET(&op, sdb_create, limit_bytes, 200 + run_below(n, 1000));
	no = model_sdb_create(n->m, &op);
	if (!run_do(n, OP_SDB_CREATE, &op, &r))
		return;
	assert_int_equal(r.refusal != NULL, no != NULL);
	if (no != NULL)
		assert_str_is(r.refusal->type, no);
}

static void run_cancel(struct run *n)
{
	struct m_sdb_cancel op = { 0 };
	struct m_sdb_cancelled r = { 0 };
	struct model_job *j;
	bool ended;

	MSG_SET(&op, sdb_cancel, id, some_id(n));
	j = find(n->m, op.id);
	ended = j == NULL || job_state_is_terminal(j->state);
	if (!ended && j->state == JOB_ACTIVE)
		model_error(n->m, j, STR("cancelled: the job was cancelled"));
	if (!ended)
		model_end(n->m, j, JOB_CANCELLED);
	if (run_do(n, OP_SDB_CANCEL, &op, &r))
		assert_int_equal(r.cancelled_at == 0, ended);
}

static void run_delete(struct run *n)
{
	struct m_sdb_ref op = { 0 };
	struct model_job *j;

	MSG_SET(&op, sdb_ref, id, some_id(n));
	j = find(n->m, op.id);
	if (j != NULL)
		model_end(n->m, j, MODEL_DELETED);
	(void)run_do(n, OP_SDB_DELETE, &op, NULL);
}

void run_sdb(struct run *n)
{
	if (run_chance(n, 60))
		run_create(n);
	else if (run_chance(n, 70))
		run_cancel(n);
	else
		run_delete(n);
}

/* --- compared --- */

void model_compare_sdb(struct model *m, struct fx *x)
{
	uint64_t bytes, jobs, done = 0, cancelled = 0, active = 0, others = 0;
	struct m_sdb_numbers n;

	sum_up(m, NULL, &bytes, &jobs);
	MODEL_EACH(m, j)
	{
		if (j->sdb_size == 0)
			continue;
		done += j->state == JOB_COMPLETED;
		cancelled += j->state == JOB_CANCELLED;
		active += j->state == JOB_ACTIVE;
		others += j->state != JOB_COMPLETED &&
			  j->state != JOB_CANCELLED && j->state != JOB_ACTIVE;
	}
	fsm_sdb(x->side[FX_MEM].f, &n);
	assert_int_equal(n.bytes, bytes);
	assert_int_equal(n.jobs, jobs);
	assert_int_equal(n.completed, done);
	assert_int_equal(n.cancelled, cancelled);
	assert_int_equal(n.in_progress, active);
	assert_int_equal(n.pending + n.failed + n.timeout, others);
}
