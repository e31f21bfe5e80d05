/*
 * Workers: they fetch, live, die, stand still, say things twice and too late.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "clients_impl.h"
#include "fetches.h"
#include "util/clock.h"
#include "util/hash.h"

#define WORKERS_MAX   8
#define HELD_MAX      8
#define FETCH_MAX_NS  (3 * NS_PER_S)
#define LEASE_MIN_NS  NS_PER_S
#define LEASE_MAX_NS  (6 * NS_PER_S)
#define WORK_MAX_NS   (4 * NS_PER_S)
#define LONG_MAX_NS   (20 * NS_PER_S) /* of some: several leases */
#define LONG_PERCENT  3
#define QUICK_MAX_NS  (20 * NS_PER_MS) /* when there are no new jobs */
#define REST_MAX_NS   (500 * NS_PER_MS)
#define AGAIN_PERCENT 8 /* of acks that are sent twice */
#define DEATH_PERCENT 3 /* of fetches: their worker dies by and by */
#define DEATH_MAX_NS  (2 * NS_PER_S)

/* A job in a worker's hands. */
struct held {
	uint64_t number; /* 0: none */
	uint64_t token, lease_ns;
	size_t report; /* the last one; 0: none */
	char id[JOB_ID_BYTES];
	struct sim_event end, beat;
	struct worker_sim *worker;
};

struct worker_sim {
	struct clients *c;
	unsigned number;
	char name[24];
	struct held held[HELD_MAX];
	struct call *asks; /* for jobs; NULL: it does not */
	bool is_told; /* a budget was spent: it asks once for other queues */
	struct sim_event next, death;
};

/* --- fetching --- */

static void on_worker(void *ctx);

static void rest(struct worker_sim *k, uint64_t max)
{
	if (k->c->is_quiet)
		max = QUICK_MAX_NS;
	if (!sim_is_due(&k->next))
		sim_after(k->c->w->sim, &k->next, NULL,
			  sim_skewed(k->c->w->sim, 0, max), on_worker, k);
}

static struct held *free_place(struct worker_sim *k)
{
	for (size_t i = 0; i < HELD_MAX; i++)
		if (k->held[i].number == 0)
			return &k->held[i];
	return NULL;
}

static void let_go(struct held *h)
{
	struct sim *s = h->worker->c->w->sim;

	sim_forget(s, &h->end);
	sim_forget(s, &h->beat);
	h->number = 0;
}

static call_fn on_fetched;
static void on_death(void *ctx);

static void fetch(struct worker_sim *k)
{
	struct sim *s = k->c->w->sim;
	struct str queues[QUEUES];
	struct m_fetch m = { 0 };
	size_t n = 0, places = 0;
	uint64_t wait = sim_chance(s, 30) ? 0 : sim_between(s, 0, FETCH_MAX_NS);
	uint64_t lease =
	    sim_between(s, LEASE_MIN_NS / NS_PER_S, LEASE_MAX_NS / NS_PER_S) *
	    NS_PER_S;

	for (unsigned i = 0; i < QUEUES; i++) {
		queues[n] = queue_name(i);
		n += (sim_chance(s, 80) || (i + 1 == QUEUES && n == 0)) &&
		     !(i == QUEUE_COSTLY && k->is_told);
	}
	k->is_told = false;
	for (size_t i = 0; i < HELD_MAX; i++)
		places += k->held[i].number == 0;
	MSG_SET_LIST(&m, fetch, queues, queues, n);
	MSG_SET(&m, fetch, worker_id, str_from(k->name));
	MSG_SET(&m, fetch, timeout, wait);
	MSG_SET(&m, fetch, lease_duration, lease);
	MSG_SET(&m, fetch, count, (uint32_t)sim_between(s, 1, places));
	MSG_SET(&m, fetch, fetch_id, rng_u64(&s->rng));
	k->asks = call(k->c,
		       (struct call){ .op = OP_FETCH,
				      .fn = on_fetched,
				      .worker = k,
				      .token = m.fetch_id,
				      .lease_ns = lease },
		       &msg_fetch, &m, wait);
	if (!k->c->is_quiet && !sim_is_due(&k->death) &&
	    sim_chance(s, DEATH_PERCENT))
		sim_after(s, &k->death, NULL, sim_below(s, wait + DEATH_MAX_NS),
			  on_death, k);
}

static void on_worker(void *ctx)
{
	struct worker_sim *k = ctx;

	if (k->asks == NULL && free_place(k) != NULL)
		fetch(k);
}

/* What it has in its hands is forgotten, and nobody hears what it asked for. */
static void on_death(void *ctx)
{
	struct worker_sim *k = ctx;

	if (k->c->is_quiet)
		return;
	k->c->w->tally.worker_deaths++;
	sim_note(k->c->w->sim, "worker dies", k->number, k->asks != NULL, 0, 0,
		 0);
	if (k->asks != NULL)
		call_withdraw(k->asks);
	k->asks = NULL;
	for (size_t i = 0; i < HELD_MAX; i++)
		if (k->held[i].number != 0)
			let_go(&k->held[i]);
	rest(k, REST_MAX_NS);
}

