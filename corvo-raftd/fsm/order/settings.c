/*
 * Settings of a queue: kept in memory of its own, changed member by member,
 * and checked as a whole. The change comes from a client through the log; what
 * its members may hold by themselves was checked when it was read, but an
 * entry is not trusted for that.
 */
#include "fsm/order/settings.h"

#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/order/lane.h"
#include "fsm/order/limiter.h"
#include "proto/push.h"
#include "util/json.h"
#include "util/schema.h"

#define PERIOD_MIN_NS (1 * NS_PER_MS)
#define PERIOD_MAX_NS (86400 * NS_PER_S)
#define SET_BLOCK     256 /* bytes: most queues have one or two settings */

static const struct m_set_queue nothing_set;

/* Whoever makes the calls sees by the number of the event that comes next that
 * there is something new. */
static void push_join(struct fsm *f, struct fsm_queue *q)
{
	list_push_back(&f->pushed, &q->pushed);
	f->pushed_n++;
	f->push_version = f->last_seq + 1;
}

static void push_leave(struct fsm *f, struct fsm_queue *q)
{
	MUST(f, f->pushed_n > 0);
	list_remove(&q->pushed);
	f->pushed_n--;
	f->push_version = f->last_seq + 1;
}

/* It was looked at when it was set. */
static const struct schema *make_schema(const struct m_set_queue *m,
					struct arena *a)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	const struct schema *s;

	if (m->result_schema.n == 0)
		return NULL;
	s = schema_read(m->result_schema, "result_schema", a, &why);
	CHECK(s != NULL);
	return s;
}

void settings_keep(struct fsm *f, struct fsm_queue *q,
		   const struct m_set_queue *s)
{
	struct arena old = q->set_arena;
	struct arena own = { .block_size = SET_BLOCK };
	struct buf b = BUF_INIT(0);
	struct m_set_queue *m;

	if (q->set != NULL && q->set->max_backlog > 0) {
		MUST(f, f->capped > 0);
		f->capped--;
	}
	if (q->set != NULL && q->set->push != NULL)
		push_leave(f, q);
	q->set = &nothing_set;
	q->result_schema = NULL;
	if (s != NULL && s->has != 0) {
		msg_encode(&msg_set_queue, s, &b);
		m = arena_alloc(&own, sizeof(*m));
		CHECK(msg_decode(&msg_set_queue, arena_copy(&own, buf_str(&b)),
				 &own, m) == 0);
		q->set = m;
		q->result_schema = make_schema(m, &own);
		buf_done(&b);
	}
	if (q->set->max_backlog > 0)
		f->capped++;
	if (q->set->push != NULL)
		push_join(f, q);
	q->set_arena = own;
	arena_done(&old); /* *s may have slices of it */
}

/* --- groups --- */

static int by_name(const void *a, const void *b)
{
	const struct m_group_limit *x = a, *y = b;

	return str_cmp(x->name, y->name);
}

