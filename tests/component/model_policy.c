/*
 * Approval policies, who holds jobs, and what is decided about them. See
 * model.h.
 */
#include "fsm_fixture.h"
#include "model.h"

#include "store/record.h"

/* --- policies --- */

static struct model_policy *find(struct model *m, struct str name)
{
	for (size_t i = 0; i < MODEL_POLICIES; i++)
		if (m->policies[i].used && str_eq(m->policies[i].name, name))
			return &m->policies[i];
	return NULL;
}

void model_set_policy(struct model *m, const struct m_policy *op)
{
	struct model_policy *p = find(m, op->name);

	for (size_t i = 0; p == NULL && i < MODEL_POLICIES; i++) {
		if (m->policies[i].used)
			continue;
		p = &m->policies[i];
		*p = (struct model_policy){ .used = true,
					    .made = ++m->policies_made };
		p->name = model_copy(m, op->name);
	}
	assert_non_null(p);
	p->m = *op;
	p->m.queue = model_copy(m, op->queue);
	p->tag = model_copy(m, op->tag_value);
	p->at = 0;
	for (size_t i = 0; i < op->at_n; i++) {
		uint32_t at;

		assert_true(enum_parse(&enum_policy_point, op->at[i], &at));
		p->at |= 1u << at;
	}
	/* of the jq subset these policies have `. > N` */
	if (op->payload_jq.n > 0)
		assert_true(
		    str_parse_u64(str_skip(op->payload_jq, 4), &p->above));
}

void model_learn_policy(struct model *m, const struct m_policy *reply)
{
	struct model_policy *p = find(m, reply->name);

	if (p->id.n > 0)
		assert_true(str_eq(p->id, reply->id));
	else
		p->id = model_copy(m, reply->id);
}

void model_delete_policy(struct model *m, struct str name)
{
	struct model_policy *p = find(m, name);

	if (p == NULL)
		model_refuse(m, ERR_NOT_FOUND);
	else
		p->used = false;
}

static bool queue_fits(struct str pattern, struct str queue)
{
	if (pattern.p[pattern.n - 1] != '*')
		return str_eq(pattern, queue);
	return str_starts(queue, str_of(pattern.p, pattern.n - 1));
}

static bool tag_fits(struct str tags, struct str value)
{
	struct buf b = BUF_INIT(0);
	bool fits;

	buf_printf(&b, "\"g\":\"%.*s\"", STR_ARG(value));
	fits = tags.n > 0 && memmem(tags.p, tags.n, b.p, b.n) != NULL;
	buf_done(&b);
	return fits;
}

static bool is_for(const struct model_policy *p, const struct model_job *j,
		   uint32_t iteration)
{
	const struct m_policy *m = &p->m;
	bool all = m->mode == POLICY_ALL, any = false;
	uint64_t number;

#define ASK(member, truth)                       \
	do {                                     \
		if (!MSG_HAS(m, policy, member)) \
			break;                   \
		any |= (truth);                  \
		all &= (truth);                  \
	} while (0)
	ASK(queue, queue_fits(m->queue, j->queue));
	ASK(tag_key, tag_fits(j->tags, p->tag));
	ASK(cost_min, j->usage.cost >= m->cost_min);
	ASK(iteration_min, iteration >= m->iteration_min);
	ASK(payload_jq,
	    str_parse_u64(j->payload, &number) && number > p->above);
#undef ASK
	return m->mode == POLICY_ALL ? all : any;
}

static bool has_passed(const struct model_job *j, const struct model_policy *p,
		       enum policy_point at, uint32_t iteration)
{
	if (j->passed_at != at || j->passed_in != iteration)
		return false;
	for (size_t i = 0; i < j->passed_n; i++)
		if (j->passed[i] == p->made)
			return true;
	return false;
}

/* The first by priority, of equal ones the newest. */
static const struct model_policy *who_holds(struct model *m,
					    const struct model_job *j,
					    enum policy_point at,
					    uint32_t iteration)
{
	const struct model_policy *best = NULL;

	for (size_t i = 0; i < MODEL_POLICIES; i++) {
		const struct model_policy *p = &m->policies[i];
		bool off = MSG_HAS(&p->m, policy, enabled) && !p->m.enabled;

		if (!p->used || off || (p->at >> at & 1) == 0 ||
		    has_passed(j, p, at, iteration) || !is_for(p, j, iteration))
			continue;
		if (best == NULL || p->m.priority > best->m.priority ||
		    (p->m.priority == best->m.priority && p->made > best->made))
			best = p;
	}
	return best;
}

