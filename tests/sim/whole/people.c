/*
 * People, and what they ask for until it is done: settings of queues, a budget,
 * schedules, bulk operations, queues that are paused for a while.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "clients_impl.h"
#include "util/clock.h"
#include "util/hash.h"

#define AGAIN_NS      (300 * NS_PER_MS)
#define PAUSE_MAX_NS  (3 * NS_PER_S)
#define PAUSES_MAX_NS (8 * NS_PER_S) /* between two */
#define BULKS_MAX_NS  (20 * NS_PER_S)
#define BULK_JOBS_MAX 60
#define BULK_RATE_MAX 30
#define BULKS_MAX     32
#define SCHEDULES_MAX 2
#define EVERY_NS      (2 * NS_PER_S)
#define BUDGET_UNIT   UINT64_C(1000000000) /* a usd */

/* Something that is asked for until it is done. */
struct errand {
	struct people *p;
	struct sim_event next;
	bool is_done;
	unsigned at; /* the queue or schedule that is next */
};

enum bulk_stage { BULK_IS_ASKED, BULK_IS_NEW, BULK_IS_MADE, BULK_IS_OVER };

/* Jobs of a queue that nobody asks for, which are moved to another. */
struct bulk_sim {
	struct people *p;
	struct sim_event next;
	enum bulk_stage stage;
	bool is_void; /* there are no jobs */
	bool has_ended;
	struct job_range jobs;
	uint32_t rate;
};

struct timer_run {
	uint64_t scheduled_for, id;
};

struct schedule_sim {
	uint64_t number, first_ns; /* number of its jobs; first time */
	struct timer_run *runs;
	size_t n;
};

struct pause_sim {
	uint64_t since_ns; /* it was paused for sure; 0: it may not be */
	bool is_paused;    /* or may be */
	bool is_unsure;    /* a resume may come yet */
	unsigned resumes;  /* without an answer */
	uint64_t turns;
};

struct people {
	struct clients *c;
	struct errand queues, budget, schedules, pauses, bulks, look;
	struct pause_sim paused[QUEUES];
	struct schedule_sim schedule[SCHEDULES_MAX];
	struct bulk_sim bulk[BULKS_MAX];
	unsigned bulks_n, schedules_n;
	unsigned on_exceed;
	uint64_t amount;   /* of the budget */
	uint64_t spent_ns; /* all of it was spent by then; 0: it is not */
};

static struct sim *sim_of(const struct people *p)
{
	return p->c->w->sim;
}

static void next(struct errand *e, uint64_t max_ns, loop_fn *fn)
{
	struct sim *s = sim_of(e->p);

	if (!sim_is_due(&e->next))
		sim_after(s, &e->next, NULL, sim_skewed(s, 0, max_ns), fn, e);
}

/* --- settings of queues, for jobs that the server makes --- */

static void on_queues(void *ctx);

static void on_set_queue(struct call *x, const struct rpc_reply *r)
{
	struct errand *e = x->of;

	e->at += r->err == 0;
	e->is_done = e->at == QUEUE_PLAIN;
	if (!e->is_done)
		next(e, AGAIN_NS, on_queues);
}

static void on_queues(void *ctx)
{
	struct errand *e = ctx;
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, queue, queue_name(e->at));
	MSG_SET(&m, set_queue, max_retries, ATTEMPTS);
	MSG_SET(&m, set_queue, retry_base_delay, 10 * NS_PER_MS);
	MSG_SET(&m, set_queue, retry_max_delay, 200 * NS_PER_MS);
	call(e->p->c,
	     (struct call){ .op = OP_SET_QUEUE, .fn = on_set_queue, .of = e },
	     &msg_set_queue, &m, 0);
}

bool people_have_set_queues(const struct people *p)
{
	return p->queues.is_done;
}

/* --- a budget --- */

static void on_budget(void *ctx);

static void on_set_budget(struct call *x, const struct rpc_reply *r)
{
	struct errand *e = x->of;

	e->is_done = r->err == 0;
	if (!e->is_done)
		next(e, AGAIN_NS, on_budget);
}

