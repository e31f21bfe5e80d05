/*
 * What budgets mean for jobs: at a fetch, while one runs, and at a report. See
 * ties/purse.h.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/tag.h"
#include "fsm/ties/purse.h"
#include "fsm/ties/usage.h"
#include "proto/units.h"
#include "proto/usage.h"
#include "util/json.h"
#include "util/nano.h"

#define OF_JOB_MAX  (3 + LIMIT_BUDGET_TAGS)
#define RESERVED_NS NS_PER_S /* what is held may be free again then */
#define TARGET_ALL  STR("*")

/* --- which --- */

struct purses {
	struct fsm_purse *p[OF_JOB_MAX];
	size_t n;
};

static void add(struct purses *all, struct fsm_purse *p)
{
	if (p == NULL)
		return;
	CHECK(all->n < OF_JOB_MAX);
	all->p[all->n++] = p;
}

static void find_of_queue(const struct fsm *f, const struct fsm_queue *q,
			  struct purses *ret)
{
	ret->n = 0;
	add(ret, purse_find(f, BUDGET_GLOBAL, TARGET_ALL));
	add(ret, purse_find(f, BUDGET_QUEUE, q->name));
}

static int find_of_job(struct fsm *f, struct job *j, struct purses *ret)
{
	int r;

	find_of_queue(f, j->q, ret);
	if (j->group.n > 0)
		add(ret, purse_find(f, BUDGET_GROUP, j->group));
	if (f->purses.tags_n == 0)
		return 0;
	r = job_need_doc(f, j);
	for (size_t i = 0; r == 0 && i < f->purses.tags_n; i++) {
		struct str name = f->purses.tags[i].name;
		struct str value = tag_find(f, j->doc.tags, name);

		if (value.n > 0 && name.n + value.n < LIMIT_BUDGET_TARGET_BYTES)
			add(ret, purse_find(f, BUDGET_TAG,
					    arena_join(&f->item_arena, name,
						       ':', value)));
	}
	return r;
}

/* --- amounts --- */

static uint64_t amount_of(struct fsm *f, const struct m_usage_sum *s,
			  struct str unit)
{
	return usage_sum_amount(s, unit, &f->item_arena);
}

/* With its doc. */
static uint64_t expected_of(struct fsm *f, const struct job *j, struct str unit)
{
	uint64_t amount = units_get(j->doc.expected, unit, &f->item_arena);

	return str_is(unit, UNIT_USD) ? MAX(amount, j->doc.expected_cost)
				      : amount;
}

int purse_check_expected(struct fsm *f, const struct m_enqueue *op)
{
	buf_clear(&f->why);
	if (units_check_any(op->expected, LIMIT_UNIT_AMOUNT, "expected",
			    &f->item_arena, &f->why) < 0)
		return -ERR_VALIDATION_ERROR;
	if (MSG_HAS(op, enqueue, expected_cost) &&
	    units_get(op->expected, STR(UNIT_USD), &f->item_arena) > 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "expected.usd: is told by expected_cost");
	return 0;
}

/* --- at a fetch --- */

static bool only_tells(const struct fsm_purse *p)
{
	return p->m.on_exceed == BUDGET_ALERT ||
	       p->m.on_exceed == BUDGET_ALERT_03;
}

/* Whether the i-th limit has room, for what is expected or for anything. */
static bool has_room(const struct fsm *f, const struct fsm_purse *p, size_t i,
		     uint64_t expected, uint64_t now, uint64_t *until)
{
	const struct m_budget_limit *l = &p->m.limits[i];
	const struct purse_count *c = &p->counts[i];
	uint64_t spent = purse_spent(f, l, c, now);
	uint64_t used = nano_add(spent, purse_reserved(c));

	if (expected > 0 ? nano_add(used, expected) > l->amount
			 : used >= l->amount) {
		*until = purse_until(f, l, now);
		if (spent < l->amount)
			*until = MIN(*until, now + RESERVED_NS);
		return false;
	}
	if (p->m.on_exceed == BUDGET_THROTTLE && now < c->next_ns) {
		*until = c->next_ns;
		return false;
	}
	return true;
}