/* --- what is given --- */

/* The payload is the number, or has it as a member. */
static uint64_t number_of(struct clients *c, const struct m_fetched *m)
{
	static const char name[] = "\"n\":";
	const char *at =
	    memmem(m->payload.p, m->payload.n, name, sizeof(name) - 1);
	struct str text = m->payload;
	uint64_t number = 0;
	size_t n = 0;

	if (at != NULL) {
		text = str_skip(m->payload,
				(size_t)(at - m->payload.p) + sizeof(name) - 1);
		while (n < text.n && text.p[n] >= '0' && text.p[n] <= '9')
			n++;
		text.n = n;
	}
	if (!str_parse_u64(text, &number) || number == 0 || number >= c->jobs_n)
		whole_fail(c->w, "a worker is given %.*s, which nobody sent",
			   STR_ARG(m->payload));
	return number;
}

/* There is one job of the number, and it is the one that was asked for. */
static void look_at_id(struct clients *c, uint64_t number, struct str id)
{
	struct job_known *j = job(c, number);
	uint64_t hash = hash_stable(id.p, id.n) | 1;

	if (j->id != 0 && j->id != hash)
		whole_fail(c->w, "job %" PRIu64 " is there twice, once as %.*s",
			   number, STR_ARG(id));
	j->id = hash;
	if (j->enqueue == JOB_REFUSED)
		whole_fail(c->w,
			   "job %" PRIu64 " was refused, and is given to "
			   "a worker",
			   number);
}

static void look_at_time(struct clients *c, uint64_t number)
{
	const struct job_known *j = job(c, number);
	uint64_t now = c->w->sim->now_ns;

	if (now < j->not_before_ns && !c->w->is_time_moved)
		whole_fail(c->w,
			   "job %" PRIu64 " is given to a worker %" PRIu64
			   " ms before its time",
			   number, (j->not_before_ns - now) / NS_PER_MS);
	for (size_t i = 0; i < JOB_AFTER; i++)
		for (uint64_t n = j->after[i].from;
		     n < j->after[i].from + j->after[i].n; n++)
			if (clients_have_not_ended(c, n))
				whole_fail(c->w,
					   "job %" PRIu64 " is given to a "
					   "worker before job %" PRIu64
					   ", which it comes after",
					   number, n);
}

static void look_at_end(struct clients *c, uint64_t number,
			const struct call *x, uint64_t token)
{
	const struct job_known *j = job(c, number);

	if (j->is_again)
		return;
	if (j->ended_ns != 0 && x->asked_ns > j->ended_ns)
		whole_fail(c->w,
			   "job %" PRIu64 " is given to a worker that asked "
			   "after its end was answered",
			   number);
	if (j->is_done && token > j->done_token)
		whole_fail(c->w,
			   "job %" PRIu64 " is given to a worker after its "
			   "ack was answered",
			   number);
}

static void look_at_turn(struct clients *c, uint64_t number,
			 const struct m_fetched *m)
{
	const struct job_known *j = job(c, number);
	unsigned n = m->agent != NULL ? m->agent->iteration : 1;

	/* an answer may be older than others that came before */
	if (m->lease_token < j->last_token || j->is_again)
		return;
	if (n < 1 + j->turns_told || n > 1 + j->turns_asked)
		whole_fail(c->w,
			   "job %" PRIu64 " is in iteration %u, and %u to %u "
			   "have ended",
			   number, n, j->turns_told, j->turns_asked);
}

/* Tokens grow; an answer may be older than others that came before. */
static void look_at_lease(struct clients *c, uint64_t number,
			  const struct call *x, uint64_t token)
{
	struct job_known *j = job(c, number);
	uint64_t now = c->w->sim->now_ns;

	if (j->token != 0 && j->token < token && now < j->until_ns)
		whole_fail(c->w,
			   "job %" PRIu64
			   " is given to a second worker %" PRIu64
			   " ms before the lease of the first one ends",
			   number, (j->until_ns - now) / NS_PER_MS);
	if (j->token >= token || (j->is_done && !j->is_again))
		return;
	j->token = token;
	j->until_ns = x->asked_ns + x->lease_ns;
}

static void look_at(struct clients *c, uint64_t number, const struct call *x,
		    const struct m_fetched *m)
{
	struct job_known *j = job(c, number);

	j->times++;
	j->queue = people_look_at(c->people, m->queue, x->asked_ns);
	if (j->is_many) {
		people_look_at_timer(c->people, m);
		return;
	}
	look_at_id(c, number, m->job_id);
	look_at_time(c, number);
	look_at_end(c, number, x, m->lease_token);
	look_at_turn(c, number, m);
	look_at_lease(c, number, x, m->lease_token);
	if (m->lease_token > j->last_token) {
		j->last_token = m->lease_token;
		j->given_ns = c->w->sim->now_ns;
	}
}

