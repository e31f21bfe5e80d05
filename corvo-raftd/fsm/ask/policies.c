/*
 * Approval policies and links, for who asks between entries; nothing changes by
 * it.
 */
#include "fsm/core/state.h"
#include "fsm/ties/link.h"
#include "fsm/ties/policy.h"

void fsm_policies(const struct fsm *f, struct arena *a,
		  struct m_policy_list *ret)
{
	size_t n = f->policies.n;
	struct m_policy *list = arena_alloc(a, n * sizeof(*list));

	for (size_t i = 0; i < n; i++)
		list[i] = f->policies.list[i]->p.m;
	MSG_SET_LIST(ret, policy_list, policies, list, n);
}

const struct m_policy *fsm_policy(const struct fsm *f, struct str ref)
{
	const struct fsm_policy *p = policy_find(f, ref);

	return p != NULL ? &p->p.m : NULL;
}

size_t fsm_policies_n(const struct fsm *f)
{
	return f->policies.n;
}

/* What one has to know to decide. */
static void show(const struct job *j, const struct m_link_claim *c,
		 struct arena *a, struct m_link_view *ret)
{
	const struct m_job_live *l = &j->live;
	struct m_hold_state *held;

	MSG_SET(ret, link_view, job_id, arena_copy(a, j->id));
	MSG_SET(ret, link_view, decision, c->decision);
	MSG_SET(ret, link_view, queue, j->q->name);
	MSG_SET(ret, link_view, expires_at, c->expires_at);
	if (c->by.n > 0)
		MSG_SET(ret, link_view, by, arena_copy(a, c->by));
	if (l->hold_reason.n > 0)
		MSG_SET(ret, link_view, hold_reason,
			arena_copy(a, l->hold_reason));
	if (j->doc.payload.n > 0 && j->doc.payload.n <= LIMIT_LINK_PAYLOAD)
		MSG_SET(ret, link_view, payload, arena_copy(a, j->doc.payload));
	if (l->held == NULL)
		return;
	held = arena_alloc(a, sizeof(*held));
	*held = *l->held;
	held->by = arena_copy(a, held->by);
	held->policy = arena_copy(a, held->policy);
	MSG_SET(ret, link_view, held, held);
}

int fsm_link(struct fsm *f, struct str token, uint64_t now_ns, struct arena *a,
	     struct m_link_view *ret, struct str *ret_why)
{
	struct m_link_claim c;
	struct job j;
	int r;

	arena_reset(&f->item_arena);
	buf_clear(&f->why);
	r = link_open(f, token, now_ns, &c, &j);
	if (r == 0)
		r = job_need_doc(f, &j);
	if (r == 0)
		show(&j, &c, a, ret);
	*ret_why = buf_str(&f->why);
	return r;
}
