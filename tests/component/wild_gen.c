#include "wild_gen.h"

#include "util/nano.h"

#define MANY         24
#define SDB_IDS      6
#define WITH_CHANGES 40 /* requests that are distorted, in percent */

static struct str some_tag(struct rw *w)
{
	static const char *const all[] = { "team:red", "team:blue", "user:ann",
					   "user:bob", "org:x",     "g:g0" };

	return str_from(all[rng_below(&w->r, ARRAY_SIZE(all))]);
}

static struct str some_target(struct rw *w, uint32_t scope)
{
	if (scope == BUDGET_QUEUE)
		return some_queue(w);
	if (scope == BUDGET_GROUP)
		return wild_name(w, "g");
	return scope == BUDGET_TAG ? some_tag(w) : STR("*");
}

static struct m_budget_limit *some_limits(struct rw *w, size_t n)
{
	static const char *const units[] = { "usd", "tokens", "gpu_seconds",
					     "pages" };
	struct m_budget_limit *l = arena_zalloc(&w->arena, n * sizeof(*l));

	for (size_t i = 0; i < n; i++) {
		MSG_SET(&l[i], budget_limit, unit,
			str_from(units[rng_below(&w->r, ARRAY_SIZE(units))]));
		MSG_SET(&l[i], budget_limit, per,
			(uint32_t)rng_below(&w->r, enum_budget_period.n));
		MSG_SET(
		    &l[i], budget_limit, amount,
		    wild_number(w, UINT64_MAX / NANO_PER_UNIT * NANO_PER_UNIT));
		if (l[i].per == BUDGET_PER_WINDOW)
			MSG_SET(&l[i], budget_limit, window,
				1 + wild_duration(w));
	}
	return l;
}

/* Mostly so small that they are used up. */
static void fit_budget(struct rw *w, struct m_budget *m)
{
	size_t n = 1 + rng_below(&w->r, 3);

	if (wild_chance(w, 50))
		MSG_SET_LIST(m, budget, limits, some_limits(w, n), n);
	if (wild_chance(w, 50))
		MSG_SET(m, budget, scope, BUDGET_TAG);
	MSG_SET(m, budget, target, some_target(w, m->scope));
	if (wild_chance(w, 60))
		MSG_SET(m, budget, daily_usd, rng_below(&w->r, NS_PER_S));
	if (wild_chance(w, 70))
		MSG_SET(m, budget, on_exceed, (uint32_t)rng_below(&w->r, 4));
}

static void fit_delete_budget(struct rw *w, struct m_budget_ref *m)
{
	uint32_t scope = (uint32_t)rng_below(&w->r, 4);

	MSG_SET(m, budget_ref, scope,
		str_from(enum_text(&enum_budget_scope, scope)));
	MSG_SET(m, budget_ref, target, some_target(w, scope));
}

static void fit_enqueue(struct rw *w, struct m_enqueue *m)
{
	if (wild_chance(w, 60))
		MSG_SET(m, enqueue, tags, wild_tags(w));
	if (wild_chance(w, 30))
		MSG_SET(m, enqueue, group, wild_name(w, "g"));
	if (wild_chance(w, 20))
		MSG_SET(m, enqueue, expected, wild_amounts(w));
	if (wild_chance(w, 20))
		MSG_SET(m, enqueue, payload, wild_json(w));
	if (wild_chance(w, 10))
		MSG_SET_LIST(m, enqueue, depends_on, some_jobs(w, 2), 2);
}

/* Some are so many that their sums pass what a number can hold. */
static void fit_enqueue_batch(struct rw *w, struct m_enqueue_batch *m)
{
	struct m_enqueue *jobs;

	if (wild_chance(w, 10)) {
		jobs = arena_zalloc(&w->arena, MANY * sizeof(*jobs));
		for (size_t i = 0; i < MANY; i++) {
			MSG_SET(&jobs[i], enqueue, job_id,
				named(w, "job", w->jobs++));
			MSG_SET(&jobs[i], enqueue, queue, some_queue(w));
		}
		MSG_SET_LIST(m, enqueue_batch, jobs, jobs, MANY);
	}
	for (size_t i = 0; i < m->jobs_n; i++)
		fit_enqueue(w, &m->jobs[i]);
}

