/*
 * Why a pending job is not handed out: limits that are reached, and who stands
 * in front of it. See ask/why.h.
 */
#include "fsm/ask/why.h"

#include "fsm/ties/purse.h"
#include "util/timefmt.h"

#define AHEAD_MAX       10000 /* jobs counted exactly */
#define AHEAD_LANES_MAX 1000  /* groups looked at */
#define HOLDERS_SCAN    1000  /* active jobs looked at */

/* --- who has the slots --- */

struct holders {
	struct why *w;
	const struct fsm_lane *lane; /* NULL: of the whole queue */
	size_t prefix_n;
	size_t seen;
	struct str *ids;
	size_t ids_n;
	struct str workers[WHY_SHOWN];
	size_t workers_n;
};

static void add_worker(struct holders *h, struct str worker)
{
	if (worker.n == 0 || h->workers_n == WHY_SHOWN)
		return;
	for (size_t i = 0; i < h->workers_n; i++)
		if (str_eq(h->workers[i], worker))
			return;
	h->workers[h->workers_n++] = worker;
}

static bool holders_add(void *ctx, struct str key, struct str value _unused_)
{
	struct holders *h = ctx;
	struct str id = str_skip(key, h->prefix_n);
	const struct fsm_active *a = active_find(h->w->f, id);

	CHECK(a != NULL);
	if (h->lane == NULL || a->lane == h->lane) {
		add_worker(h, a->worker);
		if (h->ids_n < WHY_SHOWN)
			h->ids[h->ids_n++] = arena_copy(h->w->a, id);
	}
	return ++h->seen < HOLDERS_SCAN;
}

/* "5 of 5 slots of X are taken, by ..."; X is in w->text already. */
static int why_slots(struct why *w, const char *code, uint64_t active,
		     uint64_t max, const struct fsm_lane *lane)
{
	struct holders h = { .w = w, .lane = lane };
	struct key from, upto;
	struct m_reason *m;
	int r;

	h.ids = arena_alloc(w->a, WHY_SHOWN * sizeof(*h.ids));
	key_prefix_queue(&from, "a|", w->j->q->space, w->j->q->name);
	key_prefix_end(&from, &upto);
	h.prefix_n = from.n;
	r = txn_scan(w->f->txn, key_str(&from), key_str(&upto), holders_add,
		     &h);
	if (r < 0)
		return fsm_fail(w->f, r);
	buf_printf(&w->text, " has %llu of %llu slots taken",
		   (unsigned long long)active, (unsigned long long)max);
	for (size_t i = 0; i < h.workers_n; i++)
		buf_printf(&w->text, "%s%.*s", i == 0 ? ", held by " : ", ",
			   STR_ARG(h.workers[i]));
	m = why_add(w, code);
	MSG_SET(m, reason, count, active);
	MSG_SET(m, reason, limit, max);
	MSG_SET_LIST(m, reason, job_ids, h.ids, h.ids_n);
	return 0;
}

/* --- rates --- */

/* X is in w->text already. */
static void why_rate(struct why *w, const char *code, const struct limiter *l,
		     const struct rate *rate)
{
	uint64_t next = limiter_next(l, rate, w->now_ns);
	struct m_reason *m;

	buf_printf(&w->text, " has used up its rate of %llu per ",
		   (unsigned long long)rate->jobs);
	duration_format(&w->text, rate->period_ns);
	buf_puts(&w->text, "; the next job may go");
	why_put_moment(w, next);
	m = why_add(w, code);
	MSG_SET(m, reason, until, next);
	MSG_SET(m, reason, limit, rate->jobs);
}

static bool is_used_up(const struct why *w, const struct limiter *l,
		       const struct rate *r)
{
	return r->jobs > 0 && limiter_left(l, r, w->now_ns) == 0;
}

/* --- the limits of a queue and of a group --- */

static void put_queue(struct why *w)
{
	buf_printf(&w->text, "queue \"%.*s\"", STR_ARG(w->j->q->name));
}

static void put_group(struct why *w, const struct fsm_lane *l)
{
	buf_printf(&w->text, "group \"%.*s\" of queue \"%.*s\"",
		   STR_ARG(l->group), STR_ARG(l->q->name));
}

static int why_queue_limits(struct why *w)
{
	const struct fsm_queue *q = w->j->q;
	uint64_t active = q->counts[JOB_ACTIVE];
	uint64_t max = q->set->max_concurrency;
	struct rate rate = lanes_rate(q);
	int r = 0;

	if (q->lanes.parting) {
		put_queue(w);
		buf_puts(&w->text,
			 " has settings of groups since a moment ago, and its "
			 "jobs are being put into groups first");
		why_add(w, "grouping");
	}
	if (max > 0 && active >= max) {
		put_queue(w);
		r = why_slots(w, "concurrency", active, max, NULL);
	}
	if (r == 0 && is_used_up(w, q->lanes.limiter, &rate)) {
		put_queue(w);
		why_rate(w, "rate", q->lanes.limiter, &rate);
	}
	return r;
}