static void on_budget(void *ctx)
{
	struct errand *e = ctx;
	struct people *p = e->p;
	struct m_budget m = { 0 };
	struct m_budget_limit l = { 0 };

	MSG_SET(&m, budget, scope, BUDGET_QUEUE);
	MSG_SET(&m, budget, target, queue_name(QUEUE_COSTLY));
	MSG_SET_LIST(&m, budget, limits, &l, 1);
	MSG_SET(&m, budget, on_exceed, p->on_exceed);
	/* strangers change when a day begins, but not what an hour is */
	MSG_SET(&l, budget_limit, amount, p->amount);
	MSG_SET(&l, budget_limit, per, BUDGET_PER_WINDOW);
	MSG_SET(&l, budget_limit, window, 3600 * NS_PER_S);
	call(p->c,
	     (struct call){ .op = OP_SET_BUDGET, .fn = on_set_budget, .of = e },
	     &msg_budget, &m, 0);
}

bool people_have_set_budget(const struct people *p)
{
	return p->budget.is_done;
}

void people_note_spent(struct people *p)
{
	if (p->spent_ns == 0 && p->c->spent >= p->amount)
		p->spent_ns = sim_of(p)->now_ns;
}

static bool stops_jobs(const struct people *p)
{
	return p->on_exceed == BUDGET_HOLD || p->on_exceed == BUDGET_REJECT;
}

static void check_budget(struct people *p)
{
	struct m_budget_list list = { 0 };
	struct arena a = ARENA_INIT;
	uint64_t least, most, spent = 0;

	fsm_budgets(witness_fsm(p->c->w->witness), clock_wall_ns(), &a, &list);
	for (size_t i = 0; i < list.budgets_n; i++)
		if (str_eq(list.budgets[i].target, queue_name(QUEUE_COSTLY)))
			spent = list.budgets[i].state[0].spent;
	reports_sum(p->c, &least, &most);
	if (spent < least || spent > most)
		whole_fail(p->c->w,
			   "a budget says that %" PRIu64 " are spent, and "
			   "%" PRIu64 " to %" PRIu64 " were reported",
			   spent, least, most);
	arena_done(&a);
}

/* --- schedules --- */

static void on_schedules(void *ctx);

static void on_set_schedule(struct call *x, const struct rpc_reply *r)
{
	struct errand *e = x->of;

	/* it may be there from a first try */
	e->at += r->err == 0 || r->err == ERR_CONFLICT;
	e->is_done = e->at == e->p->schedules_n;
	if (!e->is_done)
		next(e, AGAIN_NS, on_schedules);
}

static struct str schedule_id(unsigned i, struct arena *a)
{
	return arena_printf(a, "timer_%u", i);
}

static void on_schedules(void *ctx)
{
	struct errand *e = ctx;
	struct people *p = e->p;
	struct schedule_sim *t = &p->schedule[e->at];
	struct arena a = ARENA_INIT;
	struct m_schedule m = { 0 };
	struct m_schedule_job j = { 0 };
	uint64_t now_ns = clock_wall_ns();

	t->first_ns = now_ns - now_ns % EVERY_NS + 2 * EVERY_NS;
	MSG_SET(&j, schedule_job, payload,
		arena_printf(&a, "%" PRIu64, t->number));
	MSG_SET(&j, schedule_job, max_retries, ATTEMPTS);
	MSG_SET(&m, schedule, id, schedule_id(e->at, &a));
	MSG_SET(&m, schedule, name, m.id);
	MSG_SET(&m, schedule, queue, queue_name(QUEUE_TIMERS));
	MSG_SET(&m, schedule, cron, STR("*/2 * * * * *"));
	MSG_SET(&m, schedule, timezone, STR("UTC"));
	MSG_SET(&m, schedule, catch_up, CATCH_UP_ALL);
	MSG_SET(&m, schedule, create, true);
	MSG_SET(&m, schedule, job, &j);
	MSG_SET(&m, schedule, next_run, t->first_ns);
	call(p->c,
	     (struct call){
		 .op = OP_SET_SCHEDULE, .fn = on_set_schedule, .of = e },
	     &msg_schedule, &m, 0);
	arena_done(&a);
}

