/*
 * Sums up rows of usage. Any thread; what is returned lives in the caller's
 * arena, and no more of the rows than that. The question comes from a client.
 */
#include "proto/usage.h"
#include "store/key.h"
#include "store/record_impl.h"
#include "util/civil.h"
#include "util/hmap.h"
#include "util/timefmt.h"

#define HOUR_NS   (S_PER_HOUR * NS_PER_S)
#define ROW_BLOCK (16u << 10)

/* A row with what its key says of it. */
struct row {
	struct m_usage_row m;
	uint64_t hour_ns;
	uint32_t day; /* local */
};

/* Where the units of a sum stand: each row makes them anew. */
struct room {
	char *p;
	size_t cap;
};

struct summing {
	const struct m_usage_ask *ask;
	struct arena *a;
	struct arena scratch; /* of one row */
	struct m_usage_reply *ret;
	struct hmap groups; /* their keys, one after the other -> its place */
	size_t groups_cap;
	struct room total, *rooms; /* rooms: one of each group */
	size_t rooms_cap;
	struct buf key;
	size_t rows;
	struct buf *why;
};

/* --- which rows --- */

static struct str tag_of(const struct m_usage_row *m, struct str name)
{
	for (size_t i = 0; i < m->tags_n; i++)
		if (str_eq(m->tags[i].name, name))
			return m->tags[i].value;
	return STR_NULL;
}

static bool is_asked_for(const struct m_usage_ask *ask, const struct row *r)
{
	if ((r->m.score.n > 0) != ask->scores ||
	    (ask->score.n > 0 && !str_eq(ask->score, r->m.score)))
		return false;
	if ((ask->queue.n > 0 && !str_eq(ask->queue, r->m.queue)) ||
	    (ask->model.n > 0 && !str_eq(ask->model, r->m.model)) ||
	    (ask->provider.n > 0 && !str_eq(ask->provider, r->m.provider)))
		return false;
	if ((ask->from_day > 0 && r->day < ask->from_day) ||
	    (ask->to_day > 0 && r->day >= ask->to_day))
		return false;
	for (size_t i = 0; i < ask->tags_n; i++)
		if (!str_eq(tag_of(&r->m, ask->tags[i].name),
			    ask->tags[i].value))
			return false;
	return true;
}

/* --- groups --- */

static struct str date_text(uint64_t days, struct arena *a)
{
	unsigned year, month, day;

	civil_date(days, &year, &month, &day);
	return arena_printf(a, "%04u-%02u-%02u", year, month, day);
}

static struct str hour_text(uint64_t ns, struct arena *a)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	time_format(&b, ns);
	return arena_copy(a, buf_str(&b));
}

static const struct str tag_prefix = { "tag:", 4 };

/* A name to group by. */
static bool is_group(struct str by)
{
	static const char *const names[] = { "queue", "model", "provider",
					     "hour",  "day",   "local_day" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_is(by, names[i]))
			return true;
	return by.n > tag_prefix.n && str_starts(by, tag_prefix);
}

static struct str group_text(const struct row *r, struct str by,
			     struct arena *a)
{
	if (str_is(by, "queue"))
		return r->m.queue;
	if (str_is(by, "model"))
		return r->m.model;
	if (str_is(by, "provider"))
		return r->m.provider;
	if (str_is(by, "hour"))
		return hour_text(r->hour_ns, a);
	if (str_is(by, "day"))
		return date_text(r->hour_ns / (S_PER_DAY * NS_PER_S), a);
	if (str_is(by, "local_day"))
		return date_text(r->day, a);
	return tag_of(&r->m, str_skip(by, tag_prefix.n));
}

