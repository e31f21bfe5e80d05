/*
 * Jobs in our hands: from the fetch to the report. See push/push_impl.h.
 */
#include <stdlib.h>
#include <strings.h>

#include "proto/job.h"
#include "push/letter.h"
#include "push/outcome.h"
#include "push/push_impl.h"
#include "rt/log.h"

#define REDIRECTS_MAX 5

/* --- places --- */

void target_take_place(struct target *t)
{
	t->leased++;
	t->p->leased++;
}

void target_leave_place(struct target *t)
{
	t->leased--;
	t->p->leased--;
	push_pass_on(t);
}

static void take_place(struct pcall *c)
{
	c->q->leased++;
	target_take_place(c->target);
}

static void leave_place(struct pcall *c)
{
	c->q->leased--;
	push_look(c->q);
	target_leave_place(c->target);
}

/* --- reports --- */

static void report_done(struct pcall *c, const struct outcome *o)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, c->job.job_id);
	MSG_SET(&m, ack, lease_token, c->job.lease_token);
	if (o->result.n > 0)
		MSG_SET(&m, ack, result, o->result);
	MSG_SET(&m, ack, response, o->response);
	pcall_report(c, OP_ACK, &msg_ack, &m);
}

static void report_failed(struct pcall *c, const struct outcome *o)
{
	struct m_fail m = { 0 };

	MSG_SET(&m, fail, job_id, c->job.job_id);
	MSG_SET(&m, fail, lease_token, c->job.lease_token);
	MSG_SET(&m, fail, error, str_from(o->error));
	if (o->response.n > 0)
		MSG_SET(&m, fail, response, o->response);
	if (o->final)
		MSG_SET(&m, fail, retry, false);
	if (o->has_wait)
		MSG_SET(&m, fail, retry_after, o->wait_ns);
	pcall_report(c, OP_FAIL, &msg_fail, &m);
}

/* From now on it is the receiver's; its lease begins anew with this. */
static void report_accepted(struct pcall *c, const struct outcome *o)
{
	struct m_heartbeat m = { 0 };
	struct m_beat beat = { 0 };

	MSG_SET(&beat, beat, job_id, c->job.job_id);
	MSG_SET(&beat, beat, lease_token, c->job.lease_token);
	MSG_SET(&beat, beat, response, o->response);
	MSG_SET_LIST(&m, heartbeat, jobs, &beat, 1);
	pcall_report(c, OP_HEARTBEAT, &msg_heartbeat, &m);
}

void pcall_report_outcome(struct pcall *c, const struct outcome *o)
{
	switch (o->kind) {
	case OUTCOME_DONE:
		report_done(c, o);
		break;
	case OUTCOME_ACCEPTED:
		report_accepted(c, o);
		break;
	case OUTCOME_FAILED:
		report_failed(c, o);
		break;
	}
}

static void report_back(struct pcall *c)
{
	struct m_fail m = fetched_give_back(&c->job);

	pcall_report(c, OP_FAIL, &msg_fail, &m);
}

void push_give_back(struct push *p, const struct m_fetched *job)
{
	struct pcall *c = xcalloc(1, sizeof(*c));
	struct m_fail m = fetched_give_back(job);

	c->p = p;
	list_push_back(&p->calls, &c->node);
	c->job.job_id = arena_copy(&c->arena, job->job_id);
	pcall_report(c, OP_FAIL, &msg_fail, &m);
}

/* --- a call --- */

static void start(struct pcall *c);

static void end_uncalled(struct pcall *c, const char *why);

static bool may_follow(const struct pcall *c, const struct call_answer *a)
{
	return c->set->redirects && a->location != NULL &&
	       c->redirects < REDIRECTS_MAX && a->status >= 300 &&
	       a->status <= 399;
}

/* Another URL of the receiver's choice: checked like the first one. Its
 * credentials are left away: where it is relative they are ours, and what was
 * called is shown and kept. */
static bool follow(struct pcall *c, const struct call_answer *a)
{
	struct push_url parts;
	struct str url;
	const char *why;

	if (!may_follow(c, a))
		return false;
	url = str_from(a->location);
	if (!push_url_parse(url, &parts, &why)) {
		end_uncalled(c, why);
		return true;
	}
	url = push_url_bare(url, &parts, &c->arena);
	if (url.n > LIMIT_PUSH_URL_BYTES)
		return false;
	c->redirects++;
	c->url = arena_cstr(&c->arena, url);
	start(c);
	return true;
}