static void beat(void *ctx);
static void end_held(void *ctx);

static void take(struct worker_sim *k, const struct call *x,
		 const struct m_fetched *m)
{
	struct clients *c = k->c;
	struct sim *s = c->w->sim;
	uint64_t number = number_of(c, m);
	struct held *h = free_place(k);
	uint64_t work_ns;

	sim_note(s, "given", k->number, number, m->lease_token, m->attempt, 0);
	c->w->tally.given++;
	look_at(c, number, x, m);
	if (h == NULL)
		return;
	if (c->is_quiet)
		work_ns = sim_skewed(s, 0, QUICK_MAX_NS);
	else if (sim_chance(s, LONG_PERCENT))
		work_ns = sim_between(s, WORK_MAX_NS, LONG_MAX_NS);
	else
		work_ns = sim_skewed(s, 0, WORK_MAX_NS);
	*h = (struct held){ .number = number,
			    .token = m->lease_token,
			    .lease_ns = x->lease_ns,
			    .worker = k };
	(void)snprintf(h->id, sizeof(h->id), "%.*s", STR_ARG(m->job_id));
	sim_after(s, &h->end, NULL, work_ns, end_held, h);
	if (sim_chance(s, 60))
		sim_after(s, &h->beat, NULL, h->lease_ns / 3, beat, h);
}

static void on_fetched(struct call *x, const struct rpc_reply *r)
{
	struct worker_sim *k = x->worker;
	struct arena a = ARENA_INIT;
	struct m_fetch_reply m;

	k->asks = NULL;
	fetches_hear(witness_fetches(k->c->w->witness), x->token, r);
	if (r->err == 0) {
		CHECK(msg_decode(&msg_fetch_reply, r->body, &a, &m) == 0);
		for (size_t i = 0; i < m.jobs_n; i++)
			take(k, x, &m.jobs[i]);
	}
	k->is_told = r->err == ERR_BUDGET_EXCEEDED;
	arena_done(&a);
	rest(k, REST_MAX_NS);
}

/* --- the end of an attempt --- */

static void on_acked(struct call *x, const struct rpc_reply *r)
{
	struct job_known *j = job(x->c, x->number);

	report_heard(x, r->err, true);
	if (x->is_turn) {
		j->turns_told += r->err == 0;
		j->turns_asked -= is_refusal(r->err);
		return;
	}
	if (r->err == 0) {
		j->is_done = true;
		j->done_token = x->token;
		j->done_ns = j->ended_ns = x->c->w->sim->now_ns;
		j->token = 0;
	} else if (!is_refusal(r->err)) {
		j->may_be_done = true;
	}
}

static void ack(struct held *h, struct call how, struct m_usage *u)
{
	struct worker_sim *k = h->worker;
	struct job_known *j = job(k->c, h->number);
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, str_from(h->id));
	MSG_SET(&m, ack, lease_token, h->token);
	if (u != NULL)
		MSG_SET(&m, ack, usage, u);
	if (j->turns_asked < j->turns) {
		MSG_SET(&m, ack, agent_status, AGENT_CONTINUE);
		how.is_turn = true;
		j->turns_asked++;
		j->token = 0; /* from now on it may go on */
	} else {
		j->acks++;
	}
	how.op = OP_ACK;
	how.fn = on_acked;
	call(k->c, how, &msg_ack, &m, 0);
}

static void on_failed(struct call *x, const struct rpc_reply *r)
{
	report_heard(x, r->err, true);
}

static void fail(struct held *h, struct call how, struct m_usage *u)
{
	struct worker_sim *k = h->worker;
	struct m_fail m = { 0 };

	MSG_SET(&m, fail, job_id, str_from(h->id));
	MSG_SET(&m, fail, lease_token, h->token);
	MSG_SET(&m, fail, error, STR("no"));
	if (sim_chance(k->c->w->sim, 30))
		MSG_SET(&m, fail, requeue, true);
	else if (u != NULL)
		MSG_SET(&m, fail, usage, u);
	if (!MSG_HAS(&m, fail, usage)) {
		report_sent(k->c, how.report, -1);
		how.report = 0;
	}
	how.op = OP_FAIL;
	how.fn = on_failed;
	job(k->c, h->number)->token = 0; /* from now on it may go on */
	call(k->c, how, &msg_fail, &m, 0);
}