/* A time of a schedule has one job. */
void people_look_at_timer(struct people *p, const struct m_fetched *m)
{
	uint64_t id = hash_stable(m->job_id.p, m->job_id.n);
	struct schedule_sim *t = &p->schedule[0];
	struct arena a = ARENA_INIT;

	if (p->schedules_n > 1 && str_eq(m->schedule_id, schedule_id(1, &a)))
		t++;
	arena_done(&a);
	for (size_t i = 0; i < t->n; i++) {
		if (t->runs[i].scheduled_for != m->scheduled_for)
			continue;
		if (t->runs[i].id != id && !p->c->w->is_time_moved)
			whole_fail(p->c->w,
				   "a time of schedule %.*s has two jobs, one "
				   "of them %.*s",
				   STR_ARG(m->schedule_id), STR_ARG(m->job_id));
		return;
	}
	if ((t->n & (t->n - 1)) == 0)
		t->runs = xrealloc(t->runs,
				   2 * MAX(t->n, (size_t)1) * sizeof(*t->runs));
	t->runs[t->n++] = (struct timer_run){ m->scheduled_for, id };
}

/* Each time has come once, and none was left out. */
static void check_schedule(struct people *p, unsigned i)
{
	struct arena a = ARENA_INIT;
	struct m_schedule m;
	uint64_t now_ns = clock_wall_ns(), due;

	if (fsm_schedule(witness_fsm(p->c->w->witness), schedule_id(i, &a), &a,
			 &m) != 1)
		whole_fail(p->c->w, "schedule %u is gone", i);
	if (p->c->w->is_time_moved) {
		arena_done(&a);
		return;
	}
	due = (m.next_run - m.created_at + EVERY_NS - 1) / EVERY_NS;
	if (m.next_run + NS_PER_S < now_ns)
		whole_fail(p->c->w,
			   "schedule %u is %" PRIu64 " ms behind its time", i,
			   (now_ns - m.next_run) / NS_PER_MS);
	if (m.runs > due + 4 || m.runs + 2 < due)
		whole_fail(p->c->w,
			   "schedule %u has run %" PRIu64 " times of %" PRIu64,
			   i, m.runs, due);
	arena_done(&a);
}

/* --- pauses --- */

static void on_paused(struct call *x, const struct rpc_reply *r)
{
	struct people *p = ((struct errand *)x->of)->p;
	struct pause_sim *q = &p->paused[x->number];

	if (r->err == 0 && x->n == q->turns && !q->is_unsure)
		q->since_ns = sim_of(p)->now_ns;
}

static void on_resumed(struct call *x, const struct rpc_reply *r)
{
	struct people *p = ((struct errand *)x->of)->p;

	p->paused[x->number].resumes--;
	p->paused[x->number].is_unsure |= is_unsure(r->err);
}

static void turn(struct errand *e, unsigned queue, bool pauses)
{
	struct pause_sim *q = &e->p->paused[queue];
	struct m_queue_ref m = { 0 };

	q->is_paused = pauses;
	q->since_ns = 0;
	q->resumes += !pauses;
	q->turns++;
	MSG_SET(&m, queue_ref, queue, queue_name(queue));
	call(e->p->c,
	     (struct call){ .op = pauses ? OP_PAUSE : OP_RESUME,
			    .fn = pauses ? on_paused : on_resumed,
			    .of = e,
			    .number = queue,
			    .n = q->turns },
	     &msg_queue_ref, &m, 0);
}

/* When it is quiet all are resumed again and again: a pause may come late. */
static void on_pauses(void *ctx)
{
	struct errand *e = ctx;
	struct people *p = e->p;
	unsigned queue = (unsigned)sim_below(sim_of(p), QUEUE_PLAIN);

	if (p->c->is_quiet) {
		for (unsigned i = 0; i < QUEUE_PLAIN; i++)
			turn(e, i, false);
		sim_after(sim_of(p), &e->next, NULL, PAUSE_MAX_NS, on_pauses,
			  e);
		return;
	}
	if (p->paused[e->at].is_paused) {
		turn(e, e->at, false);
		next(e, PAUSES_MAX_NS, on_pauses);
	} else if (p->paused[queue].resumes == 0) {
		e->at = queue;
		turn(e, queue, true);
		next(e, PAUSE_MAX_NS, on_pauses);
	} else { /* one may overtake the other */
		next(e, PAUSE_MAX_NS, on_pauses);
	}
}

