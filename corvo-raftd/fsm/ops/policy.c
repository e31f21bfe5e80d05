/*
 * set_policy, delete_policy. What a client says is read before anything is
 * changed, in the very way it is read when it is asked about jobs.
 */
#include "fsm/ties/policy.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/ops/ops.h"

/* Bounds of all together, with this one in the place of the old. */
static int check_room(struct fsm *f, const struct policy *p,
		      const struct fsm_policy *old)
{
	size_t tests = f->policies.tests + p->tests;

	if (old == NULL && f->policies.n >= LIMIT_POLICIES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "name: there are %d approval policies, which "
				  "is as many as there may be; delete some",
				  LIMIT_POLICIES);
	if (old != NULL)
		tests -= old->p.tests;
	if (tests > LIMIT_POLICY_TESTS)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "payload_jq: all policies together may look "
				  "at %d places of a payload; with this one it "
				  "would be %zu",
				  LIMIT_POLICY_TESTS, tests);
	return 0;
}

static int check(struct fsm *f, const struct m_policy *op,
		 const struct fsm_policy *old)
{
	struct policy p;

	if (!str_is_name(op->name, LIMIT_POLICY_NAME_BYTES))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "name: must be 1 to %d letters, digits, "
				  "dots, dashes and underscores",
				  LIMIT_POLICY_NAME_BYTES);
	/* by either it is found */
	if (old == NULL && policy_find(f, op->name) != NULL)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "name: is the id of another approval policy");
	if (!policy_read(op, &f->item_arena, &p, &f->why))
		return -ERR_VALIDATION_ERROR;
	return check_room(f, &p, old);
}

/* What it leaves out is written down as it is meant. */
static void settle(struct fsm *f, struct m_policy *m)
{
	static const struct str by_default[] = { STR("continue") };

	MSG_SET(m, policy, mode, m->mode);
	MSG_SET(m, policy, priority, m->priority);
	if (!MSG_HAS(m, policy, enabled))
		MSG_SET(m, policy, enabled, true);
	if (m->at_n == 0)
		MSG_SET_LIST(m, policy, at, (struct str *)by_default, 1);
	if (m->deadline > 0)
		MSG_SET(m, policy, on_deadline, m->on_deadline);
	MSG_SET(m, policy, updated_at, f->now_ns);
}

int apply_set_policy(struct fsm *f, const struct m_policy *op,
		     struct m_policy *ret)
{
	const struct fsm_policy *old = policy_find_name(f, op->name);
	int r = check(f, op, old);

	if (r < 0)
		return r;
	*ret = *op;
	settle(f, ret);
	MSG_SET(ret, policy, id,
		old != NULL ? arena_copy(&f->item_arena, old->p.m.id)
			    : fsm_make_id(f, "apol_"));
	MSG_SET(ret, policy, created_at,
		old != NULL ? old->p.m.created_at : f->now_ns);
	policy_save(f, ret);
	fsm_tell(f, EVENT_POLICY_SET, &msg_policy, ret);
	return 0;
}

int apply_delete_policy(struct fsm *f, const struct m_policy_ref *op,
			struct m_status_reply *ret)
{
	struct fsm_policy *p = policy_find(f, op->id);

	if (p == NULL)
		return fsm_refuse(f, ERR_NOT_FOUND,
				  "there is no approval policy \"%.*s\"",
				  STR_ARG(op->id));
	fsm_tell(f, EVENT_POLICY_DELETED, &msg_policy, &p->p.m);
	policy_remove(f, p);
	MSG_SET(ret, status_reply, status, STR("deleted"));
	return 0;
}