void target_note_end(struct target *t, const char *error)
{
	struct push *p = t->p;
	bool changed = host_ended(&t->h, &p->limits, clock_mono_ns(), error);

	push_tell(p);
	if (!changed) {
		target_go_on(t);
		return;
	}
	log_info("push: %s is %s", t->key,
		 t->h.breaker == BREAKER_OPEN ? "left alone for a while"
					      : "called again");
	if (t->h.breaker == BREAKER_OPEN)
		target_return(t);
	else
		target_go_on(t);
	LIST_FOREACH (it, &t->queues)
		push_look(list_entry(it, struct pqueue, of_target));
	webhooks_look_at(&t->hooks);
}

/* Others may have waited for its place, or for what it would tell of the host,
 * in queues beside its own too. */
void target_note_drop(struct target *t)
{
	host_dropped(&t->h);
	push_tell(t->p);
	heap_update(&t->p->target_wakes, &t->wake, clock_mono_ns());
}

static void note_end(struct pcall *c, const struct outcome *o)
{
	struct push *p = c->p;

	p->calls_n++;
	p->failures += o->kind == OUTCOME_FAILED;
	if (o->has_wait && o->wait_ns > 0)
		c->q->hold_ns = clock_mono_ns() + o->wait_ns;
	target_note_end(c->target, o->of_host ? o->error : NULL);
}

static void on_answer(void *ctx, struct call *call, const struct call_answer *a)
{
	struct pcall *c = ctx;
	struct outcome o;

	c->call = NULL;
	if (a->class == CALL_ANSWERED && follow(c, a))
		return;
	if (c->set->format == PUSH_SCHEDDB)
		outcome_judge_sdb(call, a, c->url, &c->arena, &o);
	else
		outcome_judge(call, a, c->url, c->p->d->settings.push_final_4xx,
			      clock_wall_ns(), &c->arena, &o);
	pcall_report_outcome(c, &o);
	note_end(c, &o);
}

static bool is_elsewhere(const struct pcall *c)
{
	struct push_url from, to;
	const char *why;

	return !push_url_parse(c->set->url, &from, &why) ||
	       !push_url_parse(str_from(c->url), &to, &why) ||
	       from.tls != to.tls || from.port != to.port ||
	       from.host.n != to.host.n ||
	       strncasecmp(from.host.p, to.host.p, to.host.n) != 0;
}

static uint64_t time_left(uint64_t end_ns, uint64_t now_ns)
{
	return end_ns > now_ns ? end_ns - now_ns : 0;
}

/* What is left of the call, redirects included, and of the attempt, if it has
 * an end. */
static uint64_t timeout_of(const struct pcall *c, uint64_t now_ns)
{
	uint64_t ns = c->set->timeout > 0 ? c->set->timeout : PUSH_TIMEOUT_NS;

	ns = time_left(c->began_ns + ns, clock_mono_ns());
	if (c->job.timeout_at != 0)
		ns = MIN(ns, time_left(c->job.timeout_at, now_ns));
	return MAX(ns, NS_PER_MS);
}

/* It cannot be called at all: only a redirect can lead there. */
static void end_uncalled(struct pcall *c, const char *why)
{
	struct outcome o = { .kind = OUTCOME_FAILED };

	o.error = arena_cstr(
	    &c->arena,
	    arena_printf(&c->arena, "http_error: the redirect %s", why));
	pcall_report_outcome(c, &o);
	note_end(c, &o);
}

static void start(struct pcall *c)
{
	uint64_t now_ns = clock_wall_ns();
	struct letter l = {
		.push = c->set,
		.job = &c->job,
		.now_ns = now_ns,
		.url = c->url,
		.elsewhere = c->redirects > 0 && is_elsewhere(c),
	};
	struct call_request r = {
		.timeout_ns = timeout_of(c, now_ns),
		.connect_timeout_ns = c->p->d->settings.push_connect_timeout,
		.body_max = LIMIT_RESULT_BYTES,
	};
	const char *why;

	if (!letter_write(&l, &c->arena, &r, &why)) {
		end_uncalled(c, why);
		return;
	}
	c->url = r.url;
	c->call = call_start(c->p->caller, &r, on_answer, c);
}

/* --- targets --- */

static void start_waiting(struct pcall *c, uint64_t now_ns)
{
	list_remove(&c->wait);
	c->state = PCALL_CALLING;
	c->began_ns = now_ns;
	host_called(&c->target->h, &c->p->limits, now_ns);
	bucket_take(&c->q->bucket, c->q->set->rate, now_ns);
	start(c);
}

