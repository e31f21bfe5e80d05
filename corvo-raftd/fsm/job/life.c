/*
 * How jobs end, are held and get another attempt: see job/job.h. What several
 * operations do alike.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "util/json.h"

/* --- ends of a life --- */

/* What only means something while a worker has the job, or it waits. */
static void forget_waiting(struct job *j)
{
	j->live.scheduled_at = 0;
	MSG_UNSET(&j->live, job_live, scheduled_at);
	j->live.cancel_requested = false;
	MSG_UNSET(&j->live, job_live, cancel_requested);
	j->live.hold_reason = STR_NULL;
	MSG_UNSET(&j->live, job_live, hold_reason);
	j->live.held = NULL;
	MSG_UNSET(&j->live, job_live, held);
}

static void end_cancelled(struct fsm *f, struct job *j, struct str data)
{
	job_event(f, j, EVENT_CANCELLED, data);
	job_move(f, j, JOB_CANCELLED);
	forget_waiting(j);
	MSG_SET(&j->live, job_live, cancelled_at, f->now_ns);
	job_save(f, j);
}

void job_end_cancelled(struct fsm *f, struct job *j)
{
	end_cancelled(f, j, STR_NULL);
}

void job_abort(struct fsm *f, struct job *j, struct str error)
{
	MUST(f, j->live.state == JOB_ACTIVE);
	job_record_error(f, j, error, STR_NULL);
	end_cancelled(f, j, fsm_event_text(f, "error", error));
}

void job_end_dead(struct fsm *f, struct job *j, const char *reason)
{
	job_event(f, j, EVENT_DEAD,
		  fsm_event_text(f, "reason", str_from(reason)));
	job_move(f, j, JOB_DEAD);
	forget_waiting(j);
	MSG_SET(&j->live, job_live, failed_at, f->now_ns);
	job_save(f, j);
}

void job_end_expired(struct fsm *f, struct job *j)
{
	job_record_error(f, j, STR("job expired"), STR_NULL);
	job_event(f, j, EVENT_EXPIRED, STR_NULL);
	job_end_dead(f, j, "job expired");
	f->counters.expired++;
}

void job_back_to_pending(struct fsm *f, struct job *j)
{
	job_move(f, j, JOB_PENDING);
	forget_waiting(j);
	job_save(f, j);
}

/* --- holds and decisions --- */

static void put_text(struct json_writer *w, const char *name, struct str text)
{
	if (text.n == 0)
		return;
	jw_key(w, name);
	jw_str(w, text);
}

/* Nodes of level 1 do not know more than the reason. */
static bool says_who(const struct fsm *f)
{
	return f->cluster.level >= 2;
}

static struct str hold_data(struct fsm *f, const struct hold *h)
{
	struct json_writer w = JSON_WRITER(&f->data);

	if (!says_who(f))
		return h->reason.n > 0 ? fsm_event_text(f, "reason", h->reason)
				       : STR_NULL;
	buf_clear(&f->data);
	jw_object(&w);
	put_text(&w, "reason", h->reason);
	jw_key(&w, "kind");
	jw_cstr(&w, enum_text(&enum_hold_kind, h->kind));
	put_text(&w, "by", h->by);
	put_text(&w, "policy", h->policy);
	if (h->policy.n > 0) {
		jw_key(&w, "at");
		jw_cstr(&w, enum_text(&enum_policy_point, h->at));
	}
	if (h->deadline > 0) {
		jw_key(&w, "deadline");
		jw_time(&w, h->deadline);
	}
	jw_object_end(&w);
	return buf_str(&f->data);
}

/* What is known of the hold; of one after another, the time it waited for. */
static void note_held(struct fsm *f, struct job *j, const struct hold *h,
		      uint64_t resume_at)
{
	struct m_hold_state *m;

	if (!says_who(f))
		return;
	m = arena_zalloc(&f->item_arena, sizeof(*m));
	MSG_SET(m, hold_state, kind, h->kind);
	if (h->by.n > 0)
		MSG_SET(m, hold_state, by, h->by);
	MSG_SET(m, hold_state, since, f->now_ns);
	MSG_SET(m, hold_state, number, j->live.event);
	if (resume_at > 0)
		MSG_SET(m, hold_state, resume_at, resume_at);
	if (h->policy.n > 0) {
		MSG_SET(m, hold_state, policy, h->policy);
		MSG_SET(m, hold_state, at, h->at);
		MSG_SET(m, hold_state, iteration, h->iteration);
	}
	if (h->deadline > 0) {
		MSG_SET(m, hold_state, deadline, h->deadline);
		MSG_SET(m, hold_state, on_deadline, h->on_deadline);
	}
	MSG_SET(&j->live, job_live, held, m);
}