static int name_cmp(const void *a, const void *b)
{
	return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static bool is_listed(const struct str *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (str_is(names[i], name))
			return true;
	return false;
}

/* One member: what the change names wins, null and nothing remove it. */
#define MERGE(m, msg, field, change)                                         \
	do {                                                                 \
		if (MSG_HAS(change, msg, field))                             \
			MSG_SET(m, msg, field, (change)->field);             \
		if (is_listed((change)->remove, (change)->remove_n, #field)) \
			MSG_UNSET(m, msg, field);                            \
	} while (0)

/* The same for a limit, of which 0 means none. */
#define MERGE_LIMIT(m, msg, field, change)        \
	do {                                      \
		MERGE(m, msg, field, change);     \
		if ((m)->field == 0)              \
			MSG_UNSET(m, msg, field); \
	} while (0)

/* A rate that goes takes its period along. */
#define MERGE_RATE(m, msg, rate, period, change)                              \
	do {                                                                  \
		MERGE(m, msg, period, change);                                \
		MERGE_LIMIT(m, msg, rate, change);                            \
		if (!MSG_HAS(m, msg, rate) &&                                 \
		    (MSG_HAS(change, msg, rate) ||                            \
		     is_listed((change)->remove, (change)->remove_n, #rate))) \
			MSG_UNSET(m, msg, period);                            \
	} while (0)

static void merge_group(struct m_group_limit *m,
			const struct m_group_limit *change)
{
	MSG_SET(m, group_limit, name, change->name);
	MERGE_LIMIT(m, group_limit, weight, change);
	MERGE_LIMIT(m, group_limit, max_concurrency, change);
	MERGE_RATE(m, group_limit, rate, period, change);
	MERGE_LIMIT(m, group_limit, paused, change);
}

static bool group_says_something(const struct m_group_limit *g)
{
	return (g->has & ~MSG_BIT(group_limit, name)) != 0;
}

static bool is_removed(const struct str *sorted, size_t n, struct str name)
{
	return n > 0 &&
	       bsearch(&name, sorted, n, sizeof(name), name_cmp) != NULL;
}

/* In the item's arena, ascending. */
static void *sorted_copy(struct fsm *f, const void *items, size_t n,
			 size_t size, int (*cmp)(const void *, const void *))
{
	void *copy = arena_alloc(&f->item_arena, n * size);

	if (n == 0)
		return copy;
	memcpy(copy, items, n * size);
	qsort(copy, n, size, cmp);
	return copy;
}

static int check_group_names(struct fsm *f, const struct m_group_limit *g,
			     size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!group_name_fits(g[i].name))
			return fsm_refuse(f, ERR_VALIDATION_ERROR,
					  "groups: a name must have 1 to %d "
					  "bytes and no NUL",
					  LIMIT_GROUP_BYTES);
		if (i > 0 && str_eq(g[i].name, g[i - 1].name))
			return fsm_refuse(f, ERR_VALIDATION_ERROR,
					  "groups: \"%.*s\" is given twice",
					  STR_ARG(g[i].name));
	}
	return 0;
}

/* Both lists are ascending by name, and so is the result. */
static int merge_groups(struct fsm *f, const struct m_set_queue *now,
			const struct m_set_queue *change,
			struct m_set_queue *ret)
{
	const struct m_group_limit *news = sorted_copy(
	    f, change->groups, change->groups_n, sizeof(*news), by_name);
	const struct str *gone =
	    sorted_copy(f, change->remove_groups, change->remove_groups_n,
			sizeof(*gone), name_cmp);
	size_t old_n = is_listed(change->remove, change->remove_n, "groups")
			   ? 0
			   : now->groups_n;
	struct m_group_limit *out = arena_zalloc(
	    &f->item_arena, (old_n + change->groups_n) * sizeof(*out));
	size_t n = 0, i = 0, k = 0;
	int r = check_group_names(f, news, change->groups_n);

	while (r == 0 && (i < old_n || k < change->groups_n)) {
		int c = i == old_n ? 1
			: k == change->groups_n
			    ? -1
			    : str_cmp(now->groups[i].name, news[k].name);
		struct m_group_limit g = { 0 };

		if (c <= 0)
			g = now->groups[i++];
		if (c >= 0)
			merge_group(&g, &news[k++]);
		if (group_says_something(&g) &&
		    !is_removed(gone, change->remove_groups_n, g.name))
			out[n++] = g;
	}
	if (n > 0)
		MSG_SET_LIST(ret, set_queue, groups, out, n);
	return r;
}

/* --- push --- */

static void merge_push_members(struct m_push *m, const struct m_push *c)
{
	if (MSG_HAS(c, push, url))
		MSG_UNSET(m, push, credentials); /* they were of the old one */
	MERGE(m, push, url, c);
	MERGE(m, push, credentials, c);
	MERGE(m, push, method, c);
	MERGE(m, push, headers, c);
	MERGE(m, push, timeout, c);
	MERGE_LIMIT(m, push, concurrency, c);
	MERGE_LIMIT(m, push, rate, c);
	MERGE(m, push, secret, c);
	MERGE(m, push, previous_secret, c);
	MERGE(m, push, format, c);
	MERGE(m, push, redirects, c);
}

static int merge_push(struct fsm *f, const struct m_set_queue *now,
		      const struct m_set_queue *change, struct m_set_queue *ret)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	bool gone = is_listed(change->remove, change->remove_n, "push");
	struct m_push *m;

	if (gone) {
		MSG_UNSET(ret, set_queue, push);
		ret->push = NULL;
	}
	if (change->push == NULL)
		return 0;
	if (now->push == NULL && f->pushed_n >= LIMIT_PUSH_QUEUES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "push: there are %d push queues, and no more",
				  LIMIT_PUSH_QUEUES);
	m = arena_zalloc(&f->item_arena, sizeof(*m));
	if (now->push != NULL && !gone)
		*m = *now->push;
	merge_push_members(m, change->push);
	/* who makes the calls tells by it whether it knows this one */
	MSG_SET(m, push, version, f->last_seq + 1);
	if (push_check(m, &f->item_arena, &why) < 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR, "%.*s",
				  STR_ARG(buf_str(&why)));
	MSG_SET(ret, set_queue, push, m);
	return 0;
}

/* --- the whole --- */

static void merge_members(struct m_set_queue *m, const struct m_set_queue *c)
{
	MERGE_LIMIT(m, set_queue, max_concurrency, c);
	MERGE(m, set_queue, lease_duration, c);
	MERGE(m, set_queue, max_retries, c);
	MERGE(m, set_queue, retry_backoff, c);
	MERGE(m, set_queue, retry_base_delay, c);
	MERGE(m, set_queue, retry_max_delay, c);
	MERGE(m, set_queue, retry_jitter, c);
	MERGE(m, set_queue, retention, c);
	MERGE_LIMIT(m, set_queue, max_backlog, c);
	MERGE(m, set_queue, fairness, c);
	MERGE(m, set_queue, group_tag, c);
	MERGE(m, set_queue, result_schema, c);
	MERGE_LIMIT(m, set_queue, group_max_concurrency, c);
	MERGE_RATE(m, set_queue, rate, period, c);
	MERGE_RATE(m, set_queue, group_rate, group_period, c);
}

struct rate_rule {
	struct str group; /* or empty: of the queue itself */
	const char *rate, *period;
	bool has_rate, has_period;
	uint64_t period_ns;
};

static int check_rate(struct fsm *f, const struct rate_rule *r)
{
	const char *in = r->group.n > 0 ? "groups." : "";
	const char *dot = r->group.n > 0 ? "." : "";

	if (r->has_rate != r->has_period)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "%s%.*s%s%s: needs %s beside it", in,
				  STR_ARG(r->group), dot,
				  r->has_rate ? r->rate : r->period,
				  r->has_rate ? r->period : r->rate);
	if (r->has_period &&
	    (r->period_ns < PERIOD_MIN_NS || r->period_ns > PERIOD_MAX_NS))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "%s%.*s%s%s: must be from 1ms to 24h", in,
				  STR_ARG(r->group), dot, r->period);
	return 0;
}

static int check_groups(struct fsm *f, const struct m_set_queue *m)
{
	int r = 0;

	if (m->groups_n > LIMIT_GROUP_LIMITS)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "groups: at most %d groups of a queue have "
				  "limits of their own",
				  LIMIT_GROUP_LIMITS);
	for (size_t i = 0;
	     r == 0 && MSG_HAS(m, set_queue, groups) && i < m->groups_n; i++) {
		const struct m_group_limit *g = &m->groups[i];

		r = check_rate(
		    f, &(struct rate_rule){ g->name, "rate", "period",
					    MSG_HAS(g, group_limit, rate),
					    MSG_HAS(g, group_limit, period),
					    g->period });
	}
	return r;
}

