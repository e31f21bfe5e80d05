/*
 * clock_set: the leader's clock was set, and this entry is the first to carry
 * the time it says now.
 *
 * Times that somebody chose (scheduled_at, expiry, retention, the times of a
 * schedule) stay as they are: the clock comes to them sooner or later. What is
 * counted from now must move. An end that a job in a worker's hands has is
 * where it was, seen from now, when the clock was set forward; after it was set
 * back it is at most one period away, since what is left of it cannot always be
 * told. So is a retry. Schedules are planned anew by who can compute their
 * times, and bulk operations go on at once. Rates forget what they counted in
 * the time to come.
 *
 * None of it does harm to what came after the clock was set, so the walk need
 * not know which is which.
 */
#include "fsm/core/clock.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/job.h"
#include "fsm/job/timing.h"
#include "fsm/ops/clock.h"
#include "fsm/ops/maintain.h"
#include "fsm/ops/ops.h"
#include "fsm/order/lane.h"
#include "fsm/ties/bulk.h"
#include "fsm/ties/schedule.h"

#define WALK_KEYS 250 /* of one operation: others want room in its entry */

/* --- what moves --- */

/* An end that was so long after its beginning. */
static uint64_t moved(const struct fsm *f, uint64_t end, uint64_t period)
{
	const struct fsm_clock *c = &f->clock;

	if (clock_went_forward(f))
		end = time_after(end, c->to_ns - c->from_ns);
	return MIN(end, fsm_later(f, period));
}

static int move_timeout(struct fsm *f, struct fsm_active *a)
{
	struct job j;
	uint64_t at;
	int r = job_find(f, a->id, &j);

	MUST(f, r != 0);
	if (r > 0)
		r = job_need_doc(f, &j);
	if (r < 0)
		return r;
	budget_take_job(f);
	at = moved(f, j.live.timeout_at, timing_limit(&j));
	if (at == j.live.timeout_at)
		return 0;
	MSG_SET(&j.live, job_live, timeout_at, at);
	active_set_timeout(f, a, at);
	job_event(f, &j, EVENT_CLOCK_SET, fsm_event_time(f, "timeout_at", at));
	job_save(f, &j);
	return 0;
}

/* The part of a key behind a queue. */
static struct str behind_queue(struct fsm *f, struct str rest)
{
	struct str queue, ret;
	uint32_t space;

	MUST(f, key_take_space(&rest, &space));
	MUST(f, str_split(rest, '\0', &queue, &ret));
	return ret;
}

static int move_active(struct fsm *f, struct fsm_active *a)
{
	uint64_t end = moved(f, a->lease.key, a->granted_ns);

	if (end != a->lease.key)
		active_set_lease(f, a, end);
	return a->timeout.pos != 0 ? move_timeout(f, a) : 0;
}

static int visit_active(struct fsm *f, struct str rest)
{
	struct fsm_active *a = active_find(f, behind_queue(f, rest));

	MUST(f, a != NULL);
	return move_active(f, a);
}

static int move_retry(struct fsm *f, struct str id)
{
	struct job j;
	uint64_t delay;
	int r = job_find(f, id, &j);

	MUST(f, r != 0);
	if (r < 0)
		return r;
	budget_take_job(f);
	if (j.live.failed_at <= f->now_ns)
		return 0;
	delay =
	    j.live.scheduled_at - MIN(j.live.failed_at, j.live.scheduled_at);
	MSG_SET(&j.live, job_live, failed_at, f->now_ns);
	job_reschedule(f, &j, fsm_later(f, delay));
	job_event(f, &j, EVENT_CLOCK_SET,
		  fsm_event_time(f, "next_attempt_at", j.live.scheduled_at));
	job_save(f, &j);
	return 0;
}

static int visit_retrying(struct fsm *f, struct str rest)
{
	return move_retry(f, str_skip(behind_queue(f, rest), 8));
}

static int visit_schedule(struct fsm *f, struct str rest)
{
	uint64_t by = f->clock.from_ns - f->clock.to_ns;
	struct m_schedule s;
	uint32_t space;
	int r;

	MUST(f, key_take_space(&rest, &space));
	r = schedule_find(f, rest, &s);
	MUST(f, r != 0);
	if (r < 0 || s.next_run == 0)
		return MIN(r, 0);
	MSG_SET(&s, schedule, set_back_ns, time_after(s.set_back_ns, by));
	schedule_save(f, &s);
	return 0;
}