static uint32_t iteration_of(const struct model_job *j)
{
	return j->agent.used ? j->agent.iteration : 0;
}

bool model_policy_fits(struct model *m, const struct model_job *j,
		       enum policy_point at)
{
	return who_holds(m, j, at, iteration_of(j)) != NULL;
}

/* --- holds --- */

void model_held_by(struct model *m, struct model_job *j, enum hold_kind kind,
		   struct str by, struct str reason)
{
	model_leave(j);
	j->state = JOB_HELD;
	j->scheduled_at = 0;
	j->hold_reason = model_copy(m, reason);
	j->held = (struct model_hold){ .kind = kind,
				       .by = model_copy(m, by),
				       .since = m->now,
				       .number = ++m->holds_made };
	j->touched = true;
}

static void held_by_policy(struct model *m, struct model_job *j,
			   const struct model_policy *p, enum policy_point at,
			   uint32_t iteration, uint64_t resume_at)
{
	model_held_by(m, j, HELD_BY_POLICY, p->name,
		      arena_printf(&m->arena, "approval policy matched: %.*s",
				   STR_ARG(p->name)));
	j->held.policy = p->id;
	j->held.made = p->made;
	j->held.at = at;
	j->held.iteration = iteration;
	j->held.resume_at = resume_at;
	if (p->m.deadline > 0)
		j->held.deadline = m->now + p->m.deadline;
	j->held.on_deadline = p->m.on_deadline;
}

bool model_policy_hold(struct model *m, struct model_job *j,
		       enum policy_point at)
{
	const struct model_policy *p = who_holds(m, j, at, iteration_of(j));

	if (p == NULL)
		return false;
	held_by_policy(m, j, p, at, iteration_of(j),
		       at == POINT_ENQUEUE ? j->scheduled_at : 0);
	return true;
}

void model_policy_replace(struct model *m, struct model_job *j)
{
	j->passed_n = 0;
	if (j->state == JOB_HELD)
		j->held.number = ++m->holds_made;
	else
		(void)model_policy_hold(m, j, POINT_ENQUEUE);
}

/* Which jobs a fetch came to is seen by what it held; that must be right. */
void model_fetch_holds(struct model *m, const struct m_fetch *op, struct fx *x)
{
	MODEL_EACH(m, j)
	{
		bool listed = false;
		struct m_job r;

		for (size_t i = 0; i < op->queues_n; i++)
			listed |= str_eq(op->queues[i], j->queue);
		if (!listed || j->state != JOB_PENDING || j->unnamed ||
		    !model_policy_fits(m, j, POINT_FETCH))
			continue;
		assert_int_equal(
		    record_job(x->side[FX_MEM].kv, j->id, 0, &x->arena, &r), 1);
		if (r.state == JOB_HELD)
			(void)model_policy_hold(m, j, POINT_FETCH);
	}
}

/* --- decisions --- */

void model_decide(struct model *m, struct model_job *j, enum verdict verdict,
		  enum decided_via via, struct str by, struct str comment)
{
	j->decided = true;
	j->verdict = verdict;
	j->via = via;
	j->decided_by = model_copy(m, by);
	j->comment = model_copy(m, comment);
	j->decided_at = m->now;
	j->decided_policy = j->held.policy;
	if (verdict == VERDICT_REJECTED) {
		j->passed_n = 0;
		return;
	}
	if (j->held.policy.n == 0)
		return;
	if (j->passed_at != j->held.at || j->passed_in != j->held.iteration)
		j->passed_n = 0;
	j->passed_at = j->held.at;
	j->passed_in = j->held.iteration;
	assert_true(j->passed_n < MODEL_PASSED);
	j->passed[j->passed_n++] = j->held.made;
}

const char *model_approve_held(struct model *m, struct model_job *j,
			       enum decided_via via, struct str by,
			       struct str comment)
{
	const struct model_policy *next = NULL;
	struct model_hold h = j->held;

	model_decide(m, j, VERDICT_APPROVED, via, by, comment);
	if (h.policy.n > 0 && h.at != POINT_FETCH)
		next = who_holds(m, j, h.at, h.iteration);
	if (next != NULL) {
		held_by_policy(m, j, next, h.at, h.iteration, h.resume_at);
		return "held";
	}
	j->hold_reason = STR_NULL;
	model_to_pending(m, j);
	if (h.resume_at > m->now) {
		j->state = JOB_SCHEDULED;
		j->scheduled_at = h.resume_at;
	}
	if (model_unmet(j) > 0)
		j->state = JOB_BLOCKED;
	return j->state == JOB_SCHEDULED ? "scheduled" : "pending";
}

