/*
 * See ties/policy.h. Policies were read and checked when they were set.
 */
#include "fsm/ties/policy.h"

#include <stdlib.h>

#include "fsm/core/budget.h"
#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/ties/provider.h"
#include "proto/agent.h"

/* --- all of them --- */

struct fsm_policy *policy_find_name(const struct fsm *f, struct str name)
{
	for (size_t i = 0; i < f->policies.n; i++)
		if (str_eq(f->policies.list[i]->p.m.name, name))
			return f->policies.list[i];
	return NULL;
}

struct fsm_policy *policy_find(const struct fsm *f, struct str ref)
{
	for (size_t i = 0; i < f->policies.n; i++)
		if (str_eq(f->policies.list[i]->p.m.id, ref))
			return f->policies.list[i];
	return policy_find_name(f, ref);
}

/* Ids made later are larger. */
static bool is_before(const struct fsm_policy *a, const struct fsm_policy *b)
{
	if (a->p.m.priority != b->p.m.priority)
		return a->p.m.priority > b->p.m.priority;
	if (a->p.m.created_at != b->p.m.created_at)
		return a->p.m.created_at > b->p.m.created_at;
	return str_cmp(a->p.m.id, b->p.m.id) > 0;
}

/* What they come to together; by: 1 or -1. */
static void count(struct fsm_policies *s, const struct fsm_policy *p, int by)
{
	CHECK(by > 0 || s->tests >= p->p.tests);
	s->tests += (size_t)by * p->p.tests;
	for (int i = 0; i < POLICY_POINTS; i++)
		if (policy_is_at(&p->p, (enum policy_point)i))
			s->of[i] += (size_t)by;
}

static void add(struct fsm_policies *s, struct fsm_policy *p)
{
	size_t i = s->n++;

	CHECK(s->n <= LIMIT_POLICIES);
	for (; i > 0 && is_before(p, s->list[i - 1]); i--)
		s->list[i] = s->list[i - 1];
	s->list[i] = p;
	count(s, p, 1);
}

static void forget(struct fsm_policies *s, struct fsm_policy *p)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->list[i] != p)
			s->list[n++] = s->list[i];
	CHECK(n + 1 == s->n); /* it was one of them, once */
	s->n = n;
	count(s, p, -1);
	policy_done(&p->p);
	arena_done(&p->arena);
	free(p);
}

static int keep(struct fsm *f, struct str id, struct str raw)
{
	struct fsm_policy *p = xcalloc(1, sizeof(*p));
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct m_policy m;

	if (msg_decode(&msg_policy, arena_copy(&p->arena, raw), &p->arena, &m) <
		0 ||
	    !str_eq(m.id, id) || !policy_read(&m, &p->arena, &p->p, &why)) {
		arena_done(&p->arena);
		free(p);
		return -ERR_INTERNAL_ERROR;
	}
	add(&f->policies, p);
	return 0;
}

void policy_save(struct fsm *f, const struct m_policy *m)
{
	struct fsm_policy *old = policy_find_name(f, m->name);
	struct key k;

	key_policy(&k, SPACE_DEFAULT, m->id);
	fsm_put(f, &k, &msg_policy, m);
	if (old != NULL)
		forget(&f->policies, old);
	MUST(f, keep(f, m->id, buf_str(&f->scratch)) == 0);
}

void policy_remove(struct fsm *f, struct fsm_policy *p)
{
	struct key k;

	key_policy(&k, SPACE_DEFAULT, p->p.m.id);
	fsm_delete(f, &k);
	forget(&f->policies, p);
}

int policies_load(struct fsm *f)
{
	return load_all_named(f, "ap|", keep);
}

void policies_free(struct fsm *f)
{
	while (f->policies.n > 0)
		forget(&f->policies, f->policies.list[0]);
}

/* --- one job --- */

static bool has_passed(const struct job *j, const struct fsm_policy *p,
		       enum policy_point at, uint32_t iteration)
{
	const struct m_decision *d = j->live.decision;

	if (d == NULL || d->passed_at != at || d->passed_in != iteration)
		return false;
	for (size_t i = 0; i < d->passed_n; i++)
		if (str_eq(d->passed[i], p->p.m.id))
			return true;
	return false;
}

static void describe(struct fsm *f, const struct fsm_policy *p,
		     enum policy_point at, uint32_t iteration, struct hold *ret)
{
	const struct m_policy *m = &p->p.m;

