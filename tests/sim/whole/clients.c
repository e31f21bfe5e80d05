#include "clients_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pushed.h"
#include "util/clock.h"

/* --- calls --- */

static void on_reply(void *ctx, const struct rpc_reply *r)
{
	struct call *x = ctx;
	struct clients *c = x->c;
	struct whole_tally *t = &c->w->tally;

	list_remove(&x->node);
	sim_note(c->w->sim, "answer", x->op, x->number, (uint64_t)r->err,
		 r->seq, 0);
	if (r->err == 0)
		t->done++;
	else if (is_refusal(r->err))
		t->refused++;
	else
		t->unknown++;
	x->fn(x, r);
	free(x);
}

struct call *call(struct clients *c, struct call how, const struct msg_desc *d,
		  const void *m, uint64_t wait_ns)
{
	struct call *x = xcalloc(1, sizeof(*x));
	struct desk *desk = desk_any(c->w);
	struct buf b = BUF_INIT(0);

	*x = how;
	x->c = c;
	x->by = desk->m->host.number;
	x->asked_ns = c->w->sim->now_ns;
	msg_encode(d, m, &b);
	list_push_back(&c->open, &x->node);
	c->w->tally.requests++;
	sim_note(c->w->sim, op_info(how.op)->name, desk->m->host.number,
		 how.number, how.n, how.token, 0);
	x->ask =
	    desk_ask(desk, how.op, buf_str(&b),
		     clock_mono_ns() + wait_ns + OP_TIMEOUT_NS, on_reply, x);
	buf_done(&b);
	return x;
}

void call_withdraw(struct call *x)
{
	sim_note(x->c->w->sim, "withdraw", x->op, x->number, x->by, 0, 0);
	desk_withdraw(x->ask);
	list_remove(&x->node);
	free(x);
}

bool is_unsure(int err)
{
	return err == ERR_OUTCOME_UNKNOWN || err == ERR_INTERNAL_ERROR ||
	       err == ERR_BAD_MESSAGE;
}

bool is_refusal(int err)
{
	return err != 0 && !is_unsure(err);
}

/* --- jobs --- */

struct str queue_name(unsigned queue)
{
	static const char *const names[] = { "w0",      "w1",     "w2",
					     "wcostly", "wtimer", "wparked",
					     "wpushed" };

	CHECK(queue < ARRAY_SIZE(names));
	return str_from(names[queue]);
}

struct job_known *job(struct clients *c, uint64_t number)
{
	CHECK(number > 0 && number < c->jobs_n);
	return &c->jobs[number];
}

uint64_t new_job(struct clients *c)
{
	if ((c->jobs_n & (c->jobs_n - 1)) == 0)
		c->jobs = xrealloc(c->jobs, 2 * MAX(c->jobs_n, (size_t)1) *
						sizeof(*c->jobs));
	c->jobs[c->jobs_n] = (struct job_known){ 0 };
	return c->jobs_n++;
}

struct str clients_job_id(const struct clients *c, uint64_t number,
			  struct arena *a)
{
	unsigned again = c->jobs[number].again;

	if (again < 2)
		return arena_printf(a, "work_%" PRIu64, number);
	return arena_printf(a, "work_%" PRIu64 "_%u", number, again);
}

uint64_t number_of_id(struct str id)
{
	struct str number, rest;
	uint64_t ret = 0;

	if (!str_starts(id, STR("work_")))
		return 0;
	id = str_skip(id, 5);
	if (!str_split(id, '_', &number, &rest))
		number = id;
	return str_parse_u64(number, &ret) ? ret : 0;
}

uint64_t some_job(struct clients *c)
{
	uint64_t number;

	if (c->jobs_n < 2)
		return 0;
	number = 1 + sim_below(c->w->sim, c->jobs_n - 1);
	return job(c, number)->enqueue == JOB_ACKED && !job(c, number)->is_many
		   ? number
		   : 0;
}

/* --- people who change what is to become of jobs --- */

#define MEDDLE_MAX_NS (2 * NS_PER_S)

static void on_cancelled(struct call *x, const struct rpc_reply *r)
{
	struct job_known *j = job(x->c, x->number);

	/* one that runs ends when its worker says so, or its lease ends */
	if (r->err == 0 && j->ended_ns == 0)
		j->ended_ns = x->c->w->sim->now_ns;
	if (!is_refusal(r->err))
		j->may_be_done = true;
}

static void on_rerun(struct call *x, const struct rpc_reply *r)
{
	(void)x;
	(void)r;
}

static void meddle_with(struct clients *c, uint64_t number)
{
	struct job_known *j = job(c, number);
	struct arena a = ARENA_INIT;
	struct m_job_ref m = { 0 };
	struct call how = { .op = OP_CANCEL,
			    .fn = on_cancelled,
			    .number = number };

	if (j->is_done) {
		how.op = OP_RETRY;
		how.fn = on_rerun;
		j->is_again = true;
	}
	j->is_meddled = true;
	MSG_SET(&m, job_ref, job_id, clients_job_id(c, number, &a));
	call(c, how, &msg_job_ref, &m, 0);
	arena_done(&a);
}

