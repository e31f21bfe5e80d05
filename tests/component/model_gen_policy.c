/*
 * See model_run.h: approval policies, links and deadlines.
 */
#include "model_run.h"

static struct str name(struct run *n)
{
	return arena_printf(&n->arena, "p%d",
			    (int)run_below(n, MODEL_POLICIES));
}

/*
 * Which jobs the server makes in the middle of a fetch nobody can name at that
 * time. So those of fetches ask for what such a job cannot have yet.
 */
static void fill_conditions(struct run *n, struct m_policy *op, bool at_fetch)
{
	if (at_fetch) {
		MSG_SET(op, policy, mode, POLICY_ALL);
		if (run_chance(n, 50))
			MSG_SET(op, policy, iteration_min,
				1 + (uint32_t)run_below(n, 3));
		else
			MSG_SET(op, policy, cost_min,
				1 + run_below(n, 3 * NS_PER_S));
	} else {
		MSG_SET(op, policy, mode, (uint32_t)run_below(n, 2));
	}
	if (run_chance(n, 40) || op->has == MSG_BIT(policy, mode))
		MSG_SET(op, policy, queue,
			run_chance(n, 10) ? STR("q*") : run_queue(n));
	if (run_chance(n, 30)) {
		MSG_SET(op, policy, tag_key, STR("g"));
		MSG_SET(op, policy, tag_value,
			arena_printf(&n->arena, "g%d", (int)run_below(n, 3)));
	}
	if (run_chance(n, 20))
		MSG_SET(op, policy, payload_jq,
			arena_printf(&n->arena, ". > %llu",
				     (unsigned long long)n->ids));
}

static void set(struct run *n)
{
	static const char *const names[] = { "enqueue", "fetch", "continue" };
	struct m_policy op = { 0 }, r = { 0 };
	struct str at[3];
	size_t at_n = 0;
	bool at_fetch = false;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!run_chance(n, 45) && !(i == 2 && at_n == 0))
			continue;
		at[at_n++] = str_from(names[i]);
		at_fetch |= i == POINT_FETCH;
	}
	fill_conditions(n, &op, at_fetch);
	MSG_SET(&op, policy, name, name(n));
	MSG_SET_LIST(&op, policy, at, at, at_n);
	if (run_chance(n, 40))
		MSG_SET(&op, policy, priority, (uint32_t)run_below(n, 3));
	if (run_chance(n, 20))
		MSG_SET(&op, policy, enabled, run_chance(n, 50));
	if (run_chance(n, 50)) {
		MSG_SET(&op, policy, deadline, 1 + run_below(n, 9 * NS_PER_S));
		MSG_SET(&op, policy, on_deadline, (uint32_t)run_below(n, 3));
	}
	model_set_policy(n->m, &op);
	if (run_do(n, OP_SET_POLICY, &op, &r))
		model_learn_policy(n->m, &r);
}

/* They go as often as they come: most jobs are to run. */
void run_policy(struct run *n)
{
	struct m_policy_ref op = { 0 };
	struct m_status_reply r;

	if (run_chance(n, 35)) {
		set(n);
		return;
	}
	MSG_SET(&op, policy_ref, id, name(n));
	model_delete_policy(n->m, op.id);
	if (run_do(n, OP_DELETE_POLICY, &op, &r))
		assert_str_is(r.status, "deleted");
}

static struct str held_job(struct run *n)
{
	MODEL_EACH(n->m, j)
	{
		if (j->state == JOB_HELD && run_chance(n, 30))
			return j->id;
	}
	return run_job(n);
}

static void make_links(struct run *n)
{
	struct m_make_links op = { 0 };
	struct m_approval_links r;
	struct model_link *l;

	MSG_SET(&op, make_links, job_id, held_job(n));
	MSG_SET(&op, make_links, expires_in, 1 + run_below(n, 20 * NS_PER_S));
	MSG_SET(&op, make_links, by, STR("eve"));
	MSG_SET(&op, make_links, salt, STR("salt"));
	l = model_make_links(n->m, op.job_id, op.expires_in);
	if (!run_do(n, OP_MAKE_LINKS, &op, &r))
		return;
	l->approve = model_copy(n->m, r.approve);
	l->reject = model_copy(n->m, r.reject);
	assert_int_equal(r.expires_at, l->until);
}

void run_link(struct run *n)
{
	const struct model_link *l = &n->m->links[run_below(n, MODEL_LINKS)];
	bool approve = run_chance(n, 60);
	struct m_decide op = { 0 };
	struct m_status_reply r;
	const char *status;

	if (l->approve.n == 0 || run_chance(n, 50)) {
		make_links(n);
		return;
	}
	MSG_SET(&op, decide, token, approve ? l->approve : l->reject);
	if (run_chance(n, 50))
		MSG_SET(&op, decide, comment, STR("by mail"));
	status = model_decide_by_link(n->m, l, approve, op.comment);
	if (run_do(n, OP_DECIDE, &op, &r))
		assert_str_is(r.status, status);
}
