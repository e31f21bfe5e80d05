/*
 * The event feed. See tail.h. Questions wait on the loop thread; the answer
 * is read from the store on the worker.
 */
#include "tail.h"

#include <stdlib.h>

#include "store/record.h"
#include "util/clock.h"
#include "util/list.h"

#define PACE_NS           (25 * NS_PER_MS)
#define PACE_SATURATED_NS (250 * NS_PER_MS)
#define SATURATED_DEPTH   8 /* ops per entry that say so, */
#define SATURATED_LOOKS   2 /* and so many hindered answers on end */
/* Events in one answer while entries are deep. */
#define SHARE_FIRST 1024
#define SHARE_MIN   512
/* An answer was hindered when the worker got less than half of a processor,
 * not counting the time any thread needs to wake up. */
#define HINDERED_NS (4 * NS_PER_MS)

/* One question, waiting or being answered. */
struct ask {
	struct list node;
	struct rpc_req req;
	struct tail *tail;
	uint64_t after_seq;
	uint32_t limit;
	uint64_t given_ns; /* to the worker */
	bool hindered;     /* others needed the processors meanwhile */
	bool full;         /* there was more */
	int err;
	struct buf out;
};

struct tail {
	struct raftd *r;
	struct list waiting;
	struct loop_timer *pace; /* the next answer may be given */
	bool paced;              /* that timer is armed */
	uint64_t answered_ns;    /* last answer, and the log's state then: */
	uint64_t answered_entries;
	uint64_t answered_ops;
	unsigned hindered; /* answers on end */
	uint32_t share;    /* SHARE_*: grows while answers are not hindered */
};

static void on_pace(void *ctx)
{
	struct tail *t = ctx;

	t->paced = false; /* tail_turn_end of this turn does the work */
}

struct tail *tail_new(struct raftd *r)
{
	struct tail *t = xcalloc(1, sizeof(*t));

	t->r = r;
	t->share = SHARE_FIRST;
	t->pace = loop_timer_add(r->d->loop, on_pace, t);
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
	loop_timer_remove(t->pace);
	free(t);
}

void tail_ask(struct tail *t, struct rpc_req req, const struct m_tail *m)
{
	struct ask *a = xcalloc(1, sizeof(*a));

	a->req = req;
	a->tail = t;
	a->after_seq = m->after_seq;
	a->limit = m->limit == 0 ? LIMIT_TAIL_EVENTS : m->limit;
	list_init(&a->node);
	list_push_back(&t->waiting, &a->node); /* tail_turn_end looks at it */
}

/* --- answering, on the worker --- */

/* Of the events themselves the view only wants to know the time. */
static void keep_ends(struct m_tail_reply *m)
{
	if (m->events_n <= 2)
		return;
	m->events[1] = m->events[m->events_n - 1];
	m->events_n = 2;
}

static void answer_work(void *ctx)
{
	struct ask *a = ctx;
	struct arena arena = { .block_size = 64 * 1024 };
	uint64_t start_ns = clock_cpu_ns(), cpu_ns;
	struct m_tail_reply m;
	int r = -a->err;

	if (r == 0)
		r = record_feed(a->tail->r->kv, a->after_seq, a->limit, &arena,
				&m);
	a->err = r < 0 ? -r : 0;
	if (r == 0) {
		a->full = m.events_n == a->limit;
		keep_ends(&m);
		msg_encode(&msg_tail_reply, &m, &a->out);
	}
	arena_done(&arena);
	cpu_ns = clock_cpu_ns() - start_ns;
	a->hindered = clock_mono_ns() - a->given_ns > 2 * cpu_ns + HINDERED_NS;
}

/* What the next answer may cost follows from what this one did. */
static void learn(struct tail *t, const struct ask *a)
{
	t->hindered = a->hindered ? t->hindered + 1 : 0;
	if (a->hindered)
		t->share = MAX(t->share / 2, (uint32_t)SHARE_MIN);
	else if (a->full)
		t->share = MIN(t->share * 2, (uint32_t)LIMIT_TAIL_EVENTS);
}

static void answer_done(void *ctx)
{
	struct ask *a = ctx;

	learn(a->tail, a);
	if (a->err != 0)
		rpc_reply(a->req, a->err, 0, str_from(err_text(a->err)));
	else
		rpc_reply(a->req, 0, 0, buf_str(&a->out));
	ask_free(a);
}

/* --- when to answer --- */

/* Behind the end, or ahead of it, is worth an answer. */
static bool has_news(const struct tail *t, const struct ask *a)
{
	return a->after_seq != fsm_last_seq(t->r->fsm);
}

/* Ops per entry since the last answer. */
static uint64_t depth(const struct tail *t, const struct proposer_stats *p)
{
	uint64_t entries = p->entries - t->answered_entries;

	return entries == 0 ? 0 : (p->ops - t->answered_ops) / entries;
}

/*
 * A view that would lose events to their retention is not kept waiting: to
 * build it anew costs more.
 */
static bool is_far_behind(const struct tail *t, const struct ask *a)
{
	return fsm_last_seq(t->r->fsm) - a->after_seq >
	       t->r->d->settings.event_retention / 2;
}

/*
 * True: answer now. Else the timer is armed for the moment when to look.
 *
 * Deep entries alone do not say that the processors are busy: many clients
 * at once make them deep on an idle machine too. So the worker, which runs at
 * low priority, must have been kept from running as well, and not just once.
 */
static bool is_time(struct tail *t, struct ask *a)
{
	const struct proposer_stats *p = proposer_stats(t->r->proposer);
	uint64_t now = clock_mono_ns(), pace = PACE_NS;
	uint64_t since = now - t->answered_ns;

	if (depth(t, p) >= SATURATED_DEPTH && !is_far_behind(t, a)) {
		a->limit = MIN(a->limit, t->share);
		if (t->hindered >= SATURATED_LOOKS)
			pace = PACE_SATURATED_NS;
	}
	if (since >= pace) {
		t->answered_ns = now;
		t->answered_entries = p->entries;
		t->answered_ops = p->ops;
		return true;
	}
	/* the depth may be another one after the shorter pause */
	t->paced = true;
	loop_timer_arm(t->pace, MIN(pace - since, PACE_NS));
	return false;
}

void tail_turn_end(struct tail *t)
{
	/* while the log is replayed the end is not where it was and will be */
	if (t->paced || !node_is_ready(t->r->node))
		return;
	LIST_FOREACH_SAFE (it, &t->waiting) {
		struct ask *a = list_entry(it, struct ask, node);

		if (!rpc_req_is_live(a->req)) {
			ask_free(a);
		} else if (has_news(t, a) && is_time(t, a)) {
			list_remove(it);
			a->err = -fsm_flush(t->r->fsm);
			a->given_ns = clock_mono_ns();
			worker_run(t->r->worker, answer_work, answer_done, a);
		}
	}
}