bool purse_queue_is_open(const struct fsm *f, const struct fsm_queue *q,
			 uint64_t now, struct purse_block *ret)
{
	struct purses all;

	*ret = (struct purse_block){ 0 };
	if (f->purses.by_name.n == 0)
		return true;
	find_of_queue(f, q, &all);
	for (size_t i = 0; i < all.n; i++) {
		const struct fsm_purse *p = all.p[i];

		for (size_t k = 0; !only_tells(p) && k < p->m.limits_n; k++) {
			if (purse_is_per_job(&p->m.limits[k]) ||
			    has_room(f, p, k, 0, now, &ret->until))
				continue;
			ret->purse = p;
			ret->limit = &p->m.limits[k];
			return false;
		}
	}
	return true;
}

/* One that is of no queue must not stop others of the queue. */
static enum purse_verdict stop(const struct fsm_purse *p,
			       const struct m_budget_limit *l,
			       uint64_t expected)
{
	if (expected > l->amount)
		return PURSE_HOLD;
	return p->m.scope == BUDGET_GLOBAL || p->m.scope == BUDGET_QUEUE
		   ? PURSE_WAIT
		   : PURSE_ASIDE;
}

int purse_judge(struct fsm *f, struct job *j, uint64_t now,
		struct purse_block *ret)
{
	bool expects = (j->extras & EXTRA_EXPECTED) != 0;
	struct purses all;
	int r;

	*ret = (struct purse_block){ 0 };
	if (f->purses.by_name.n == 0)
		return PURSE_GO;
	r = find_of_job(f, j, &all);
	if (r == 0 && expects)
		r = job_need_doc(f, j);
	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++) {
		const struct fsm_purse *p = all.p[i];

		for (size_t k = 0; !only_tells(p) && k < p->m.limits_n; k++) {
			const struct m_budget_limit *l = &p->m.limits[k];
			uint64_t expected =
			    expects ? expected_of(f, j, l->unit) : 0;

			if (purse_is_per_job(l) ||
			    has_room(f, p, k, expected, now, &ret->until))
				continue;
			ret->purse = p;
			ret->limit = l;
			return stop(p, l, expected);
		}
	}
	return PURSE_GO;
}

/*
 * Spreads what is left over the rest of the period: after a job of cost c, the
 * next one may go when that share of the time has passed.
 */
static void spread(struct fsm *f, struct job *j, const struct m_budget_limit *l,
		   struct purse_count *c)
{
	uint64_t used = nano_add(c->spent, purse_reserved(c));
	uint64_t left = l->amount > used ? l->amount - used : 0;
	uint64_t end = purse_until(f, l, f->now_ns), cost = 0;
	unsigned __int128 wait;

	/* what was spent falls out of it meanwhile: jobs go evenly */
	if (l->per == BUDGET_PER_WINDOW) {
		end = time_after(f->now_ns, l->window);
		left = l->amount;
	}
	if (j->extras & EXTRA_EXPECTED)
		cost = expected_of(f, j, l->unit);
	if (cost == 0 && c->reports > 0)
		cost = c->spent / c->reports;
	if (cost == 0)
		return; /* nothing is known of what jobs cost */
	wait = end - f->now_ns;
	if (left > 0)
		wait = MIN(wait, wait * cost / left);
	c->next_ns = time_after(MAX(c->next_ns, f->now_ns), (uint64_t)wait);
	c->next_ns = MIN(c->next_ns, end);
}

int purse_handed_out(struct fsm *f, struct job *j)
{
	struct purses all;
	int r;

	if (f->purses.by_name.n == 0)
		return 0;
	r = find_of_job(f, j, &all);
	for (size_t i = 0; r == 0 && i < all.n; i++) {
		struct fsm_purse *p = all.p[i];

		if (p->m.on_exceed != BUDGET_THROTTLE)
			continue;
		for (size_t k = 0; k < p->m.limits_n; k++) {
			if (purse_is_per_job(&p->m.limits[k]))
				continue;
			purse_roll(f, &p->m.limits[k], &p->counts[k],
				   f->now_ns);
			spread(f, j, &p->m.limits[k], &p->counts[k]);
		}
		purse_save(f, p);
	}
	return r;
}

/* --- while it runs --- */

/* Of what is expected, as much as it has not reported yet in this attempt, by
 * an earlier sum of its reports or by the present one. */