static void fit_fetch(struct rw *w, struct m_fetch *m)
{
	struct str *q = arena_alloc(&w->arena, 3 * sizeof(*q));
	size_t n = 1 + rng_below(&w->r, 3);

	for (size_t i = 0; i < n; i++)
		q[i] = named(w, "q", i);
	MSG_SET_LIST(m, fetch, queues, q, n);
	MSG_SET(m, fetch, worker_id, wild_name(w, "w"));
	MSG_SET(m, fetch, count, 1 + (uint32_t)rng_below(&w->r, 6));
	if (wild_chance(w, 5))
		MSG_SET(m, fetch, count, LIMIT_FETCH_COUNT);
}

static void fit_queue(struct rw *w, struct m_set_queue *m)
{
	struct m_group_limit *g = arena_zalloc(&w->arena, 2 * sizeof(*g));

	/* with a rate goes a period */
	if (MSG_HAS(m, set_queue, rate) && !MSG_HAS(m, set_queue, period))
		MSG_SET(m, set_queue, period, NS_PER_S);
	if (MSG_HAS(m, set_queue, group_rate) &&
	    !MSG_HAS(m, set_queue, group_period))
		MSG_SET(m, set_queue, group_period, NS_PER_S);
	if (wild_chance(w, 60))
		MSG_SET(m, set_queue, max_concurrency, 0);
	if (!wild_chance(w, 40))
		return;
	for (size_t i = 0; i < 2; i++) {
		MSG_SET(&g[i], group_limit, name, named(w, "g", i));
		MSG_SET(&g[i], group_limit, weight,
			1 + (uint32_t)wild_number(w, LIMIT_GROUP_WEIGHT - 1));
		if (wild_chance(w, 30))
			MSG_SET(&g[i], group_limit, max_concurrency,
				(uint32_t)wild_number(w, LIMIT_CONCURRENCY));
	}
	MSG_SET_LIST(m, set_queue, groups, g, 1 + rng_below(&w->r, 2));
}

/* Days that begin or end an hour sooner, and zones half an hour off. */
static void fit_usage(struct rw *w, struct m_usage_settings *m)
{
	static const int64_t seconds[] = { -10800, -14400, 0,     3600,
					   5400,   50400,  -43200 };
	struct m_zone_offset *o = arena_zalloc(&w->arena, 3 * sizeof(*o));
	struct str *names = arena_alloc(&w->arena, 2 * sizeof(*names));
	uint64_t from = w->x->now_ns - w->x->now_ns % HOUR;

	names[0] = wild_chance(w, 50) ? STR("team") : STR("org");
	names[1] = STR("user");
	MSG_SET_LIST(m, usage_settings, tags, names, rng_below(&w->r, 3));
	if (wild_chance(w, 50))
		return;
	for (size_t i = 0; i < 3; i++) {
		MSG_SET(&o[i], zone_offset, from_ns, from);
		MSG_SET(&o[i], zone_offset, seconds,
			seconds[rng_below(&w->r, ARRAY_SIZE(seconds))]);
		from += (1 + rng_below(&w->r, 30)) * HOUR;
	}
	MSG_SET(m, usage_settings, timezone, STR("America/Santiago"));
	MSG_SET_LIST(m, usage_settings, offsets, o, 3);
}

static struct str sdb_id(struct rw *w)
{
	return named(w, "sdb", rng_below(&w->r, SDB_IDS));
}

/* Most are recurrentes, so that several end in one entry and are purged. */
static void fit_sdb(struct rw *w, struct m_sdb_create *m)
{
	MSG_SET(m, sdb_create, id, sdb_id(w));
	if (m->type != SDB_RECURRING && wild_chance(w, 60)) {
		MSG_SET(m, sdb_create, type, SDB_RECURRING);
		MSG_SET(m, sdb_create, cron_expression, STR("* * * * *"));
		MSG_SET(m, sdb_create, next_ns,
			w->x->now_ns + 1 + rng_below(&w->r, 60 * NS_PER_S));
	}
	if (wild_chance(w, 60))
		MSG_SET(m, sdb_create, limit_jobs, 100);
	if (wild_chance(w, 60))
		MSG_SET(m, sdb_create, limit_bytes, 1u << 20);
	if (wild_chance(w, 20))
		MSG_SET(m, sdb_create, last_date, wild_moment(w));
	if (wild_chance(w, 10))
		MSG_SET(m, sdb_create, timestamp, wild_moment(w));
}

static void fit_policy(struct rw *w, struct m_policy *m)
{
	static const char *const names[] = { "team", "user", "g" };

	if (wild_chance(w, 50))
		MSG_UNSET(m, policy, payload_jq);
	if (wild_chance(w, 50))
		MSG_UNSET(m, policy, iteration_min);
	if (wild_chance(w, 60))
		MSG_SET(m, policy, tag_key,
			str_from(names[rng_below(&w->r, ARRAY_SIZE(names))]));
	if (wild_chance(w, 50))
		MSG_SET(m, policy, queue, some_queue(w));
}

