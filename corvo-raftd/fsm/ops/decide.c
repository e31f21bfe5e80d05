/*
 * make_links, decide, deadline: decisions about held jobs that are made by who
 * has a link, or by nobody in time.
 */
#include "fsm/core/budget.h"
#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/job/portion.h"
#include "fsm/ops/act.h"
#include "fsm/ops/hand.h"
#include "fsm/ops/maintain.h"
#include "fsm/ops/ops.h"
#include "fsm/ties/link.h"
#include "fsm/ties/policy.h"
#include "util/json.h"

#define LINK_DEFAULT_NS (86400 * NS_PER_S)

/* --- links --- */

static struct str links_data(struct fsm *f, const struct m_make_links *op,
			     uint64_t expires)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	if (op->by.n > 0) {
		jw_key(&w, "by");
		jw_str(&w, op->by);
	}
	jw_key(&w, "expires_at");
	jw_time(&w, expires);
	jw_object_end(&w);
	return buf_str(&f->data);
}

static int check_links(struct fsm *f, const struct m_make_links *op,
		       struct job *ret)
{
	bool has = MSG_HAS(op, make_links, expires_in);
	int r;

	if (has &&
	    (op->expires_in == 0 || op->expires_in > LIMIT_LINK_S * NS_PER_S))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "expires_in: must be more than 0 and at most "
				  "%d hours",
				  LIMIT_LINK_S / 3600);
	r = job_must_find(f, op->job_id, ret);
	if (r < 0)
		return r;
	if (ret->live.state != JOB_HELD)
		return job_refuse_state(f, ERR_APPROVE_ERROR, ret,
					"decided about");
	return 0;
}

int apply_make_links(struct fsm *f, const struct m_make_links *op,
		     struct m_approval_links *ret)
{
	struct m_link_claim c = { 0 };
	struct str approve, reject;
	struct job j;
	int r = check_links(f, op, &j);

	if (r < 0)
		return r;
	MSG_SET(&c, link_claim, job_id, j.id);
	MSG_SET(&c, link_claim, number, link_number(&j));
	MSG_SET(&c, link_claim, decision, VERDICT_APPROVED);
	MSG_SET(&c, link_claim, expires_at,
		fsm_later(f, op->expires_in > 0 ? op->expires_in
						: LINK_DEFAULT_NS));
	if (op->by.n > 0)
		MSG_SET(&c, link_claim, by, op->by);
	r = link_make(f, op->salt, &c, &approve);
	MSG_SET(&c, link_claim, decision, VERDICT_REJECTED);
	if (r == 0)
		r = link_make(f, op->salt, &c, &reject);
	if (r < 0)
		return r;
	job_event(f, &j, EVENT_LINKS_MADE, links_data(f, op, c.expires_at));
	job_save(f, &j);
	MSG_SET(ret, approval_links, job_id, j.id);
	MSG_SET(ret, approval_links, approve, approve);
	MSG_SET(ret, approval_links, reject, reject);
	MSG_SET(ret, approval_links, expires_at, c.expires_at);
	return 0;
}

int apply_decide(struct fsm *f, const struct m_decide *op,
		 struct m_status_reply *ret)
{
	struct ruling said = { .via = DECIDED_VIA_LINK,
			       .comment = op->comment };
	struct m_link_claim c;
	struct job j;
	int r = link_open(f, op->token, f->now_ns, &c, &j);

	if (r < 0)
		return r;
	said.by = c.by;
	if (c.decision == VERDICT_APPROVED)
		r = policy_approve(f, &j, &said);
	else
		job_reject(f, &j, STR_NULL, &said);
	if (r == 0)
		MSG_SET(ret, status_reply, status, act_state_text(&j));
	return r;
}

/* --- deadlines --- */

static int pass_deadline(struct fsm *f, struct str id)
{
	struct ruling r = { .via = DECIDED_VIA_DEADLINE };
	const struct m_hold_state *h;
	struct job j;
	int err = job_find(f, id, &j);

	if (err < 0)
		return err;
	h = j.live.held;
	MUST(f, err > 0 && j.live.state == JOB_HELD && h != NULL &&
		    h->deadline <= f->now_ns && !h->escalated);
	budget_take_job(f);
	r.by = h->by;
	switch ((enum on_deadline)h->on_deadline) {
	case DEADLINE_APPROVE:
		return policy_approve(f, &j, &r);
	case DEADLINE_REJECT:
		job_reject(f, &j, STR("nobody has decided by the deadline"),
			   &r);
		return 0;
	case DEADLINE_ESCALATE:
		job_escalate(f, &j);
	}
	return 0;
}

int apply_deadline(struct fsm *f, const struct m_maintain *op,
		   struct m_maintain_reply *ret)
{
	struct portion p = { .max = maintain_limit(op) };
	struct due_scan s = { .max = p.max };
	uint64_t first = f->deadline_from;
	struct key k;
	int r;

	s.ids = arena_alloc(&f->item_arena, p.max * sizeof(*s.ids));
	key_prefix(&k, "hd|");
	r = due_scan_run(f, &k, first, &s);
	if (r < 0)
		return r;
	f->deadline_from = s.next;
	while (p.jobs < s.n && !portion_is_full(f, &p)) {
		r = pass_deadline(f, s.ids[p.jobs++]);
		if (r < 0)
			return r;
	}
	if (p.jobs < s.n) /* the next portion goes on from there */
		f->deadline_from = MIN(f->deadline_from, first);
	maintain_fill(p.jobs, p.jobs < s.n || s.next <= f->now_ns, ret);
	return 0;
}