	*ret = (struct hold){
		.kind = HELD_BY_POLICY,
		.by = arena_copy(&f->item_arena, m->name),
		.reason = arena_printf(&f->item_arena,
				       "approval policy matched: %.*s",
				       STR_ARG(m->name)),
		.policy = arena_copy(&f->item_arena, m->id),
		.at = at,
		.iteration = iteration,
		.on_deadline = m->on_deadline,
		.keeps_time = at == POINT_ENQUEUE,
	};
	if (m->deadline > 0)
		ret->deadline = fsm_later(f, m->deadline);
}

/* With its doc. */
static bool ask_all(struct fsm *f, const struct job *j, enum policy_point at,
		    uint32_t iteration, struct hold *ret)
{
	struct policy_subject s = {
		.queue = j->q->name,
		.tags = j->doc.tags,
		.payload = j->doc.payload,
		.iteration = iteration,
	};
	const struct m_usage_sum *used = j->live.usage;
	bool found = false;

	if (used != NULL) {
		s.cost = used->cost_usd;
		s.provider = provider_state_at(f, used->provider, f->now_ns);
	}
	for (size_t i = 0; !found && i < f->policies.n; i++) {
		struct fsm_policy *p = f->policies.list[i];

		if (!policy_is_at(&p->p, at) || has_passed(j, p, at, iteration))
			continue;
		found = policy_matches(&p->p, &s);
		if (found)
			describe(f, p, at, iteration, ret);
	}
	f->looked += s.looked;
	budget_take(f, s.looked);
	return found;
}

int policy_ask(struct fsm *f, struct job *j, enum policy_point at,
	       struct hold *ret)
{
	uint32_t iteration = 0;
	int r;

	if (f->policies.of[at] == 0)
		return 0;
	r = job_need_doc(f, j);
	if (r < 0)
		return r;
	if (j->extras & EXTRA_AGENT)
		iteration = agent_iteration(&j->live);
	return ask_all(f, j, at, iteration, ret);
}

int policy_hold(struct fsm *f, struct job *j, enum policy_point at)
{
	struct hold h;
	int r = policy_ask(f, j, at, &h);

	if (r <= 0)
		return r;
	job_hold(f, j, &h);
	f->counters.policy_holds++;
	return 1;
}

bool policy_on_create(struct fsm *f, struct str id, const struct m_job_doc *d)
{
	struct job j = { .id = id, .doc = *d };

	job_live_as_created(d, &j.live);
	job_compose(f, &j);
	return policy_hold(f, &j, POINT_ENQUEUE) > 0;
}

void policy_put_off(const struct fsm *f, struct m_job_doc *d)
{
	if (f->policies.of[POINT_ENQUEUE] > 0 &&
	    f->looked >= LIMIT_POLICY_LOOKED)
		MSG_SET(d, job_doc, unasked, true);
	else
		MSG_UNSET(d, job_doc, unasked);
}

int policy_hold_at_fetch(struct fsm *f, struct job *j)
{
	int r = 0;

	if (MSG_HAS(&j->doc, job_doc, unasked) &&
	    !MSG_HAS(&j->live, job_live, asked))
		r = policy_hold(f, j, POINT_ENQUEUE);
	if (r != 0)
		return r;
	if (MSG_HAS(&j->doc, job_doc, unasked))
		MSG_SET(&j->live, job_live, asked, true);
	return policy_hold(f, j, POINT_FETCH);
}

void policy_on_replace(struct fsm *f, struct job *j)
{
	struct m_decision *d;

	if (j->live.decision != NULL && j->live.decision->passed_n > 0) {
		d = arena_alloc(&f->item_arena, sizeof(*d));
		*d = *j->live.decision;
		MSG_UNSET(d, decision, passed);
		d->passed_n = 0;
		j->live.decision = d;
	}
	if (j->live.state == JOB_HELD && j->live.held != NULL)
		/* links are of what was seen */
		MSG_SET(j->live.held, hold_state, number, j->live.event);
	if (j->live.state != JOB_HELD && !MSG_HAS(&j->doc, job_doc, unasked))
		(void)policy_hold(f, j, POINT_ENQUEUE); /* its doc is there */
}

int policy_approve(struct fsm *f, struct job *j, const struct ruling *r)
{
	const struct m_hold_state *held = j->live.held;
	struct hold next;
	int err = job_need_doc(f, j);

	if (err < 0)
		return err;
	job_decide(f, j, VERDICT_APPROVED, r);
	/* the next fetch asks those of fetches again anyway */
	if (held == NULL || held->policy.n == 0 || held->at == POINT_FETCH ||
	    f->policies.of[held->at] == 0 ||
	    !ask_all(f, j, held->at, held->iteration, &next)) {
		job_approve(f, j);
		return 0;
	}
	job_tell_approved(f, j);
	job_hold_on(f, j, &next);
	f->counters.policy_holds++;
	return 0;
}
