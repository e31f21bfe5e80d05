#include "pushed.h"

#include <inttypes.h>
#include <stdlib.h>

#include "clients_impl.h"
#include "proto/job.h"

#define AGAIN_NS   (300 * NS_PER_MS)
#define JOBS_NS    (3 * NS_PER_S) /* between jobs, at most */
#define JOBS_MAX   5
#define TIMEOUT_NS NS_PER_S
#define URL_JOBS   "http://jobs.example/push"
#define HOOK       "ends"
#define URL_EVENTS "http://events.example/hook"

/* Jobs of one request. */
struct pushed_job {
	uint64_t number;
	bool is_there, is_void; /* neither: nobody knows yet */
	bool is_called;         /* and the receiver was well */
	bool is_done;
	bool is_told; /* its end was */
};

struct pushed {
	struct clients *c;
	struct sim_event set, produce, look;
	unsigned at; /* settings that are made */
	struct pushed_job *jobs;
	size_t n;
	size_t over_n;   /* the first ones of them need no look any more */
	size_t waits_n;  /* of all, those that are not done */
	size_t untold_n; /* and those whose end was not told */
};

enum { SET_QUEUE, SET_HOOK, SET_ALL };

static struct sim *sim_of(const struct pushed *p)
{
	return p->c->w->sim;
}

/* --- settings --- */

static void on_set(void *ctx);

static void on_was_set(struct call *x, const struct rpc_reply *r)
{
	struct pushed *p = x->of;

	p->at += r->err == 0;
	if (p->at < SET_ALL)
		sim_after(sim_of(p), &p->set, NULL, AGAIN_NS, on_set, p);
}

static void set_queue(struct pushed *p)
{
	struct m_set_queue m = { 0 };
	struct m_push push = { 0 };

	MSG_SET(&push, push, url, STR(URL_JOBS));
	MSG_SET(&push, push, timeout, TIMEOUT_NS);
	MSG_SET(&m, set_queue, queue, queue_name(QUEUE_PUSHED));
	MSG_SET(&m, set_queue, lease_duration, 5 * NS_PER_S);
	MSG_SET(&m, set_queue, push, &push);
	call(p->c,
	     (struct call){ .op = OP_SET_QUEUE, .fn = on_was_set, .of = p },
	     &msg_set_queue, &m, 0);
}

static void set_hook(struct pushed *p)
{
	struct str events[] = { STR("completed") };
	struct str queues[] = { queue_name(QUEUE_PUSHED) };
	struct m_set_webhook m = { 0 };

	MSG_SET(&m, set_webhook, id, STR(HOOK));
	MSG_SET(&m, set_webhook, url, STR(URL_EVENTS));
	MSG_SET_LIST(&m, set_webhook, events, events, 1);
	MSG_SET_LIST(&m, set_webhook, queues, queues, 1);
	MSG_SET(&m, set_webhook, retry_limit, LIMIT_ATTEMPTS);
	MSG_SET(&m, set_webhook, retry_delay, 10 * NS_PER_MS);
	MSG_SET(&m, set_webhook, retry_max_delay, NS_PER_S);
	MSG_SET(&m, set_webhook, timeout, TIMEOUT_NS);
	MSG_SET(&m, set_webhook, disable_after, 0);
	call(p->c,
	     (struct call){ .op = OP_SET_WEBHOOK, .fn = on_was_set, .of = p },
	     &msg_set_webhook, &m, 0);
}

static void on_set(void *ctx)
{
	struct pushed *p = ctx;

	if (p->at == SET_QUEUE)
		set_queue(p);
	else
		set_hook(p);
}

/* --- jobs --- */

static struct pushed_job *find(struct pushed *p, uint64_t number)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->jobs[i].number == number)
			return &p->jobs[i];
	return NULL;
}

/* They may be done before this is heard. */
static void on_produced(struct call *x, const struct rpc_reply *r)
{
	note_enqueued(x, r);
	for (uint64_t i = 0; i < x->n; i++)
		find(x->of, x->number + i)->is_there = r->err == 0;
	for (uint64_t i = 0; r->err != 0 && i < x->n; i++)
		find(x->of, x->number + i)->is_void = true;
}

static void produce(struct pushed *p, uint64_t n)
{
	uint64_t first = produce_into(p->c, QUEUE_PUSHED, n, on_produced, p);

	for (uint64_t i = 0; i < n; i++) {
		if ((p->n & (p->n - 1)) == 0)
			p->jobs = xrealloc(p->jobs, 2 * MAX(p->n, (size_t)1) *
							sizeof(*p->jobs));
		p->jobs[p->n++] = (struct pushed_job){ .number = first + i };
	}
}

static void on_produce(void *ctx)
{
	struct pushed *p = ctx;
	struct sim *s = sim_of(p);

	if (p->at == SET_ALL)
		produce(p, sim_between(s, 1, JOBS_MAX));
	sim_after(s, &p->produce, NULL, sim_below(s, JOBS_NS), on_produce, p);
}