static int visit_bulk(struct fsm *f, struct str id)
{
	struct m_bulk m;
	int r = bulk_find(f, id, &m);

	MUST(f, r != 0);
	if (r < 0 || m.due_ns <= f->now_ns)
		return MIN(r, 0);
	MSG_SET(&m, bulk, due_ns, f->now_ns);
	bulk_save(f, &m);
	return 0;
}

/* --- the walk --- */

typedef int visit_fn(struct fsm *f, struct str rest);

/* In this order; forward: also when the clock was set forward. Numbers of
 * kinds are stored. */
static const struct walk {
	const char *kind;
	visit_fn *visit;
	bool forward;
} walks[] = {
	{ "a|", visit_active, true },
	{ "r|", visit_retrying, false },
	{ "sc|", visit_schedule, false },
	{ "bk|", visit_bulk, false },
};

struct found {
	struct fsm *f;
	struct str keys[WALK_KEYS];
	size_t n, max;
};

static bool add_key(void *ctx, struct str key, struct str value _unused_)
{
	struct found *k = ctx;

	k->keys[k->n++] = arena_copy(&k->f->item_arena, key);
	return k->n < k->max;
}

static int find_keys(struct fsm *f, const char *kind, struct found *ret)
{
	struct key prefix, upto, from;
	int r;

	key_prefix(&prefix, kind);
	key_prefix_end(&prefix, &upto);
	from = f->clock.after.n > 0 ? f->clock.after : prefix;
	r = txn_scan_first(f->txn, key_str(&from), key_str(&upto), ret->max,
			   add_key, ret);
	return r < 0 ? fsm_fail(f, r) : 0;
}

/* The walk goes on with the first key that is not the last one again. */
static size_t first_new(const struct fsm *f, const struct found *k)
{
	return k->n > 0 && str_eq(k->keys[0], key_str(&f->clock.after));
}

static void next_kind(struct fsm *f)
{
	struct fsm_clock *c = &f->clock;

	c->after.n = 0;
	do
		c->kind++;
	while (c->kind < ARRAY_SIZE(walks) && clock_went_forward(f) &&
	       !walks[c->kind].forward);
	c->open = c->kind < ARRAY_SIZE(walks);
}

/* Keys of one kind. */
static int walk_some(struct fsm *f, uint32_t *n)
{
	const struct walk *w = &walks[f->clock.kind];
	struct found k = { .f = f, .max = WALK_KEYS };
	int r = find_keys(f, w->kind, &k);
	size_t i = first_new(f, &k);

	for (; r == 0 && i < k.n && !budget_is_spent(f); i++) {
		r = w->visit(f, str_skip(k.keys[i], strlen(w->kind)));
		memcpy(f->clock.after.p, k.keys[i].p, k.keys[i].n);
		f->clock.after.n = k.keys[i].n;
		budget_take_records(f, 1);
		(*n)++;
	}
	if (r == 0 && i == k.n && k.n < k.max)
		next_kind(f);
	return r;
}

static void begin(struct fsm *f, const struct m_clock_set *op)
{
	struct str name;
	size_t pos = 0;
	void *v;

	f->clock = (struct fsm_clock){ .open = true,
				       .from_ns = op->from_ns,
				       .to_ns = op->to_ns };
	while (hmap_next(&f->queues, &pos, &name, &v))
		lanes_settings_changed(f, v);
}

int clock_changed_queue(struct fsm *f, const struct job *j)
{
	if (!f->clock.open)
		return 0;
	if (j->live.state == JOB_ACTIVE)
		return move_active(f, j->active);
	if (j->live.state == JOB_RETRYING && !clock_went_forward(f))
		return move_retry(f, j->id);
	return 0;
}

int apply_clock_set(struct fsm *f, const struct m_clock_set *op,
		    struct m_maintain_reply *ret)
{
	bool is_new = op->from_ns != op->to_ns;
	uint32_t n = 0;
	int r = 0;

	if (is_new && f->clock.open)
		return fsm_refuse(f, ERR_CONFLICT,
				  "the clock was set before, and not "
				  "everything has moved with it yet");
	if (is_new)
		begin(f, op);
	while (r == 0 && f->clock.open && n < WALK_KEYS && !budget_is_spent(f))
		r = walk_some(f, &n);
	if (r < 0)
		return r;
	if (is_new || n > 0 || !f->clock.open)
		clock_save(f);
	maintain_fill(n, f->clock.open, ret);
	return 0;
}
