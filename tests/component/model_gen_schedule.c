/*
 * See model_run.h: schedules. Their times are random here; what makes them is
 * tested elsewhere.
 */
#include "model_run.h"

static struct str some_schedule(struct run *n)
{
	static const char *const names[] = { "s0", "s1", "s2", "s3" };

	return str_from(names[run_below(n, ARRAY_SIZE(names))]);
}

static uint64_t some_time(struct run *n)
{
	return run_chance(n, 10) ? 0
				 : n->x->now_ns + run_below(n, 9 * NS_PER_S);
}

static struct str new_job_id(struct run *n)
{
	return arena_printf(&n->arena, "job_%llu",
			    (unsigned long long)n->ids++);
}

static void fill_job(struct run *n, struct m_schedule_job *j)
{
	MSG_SET(j, schedule_job, payload, STR("[\"tick\"]"));
	if (run_chance(n, 40))
		MSG_SET(j, schedule_job, priority, (uint32_t)run_below(n, 3));
	if (run_chance(n, 40))
		MSG_SET(j, schedule_job, max_retries,
			(uint32_t)run_below(n, 3));
	if (run_chance(n, 20))
		MSG_SET(j, schedule_job, expire_after,
			1 + run_below(n, 20 * NS_PER_S));
	if (run_chance(n, 20))
		MSG_SET(j, schedule_job, as_numbers, DUR_EXPIRE_AFTER);
}

static void set(struct run *n)
{
	struct m_schedule_job job = { 0 };
	struct m_schedule op = { 0 };
	struct str name = some_schedule(n);

	MSG_SET(&op, schedule, create,
		model_find_schedule(n->m, name) == NULL || run_chance(n, 10));
	MSG_SET(&op, schedule, id, name);
	if (op.create)
		MSG_SET(&op, schedule, id,
			arena_printf(&n->arena, "sch_%llu",
				     (unsigned long long)n->ids++));
	MSG_SET(&op, schedule, name, name);
	MSG_SET(&op, schedule, queue, run_queue(n));
	MSG_SET(&op, schedule, cron, STR("* * * * *"));
	MSG_SET(&op, schedule, overlap, (uint32_t)run_below(n, 3));
	if (run_chance(n, 30))
		MSG_SET(&op, schedule, max_runs, 1 + run_below(n, 5));
	if (run_chance(n, 10))
		MSG_SET(&op, schedule, paused, run_chance(n, 50));
	if (run_chance(n, 70)) {
		fill_job(n, &job);
		MSG_SET(&op, schedule, job, &job);
	}
	MSG_SET(&op, schedule, next_run, some_time(n));
	model_set_schedule(n->m, &op);
	(void)run_do(n, OP_SET_SCHEDULE, &op, NULL);
}

static void pause_or_resume(struct run *n)
{
	struct m_pause_schedule op = { 0 };
	struct str name = some_schedule(n);
	const struct model_schedule *s = model_find_schedule(n->m, name);
	struct m_schedule now = { 0 };

	if (s != NULL)
		assert_true(model_read_schedule(n->x, s->id, &now));
	MSG_SET(&op, pause_schedule, id, name);
	MSG_SET(&op, pause_schedule, paused, run_chance(n, 40));
	MSG_SET(&op, pause_schedule, next_ns, some_time(n));
	MSG_SET(&op, pause_schedule, version, now.version);
	model_pause_schedule(n->m, &op);
	(void)run_do(n, OP_PAUSE_SCHEDULE, &op, NULL);
}

static void remove_one(struct run *n)
{
	struct m_schedule_ref op = { 0 };

	MSG_SET(&op, schedule_ref, id, some_schedule(n));
	model_delete_schedule(n->m, op.id);
	(void)run_do(n, OP_DELETE_SCHEDULE, &op, NULL);
}

static void run_now(struct run *n)
{
	struct m_fire op = { 0 };
	struct m_fire_reply r;
	const char *status;

	MSG_SET(&op, fire, id, some_schedule(n));
	MSG_SET(&op, fire, job_id, new_job_id(n));
	status = model_run_schedule(n->m, &op);
	if (run_do(n, OP_RUN_SCHEDULE, &op, &r))
		assert_str_is(r.status, status);
}

/* Mostly as planned, sometimes by a plan that is out of date. */
static void fire(struct run *n)
{
	const struct model_schedule *s =
	    model_find_schedule(n->m, some_schedule(n));
	bool stale = run_chance(n, 5);
	struct m_schedule now = { 0 };
	struct m_fire op = { 0 };
	struct m_fire_reply r;
	const char *status;

	if (s == NULL)
		return;
	assert_true(model_read_schedule(n->x, s->id, &now));
	MSG_SET(&op, fire, id, s->id);
	MSG_SET(&op, fire, due_ns, s->next_run + (run_chance(n, 5) ? 1 : 0));
	MSG_SET(&op, fire, next_ns, some_time(n));
	MSG_SET(&op, fire, version, now.version + stale);
	MSG_SET(&op, fire, skip, run_chance(n, 10));
	MSG_SET(&op, fire, job_id, new_job_id(n));
	status = model_fire(n->m, &op, stale);
	run_must(n, OP_FIRE, &op, &r);
	assert_str_is(r.status, status);
	if (strcmp(status, "created") == 0)
		assert_true(str_eq(r.job_id, op.job_id));
}

void run_schedule(struct run *n)
{
	static run_fn *const kinds[] = {
		set, pause_or_resume, run_now, fire, fire, fire, fire
	};

	if (run_chance(n, 3))
		remove_one(n);
	else
		kinds[run_below(n, ARRAY_SIZE(kinds))](n);
}