static uint64_t still_expected(struct fsm *f, const struct job *j,
			       struct str unit, uint64_t total)
{
	const struct m_usage_sum *before = j->live.usage_before;
	uint64_t expected = expected_of(f, j, unit);
	uint64_t base = before != NULL ? amount_of(f, before, unit) : 0;

	return expected - MIN(expected, total - MIN(total, base));
}

static uint64_t total_of(struct fsm *f, const struct job *j, struct str unit)
{
	return j->live.usage != NULL ? amount_of(f, j->live.usage, unit) : 0;
}

static void reserve(struct fsm *f, struct job *j, struct fsm_purse *p,
		    int change)
{
	for (size_t i = 0; i < p->m.limits_n; i++) {
		const struct m_budget_limit *l = &p->m.limits[i];
		struct purse_count *c = &p->counts[i];
		uint64_t expected =
		    still_expected(f, j, l->unit, total_of(f, j, l->unit));

		/* it ran before this limit was there */
		if (purse_is_per_job(l) || j->live.lease_token <= c->since)
			continue;
		MUST(f, change > 0 || c->reserved >= expected);
		c->reserved = change > 0 ? c->reserved + expected
					 : c->reserved - expected;
	}
	purse_save(f, p);
}

void purse_handed(struct fsm *f, struct job *j, int change)
{
	struct purses all;

	if (f->purses.by_name.n == 0 || job_need_doc(f, j) < 0 ||
	    find_of_job(f, j, &all) < 0)
		return;
	for (size_t i = 0; i < all.n; i++)
		reserve(f, j, all.p[i], change);
	if (change < 0 && all.n > 0)
		queue_open(f, j->q);
}

/* --- at a report --- */

static void put_event(struct fsm *f, const struct fsm_purse *p,
		      const struct m_budget_limit *l, uint64_t spent)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "budget");
	jw_str(&w, p->m.id);
	jw_key(&w, "scope");
	jw_cstr(&w, enum_text(&enum_budget_scope, p->m.scope));
	jw_key(&w, "target");
	jw_str(&w, p->m.target);
	jw_key(&w, "unit");
	jw_str(&w, l->unit);
	jw_key(&w, "per");
	jw_cstr(&w, enum_text(&enum_budget_period, l->per));
	jw_key(&w, "amount");
	jw_nano(&w, l->amount);
	jw_key(&w, "spent");
	jw_nano(&w, spent);
	jw_key(&w, "action");
	jw_cstr(&w, enum_text(&enum_budget_action, p->m.on_exceed));
	jw_object_end(&w);
}

void purse_tell(struct fsm *f, const struct fsm_purse *p, size_t i)
{
	struct m_event e = { 0 };

	put_event(f, p, &p->m.limits[i], p->counts[i].spent);
	MSG_SET(&e, event, type, EVENT_BUDGET_EXCEEDED);
	MSG_SET(&e, event, data, buf_str(&f->data));
	fsm_event(f, &e);
	f->counters.budgets_exceeded++;
}

static int strictness(enum budget_action a)
{
	return a == BUDGET_REJECT ? 2 : a == BUDGET_HOLD;
}

static void note_over(struct purse_report *ret, const struct fsm_purse *p,
		      const struct m_budget_limit *l)
{
	if (ret->over_job &&
	    strictness(p->m.on_exceed) <= strictness(ret->action))
		return;
	ret->over_job = true;
	ret->action = p->m.on_exceed;
	ret->block.purse = p;
	ret->block.limit = l;
}

int purse_foresee(struct fsm *f, struct job *j, const struct m_usage_sum *more,
		  struct purse_report *ret)
{
	static const struct m_usage_sum none;
	const struct m_usage_sum *sum = j->live.usage;
	struct purses all;
	int r;

	*ret = (struct purse_report){ 0 };
	if (f->purses.by_name.n == 0)
		return 0;
	r = find_of_job(f, j, &all);
	for (size_t i = 0; r == 0 && i < all.n; i++) {
		for (size_t k = 0; k < all.p[i]->m.limits_n; k++) {
			const struct m_budget_limit *l = &all.p[i]->m.limits[k];

			if (purse_is_per_job(l) &&
			    nano_add(amount_of(f, sum != NULL ? sum : &none,
					       l->unit),
				     amount_of(f, more, l->unit)) > l->amount)
				note_over(ret, all.p[i], l);
		}
	}
	return r;
}

