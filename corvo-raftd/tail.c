/*
 * The event feed. See tail.h. Questions wait on the loop thread; the answer
 * is read from the store on the worker.
 */
#include "tail.h"

#include <stdlib.h>

#include "rt/cpu_use.h"
#include "store/record.h"
#include "util/clock.h"
#include "util/list.h"

#define PACE_NS           (25 * NS_PER_MS)
#define PACE_SATURATED_NS (250 * NS_PER_MS)
#define SATURATED_EVENTS  512 /* in one answer, then */
/* Mean ops per entry, in DEPTH_ONE-ths, at which that begins and ends. */
#define DEPTH_ONE  16
#define DEPTH_HIGH (13 * DEPTH_ONE)
#define DEPTH_LOW  (11 * DEPTH_ONE)
#define DEPTH_MAX  (24 * DEPTH_ONE) /* more counts as that */

/* One question, waiting or being answered. */
struct ask {
	struct list node;
	struct rpc_req req;
	struct raftd *r;
	uint64_t after_seq;
	uint32_t limit;
	bool busy; /* writers need the processors */
	int err;
	struct buf out;
};

struct tail {
	struct raftd *r;
	struct list waiting;
	struct loop_timer *pace; /* the next answer may be given */
	bool paced;              /* that timer is armed */
	uint64_t answered_ns;    /* last answer */
	uint64_t looked_ns;      /* at the log, and its state then: */
	uint64_t looked_entries;
	uint64_t looked_ops;
	uint64_t depth; /* of entries, smoothed, in DEPTH_ONE-ths */
	bool saturated;
	struct cpu_use cpus;
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
	a->r = t->r;
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
	struct m_tail_reply m;
	int r = -a->err;

	if (r == 0)
		r = record_feed(a->r->kv, a->after_seq, a->limit, &arena, &m);
	a->err = r < 0 ? -r : 0;
	if (r == 0) {
		keep_ends(&m);
		MSG_SET(&m, tail_reply, busy, a->busy);
		msg_encode(&msg_tail_reply, &m, &a->out);
	}
	arena_done(&arena);
}

static void answer_done(void *ctx)
{
	struct ask *a = ctx;

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

/*
 * Deep entries say that more operations come than can be written one by one:
 * three to eight while a node does half of what it can, fifteen and more when
 * clients wait for it. A slow disk makes them deep, too, but leaves processors
 * idle; then the view is in nobody's way.
 */
static void look_at_log(struct tail *t, uint64_t now)
{
	const struct proposer_stats *p = proposer_stats(t->r->proposer);
	uint64_t entries = p->entries - t->looked_entries;
	uint64_t depth = 0;

	if (now - t->looked_ns < PACE_NS)
		return;
	if (now - t->looked_ns > PACE_SATURATED_NS) /* there was nothing new */
		t->depth = 0;
	if (entries > 0)
		depth = (p->ops - t->looked_ops) * DEPTH_ONE / entries;
	/* one slow flush of the disk makes one very deep entry */
	t->depth = (7 * t->depth + MIN(depth, (uint64_t)DEPTH_MAX)) / 8;
	t->looked_ns = now;
	t->looked_entries = p->entries;
	t->looked_ops = p->ops;
	if (t->depth >= DEPTH_HIGH)
		t->saturated = cpu_use_is_busy(&t->cpus, now);
	else if (t->depth < DEPTH_LOW)
		t->saturated = false;
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

/* True: answer now. Else the timer is armed for the moment when to look. */
static bool is_time(struct tail *t, struct ask *a)
{
	uint64_t now = clock_mono_ns(), pace = PACE_NS;
	uint64_t since = now - t->answered_ns;

	look_at_log(t, now);
	a->busy = t->saturated;
	if (t->saturated && !is_far_behind(t, a)) {
		pace = PACE_SATURATED_NS;
		a->limit = MIN(a->limit, (uint32_t)SATURATED_EVENTS);
	}
	if (since >= pace) {
		t->answered_ns = now;
		return true;
	}
	/* the log may be another one after the shorter pause */
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
			worker_run(t->r->worker, answer_work, answer_done, a);
		}
	}
}
