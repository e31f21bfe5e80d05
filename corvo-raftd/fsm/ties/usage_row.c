/*
 * Rows of sums: where one is, and what it is named by. See ties/usage.h.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/tag.h"
#include "fsm/ties/usage.h"
#include "util/civil.h"
#include "util/hash.h"

#define PROBES_MAX 8 /* names of the same hash, in one hour */

/* The tags of the job that are summed up by; those it has not are left out. */
static int fill_tags(struct fsm *f, struct job *j, struct m_usage_row *row)
{
	const struct m_usage_settings *set = &f->usage.set;
	struct m_usage_tag *tags;
	size_t n = 0;
	int r;

	if (set->tags_n == 0)
		return 0;
	r = job_need_doc(f, j);
	if (r < 0 || j->doc.tags.n == 0)
		return r;
	tags = arena_zalloc(&f->item_arena, set->tags_n * sizeof(*tags));
	for (size_t i = 0; i < set->tags_n; i++) {
		struct str value = tag_find(f, j->doc.tags, set->tags[i]);

		if (value.n == 0)
			continue;
		if (value.n > LIMIT_USAGE_TAG_BYTES)
			value = STR("(long)");
		MSG_SET(&tags[n], usage_tag, name, set->tags[i]);
		MSG_SET(&tags[n], usage_tag, value, value);
		n++;
	}
	if (n > 0)
		MSG_SET_LIST(row, usage_row, tags, tags, n);
	return 0;
}

int usage_row_name(struct fsm *f, struct job *j, struct str model,
		   struct str provider, struct m_usage_row *ret)
{
	MSG_SET(ret, usage_row, queue, j->q->name);
	if (model.n > 0)
		MSG_SET(ret, usage_row, model, model);
	if (provider.n > 0)
		MSG_SET(ret, usage_row, provider, provider);
	return fill_tags(f, j, ret);
}

static bool is_same(const struct m_usage_row *a, const struct m_usage_row *b)
{
	if (!str_eq(a->queue, b->queue) || !str_eq(a->model, b->model) ||
	    !str_eq(a->provider, b->provider) || !str_eq(a->score, b->score) ||
	    a->other != b->other || a->tags_n != b->tags_n)
		return false;
	for (size_t i = 0; i < a->tags_n; i++)
		if (!str_eq(a->tags[i].name, b->tags[i].name) ||
		    !str_eq(a->tags[i].value, b->tags[i].value))
			return false;
	return true;
}

/* Without its sums. */
static uint64_t row_hash(struct fsm *f, const struct m_usage_row *row)
{
	CHECK(!MSG_HAS(row, usage_row, sum) &&
	      !MSG_HAS(row, usage_row, scores) &&
	      !MSG_HAS(row, usage_row, made));
	buf_clear(&f->scratch);
	msg_encode(&msg_usage_row, row, &f->scratch);
	return hash_stable(f->scratch.p, f->scratch.n);
}

/* How many rows an hour has stands in its first key. */
static int count_row(struct fsm *f, uint64_t hour_ns, bool *ret_fits)
{
	struct str value;
	struct key k;
	uint64_t n = 0;
	char v[8];
	int r;

	key_usage_count(&k, hour_ns);
	r = fsm_get(f, &k, &value);
	if (r < 0)
		return r;
	MUST(f, r == 0 || value.n == sizeof(v));
	if (r > 0)
		n = get_be64(value.p);
	*ret_fits = n < LIMIT_USAGE_ROWS;
	if (!*ret_fits)
		return 0;
	put_be64(v, n + 1);
	txn_put(f->txn, key_str(&k), str_of(v, sizeof(v)));
	f->usage.from = MIN(f->usage.from, hour_ns);
	return 0;
}

int usage_row_find(struct fsm *f, const struct m_usage_row *row,
		   struct usage_place *at)
{
	uint64_t hash = row_hash(f, row);
	int r = 0;

	for (unsigned i = 0; i < PROBES_MAX; i++) {
		key_usage(&at->key, at->hour_ns, SPACE_DEFAULT, at->day,
			  hash + i);
		r = fsm_read(f, &at->key, &msg_usage_row, &at->found);
		if (r <= 0 || is_same(&at->found, row))
			return r;
	}
	at->key.n = 0; /* nobody gets here by chance */
	return 0;
}

int usage_row_open(struct fsm *f, struct m_usage_row *row,
		   struct usage_place *at)
{
	bool fits;
	int r;

	at->hour_ns = f->now_ns - f->now_ns % (S_PER_HOUR * NS_PER_S);
	at->day = usage_local_day(f, f->now_ns);
	r = usage_row_find(f, row, at);
	fits = at->key.n > 0;
	if (r == 0 && fits)
		r = count_row(f, at->hour_ns, &fits);
	if (r == 0 && !fits) {
		bool scores = row->score.n > 0;

		*row = (struct m_usage_row){ 0 };
		MSG_SET(row, usage_row, other, true);
		if (scores)
			MSG_SET(row, usage_row, score, STR("(other)"));
		r = usage_row_find(f, row, at);
	}
	return r;
}
