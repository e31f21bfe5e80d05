/*
 * The event feed. See serve/tail.h. Questions wait on the loop thread; the
 * answer is read from the store on the worker.
 */
#include "serve/tail.h"

#include <stdlib.h>

#include "rt/cpu_use.h"
#include "serve/pace.h"
#include "store/record.h"
#include "util/clock.h"
#include "util/list.h"

/* Memory of a large answer that is kept for the next one. A small answer says
 * that there is little to do: it gives the memory back. */
#define KEEP_BYTES  (16u << 20)
#define SMALL_BYTES (64u << 10)
/* After so long without an answer, too; before the store comes to rest, which
 * then returns what is free to the system. */
#define REST_NS (2 * NS_PER_S)

/* One question, waiting or being answered. */
struct ask {
	struct list node;
	struct rpc_req req;
	struct tail *t;
	uint64_t after_seq;
	uint32_t limit;
	bool late; /* the view is: this does not yield to writers */
	bool busy; /* writers need the processors */
	bool all;  /* the answer holds all there is */
	int err;
	struct buf out;
};

struct tail {
	struct parts *p;
	struct list waiting;
	struct loop_timer *next; /* when to look again */
	bool is_waiting;         /* that timer is armed */
	struct loop_timer *rest; /* since the last answer that was large */
	struct pace pace;
	struct cpu_use cpus;
	bool answers;       /* on a worker: one question at a time */
	struct arena arena; /* the worker's then */
	struct buf out;     /* of the last answer: its memory */
};

static void on_next(void *ctx)
{
	struct tail *t = ctx;

	t->is_waiting = false; /* tail_turn_end of this turn does the work */
}

static void on_rest(void *ctx)
{
	struct tail *t = ctx;

	if (t->answers) {
		loop_timer_arm(t->rest, REST_NS);
		return;
	}
	buf_done(&t->out);
	t->out = BUF_INIT(0);
	arena_done(&t->arena);
}

struct tail *tail_new(struct parts *p)
{
	struct tail *t = xcalloc(1, sizeof(*t));

	t->p = p;
	t->arena =
	    (struct arena){ .block_size = SMALL_BYTES, .keep = KEEP_BYTES };
	t->next = loop_timer_add(p->d->loop, on_next, t);
	t->rest = loop_timer_add(p->d->loop, on_rest, t);
	list_init(&t->waiting);
	return t;
}

static void ask_free(struct ask *a)
{
	list_remove(&a->node);
	buf_done(&a->out);
	free(a);
}

void tail_free(struct tail *t)
{
	if (t == NULL)
		return;
	LIST_FOREACH_SAFE (it, &t->waiting)
		ask_free(list_entry(it, struct ask, node));
	loop_timer_remove(t->next);
	loop_timer_remove(t->rest);
	cpu_use_done(&t->cpus);
	arena_done(&t->arena);
	buf_done(&t->out);
	free(t);
}

void tail_ask(struct tail *t, struct rpc_req req, const struct m_tail *m)
{
	struct ask *a = xcalloc(1, sizeof(*a));

	a->req = req;
	a->t = t;
	a->after_seq = m->after_seq;
	a->limit = m->limit == 0 ? LIMIT_TAIL_EVENTS : m->limit;
	a->late = m->late;
	list_init(&a->node);
	list_push_back(&t->waiting, &a->node); /* tail_turn_end looks at it */
}

/* What the worker answers is in no list: that goes on. */
void tail_cancel(struct tail *t, struct rpc_req req)
{
	LIST_FOREACH_SAFE (it, &t->waiting) {
		struct ask *a = list_entry(it, struct ask, node);

		if (rpc_req_is(a->req, req))
			ask_free(a);
	}
}

/* --- answering, on the worker --- */

static void answer_work(void *ctx)
{
	struct ask *a = ctx;
	struct arena *arena = &a->t->arena;
	struct m_tail_reply m;
	int r = -a->err;

	if (r == 0)
		r = record_feed(a->t->p->kv, a->after_seq, a->limit, arena, &m);
	a->err = r < 0 ? -r : 0;
	if (r == 0) {
		a->all = m.last_seq >= m.head_seq;
		MSG_SET(&m, tail_reply, busy, a->busy);
		msg_encode(&msg_tail_reply, &m, &a->out);
	}
	if (a->out.n > SMALL_BYTES)
		arena_reset(arena);
	else
		arena_done(arena);
}

static void answer_done(void *ctx)
{
	struct ask *a = ctx;
	struct tail *t = a->t;

	t->answers = false;
	pace_answered(&t->pace, a->err != 0 || a->all);
	if (a->err != 0)
		rpc_reply(a->req, a->err, 0, str_from(err_text(a->err)));
	else
		rpc_reply(a->req, 0, 0, buf_str(&a->out));
	if (a->out.n > SMALL_BYTES)
		loop_timer_arm(t->rest, REST_NS);
	if (a->out.n > SMALL_BYTES && a->out.cap <= KEEP_BYTES) {
		buf_done(&t->out);
		buf_clear(&a->out);
		t->out = a->out;
		a->out = BUF_INIT(0);
	}
	ask_free(a);
}

/* --- when to answer --- */

/* Behind the end, or ahead of it, is worth an answer. */
static bool has_news(const struct tail *t, const struct ask *a)
{
	return a->after_seq != fsm_last_seq(t->p->fsm);
}

/* True: answer now. Else the timer is armed for the moment when to look. */
static bool is_time(struct tail *t, struct ask *a)
{
	const struct proposer_stats *s = proposer_stats(t->p->proposer);
	uint64_t now = clock_mono_ns(), wait;

	pace_look(&t->pace, now, s->entries + s->foreign,
		  s->crowded + s->foreign_crowded,
		  cpu_use_is_busy(&t->cpus, now));
	wait = pace_wait(&t->pace, now);
	if (wait > 0) {
		t->is_waiting = true;
		loop_timer_arm(t->next, wait);
		return false;
	}
	a->busy = t->pace.saturated;
	pace_answer(&t->pace, now);
	return true;
}

static void start_answer(struct tail *t, struct ask *a)
{
	list_remove(&a->node);
	a->out = t->out;
	t->out = BUF_INIT(0);
	t->answers = true;
	a->err = -fsm_flush(t->p->fsm);
	worker_run(a->late ? t->p->prompt : t->p->worker, answer_work,
		   answer_done, a);
}

void tail_turn_end(struct tail *t)
{
	/* while the log is replayed the end is not where it was and will be */
	if (t->is_waiting || !node_is_whole(t->p->node))
		return;
	LIST_FOREACH_SAFE (it, &t->waiting) {
		struct ask *a = list_entry(it, struct ask, node);

		if (!rpc_req_is_live(a->req))
			ask_free(a);
		else if (!t->answers && has_news(t, a) && is_time(t, a))
			start_answer(t, a);
	}
}
