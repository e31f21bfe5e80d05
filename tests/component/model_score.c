/*
 * How good results are. See model.h.
 */
#include "fsm_fixture.h"
#include "model.h"

#define MILLION 1000000

/* By what the job's worker named last. */
static struct model_scores *sums_of(struct model *m, const struct model_job *j,
				    struct str name)
{
	struct model_scores *s = m->scores;

	for (; s->used; s++) {
		assert_true(s < m->scores + MODEL_USAGES - 1);
		if (str_eq(s->name, name) && str_eq(s->queue, j->queue) &&
		    str_eq(s->model, j->last_model) &&
		    str_eq(s->provider, j->last_provider))
			return s;
	}
	s->used = true;
	s->name = model_copy(m, name);
	s->queue = model_copy(m, j->queue);
	s->model = j->last_model;
	s->provider = j->last_provider;
	return s;
}

void model_score(struct model *m, const struct m_score *op)
{
	struct model_job *j = model_find(m, op->job_id);
	struct model_score *s;

	if (op->value > MILLION) {
		model_refuse(m, ERR_VALIDATION_ERROR);
		return;
	}
	if (j == NULL || j->started_at == 0) {
		model_refuse(m,
			     j == NULL ? ERR_NOT_FOUND : ERR_VALIDATION_ERROR);
		return;
	}
	if (op->iteration > 0 && op->iteration > model_iterations(j)) {
		model_refuse(m, j->agent.used ? ERR_NOT_FOUND
					      : ERR_VALIDATION_ERROR);
		return;
	}
	for (s = j->scores; s->in != NULL; s++) {
		assert_true(s < j->scores + MODEL_SCORES);
		if (str_eq(s->name, op->name) && str_eq(s->by, op->by) &&
		    s->iteration == op->iteration)
			break;
	}
	if (s->in != NULL) {
		s->in->count--;
		s->in->total -= s->value;
	}
	s->name = model_copy(m, op->name);
	s->by = model_copy(m, op->by);
	s->iteration = op->iteration;
	s->value = (int64_t)(op->value * MILLION);
	s->in = sums_of(m, j, s->name);
	s->in->count++;
	s->in->total += s->value;
}

/* --- against the state machine --- */

static const struct m_score_sum *find(const struct m_usage_reply *r,
				      const struct model_scores *s)
{
	for (size_t i = 0; i < r->groups_n; i++) {
		const struct m_usage_group *g = &r->groups[i];

		if (str_eq(g->score, s->name) && str_eq(g->keys[0], s->queue) &&
		    str_eq(g->keys[1], s->model) &&
		    str_eq(g->keys[2], s->provider))
			return g->scores;
	}
	return NULL;
}

static void compare_job(struct fx *x, const struct model_job *j)
{
	struct m_score_list list;
	size_t n = 0;

	assert_int_equal(
	    record_scores(x->side[FX_MEM].kv, j->id, &x->arena, &list), 0);
	for (; n < MODEL_SCORES && j->scores[n].in != NULL; n++) {
		assert_true(n < list.scores_n);
		assert_true(str_eq(list.scores[n].name, j->scores[n].name));
		assert_true(str_eq(list.scores[n].by, j->scores[n].by));
		assert_int_equal((int64_t)(list.scores[n].value * MILLION),
				 j->scores[n].value);
	}
	assert_int_equal(list.scores_n, n);
}

void model_compare_scores(struct model *m, struct fx *x)
{
	static struct str names[] = { { "queue", 5 },
				      { "model", 5 },
				      { "provider", 8 } };
	struct m_usage_ask ask = { 0 };
	struct buf why = BUF_INIT(0);
	struct m_usage_reply r;
	size_t n = 0;

	MSG_SET(&ask, usage_ask, scores, true);
	MSG_SET(&ask, usage_ask, to, UINT64_MAX / 2);
	MSG_SET_LIST(&ask, usage_ask, group_by, names, ARRAY_SIZE(names));
	assert_int_equal(
	    record_usage(x->side[FX_MEM].kv, &ask, &x->arena, &r, &why), 0);
	for (struct model_scores *s = m->scores; s->used; s++) {
		const struct m_score_sum *got = find(&r, s);

		if (s->count == 0)
			continue;
		n++;
		if (got == NULL || got->count != s->count ||
		    got->total != s->total)
			fail_msg("%.*s of %.*s: the rules say %llu scores, "
				 "%lld in all",
				 STR_ARG(s->name), STR_ARG(s->queue),
				 (unsigned long long)s->count,
				 (long long)s->total);
	}
	assert_int_equal(r.groups_n, n);
	buf_done(&why);
	MODEL_EACH(m, j)
	compare_job(x, j);
}