static void set_reason(struct job *j, struct str reason)
{
	if (reason.n > 0)
		MSG_SET(&j->live, job_live, hold_reason, reason);
}

void job_hold(struct fsm *f, struct job *j, const struct hold *h)
{
	struct m_hold_state *held;

	job_event(f, j, EVENT_HELD, hold_data(f, h));
	note_held(f, j, h, h->keeps_time ? j->live.scheduled_at : 0);
	job_move(f, j, JOB_HELD);
	held = j->live.held;
	forget_waiting(j);
	if (held != NULL)
		MSG_SET(&j->live, job_live, held, held);
	set_reason(j, h->reason);
	job_save(f, j);
}

void job_hold_on(struct fsm *f, struct job *j, const struct hold *h)
{
	uint64_t resume_at;

	MUST(f, j->live.state == JOB_HELD && j->live.held != NULL);
	resume_at = j->live.held->resume_at;
	job_event(f, j, EVENT_HELD, hold_data(f, h));
	job_leave_held(f, j);
	note_held(f, j, h, resume_at);
	job_enter_held(f, j);
	set_reason(j, h->reason);
	job_save(f, j);
}

void job_set_aside(struct fsm *f, struct job *j, const struct hold *h,
		   uint64_t until)
{
	struct json_writer w = JSON_WRITER(&f->data);

	/* by that name the budget finds it again */
	MUST(f, j->live.state == JOB_PENDING && h->by.n > 0);
	buf_clear(&f->data);
	jw_object(&w);
	put_text(&w, "reason", h->reason);
	put_text(&w, "budget", h->by);
	jw_key(&w, "until");
	jw_time(&w, until);
	jw_object_end(&w);
	job_event(f, j, EVENT_SET_ASIDE, buf_str(&f->data));
	MSG_SET(&j->live, job_live, scheduled_at, until);
	MSG_SET(&j->live, job_live, aside, h->by);
	job_move(f, j, JOB_SCHEDULED);
	job_save(f, j);
}

/* At most so many bytes, and whole characters. */
static struct str first_bytes(struct str s, size_t max)
{
	if (s.n <= max)
		return s;
	while (max > 0 && ((unsigned char)s.p[max] & 0xc0) == 0x80)
		max--;
	return str_of(s.p, max);
}

/* Of the same point and iteration those of before count too. */
static void note_passed(struct fsm *f, const struct m_job_live *l,
			struct m_decision *d)
{
	const struct m_hold_state *h = l->held;
	const struct m_decision *old = l->decision;
	bool same = old != NULL && old->passed_n > 0;
	struct str *ids;
	size_t n = 0;

	if (h == NULL || h->policy.n == 0) { /* it is where it was */
		if (!same)
			return;
		MSG_SET(d, decision, passed_at, old->passed_at);
		MSG_SET(d, decision, passed_in, old->passed_in);
		MSG_SET_LIST(d, decision, passed, old->passed, old->passed_n);
		return;
	}
	same =
	    same && old->passed_at == h->at && old->passed_in == h->iteration;
	ids = arena_alloc(&f->item_arena,
			  ((same ? old->passed_n : 0) + 1) * sizeof(*ids));
	for (size_t i = 0; same && i < old->passed_n; i++)
		if (!str_eq(old->passed[i], h->policy))
			ids[n++] = old->passed[i];
	ids[n++] = h->policy;
	MSG_SET(d, decision, passed_at, h->at);
	MSG_SET(d, decision, passed_in, h->iteration);
	MSG_SET_LIST(d, decision, passed, ids, n);
}

void job_decide(struct fsm *f, struct job *j, enum verdict verdict,
		const struct ruling *r)
{
	const struct m_job_live *l = &j->live;
	struct m_decision *d;

	MUST(f, l->state == JOB_HELD);
	f->counters.approved += verdict == VERDICT_APPROVED;
	f->counters.rejected += verdict == VERDICT_REJECTED;
	if (!says_who(f))
		return;
	d = arena_zalloc(&f->item_arena, sizeof(*d));
	MSG_SET(d, decision, decision, verdict);
	MSG_SET(d, decision, via, r->via);
	MSG_SET(d, decision, at, f->now_ns);
	if (r->by.n > 0)
		MSG_SET(d, decision, by, r->by);
	if (r->comment.n > 0)
		MSG_SET(d, decision, comment,
			first_bytes(r->comment, LIMIT_COMMENT_BYTES));
	if (l->hold_reason.n > 0)
		MSG_SET(d, decision, reason,
			first_bytes(l->hold_reason, LIMIT_COMMENT_BYTES));
	if (l->held != NULL && l->held->policy.n > 0)
		MSG_SET(d, decision, policy, l->held->policy);
	if (verdict == VERDICT_APPROVED)
		note_passed(f, l, d);
	MSG_SET(&j->live, job_live, decision, d);
}