static void on_meddle(void *ctx)
{
	struct clients *c = ctx;
	struct sim *s = c->w->sim;
	uint64_t number = some_job(c);

	/* most have ended: few of these are run again */
	if (number > 0 && (!job(c, number)->is_done || sim_chance(s, 30)))
		meddle_with(c, number);
	sim_after(s, &c->meddle, NULL, sim_between(s, 0, MEDDLE_MAX_NS),
		  on_meddle, c);
}

/* --- all of them --- */

void clients_begin(struct clients *c, struct whole *w)
{
	*c = (struct clients){ .w = w };
	list_init(&c->open);
	(void)new_job(c); /* the number 0 is none */
	c->people = people_new(c);
	c->pushed = pushed_new(c);
	workers_begin(c);
	produce_begin(c);
	sim_after(w->sim, &c->meddle, NULL, MEDDLE_MAX_NS, on_meddle, c);
}

void clients_calm(struct clients *c)
{
	c->is_quiet = true;
	sim_forget(c->w->sim, &c->produce);
	sim_forget(c->w->sim, &c->meddle);
	people_calm(c->people);
	pushed_calm(c->pushed);
}

/* It has ended, and how is known. */
static bool has_ended(const struct job_known *j)
{
	return j->is_done || j->ended_ns != 0;
}

/* The server is to make it, or has. */
static bool is_to_follow(const struct clients *c, const struct job_known *j)
{
	const struct job_range *r = &j->after[0];

	for (uint64_t i = r->from; i < r->from + r->n; i++) {
		const struct job_known *before = &c->jobs[i];

		if (before->enqueue == JOB_REFUSED && j->made == MADE_BY_BATCH)
			continue; /* it is in no batch */
		if (before->enqueue == JOB_UNKNOWN || !has_ended(before) ||
		    (j->made == MADE_BY_CHAIN &&
		     (!before->is_done || before->is_meddled)))
			return false;
	}
	return true;
}

static bool is_open(const struct clients *c, const struct job_known *j)
{
	if (j->enqueue == JOB_ASKED)
		return true;
	if (j->is_done || j->may_be_done || j->is_aside || j->is_many)
		return false;
	return j->enqueue == JOB_ACKED ||
	       (j->enqueue == JOB_FOLLOWS && is_to_follow(c, j));
}

bool clients_are_done(struct clients *c)
{
	if (!people_are_done(c->people) || !pushed_is_done(c->pushed))
		return false;
	/* mostly it is the one it was the last time */
	if (c->open_at > 0 && is_open(c, &c->jobs[c->open_at]))
		return false;
	for (c->open_at = c->jobs_n - 1; c->open_at > 0; c->open_at--)
		if (is_open(c, &c->jobs[c->open_at]))
			return false;
	return true;
}

void clients_check(struct clients *c)
{
	people_check(c->people);
}

uint64_t clients_some_job(const struct clients *c, bool *ret_ended)
{
	uint64_t number = 1 + sim_below(c->w->sim, MAX(c->jobs_n, (size_t)2));
	const struct job_known *j;

	if (number >= c->jobs_n || c->jobs[number].enqueue != JOB_ACKED)
		return 0;
	j = &c->jobs[number];
	if (j->is_many)
		return 0;
	*ret_ended = j->is_done && !j->is_again;
	return number;
}

bool clients_were_told_by(const struct clients *c, uint64_t number,
			  const struct machine *m)
{
	return c->jobs[number].acked_by == m->host.number;
}

bool clients_have_not_ended(const struct clients *c, uint64_t number)
{
	const struct job_known *j = &c->jobs[number];

	return j->acks == 0 && !j->may_be_done && !j->is_meddled;
}

void clients_tell(const struct clients *c, struct buf *ret)
{
	struct arena a = ARENA_INIT;
	uint64_t n = 0, first = 0;

	for (size_t i = c->jobs_n - 1; i > 0; i--)
		if (is_open(c, &c->jobs[i])) {
			n++;
			first = i;
		}
	buf_printf(ret,
		   "%" PRIu64 " of %zu jobs are not done, the first is %" PRIu64
		   ", given %" PRIu64 " times",
		   n, c->jobs_n - 1, first, c->jobs[first].times);
	buf_puts(ret, ": ");
	if (first > 0)
		witness_tell(c->w->witness, clients_job_id(c, first, &a), ret);
	if (!people_are_done(c->people))
		buf_puts(ret, "; what people have asked for is not done");
	pushed_tell(c->pushed, ret);
	arena_done(&a);
}

void clients_end(struct clients *c)
{
	struct sim *s = c->w->sim;

	sim_forget(s, &c->produce);
	sim_forget(s, &c->meddle);
	workers_end(c);
	people_free(c->people);
	pushed_free(c->pushed);
	LIST_FOREACH_SAFE (it, &c->open)
		free(list_entry(it, struct call, node));
	free(c->reports);
	free(c->jobs);
}