void target_go_on(struct target *t)
{
	uint64_t now_ns = clock_mono_ns(), at_ns = 0;

	while (!list_empty(&t->waiting)) {
		if (!host_may_call(&t->h, &t->p->limits, now_ns, &at_ns))
			break;
		start_waiting(list_entry(t->waiting.next, struct pcall, wait),
			      now_ns);
	}
	if (at_ns != 0)
		heap_update(&t->p->target_wakes, &t->wake, at_ns);
	webhooks_look_at(&t->hooks);
}

void target_return(struct target *t)
{
	while (!list_empty(&t->waiting)) {
		struct pcall *c =
		    list_entry(t->waiting.next, struct pcall, wait);

		list_remove(&c->wait);
		report_back(c);
	}
}

/* --- jobs --- */

static void copy_job(struct pcall *c, const struct m_fetched *job)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	msg_encode(&msg_fetched, job, &b);
	CHECK(msg_decode(&msg_fetched, arena_copy(&c->arena, buf_str(&b)),
			 &c->arena, &c->job) == 0);
}

/* They are the call's own: the queue may be changed meanwhile. */
static void copy_settings(struct pcall *c)
{
	c->set = arena_alloc(&c->arena, sizeof(*c->set));
	CHECK(msg_decode(&msg_push, arena_copy(&c->arena, c->q->encoded),
			 &c->arena, c->set) == 0);
}

/* A job of Scheduled-DB goes to a host of its own; false: nobody is called, and
 * *o says what becomes of it. */
static bool address(struct pcall *c, struct outcome *o)
{
	struct target *old = c->target;

	if (c->set->format == PUSH_SCHEDDB && !pcall_take_url(c, o))
		return false;
	c->url = arena_cstr(&c->arena, c->set->url);
	if (c->set->format != PUSH_SCHEDDB)
		return true;
	target_leave_place(old);
	c->target = target_get(c->p, c->set->url, SDB_TARGET);
	target_take_place(c->target);
	target_put(old);
	return true;
}

static void line_up(struct pcall *c)
{
	struct outcome o = { 0 };

	copy_settings(c);
	if (!address(c, &o)) {
		pcall_report_outcome(c, &o);
		return;
	}
	list_push_back(&c->target->waiting, &c->wait);
	if (c->target->h.breaker == BREAKER_OPEN)
		target_return(c->target);
	else
		target_go_on(c->target);
}

static bool is_unsure(const struct pcall *c)
{
	return c->job.push_version > c->q->set->version;
}

void pqueue_settle(struct pqueue *q)
{
	LIST_FOREACH_SAFE (it, &q->unsure) {
		struct pcall *c = list_entry(it, struct pcall, wait);
		struct target *old = c->target;

		if (is_unsure(c))
			continue;
		list_remove(it);
		if (old != q->target) {
			target_leave_place(old);
			c->target = q->target;
			c->target->refs++;
			target_take_place(c->target);
			target_put(old);
		}
		line_up(c);
	}
}

void pqueue_return_unsure(struct pqueue *q)
{
	LIST_FOREACH_SAFE (it, &q->unsure) {
		list_remove(it);
		report_back(list_entry(it, struct pcall, wait));
	}
}

void pcall_add(struct pqueue *q, const struct m_fetched *job)
{
	struct push *p = q->p;
	struct pcall *c = xcalloc(1, sizeof(*c));

	c->p = p;
	c->q = q;
	c->target = q->target;
	c->target->refs++;
	copy_job(c, job);
	q->open++;
	list_push_back(&p->calls, &c->node);
	take_place(c);
	pcall_beat_first(c);
	if (is_unsure(c)) {
		list_push_back(&q->unsure, &c->wait);
		push_refresh(p);
	} else {
		line_up(c);
	}
}

/* The call, or the place of one that waits, is over. */
void pcall_leave(struct pcall *c)
{
	if (c->q == NULL || c->state == PCALL_REPORTING)
		return;
	leave_place(c);
}

/* --- ends --- */

void pcall_free(struct pcall *c)
{
	struct pqueue *q = c->q;
	struct target *t = c->target;

	list_remove(&c->node);
	list_remove(&c->wait);
	pcall_beat_end(c);
	if (c->call != NULL)
		call_cancel(c->call);
	arena_done(&c->arena);
	free(c);
	if (q == NULL)
		return;
	target_put(t);
	q->open--;
	pqueue_drop(q);
}

void pcalls_free(struct push *p)
{
	LIST_FOREACH_SAFE (it, &p->calls)
		pcall_free(list_entry(it, struct pcall, node));
}