static int why_group_limits(struct why *w, const struct fsm_lane *l)
{
	uint64_t max = lane_concurrency(l);
	struct rate rate = lane_rate(l);
	int r = 0;

	if (l->own != NULL && l->own->paused) {
		put_group(w, l);
		buf_puts(&w->text, " is paused");
		why_add(w, "group_paused");
	}
	if (max > 0 && l->active >= max) {
		put_group(w, l);
		r = why_slots(w, "group_concurrency", l->active, max, l);
	}
	if (r == 0 && is_used_up(w, l->limiter, &rate)) {
		put_group(w, l);
		why_rate(w, "group_rate", l->limiter, &rate);
	}
	return r;
}

/* What is spent of its budgets, or held for others that run. */
static int why_budget(struct why *w)
{
	struct purse_block b;
	struct m_reason *m;
	int r = purse_judge(w->f, w->j, w->now_ns, &b);

	if (r <= 0)
		return r;
	purse_describe(w->f, &b, &w->text);
	if (r != PURSE_HOLD) {
		buf_puts(&w->text, "; more may go");
		why_put_moment(w, b.until);
	} else {
		buf_puts(&w->text, "; it will be held");
	}
	m = why_add(w, "budget");
	if (r != PURSE_HOLD)
		MSG_SET(m, reason, until, b.until);
	return 0;
}

/* By then there may be room in all of them: it does not know yet. */
int why_aside(struct why *w)
{
	uint64_t at = w->j->live.scheduled_at;
	struct purse_block b;
	struct m_reason *m;
	int r = purse_judge(w->f, w->j, w->now_ns, &b);

	if (r < 0)
		return r;
	if (b.purse != NULL)
		purse_describe(w->f, &b, &w->text);
	else
		buf_puts(&w->text, "a budget had no room for it");
	buf_puts(&w->text, "; it is set aside and comes back");
	why_put_moment(w, at);
	m = why_add(w, "budget");
	MSG_SET(m, reason, until, at);
	return 0;
}

int why_limits(struct why *w)
{
	const struct fsm_lane *l = lane_find(w->j->q, w->j->group);
	int r = why_queue_limits(w);

	if (r == 0)
		r = why_budget(w);
	if (r < 0 || l == NULL || l->group.n == 0)
		return r;
	return why_group_limits(w, l);
}

/* --- who stands in front --- */

static bool count_one(void *ctx, struct str key _unused_,
		      struct str value _unused_)
{
	uint64_t *n = ctx;

	return ++*n < AHEAD_MAX;
}

/* Its pending jobs of a better priority, or of the same and placed before. */
static int count_lane(struct why *w, const struct fsm_lane *l, uint64_t *n)
{
	struct key from, upto;
	int r;

	if (l->pending == 0 || *n >= AHEAD_MAX ||
	    (l->own != NULL && l->own->paused))
		return 0;
	lane_key(&from, l, 0, 0);
	lane_key(&upto, l, w->j->prio, w->j->live.seq);
	r = txn_scan(w->f->txn, key_str(&from), key_str(&upto), count_one, n);
	return r < 0 ? fsm_fail(w->f, r) : 0;
}

/* With fairness only its own group: the others take turns with it. */
static int count_ahead(struct why *w, uint64_t *n, bool *at_least)
{
	struct fsm_queue *q = w->j->q;
	size_t pos = 0, looked = 0;
	struct str name;
	void *v;
	int r;

	if (q->set->fairness == FAIRNESS_GROUP) {
		const struct fsm_lane *l = lane_find(q, w->j->group);

		r = l == NULL ? 0 : count_lane(w, l, n);
		*at_least = *n >= AHEAD_MAX;
		return r;
	}
	r = count_lane(w, &q->lanes.base, n);
	while (r == 0 && *n < AHEAD_MAX && looked++ < AHEAD_LANES_MAX &&
	       hmap_next(&q->lanes.groups, &pos, &name, &v))
		r = count_lane(w, v, n);
	*at_least = *n >= AHEAD_MAX || looked > AHEAD_LANES_MAX;
	return r;
}

int why_ahead(struct why *w)
{
	bool fair = w->j->q->set->fairness == FAIRNESS_GROUP;
	bool at_least = false;
	struct m_reason *m;
	uint64_t n = 0;
	int r = count_ahead(w, &n, &at_least);

	if (r < 0 || (n == 0 && w->n > 0))
		return r;
	if (n == 0)
		buf_printf(&w->text, "nothing is ahead of it in ");
	else
		buf_printf(&w->text, "%s%llu job%s ahead of it in ",
			   at_least ? "at least " : "", (unsigned long long)n,
			   n == 1 ? " is" : "s are");
	buf_printf(&w->text, "%squeue \"%.*s\"", fair ? "its group of " : "",
		   STR_ARG(w->j->q->name));
	if (n == 0)
		buf_puts(&w->text, "; it waits for a worker to ask");
	m = why_add(w, "ahead");
	MSG_SET(m, reason, count, n);
	if (at_least)
		MSG_SET(m, reason, at_least, true);
	return 0;
}