unsigned people_look_at(struct people *p, struct str name, uint64_t asked_ns)
{
	unsigned queue = 0;

	while (queue < QUEUES && !str_eq(name, queue_name(queue)))
		queue++;
	if (queue == QUEUES)
		whole_fail(p->c->w,
			   "a worker is given a job of queue %.*s, which it "
			   "did not ask for",
			   STR_ARG(name));
	if (p->paused[queue].since_ns != 0 &&
	    asked_ns > p->paused[queue].since_ns)
		whole_fail(
		    p->c->w,
		    "a job of queue %.*s is given to a worker that asked "
		    "when it was paused",
		    STR_ARG(name));
	if (queue == QUEUE_COSTLY && p->spent_ns != 0 && stops_jobs(p) &&
	    asked_ns > p->spent_ns)
		whole_fail(p->c->w, "a job is given to a worker that asked "
				    "when its budget was spent");
	return queue;
}

/* --- bulk operations --- */

static void on_bulk(void *ctx);

static void bulk_later(struct bulk_sim *b)
{
	struct sim *s = sim_of(b->p);

	if (b->stage != BULK_IS_OVER && !b->is_void && !sim_is_due(&b->next))
		sim_after(s, &b->next, NULL, sim_skewed(s, 0, AGAIN_NS),
			  on_bulk, b);
}

static void on_jobs(struct call *x, const struct rpc_reply *r)
{
	struct bulk_sim *b = x->of;

	note_enqueued(x, r);
	b->stage = BULK_IS_NEW;
	b->is_void = r->err != 0;
	bulk_later(b);
}

static void on_bulk_step(struct call *x, const struct rpc_reply *r)
{
	struct bulk_sim *b = x->of;

	if (r->err == 0)
		b->stage++;
	bulk_later(b);
}

static struct str bulk_id(const struct bulk_sim *b, struct arena *a)
{
	return arena_printf(a, "moved_%" PRIu64, b->jobs.from);
}

static void make_bulk(struct bulk_sim *b, struct arena *a)
{
	struct m_bulk_create m = { 0 };

	MSG_SET(&m, bulk_create, bulk_id, bulk_id(b, a));
	MSG_SET(&m, bulk_create, action, BULK_MOVE);
	MSG_SET(&m, bulk_create, move_to_queue, queue_name(0));
	if (b->rate > 0)
		MSG_SET(&m, bulk_create, rate, b->rate);
	call(b->p->c,
	     (struct call){ .op = OP_BULK_CREATE, .fn = on_bulk_step, .of = b },
	     &msg_bulk_create, &m, 0);
}

static void name_jobs(struct bulk_sim *b, struct arena *a)
{
	struct str *ids = arena_alloc(a, b->jobs.n * sizeof(*ids));
	struct m_bulk_add m = { 0 };

	for (uint64_t i = 0; i < b->jobs.n; i++)
		ids[i] = clients_job_id(b->p->c, b->jobs.from + i, a);
	MSG_SET(&m, bulk_add, bulk_id, bulk_id(b, a));
	MSG_SET_LIST(&m, bulk_add, job_ids, ids, b->jobs.n);
	MSG_SET(&m, bulk_add, last, true);
	call(b->p->c,
	     (struct call){ .op = OP_BULK_ADD, .fn = on_bulk_step, .of = b },
	     &msg_bulk_add, &m, 0);
}

static void on_bulk(void *ctx)
{
	struct bulk_sim *b = ctx;
	struct arena a = ARENA_INIT;

	if (b->stage == BULK_IS_NEW)
		make_bulk(b, &a);
	else
		name_jobs(b, &a);
	arena_done(&a);
}

static void on_bulks(void *ctx)
{
	struct errand *e = ctx;
	struct people *p = e->p;
	struct sim *s = sim_of(p);
	struct bulk_sim *b = &p->bulk[p->bulks_n];

	next(e, BULKS_MAX_NS, on_bulks);
	if (p->bulks_n == BULKS_MAX)
		return;
	p->bulks_n++;
	b->p = p;
	b->rate =
	    sim_chance(s, 70) ? (uint32_t)sim_between(s, 1, BULK_RATE_MAX) : 0;
	b->jobs.n = sim_between(s, 2, BULK_JOBS_MAX);
	b->jobs.from = produce_into(p->c, QUEUE_PARKED, b->jobs.n, on_jobs, b);
}