static struct m_usage_group *group_new(struct summing *s, const struct row *r,
				       const struct str *keys)
{
	size_t n = s->ask->group_by_n;
	struct m_usage_reply *ret = s->ret;
	struct m_usage_group *g;
	struct str *copies = arena_alloc(s->a, n * sizeof(*copies));

	ret->groups = arena_grow(s->a, ret->groups, sizeof(*ret->groups),
				 ret->groups_n, &s->groups_cap);
	s->rooms = arena_grow(s->a, s->rooms, sizeof(*s->rooms), ret->groups_n,
			      &s->rooms_cap);
	s->rooms[ret->groups_n] = (struct room){ 0 };
	g = &ret->groups[ret->groups_n++];
	*g = (struct m_usage_group){ 0 };
	for (size_t i = 0; i < n; i++)
		copies[i] = arena_copy(s->a, keys[i]);
	MSG_SET_LIST(g, usage_group, keys, copies, n);
	if (r->m.other)
		MSG_SET(g, usage_group, other, true);
	if (s->ask->scores) {
		MSG_SET(g, usage_group, score, arena_copy(s->a, r->m.score));
		MSG_SET(g, usage_group, scores,
			arena_zalloc(s->a, sizeof(*g->scores)));
	} else {
		MSG_SET(g, usage_group, sum,
			arena_zalloc(s->a, sizeof(*g->sum)));
	}
	return g;
}

/* Memory grows with what the sum has to say, not with the rows. */
static void sum_add(struct summing *s, struct m_usage_sum *sum,
		    struct room *room, const struct m_usage_sum *more)
{
	usage_sum_add(sum, more, &s->scratch);
	if (more->units.n == 0)
		return;
	if (sum->units.n > room->cap) {
		room->cap = 2 * sum->units.n;
		room->p = arena_alloc(s->a, room->cap);
	}
	memmove(room->p, sum->units.p, sum->units.n);
	sum->units.p = room->p;
}

static void put_key(struct summing *s, struct str text)
{
	buf_put_u64(&s->key, text.n);
	buf_putc(&s->key, ':');
	buf_put_str(&s->key, text);
}

/* Its place from 1 on is the value. 0 or -ERR_*. */
static int add_to_group(struct summing *s, const struct row *r)
{
	struct str keys[LIMIT_USAGE_GROUP_BY];
	struct m_usage_group *g;
	uintptr_t place;

	buf_clear(&s->key);
	buf_putc(&s->key, r->m.other ? '+' : '-');
	put_key(s, r->m.score);
	for (size_t i = 0; i < s->ask->group_by_n; i++) {
		keys[i] = group_text(r, s->ask->group_by[i], &s->scratch);
		put_key(s, keys[i]);
	}
	place = (uintptr_t)hmap_get(&s->groups, buf_str(&s->key));
	if (place == 0 && s->ret->groups_n >= LIMIT_USAGE_GROUPS) {
		buf_printf(s->why,
			   "group_by: there are more than %d groups; ask for "
			   "less",
			   LIMIT_USAGE_GROUPS);
		return -ERR_VALIDATION_ERROR;
	}
	if (place == 0) {
		g = group_new(s, r, keys);
		(void)hmap_put(&s->groups, buf_str(&s->key),
			       (void *)(uintptr_t)s->ret->groups_n);
	} else {
		g = &s->ret->groups[place - 1];
	}
	if (s->ask->scores)
		score_sum_add(g->scores, r->m.scores);
	else
		sum_add(s, g->sum, &s->rooms[g - s->ret->groups], r->m.sum);
	return 0;
}

/* --- the walk --- */

static int add_row(struct summing *s, const struct row *r)
{
	if (r->m.score.n > 0 ? r->m.scores == NULL : r->m.sum == NULL)
		return record_damaged();
	if (!is_asked_for(s->ask, r))
		return 0;
	if (s->ask->scores) /* of names that have nothing in common */
		return r->m.scores->count > 0 ? add_to_group(s, r) : 0;
	sum_add(s, s->ret->totals, &s->total, r->m.sum);
	return s->ask->group_by_n > 0 ? add_to_group(s, r) : 0;
}