/* The number behind that text, which may be that of a job. */
static uint64_t number_behind(struct str body, const char *text)
{
	const char *at = memmem(body.p, body.n, text, strlen(text));
	struct str rest = body, number;
	uint64_t ret = 0;

	if (at == NULL)
		return 0;
	rest = str_skip(body, (size_t)(at - body.p) + strlen(text));
	return str_split(rest, '"', &number, &rest) &&
		       str_parse_u64(number, &ret)
		   ? ret
		   : 0;
}

void pushed_hear(struct pushed *p, struct str url, struct str body, bool ok)
{
	struct pushed_job *j = NULL;
	uint64_t number;

	if (str_eq(url, STR(URL_JOBS))) {
		if (!str_parse_u64(body, &number) || number == 0 ||
		    number >= p->c->jobs_n)
			whole_fail(p->c->w, "%.*s is pushed, which nobody sent",
				   STR_ARG(body));
		job(p->c, number)->acks++;
		j = find(p, number);
		if (j != NULL)
			j->is_called |= ok;
		/* the answer of who sent it may come later, or never */
	} else if (str_eq(url, STR(URL_EVENTS)) && ok) {
		j = find(p, number_behind(body, "\"work_"));
		if (j != NULL)
			j->is_told = true;
	}
}

/* It has completed because somebody was called. */
static void look_at(struct pushed *p, struct pushed_job *j)
{
	struct arena a = ARENA_INIT;
	struct m_job m;

	if (j->is_void)
		j->is_done = j->is_told = true;
	if (j->is_done || !j->is_there)
		return;
	if (!witness_job(p->c->w->witness, clients_job_id(p->c, j->number, &a),
			 &a, &m))
		whole_fail(p->c->w, "job %" PRIu64 ", which is pushed, is gone",
			   j->number);
	j->is_done = job_state_is_terminal(m.state);
	if (m.state == JOB_COMPLETED && !j->is_called &&
	    job(p->c, j->number)->acks == 0)
		whole_fail(p->c->w,
			   "job %" PRIu64
			   " is completed, and nobody was called",
			   j->number);
	if (j->is_done && m.state != JOB_COMPLETED)
		j->is_told = true; /* it was cancelled */
	if (j->is_done)
		job(p->c, j->number)->may_be_done = true;
	arena_done(&a);
}

static bool is_over(const struct pushed_job *j)
{
	return j->is_done && j->is_told;
}

static void on_look(void *ctx)
{
	struct pushed *p = ctx;

	p->waits_n = p->untold_n = 0;
	for (size_t i = p->over_n; i < p->n; i++) {
		look_at(p, &p->jobs[i]);
		p->waits_n += !p->jobs[i].is_done;
		p->untold_n += !p->jobs[i].is_told;
	}
	while (p->over_n < p->n && is_over(&p->jobs[p->over_n]))
		p->over_n++;
	sim_after(sim_of(p), &p->look, NULL, AGAIN_NS, on_look, p);
}

/* --- all of it --- */

struct pushed *pushed_new(struct clients *c)
{
	struct pushed *p = xcalloc(1, sizeof(*p));
	struct sim *s = c->w->sim;

	p->c = c;
	sim_after(s, &p->set, NULL, NS_PER_S, on_set, p);
	sim_after(s, &p->produce, NULL, NS_PER_S, on_produce, p);
	sim_after(s, &p->look, NULL, NS_PER_S, on_look, p);
	return p;
}

void pushed_calm(struct pushed *p)
{
	sim_forget(sim_of(p), &p->produce);
}

/* Nobody can be told of an event that is not kept any more. */
static uint64_t may_be_untold(const struct pushed *p)
{
	struct m_webhook m;

	if (p->c->w->plan.event_retention == 0 ||
	    !fsm_webhook(witness_fsm(p->c->w->witness), STR(HOOK), &m))
		return 0;
	return m.failed + m.lost;
}

bool pushed_is_done(const struct pushed *p)
{
	return p->at == SET_ALL && p->waits_n == 0 &&
	       (p->untold_n == 0 || p->untold_n <= may_be_untold(p));
}

void pushed_tell(const struct pushed *p, struct buf *ret)
{
	const struct pushed_job *j = &p->jobs[p->over_n];
	struct m_webhook m;

	if (p->at < SET_ALL || p->over_n == p->n || pushed_is_done(p) ||
	    !fsm_webhook(witness_fsm(p->c->w->witness), STR(HOOK), &m))
		return;
	buf_printf(ret,
		   "; job %" PRIu64 ", which is pushed, is %s, and its end %s "
		   "(the webhook has come to event %" PRIu64 ", delivered "
		   "%" PRIu64 ", failed %" PRIu64 ", lost %" PRIu64
		   ", waits with %" PRIu64 "; %.*s), one of %zu; of the "
		   "event log %" PRIu64 " are kept",
		   j->number, j->is_done ? "done" : "not done",
		   j->is_told ? "was told" : "was not told", m.position,
		   m.delivered, m.failed, m.lost, m.pending,
		   STR_ARG(m.last_error), p->untold_n,
		   p->c->w->plan.event_retention);
}

void pushed_free(struct pushed *p)
{
	struct sim *s = sim_of(p);

	sim_forget(s, &p->set);
	sim_forget(s, &p->produce);
	sim_forget(s, &p->look);
	free(p->jobs);
	free(p);
}