static int check_schema(struct fsm *f, struct str text)
{
	struct json_error e;

	if (!json_validate(text, LIMIT_JSON_DEPTH, &e))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "result_schema: %s at byte %zu", e.text,
				  e.pos);
	return schema_read(text, "result_schema", &f->item_arena, &f->why) ==
		       NULL
		   ? -ERR_VALIDATION_ERROR
		   : 0;
}

static int settings_check(struct fsm *f, const struct m_set_queue *m)
{
	int r = check_rate(
	    f, &(struct rate_rule){ STR_NULL, "rate", "period",
				    MSG_HAS(m, set_queue, rate),
				    MSG_HAS(m, set_queue, period), m->period });

	if (r == 0)
		r = check_rate(f, &(struct rate_rule){
				      STR_NULL, "group_rate", "group_period",
				      MSG_HAS(m, set_queue, group_rate),
				      MSG_HAS(m, set_queue, group_period),
				      m->group_period });
	if (r == 0 && MSG_HAS(m, set_queue, lease_duration) &&
	    (m->lease_duration < NS_PER_MS ||
	     m->lease_duration > LIMIT_LEASE_S * NS_PER_S))
		r = fsm_refuse(
		    f, ERR_VALIDATION_ERROR,
		    "lease_duration: must be from 0.001 to %d seconds",
		    LIMIT_LEASE_S);
	if (r == 0 && m->result_schema.n > 0)
		r = check_schema(f, m->result_schema);
	return r < 0 ? r : check_groups(f, m);
}

int settings_merge(struct fsm *f, const struct m_set_queue *now,
		   const struct m_set_queue *change, struct m_set_queue *ret)
{
	int r;

	*ret = *now;
	MSG_UNSET(ret, set_queue, groups);
	ret->groups_n = 0;
	merge_members(ret, change);
	r = merge_groups(f, now, change, ret);
	if (r == 0)
		r = merge_push(f, now, change, ret);
	return r < 0 ? r : settings_check(f, ret);
}