/* One key; that of the number of rows says nothing here. */
static int read_row(struct summing *s, struct str key, struct str value)
{
	const size_t kind = 3, day_at = kind + 8 + KEY_SPACE_BYTES;
	struct row r;

	if (key.n == kind + 8)
		return 0;
	if (key.n != day_at + 4 + 8)
		return record_damaged();
	if (++s->rows > LIMIT_USAGE_SCAN) {
		buf_printf(s->why,
			   "from: there are more than %d sums in that time; "
			   "ask for less of it",
			   LIMIT_USAGE_SCAN);
		return -ERR_VALIDATION_ERROR;
	}
	arena_reset(&s->scratch);
	r.hour_ns = get_be64(key.p + kind);
	r.day = get_be32(key.p + day_at);
	if (msg_decode(&msg_usage_row, value, &s->scratch, &r.m) < 0)
		return record_damaged();
	return add_row(s, &r);
}

static int check(const struct m_usage_ask *ask, struct buf *why)
{
	if (ask->group_by_n > LIMIT_USAGE_GROUP_BY) {
		buf_printf(why, "group_by: must be at most %d",
			   LIMIT_USAGE_GROUP_BY);
		return -ERR_VALIDATION_ERROR;
	}
	for (size_t i = 0; i < ask->group_by_n; i++) {
		if (is_group(ask->group_by[i]))
			continue;
		buf_puts(why, "group_by: must be of queue, model, provider, "
			      "hour, day, local_day and tag:NAME");
		return -ERR_VALIDATION_ERROR;
	}
	return 0;
}

static int walk(struct summing *s, struct kv *kv, uint64_t from, uint64_t to)
{
	struct key first, last;
	struct kv_iter *it;
	int r = 0;

	key_usage_count(&first, from);
	key_usage_count(&last, to);
	it = kv_iter_new(kv, key_str(&first), key_str(&last));
	for (; kv_iter_valid(it) && r == 0; kv_iter_next(it))
		r = read_row(s, kv_iter_key(it), kv_iter_value(it));
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

int record_usage(struct kv *kv, const struct m_usage_ask *ask, struct arena *a,
		 struct m_usage_reply *ret, struct buf *why)
{
	struct summing s = { .ask = ask,
			     .a = a,
			     .scratch = { .block_size = ROW_BLOCK },
			     .ret = ret,
			     .why = why };
	uint64_t from = ask->from - ask->from % HOUR_NS, to = ask->to;
	int r = check(ask, why);

	if (to % HOUR_NS != 0) /* the hour it is in, as far as it is */
		to += HOUR_NS - to % HOUR_NS;
	*ret = (struct m_usage_reply){ 0 };
	MSG_SET(ret, usage_reply, from, from);
	MSG_SET(ret, usage_reply, to, to);
	MSG_SET(ret, usage_reply, totals,
		arena_zalloc(a, sizeof(*ret->totals)));
	if (r == 0 && from < to)
		r = walk(&s, kv, from, to);
	if (ask->group_by_n > 0 || ask->scores)
		ret->has |= MSG_BIT(usage_reply, groups);
	arena_done(&s.scratch);
	buf_done(&s.key);
	hmap_done(&s.groups);
	return r;
}

int record_scores(struct kv *kv, struct str job_id, struct arena *a,
		  struct m_score_list *ret)
{
	struct m_score *list = arena_alloc(a, LIMIT_SCORES * sizeof(*list));
	struct kv_iter *it;
	struct key from, upto;
	size_t n = 0;
	int r = 0;

	key_score(&from, job_id, 0);
	key_score(&upto, job_id, UINT32_MAX);
	it = kv_iter_new(kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it) && n < LIMIT_SCORES && r == 0; n++) {
		if (msg_decode(&msg_score, arena_copy(a, kv_iter_value(it)), a,
			       &list[n]) < 0)
			r = record_damaged();
		kv_iter_next(it);
	}
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	*ret = (struct m_score_list){ 0 };
	MSG_SET_LIST(ret, score_list, scores, list, n);
	return r;
}