/* Some say it twice, maybe by two nodes: as if the answer had been lost. */
static void end_well(struct held *h, struct call how, struct m_usage *u)
{
	struct clients *c = h->worker->c;

	ack(h, how, u);
	if (job(c, h->number)->turns > 0 ||
	    !sim_chance(c->w->sim, AGAIN_PERCENT))
		return;
	report_sent(c, how.report, 1);
	ack(h, how, u);
}

static void end_held(void *ctx)
{
	struct held *h = ctx;
	struct worker_sim *k = h->worker;
	struct sim *s = k->c->w->sim;
	struct arena a = ARENA_INIT;
	struct m_usage usage = { 0 }, *u = NULL;
	struct call how = { .worker = k,
			    .number = h->number,
			    .token = h->token };
	uint64_t what = sim_below(s, 100);

	if (what < 92 && job(k->c, h->number)->queue == QUEUE_COSTLY) {
		h->report = report_next(k->c, h->report, &usage, &a);
		u = &usage;
		how.report = h->report;
	}
	if (what < 80)
		end_well(h, how, u);
	else if (what < 92)
		fail(h, how, u);
	/* else it is forgotten: its lease ends */
	arena_done(&a);
	let_go(h);
	rest(k, REST_MAX_NS);
}

/* --- signs of life --- */

/* Who asks after the job was given to another one has no lease any more, and
 * whoever says so does not lead any more. */
static void look_at_beat(const struct call *x, const struct job_known *j)
{
	if (x->token < j->last_token && x->asked_ns > j->given_ns)
		whole_fail(x->c->w,
			   "the lease of job %" PRIu64 " is prolonged %" PRIu64
			   " ms after another worker was given it",
			   x->number, (x->asked_ns - j->given_ns) / NS_PER_MS);
}

static void on_beaten(struct call *x, const struct rpc_reply *r)
{
	struct job_known *j = job(x->c, x->number);
	struct arena a = ARENA_INIT;
	struct m_heartbeat_reply m;
	bool is_taken = false;

	if (r->err == 0) {
		CHECK(msg_decode(&msg_heartbeat_reply, r->body, &a, &m) == 0);
		CHECK(m.jobs_n == 1);
		is_taken = m.jobs[0].code.n == 0 && !m.jobs[0].unknown;
		if (str_is(m.jobs[0].status, "ok"))
			look_at_beat(x, j);
		if (str_is(m.jobs[0].status, "ok") && j->token == x->token)
			j->until_ns =
			    MAX(j->until_ns, x->asked_ns + x->lease_ns);
	}
	report_heard(x, r->err, is_taken);
	arena_done(&a);
}

static void beat(void *ctx)
{
	struct held *h = ctx;
	struct worker_sim *k = h->worker;
	struct sim *s = k->c->w->sim;
	struct arena a = ARENA_INIT;
	struct m_heartbeat m = { 0 };
	struct m_usage u = { 0 };
	struct m_beat b = { 0 };
	struct call how = { .op = OP_HEARTBEAT,
			    .fn = on_beaten,
			    .worker = k,
			    .number = h->number,
			    .token = h->token,
			    .lease_ns = h->lease_ns };

	MSG_SET(&b, beat, job_id, str_from(h->id));
	MSG_SET(&b, beat, lease_token, h->token);
	if (sim_chance(s, 20))
		MSG_SET(&b, beat, progress, STR("{\"half\":true}"));
	if (job(k->c, h->number)->queue == QUEUE_COSTLY) {
		h->report = report_next(k->c, h->report, &u, &a);
		how.report = h->report;
		MSG_SET(&b, beat, usage, &u);
	}
	MSG_SET(&m, heartbeat, worker_id, str_from(k->name));
	MSG_SET_LIST(&m, heartbeat, jobs, &b, 1);
	call(k->c, how, &msg_heartbeat, &m, 0);
	sim_after(s, &h->beat, NULL, h->lease_ns / 3, beat, h);
	arena_done(&a);
}

/* --- all of them --- */

void workers_begin(struct clients *c)
{
	struct sim *s = c->w->sim;

	reports_begin(c);
	c->workers_n = sim_between(s, 1, WORKERS_MAX);
	c->workers = xcalloc(c->workers_n, sizeof(*c->workers));
	for (size_t i = 0; i < c->workers_n; i++) {
		struct worker_sim *k = &c->workers[i];

		k->c = c;
		k->number = (unsigned)i;
		(void)snprintf(k->name, sizeof(k->name), "w%zu", i);
		rest(k, REST_MAX_NS);
	}
}

void workers_end(struct clients *c)
{
	for (size_t i = 0; i < c->workers_n; i++) {
		struct worker_sim *k = &c->workers[i];

		sim_forget(c->w->sim, &k->next);
		sim_forget(c->w->sim, &k->death);
		for (size_t n = 0; n < HELD_MAX; n++)
			if (k->held[n].number != 0)
				let_go(&k->held[n]);
	}
	free(c->workers);
}