static void fit_purge(struct rw *w, struct m_maintain *m)
{
	MSG_SET(m, maintain, retention_ns,
		wild_chance(w, 50) ? 20 * NS_PER_S : rng_below(&w->r, DAY) + 1);
	MSG_SET(m, maintain, idle_ns, 1 + rng_below(&w->r, 99 * NS_PER_S));
}

/* Cheap enough to be within a budget, and dear enough to spend one. */
static void fit_report(struct rw *w, struct m_usage *u)
{
	if (u == NULL)
		return;
	if (wild_chance(w, 60))
		MSG_SET(u, usage, cost_usd, rng_below(&w->r, NS_PER_S));
	MSG_SET(u, usage, provider, wild_name(w, "acme"));
	if (wild_chance(w, 30))
		MSG_SET(u, usage, units, wild_amounts(w));
}

static void fit_reports(struct rw *w, enum op_id op, void *m)
{
	if (op == OP_ACK)
		fit_report(w, ((struct m_ack *)m)->usage);
	if (op == OP_FAIL)
		fit_report(w, ((struct m_fail *)m)->usage);
	if (op == OP_HEARTBEAT)
		fit_report(w, ((struct m_heartbeat *)m)->jobs[0].usage);
	for (size_t i = 0;
	     op == OP_ACK_BATCH && i < ((struct m_ack_batch *)m)->acks_n; i++)
		fit_report(w, ((struct m_ack_batch *)m)->acks[i].usage);
}

static void fit(struct rw *w, enum op_id op, void *m)
{
	fit_reports(w, op, m);
	switch ((unsigned)op) {
	case OP_SET_BUDGET:
		fit_budget(w, m);
		break;
	case OP_DELETE_BUDGET:
		fit_delete_budget(w, m);
		break;
	case OP_ENQUEUE:
		fit_enqueue(w, m);
		break;
	case OP_ENQUEUE_BATCH:
		fit_enqueue_batch(w, m);
		break;
	case OP_FETCH:
		fit_fetch(w, m);
		break;
	case OP_SET_QUEUE:
		fit_queue(w, m);
		break;
	case OP_SET_USAGE:
		fit_usage(w, m);
		break;
	case OP_SDB_CREATE:
		fit_sdb(w, m);
		break;
	case OP_SDB_CANCEL:
		MSG_SET((struct m_sdb_cancel *)m, sdb_cancel, id, sdb_id(w));
		break;
	case OP_SET_POLICY:
		fit_policy(w, m);
		break;
	case OP_PURGE:
		fit_purge(w, m);
		break;
	case OP_REPLAY: /* it may be accepted after what comes before it */
		MSG_SET((struct m_replay *)m, replay, new_job_id,
			named(w, "job", w->jobs++));
		break;
	}
}

/* --- requests --- */

typedef void make_fn(struct rw *w, void *m);

#define OP(num, NAME, name, request, reply, who, level, doc) \
	static void make_any_##name(struct rw *w, void *m)   \
	{                                                    \
		make_##name(w, m);                           \
	}
#include "proto/defs/ops.def"

