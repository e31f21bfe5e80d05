/*
 * Sums of usage and of scores: no two rows of an hour have the same names, an
 * hour knows how many rows it has, a job how many scores it has, and what is in
 * memory is in the store.
 */
#include "fsm/core/state.h"
#include "fsm/ties/usage.h"
#include "fsm_fixture.h"

bool fx_is_usage_key(struct str key)
{
	return str_starts(key, STR("us|")) || str_starts(key, STR("up|")) ||
	       str_starts(key, STR("so|")) || str_starts(key, STR("pv|")) ||
	       str_is(key, "uc|");
}

struct usage_check {
	const struct fsm *f;
	struct arena arena;
	struct hmap names;      /* of the rows of this hour and day */
	uint64_t hour, first;   /* NEVER: none yet */
	uint64_t rows, counted; /* of this hour; counted 0: purged in part */
	bool came_again;        /* hours may have, by the clock */
};

/* An hour that came again after it was purged in part counts from then on. */
static void end_hour(struct usage_check *c)
{
	if (c->counted > 0 && !c->came_again)
		assert_int_equal(c->rows, c->counted);
	assert_true(c->rows >= c->counted);
	c->rows = c->counted = 0;
	hmap_clear(&c->names);
}

/* Those that were replaced are not counted; the extremes know of them. */
static void check_scores(const struct m_usage_row *m)
{
	const struct m_score_sum *s = m->scores;

	assert_null(m->sum);
	assert_non_null(s);
	assert_true(s->min <= s->max);
	assert_true(s->total >= (int64_t)s->count * s->min);
	assert_true(s->total <= (int64_t)s->count * s->max);
}

static void check_row(struct usage_check *c, struct str key, struct str value)
{
	struct buf names = BUF_INIT(0);
	struct m_usage_row m;
	char day[4];

	assert_int_equal(msg_decode(&msg_usage_row, value, &c->arena, &m), 0);
	if (m.score.n > 0) {
		check_scores(&m);
	} else {
		assert_non_null(m.sum);
		assert_true(m.sum->count > 0);
		assert_true(m.sum->computed_usd <= m.sum->cost_usd);
		assert_true(m.sum->unpriced <= m.sum->count);
	}
	assert_int_equal(m.other, m.queue.n == 0);
	MSG_UNSET(&m, usage_row, sum);
	MSG_UNSET(&m, usage_row, scores);
	MSG_UNSET(&m, usage_row, made);
	memcpy(day, key.p + 8 + KEY_SPACE_BYTES, sizeof(day));
	buf_append(&names, day, sizeof(day));
	msg_encode(&msg_usage_row, &m, &names);
	assert_null(hmap_put(&c->names, buf_str(&names), c));
	buf_done(&names);
	/* that of all others has no place of its own */
	c->rows += !m.other;
}

static void check_key(struct usage_check *c, struct str key, struct str value)
{
	uint64_t hour = get_be64(key.p);

	assert_int_equal(hour % (3600 * NS_PER_S), 0);
	if (hour != c->hour)
		end_hour(c);
	c->hour = hour;
	c->first = MIN(c->first, hour);
	if (key.n > 8) {
		check_row(c, key, value);
		return;
	}
	assert_int_equal(value.n, 8);
	c->counted = get_be64(value.p);
	assert_in_range(c->counted, 1, LIMIT_USAGE_ROWS);
}

size_t fx_count_keys(const struct fx_side *side, const char *kind)
{
	struct key from, upto;
	struct kv_iter *it;
	size_t n = 0;

	key_prefix(&from, kind);
	key_prefix_end(&from, &upto);
	it = kv_iter_new(side->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it))
		n++;
	kv_iter_free(it);
	return n;
}

/* Of each job that has some there are as many as it says, from 1 on. */
static void check_jobs_scores(const struct fx_side *side, struct arena *a)
{
	struct key from, upto;
	struct kv_iter *it;
	size_t n = 0;

	key_prefix(&from, "jl|");
	key_prefix_end(&from, &upto);
	it = kv_iter_new(side->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it)) {
		struct m_score_list list;
		struct m_job_live live;

		arena_reset(a);
		assert_int_equal(
		    msg_decode(&msg_job_live, kv_iter_value(it), a, &live), 0);
		if (live.scores == 0)
			continue;
		assert_int_equal(
		    record_scores(side->kv, str_skip(kv_iter_key(it), from.n),
				  a, &list),
		    0);
		assert_int_equal(list.scores_n, live.scores);
		for (size_t i = 0; i < list.scores_n; i++)
			assert_int_equal(list.scores[i].n, i + 1);
		n += list.scores_n;
	}
	kv_iter_free(it);
	assert_int_equal(n, fx_count_keys(side, "so|"));
}

/* What is shown of each is what is stored; which the other side has too. */
static void check_providers(const struct fx_side *side, struct arena *a)
{
	struct m_provider_list list = { 0 };

	arena_reset(a);
	assert_int_equal(side->f->providers.n, fx_count_keys(side, "pv|"));
	assert_true(side->f->providers.n <= LIMIT_PROVIDERS + 1);
	fsm_providers(side->f, side->latest_ns, a, &list);
	for (size_t i = 0; i < list.providers_n; i++) {
		const struct m_provider *p = &list.providers[i];
		struct buf raw = BUF_INIT(0);
		struct m_provider_doc m;
		struct key k;

		key_provider(&k, SPACE_DEFAULT, p->name);
		assert_int_equal(kv_get(side->kv, key_str(&k), &raw), 1);
		assert_int_equal(
		    msg_decode(&msg_provider_doc, buf_str(&raw), a, &m), 0);
		assert_true(str_eq(m.name, p->name));
		assert_true(str_eq(m.last_error, p->last_error));
		assert_int_equal(m.last_success_at, p->last_success_at);
		assert_int_equal(m.last_failure_at, p->last_failure_at);
		assert_int_equal(m.created_at, p->created_at);
		buf_done(&raw);
	}
}

void fx_check_usage(const struct fx_side *side)
{
	struct usage_check c = { .f = side->f,
				 .hour = NEVER,
				 .first = NEVER,
				 .came_again = side->back_ns > 0 };
	struct key from, upto;
	struct kv_iter *it;

	key_prefix(&from, "us|");
	key_prefix_end(&from, &upto);
	it = kv_iter_new(side->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it)) {
		check_key(&c, str_skip(kv_iter_key(it), from.n),
			  kv_iter_value(it));
		arena_reset(&c.arena);
	}
	assert_int_equal(kv_iter_error(it), 0);
	kv_iter_free(it);
	end_hour(&c);
	assert_true(side->f->usage.from <= c.first);
	assert_int_equal(side->f->usage.prices.n, fx_count_keys(side, "up|"));
	assert_int_equal(side->f->usage.set.has != 0,
			 fx_count_keys(side, "uc|"));
	assert_true(side->f->usage.set.units_n <= LIMIT_UNITS);
	check_jobs_scores(side, &c.arena);
	check_providers(side, &c.arena);
	hmap_done(&c.names);
	arena_done(&c.arena);
}