void model_reject_held(struct model *m, struct model_job *j,
		       enum decided_via via, struct str by, struct str comment)
{
	model_decide(m, j, VERDICT_REJECTED, via, by, comment);
	model_error(m, j, STR_NULL);
	model_end(m, j, JOB_DEAD);
}

uint32_t model_deadline(struct model *m)
{
	uint32_t n = 0;

	MODEL_EACH(m, j)
	{
		struct model_hold *h = &j->held;

		if (j->state != JOB_HELD || h->deadline == 0 || h->escalated ||
		    h->deadline > m->now)
			continue;
		n++;
		j->touched = true;
		if (h->on_deadline == DEADLINE_ESCALATE)
			h->escalated = true;
		else if (h->on_deadline == DEADLINE_APPROVE)
			(void)model_approve_held(m, j, DECIDED_VIA_DEADLINE,
						 h->by, STR_NULL);
		else
			model_reject_held(
			    m, j, DECIDED_VIA_DEADLINE, h->by,
			    STR("nobody has decided by the deadline"));
	}
	return n;
}

/* --- links --- */

struct model_link *model_make_links(struct model *m, struct str job_id,
				    uint64_t good_for)
{
	const struct model_job *j = model_find(m, job_id);
	struct model_link *l;

	if (j == NULL || j->state != JOB_HELD) {
		model_refuse(m, j == NULL ? ERR_NOT_FOUND : ERR_APPROVE_ERROR);
		return NULL;
	}
	l = &m->links[m->links_made++ % MODEL_LINKS];
	*l = (struct model_link){ .job_id = j->id,
				  .number = j->held.number,
				  .until = m->now + good_for };
	/* as the state machine tells of it */
	model_find(m, job_id)->touched = true;
	return l;
}

const char *model_decide_by_link(struct model *m, const struct model_link *l,
				 bool approve, struct str comment)
{
	struct model_job *j = model_find(m, l->job_id);

	if (l->until <= m->now || j == NULL || j->state != JOB_HELD ||
	    j->held.number != l->number) {
		model_refuse(m, ERR_LINK_OVER);
		return "";
	}
	if (approve)
		return model_approve_held(m, j, DECIDED_VIA_LINK, STR("eve"),
					  comment);
	model_reject_held(m, j, DECIDED_VIA_LINK, STR("eve"), comment);
	return "dead";
}

/* --- against the state machine --- */

static void compare_held(const struct model_job *j, const struct m_job *r)
{
	const struct model_hold *h = &j->held;

	assert_int_equal(MSG_HAS(r, job, held), j->state == JOB_HELD);
	if (j->state != JOB_HELD)
		return;
	assert_int_equal(r->held->kind, h->kind);
	assert_true(str_eq(r->held->by, h->by));
	assert_int_equal(r->held->since, h->since);
	assert_true(str_eq(r->held->policy, h->policy));
	assert_int_equal(r->held->deadline, h->deadline);
	assert_int_equal(r->held->escalated, h->escalated);
	if (h->policy.n == 0)
		return;
	assert_int_equal(r->held->at, h->at);
	if (h->deadline > 0)
		assert_int_equal(r->held->on_deadline, h->on_deadline);
}

void model_compare_hold(const struct model_job *j, const struct m_job *r)
{
	const struct m_decision *d = r->decision;

	compare_held(j, r);
	assert_int_equal(MSG_HAS(r, job, decision), j->decided);
	if (!j->decided)
		return;
	assert_int_equal(d->decision, j->verdict);
	assert_int_equal(d->via, j->via);
	assert_true(str_eq(d->by, j->decided_by));
	assert_true(str_eq(d->comment, j->comment));
	assert_int_equal(d->at, j->decided_at);
	assert_true(str_eq(d->policy, j->decided_policy));
}

void model_compare_policies(struct model *m, struct fx *x)
{
	struct m_policy_list list = { 0 };
	size_t n = 0;

	fsm_policies(x->side[FX_MEM].f, &x->arena, &list);
	for (size_t i = 0; i < MODEL_POLICIES; i++)
		n += m->policies[i].used;
	assert_int_equal(list.policies_n, n);
	for (size_t i = 0; i < n; i++) {
		const struct m_policy *r = &list.policies[i];
		const struct model_policy *p = find(m, r->name);

		assert_non_null(p);
		assert_true(str_eq(r->id, p->id));
		assert_int_equal(r->priority, p->m.priority);
		if (i > 0)
			assert_true(r[-1].priority >= r->priority);
	}
}