static const struct kind {
	enum op_id op;
	unsigned who;
	make_fn *make;
} kinds[] = {
#define OP(num, NAME, name, request, reply, who, level, doc) \
	{ OP_##NAME, who, make_any_##name },
#include "proto/defs/ops.def"
};

/* What has to do with each other, so that it meets; each op may come beside. */
#define FAMILY 8
static const enum op_id families[][FAMILY] = {
	{ OP_SET_BUDGET, OP_SET_BUDGET, OP_DELETE_BUDGET, OP_SET_USAGE,
	  OP_SET_PRICE, OP_DELETE_PRICE, OP_ACK, OP_FETCH },
	{ OP_SDB_CREATE, OP_SDB_CREATE, OP_SDB_CANCEL, OP_SDB_CANCEL,
	  OP_SDB_DELETE, OP_FIRE, OP_PURGE, OP_FETCH },
	{ OP_SET_POLICY, OP_DELETE_POLICY, OP_APPROVE, OP_REJECT, OP_HOLD,
	  OP_DECIDE, OP_MAKE_LINKS, OP_DEADLINE },
	{ OP_SET_QUEUE, OP_SET_QUEUE, OP_PAUSE, OP_RESUME, OP_RESUME,
	  OP_CLEAR_QUEUE, OP_DELETE_QUEUE, OP_MOVE },
	{ OP_OPEN_BATCH, OP_SEAL_BATCH, OP_ENQUEUE_BATCH, OP_ENQUEUE_BATCH,
	  OP_CANCEL, OP_RETRY, OP_REQUEUE, OP_RELEASE },
	{ OP_SET_SCHEDULE, OP_SET_SCHEDULE, OP_PAUSE_SCHEDULE, OP_RUN_SCHEDULE,
	  OP_FIRE, OP_FIRE, OP_DELETE_SCHEDULE, OP_PURGE },
	{ OP_BULK_ACT, OP_BULK_CREATE, OP_BULK_ADD, OP_BULK_STEP,
	  OP_BULK_CONTROL, OP_DELETE, OP_PRIORITY, OP_RETRY },
	{ OP_PROMOTE, OP_RECLAIM, OP_EXPIRE, OP_RELEASE, OP_PURGE, OP_DEADLINE,
	  OP_RENEW, OP_TRIM_EVENTS },
	{ OP_ACK, OP_ACK_BATCH, OP_SCORE, OP_SCORE, OP_REPLAY, OP_APPROVE,
	  OP_HEARTBEAT, OP_FAIL },
	{ OP_SET_WEBHOOK, OP_WEBHOOK_REPORT, OP_WEBHOOK_REPORT,
	  OP_REPLAY_WEBHOOK, OP_TEST_WEBHOOK, OP_DELETE_WEBHOOK, OP_SET_HOOK,
	  OP_DELETE_HOOK },
};

size_t wild_family(struct rw *w)
{
	return rng_below(&w->r, ARRAY_SIZE(families));
}

enum op_id wild_op(struct rw *w, size_t family)
{
	static const enum op_id supply[] = {
		OP_ENQUEUE, OP_ENQUEUE, OP_FETCH,     OP_FETCH,
		OP_ACK,     OP_FAIL,    OP_HEARTBEAT,
	};

	if (wild_chance(w, 40))
		return supply[rng_below(&w->r, ARRAY_SIZE(supply))];
	if (wild_chance(w, 85))
		return families[family][rng_below(&w->r, FAMILY)];
	return kinds[rng_below(&w->r, ARRAY_SIZE(kinds))].op;
}

void *wild_request(struct rw *w, enum op_id op)
{
	const struct call_info *info = op_info(op);
	void *m = arena_zalloc(&w->arena, info->request->size);
	size_t k = 0;

	while (kinds[k].op != op)
		k++;
	kinds[k].make(w, m);
	fit(w, op, m);
	if (kinds[k].who & OP_CLIENT && op != OP_SDB_CREATE &&
	    wild_chance(w, WITH_CHANGES))
		wild_distort(w, info->request, m, WILD_ADDED, WILD_DEPTH);
	if (op == OP_SET_BUDGET) /* of the scope it has now */
		MSG_SET((struct m_budget *)m, budget, target,
			some_target(w, ((struct m_budget *)m)->scope));
	return m;
}

/* --- time --- */

/* As a leader does it: the clock is set when all has moved that had to the last
 * time, and back only so. One that begins to lead may be ahead without a word.
 */
static bool step(struct rw *w, struct m_clock_set *ret)
{
	uint64_t by = NS_PER_S + rng_below(&w->r, 2 * HOUR);
	bool back = wild_chance(w, 60);
	uint64_t from = w->x->now_ns;

	if (fsm_clock_is_moving(w->x->side[FX_MEM].f))
		return true;
	w->x->now_ns = back ? from - by : from + by;
	MSG_SET(ret, clock_set, from_ns, from);
	MSG_SET(ret, clock_set, to_ns, w->x->now_ns);
	return back || wild_chance(w, 80);
}

bool wild_pass_time(struct rw *w, struct m_clock_set *ret)
{
	uint64_t *now = &w->x->now_ns;

	*ret = (struct m_clock_set){ 0 };
	if (wild_chance(w, 35))
		return fsm_clock_is_moving(w->x->side[FX_MEM].f);
	if (wild_chance(w, 3)) /* just before an hour begins, or just after */
		*now += HOUR - *now % HOUR - 1 + rng_below(&w->r, 2);
	else if (wild_chance(w, 1))
		*now += rng_below(&w->r, 40 * DAY);
	else if (wild_chance(w, 4))
		return step(w, ret);
	else
		*now += rng_below(&w->r, 3 * NS_PER_S);
	return false;
}