/* What was held for it is spent now. Sums end at 64 bits: what was used before
 * is not what is used now less the report. */
static void spend_reserved(struct fsm *f, const struct job *j,
			   const struct m_budget_limit *l,
			   const struct m_usage_sum *before,
			   struct purse_count *c)
{
	uint64_t held, left;

	if (!(j->extras & EXTRA_EXPECTED) || j->live.state != JOB_ACTIVE ||
	    j->live.lease_token <= c->since)
		return;
	left = still_expected(f, j, l->unit, total_of(f, j, l->unit));
	held = still_expected(
	    f, j, l->unit, before != NULL ? amount_of(f, before, l->unit) : 0);
	MUST(f, c->reserved >= held - left);
	c->reserved -= held - left;
}

static void spend_one(struct fsm *f, struct job *j, struct fsm_purse *p,
		      size_t i, const struct m_usage_sum *before,
		      const struct m_usage_sum *more, struct purse_report *ret)
{
	const struct m_budget_limit *l = &p->m.limits[i];
	struct purse_count *c = &p->counts[i];
	uint64_t amount = amount_of(f, more, l->unit), total;

	if (purse_is_per_job(l)) {
		total = amount_of(f, j->live.usage, l->unit);
		if (total <= l->amount)
			return;
		note_over(ret, p, l);
		if (total - amount > l->amount)
			return; /* that was told */
		put_event(f, p, l, total);
		job_event(f, j, EVENT_BUDGET_EXCEEDED, buf_str(&f->data));
		f->counters.budgets_exceeded++;
		return;
	}
	purse_roll(f, l, c, f->now_ns);
	if (amount > 0) {
		purse_add(c, amount);
		spend_reserved(f, j, l, before, c);
	}
	if (c->spent < l->amount)
		return;
	ret->exceeded = true;
	if (!c->told)
		purse_tell(f, p, i);
	c->told = true;
}

int purse_spend(struct fsm *f, struct job *j, const struct m_usage_sum *before,
		const struct m_usage_sum *more, struct purse_report *ret)
{
	struct purses all;
	int r;

	*ret = (struct purse_report){ 0 };
	if (f->purses.by_name.n == 0)
		return 0;
	r = find_of_job(f, j, &all);
	if (r == 0 && (j->extras & EXTRA_EXPECTED))
		r = job_need_doc(f, j);
	for (size_t i = 0; r == 0 && i < all.n; i++) {
		for (size_t k = 0; k < all.p[i]->m.limits_n; k++)
			spend_one(f, j, all.p[i], k, before, more, ret);
		purse_save(f, all.p[i]);
	}
	return r;
}

/* --- words --- */

void purse_describe(const struct fsm *f, const struct purse_block *b,
		    struct buf *ret)
{
	const struct m_budget *m = &b->purse->m;
	const struct m_budget_limit *l = b->limit;
	const struct purse_count *c = &b->purse->counts[l - m->limits];

	if (m->scope == BUDGET_GLOBAL)
		buf_puts(ret, "budget of all queues: ");
	else
		buf_printf(ret, "budget of %s \"%.*s\": ",
			   enum_text(&enum_budget_scope, m->scope),
			   STR_ARG(m->target));
	if (!purse_is_per_job(l)) {
		nano_format(ret, purse_spent(f, l, c, f->now_ns));
		buf_puts(ret, " of ");
	}
	nano_format(ret, l->amount);
	buf_printf(ret, " %.*s per %s", STR_ARG(l->unit),
		   enum_text(&enum_budget_period, l->per));
	if (purse_is_per_job(l))
		return;
	buf_puts(ret, " are spent");
	if (c->reserved == 0)
		return;
	buf_puts(ret, ", and ");
	nano_format(ret, purse_reserved(c));
	buf_puts(ret, " held for jobs that run");
}

int purse_refuse(struct fsm *f, const struct purse_block *b)
{
	buf_clear(&f->why);
	buf_puts(&f->why, "budget exceeded: ");
	purse_describe(f, b, &f->why);
	return -ERR_BUDGET_EXCEEDED;
}