/* reason: of a rejection, whole. */
static struct str decision_data(struct fsm *f, const struct job *j,
				struct str reason)
{
	const struct m_decision *d = j->live.decision;
	struct json_writer w = JSON_WRITER(&f->data);

	if (!says_who(f))
		return reason.n > 0 ? fsm_event_text(f, "reason", reason)
				    : STR_NULL;
	buf_clear(&f->data);
	jw_object(&w);
	put_text(&w, "reason", reason);
	put_text(&w, "by", d->by);
	put_text(&w, "comment", d->comment);
	jw_key(&w, "via");
	jw_cstr(&w, enum_text(&enum_decided_via, d->via));
	put_text(&w, "policy", d->policy);
	jw_object_end(&w);
	return buf_str(&f->data);
}

void job_tell_approved(struct fsm *f, struct job *j)
{
	job_event(f, j, EVENT_APPROVED, decision_data(f, j, STR_NULL));
}

/* Where it stood before somebody held it. */
static enum job_state state_after_hold(const struct fsm *f, struct job *j)
{
	uint64_t at = j->live.held != NULL ? j->live.held->resume_at : 0;

	if (at > f->now_ns)
		MSG_SET(&j->live, job_live, scheduled_at, at);
	if (j->live.waiting_on > 0)
		return JOB_BLOCKED;
	return at > f->now_ns ? JOB_SCHEDULED : JOB_PENDING;
}

void job_approve(struct fsm *f, struct job *j)
{
	enum job_state to = state_after_hold(f, j);
	uint64_t at = j->live.scheduled_at;

	job_tell_approved(f, j);
	job_move(f, j, to);
	forget_waiting(j);
	if (at > 0)
		MSG_SET(&j->live, job_live, scheduled_at, at);
	job_save(f, j);
}

void job_reject(struct fsm *f, struct job *j, struct str reason,
		const struct ruling *r)
{
	struct ruling said = *r;
	struct str text = STR("rejected");

	if (reason.n == 0)
		reason = r->comment;
	if (said.comment.n == 0)
		said.comment = reason;
	if (reason.n > 0)
		text = arena_printf(&f->item_arena, "rejected: %.*s",
				    STR_ARG(reason));
	job_decide(f, j, VERDICT_REJECTED, &said);
	job_record_error(f, j, text, STR_NULL);
	job_event(f, j, EVENT_REJECTED, decision_data(f, j, reason));
	job_end_dead(f, j, "rejected");
}

void job_escalate(struct fsm *f, struct job *j)
{
	struct m_hold_state *h = j->live.held;

	MUST(f, j->live.state == JOB_HELD && h != NULL);
	job_event(f, j, EVENT_HOLD_ESCALATED,
		  fsm_event_text(f, "policy", h->policy));
	job_leave_held(f, j);
	MSG_SET(h, hold_state, escalated, true);
	job_enter_held(f, j);
	job_save(f, j);
	f->counters.escalated++;
}

/* --- another attempt --- */

static uint64_t retry_delay(struct fsm *f, const struct job *j)
{
	const struct m_job_doc *d = &j->doc;

	return job_retry_delay((enum backoff)d->retry_backoff,
			       d->retry_base_delay, d->retry_max_delay,
			       d->retry_jitter, j->live.attempt, fsm_random(f));
}

int job_retry_or_die(struct fsm *f, struct job *j, const uint64_t *retry_after,
		     const char *reason)
{
	uint64_t delay, due;
	int r;

	MUST(f, j->live.state == JOB_ACTIVE && j->live.errors > 0);
	if (job_attempts_left(j->max_retries, j->live.attempt) == 0) {
		job_end_dead(f, j, reason);
		return 0;
	}
	r = job_need_doc(f, j);
	if (r < 0)
		return r;
	delay = retry_after != NULL ? *retry_after : retry_delay(f, j);
	due = fsm_later(f, delay);
	job_event(f, j, EVENT_RETRYING,
		  fsm_event_time(f, "next_attempt_at", due));
	if (delay == 0) {
		job_back_to_pending(f, j);
		return 0;
	}
	MSG_SET(&j->live, job_live, scheduled_at, due);
	job_move(f, j, JOB_RETRYING);
	job_save(f, j);
	return 0;
}
