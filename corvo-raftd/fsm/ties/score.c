/*
 * Scores of jobs. See ties/usage.h: they are summed up under the same names as
 * what was used. A job's are few, so one is found by looking at all of them.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/ties/usage.h"
#include "proto/usage.h"
#include "util/civil.h"
#include "util/json.h"

/* --- sums --- */

/* What it is counted under, and the sums with it. */
static int count_in(struct fsm *f, struct job *j, struct m_score *s)
{
	const struct m_usage_sum *used = j->live.usage;
	struct m_usage_row *row = arena_zalloc(&f->item_arena, sizeof(*row));
	struct m_usage_row names;
	struct m_score_sum sum = { 0 };
	struct usage_place at;
	int r = usage_row_name(f, j, used != NULL ? used->model : STR_NULL,
			       used != NULL ? used->provider : STR_NULL, row);

	if (r < 0)
		return r;
	MSG_SET(row, usage_row, score, s->name);
	r = usage_row_open(f, row, &at);
	if (r < 0 || at.key.n == 0)
		return MIN(r, 0);
	if (r > 0)
		sum = *at.found.scores;
	score_sum_put(&sum, score_millionths(s->value));
	MSG_SET(row, usage_row, made, r > 0 ? at.found.made : f->last_seq);
	names = *row;
	MSG_SET(row, usage_row, scores, &sum);
	fsm_put(f, &at.key, &msg_usage_row, row);
	*row = names;
	MSG_SET(s, score, row, row);
	MSG_SET(s, score, day, at.day);
	return 0;
}

/*
 * Its hour may be gone, and have come again after the clock was set back: then
 * others are counted there. The lowest and the highest stay: they were
 * recorded.
 */
static int count_out(struct fsm *f, const struct m_score *s)
{
	struct usage_place at = { .day = s->day };
	struct m_usage_row row;
	struct m_score_sum sum;
	uint64_t made;
	int r;

	if (s->row == NULL)
		return 0;
	row = *s->row;
	made = row.made;
	MSG_UNSET(&row, usage_row, made);
	at.hour_ns = s->created_at - s->created_at % (S_PER_HOUR * NS_PER_S);
	r = usage_row_find(f, &row, &at);
	if (r <= 0 || at.found.made != made)
		return MIN(r, 0);
	MUST(f, at.found.scores != NULL && at.found.scores->count > 0);
	sum = *at.found.scores;
	MSG_SET(&sum, score_sum, count, sum.count - 1);
	MSG_SET(&sum, score_sum, total, sum.total - score_millionths(s->value));
	MSG_SET(&row, usage_row, made, made);
	MSG_SET(&row, usage_row, scores, &sum);
	fsm_put(f, &at.key, &msg_usage_row, &row);
	return 0;
}

/* --- scores --- */

/* 1: the job has one in this place, *ret; 0: it would be new; -ERR_*. */
static int find(struct fsm *f, const struct job *j, const struct m_score *op,
		struct key *k, struct m_score *ret)
{
	uint32_t i = 1;

	for (; i <= j->live.scores; i++) {
		int r;

		key_score(k, j->id, i);
		r = fsm_read(f, k, &msg_score, ret);
		if (r <= 0) /* all that are counted are there */
			return r < 0 ? r : fsm_fail(f, -ERR_INTERNAL_ERROR);
		if (str_eq(ret->name, op->name) && str_eq(ret->by, op->by) &&
		    ret->iteration == op->iteration)
			return 1;
	}
	key_score(k, j->id, i);
	*ret = (struct m_score){ 0 };
	MSG_SET(ret, score, n, i);
	return 0;
}

static struct str event_data(struct fsm *f, const struct m_score *s)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "name");
	jw_str(&w, s->name);
	jw_key(&w, "value");
	jw_double(&w, s->value);
	if (s->by.n > 0) {
		jw_key(&w, "by");
		jw_str(&w, s->by);
	}
	if (s->iteration > 0) {
		jw_key(&w, "iteration");
		jw_u64(&w, s->iteration);
	}
	jw_object_end(&w);
	return buf_str(&f->data);
}

static void fill(const struct fsm *f, const struct m_score *op, uint32_t n,
		 struct m_score *ret)
{
	*ret = *op;
	MSG_SET(ret, score, value, score_value(score_millionths(op->value)));
	MSG_SET(ret, score, created_at, f->now_ns);
	MSG_SET(ret, score, n, n);
}

int score_record(struct fsm *f, struct job *j, const struct m_score *op,
		 struct m_score *ret)
{
	struct m_score old;
	struct key k;
	int r = find(f, j, op, &k, &old);

	if (r < 0)
		return r;
	if (r == 0 && j->live.scores >= LIMIT_SCORES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "name: the job has %d scores, which is as "
				  "many as it can have",
				  LIMIT_SCORES);
	fill(f, op, old.n, ret);
	if (r > 0)
		r = count_out(f, &old);
	else
		MSG_SET(&j->live, job_live, scores, old.n);
	if (r == 0)
		r = count_in(f, j, ret);
	if (r < 0)
		return r;
	fsm_put(f, &k, &msg_score, ret);
	job_event(f, j, EVENT_SCORED, event_data(f, ret));
	f->counters.scores++;
	return 0;
}