/* It has acted on each of its jobs once. */
static void look_at_bulk(struct bulk_sim *b)
{
	struct arena a = ARENA_INIT;
	struct m_bulk m;

	if (b->has_ended || b->is_void || b->stage != BULK_IS_OVER)
		return;
	if (fsm_bulk(witness_fsm(b->p->c->w->witness), bulk_id(b, &a), &a,
		     &m) != 1)
		whole_fail(b->p->c->w, "a bulk operation is gone");
	b->has_ended = m.finished_at != 0;
	if (b->has_ended &&
	    (m.status != BULK_COMPLETED || m.total != b->jobs.n ||
	     m.processed != m.total || m.affected + m.skipped != m.total))
		whole_fail(
		    b->p->c->w,
		    "a bulk operation of %" PRIu64 " jobs has ended with "
		    "%" PRIu64 " processed, %" PRIu64 " affected, "
		    "%" PRIu64 " skipped of %" PRIu64,
		    b->jobs.n, m.processed, m.affected, m.skipped, m.total);
	arena_done(&a);
}

static void on_look(void *ctx)
{
	struct errand *e = ctx;

	for (unsigned i = 0; i < e->p->bulks_n; i++)
		look_at_bulk(&e->p->bulk[i]);
	sim_after(sim_of(e->p), &e->next, NULL, AGAIN_NS, on_look, e);
}

/* --- all of them --- */

struct people *people_new(struct clients *c)
{
	struct people *p = xcalloc(1, sizeof(*p));
	struct sim *s = c->w->sim;
	struct errand *all[] = { &p->queues, &p->budget, &p->schedules,
				 &p->pauses, &p->bulks,  &p->look };

	p->c = c;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		all[i]->p = p;
	p->amount = sim_between(s, 1, 20) * BUDGET_UNIT;
	p->on_exceed = sim_chance(s, 60)   ? BUDGET_HOLD
		       : sim_chance(s, 50) ? BUDGET_ALERT
					   : BUDGET_REJECT;
	p->schedules_n = (unsigned)sim_between(s, 1, SCHEDULES_MAX);
	for (unsigned i = 0; i < p->schedules_n; i++) {
		p->schedule[i].number = new_job(c);
		*job(c, p->schedule[i].number) =
		    (struct job_known){ .enqueue = JOB_ACKED, .is_many = true };
	}
	next(&p->queues, NS_PER_S, on_queues);
	next(&p->budget, NS_PER_S, on_budget);
	next(&p->schedules, NS_PER_S, on_schedules);
	next(&p->pauses, PAUSES_MAX_NS, on_pauses);
	next(&p->bulks, BULKS_MAX_NS, on_bulks);
	next(&p->look, NS_PER_S, on_look);
	return p;
}

void people_calm(struct people *p)
{
	sim_forget(sim_of(p), &p->bulks.next);
	sim_forget(sim_of(p), &p->pauses.next);
	on_pauses(&p->pauses);
}

bool people_are_done(const struct people *p)
{
	for (unsigned i = 0; i < p->bulks_n; i++)
		if (!p->bulk[i].is_void && !p->bulk[i].has_ended)
			return false;
	return p->queues.is_done && p->budget.is_done && p->schedules.is_done;
}

void people_check(struct people *p)
{
	check_budget(p);
	for (unsigned i = 0; i < p->schedules_n; i++)
		check_schedule(p, i);
}

void people_free(struct people *p)
{
	struct sim *s = sim_of(p);
	struct errand *all[] = { &p->queues, &p->budget, &p->schedules,
				 &p->pauses, &p->bulks,  &p->look };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		sim_forget(s, &all[i]->next);
	for (unsigned i = 0; i < p->bulks_n; i++)
		sim_forget(s, &p->bulk[i].next);
	for (unsigned i = 0; i < p->schedules_n; i++)
		free(p->schedule[i].runs);
	free(p);
}
