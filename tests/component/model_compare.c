/*
 * The model against the state machine's store. See model.h.
 */
#include "fsm_fixture.h"
#include "model.h"
#include "store/key.h"

struct str model_suspect;

/* --- learning what the rules leave open --- */

static bool holds(struct str text, struct str part)
{
	for (size_t i = 0; part.n > 0 && i + part.n <= text.n; i++) {
		if (memcmp(text.p + i, part.p, part.n) == 0)
			return true;
	}
	return part.n == 0;
}

/* Whether the unnamed job of the model could be this one. */
static bool could_be(const struct model_job *j, const struct m_job *r)
{
	bool like = j->unnamed && str_eq(j->queue, r->queue) &&
		    str_eq(j->chain_id, r->chain_id) &&
		    j->step == r->chain_step;

	for (size_t i = 0; like && i < ARRAY_SIZE(j->holds); i++)
		like = holds(r->payload, j->holds[i]);
	return like;
}

static void name_job(struct model *m, struct fx *x, struct str id)
{
	struct m_job r;

	assert_int_equal(record_job(x->side[FX_MEM].kv, id, 0, &x->arena, &r),
			 1);
	MODEL_EACH(m, j)
	{
		if (!could_be(j, &r))
			continue;
		j->id = model_copy(m, id);
		j->payload = model_copy(m, r.payload);
		if (j->parent_unknown)
			j->parent = model_copy(m, r.parent_id);
		j->unnamed = false;
		return;
	}
	fail_msg("the server made job %.*s in %.*s, step %lld: %.*s",
		 STR_ARG(id), STR_ARG(r.queue), (long long)r.chain_step,
		 STR_ARG(r.payload));
}

/* Every job of the store is one of the model; returns how many there are. */
static size_t name_jobs(struct model *m, struct fx *x)
{
	struct key from, upto;
	struct kv_iter *it;
	size_t n = 0;

	key_prefix(&from, "j|");
	key_prefix_end(&from, &upto);
	it = kv_iter_new(x->side[FX_MEM].kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it), n++) {
		struct str id = str_skip(kv_iter_key(it), 2);

		if (model_find(m, id) == NULL)
			name_job(m, x, arena_copy(&x->arena, id));
	}
	kv_iter_free(it);
	return n;
}

static uint64_t last_place(struct model *m)
{
	uint64_t last = 0;

	MODEL_EACH(m, j)
	{
		if (!j->placed)
			last = MAX(last, j->seq);
	}
	return last;
}

static void learn_place(struct model_job *j, const struct m_job *r,
			uint64_t last)
{
	if (!j->placed)
		return;
	if (r->seq <= last)
		fail_msg("%.*s is not at the end", STR_ARG(j->id));
	j->seq = r->seq;
	j->placed = false;
}

static void learn_delay(struct model_job *j, const struct m_job *r)
{
	if (j->delay_max == 0 || j->state != JOB_RETRYING)
		return;
	assert_true(r->scheduled_at >= j->delay_min);
	assert_true(r->scheduled_at <= j->delay_max);
	j->scheduled_at = r->scheduled_at;
}

/* --- comparing --- */

#define SAME(member, value)                                                  \
	do {                                                                 \
		uint64_t got_ =                                              \
		    MSG_HAS(r, job, member) ? (uint64_t)r->member : 0;       \
		if (got_ != (uint64_t)(value))                               \
			fail_msg("job %.*s: " #member " is %llu, the rules " \
				 "say %llu",                                 \
				 STR_ARG(j->id), (unsigned long long)got_,   \
				 (unsigned long long)(value));               \
	} while (0)

#define SAME_TEXT(member, value)                                         \
	do {                                                             \
		struct str v_ = (value);                                 \
		if (!str_eq(r->member, v_))                              \
			fail_msg("job %.*s: " #member " is '%.*s', the " \
				 "rules say '%.*s'",                     \
				 STR_ARG(j->id), STR_ARG(r->member),     \
				 STR_ARG(v_));                           \
	} while (0)

static void same_times(const struct model_job *j, const struct m_job *r)
{
	SAME(created_at, j->created_at);
	SAME(scheduled_at, j->scheduled_at);
	SAME(expire_at, j->expire_at);
	SAME(as_numbers, j->as_numbers);
	SAME(started_at, j->started_at);
	SAME(completed_at, j->completed_at);
	SAME(failed_at, j->failed_at);
	SAME(cancelled_at, j->cancelled_at);
	SAME(lease_expires_at, j->state == JOB_ACTIVE ? j->lease_end : 0);
	SAME(timeout_at, j->timeout_at);
}

static void same_links(const struct model_job *j, const struct m_job *r)
{
	SAME_TEXT(unique_key, j->key);
	SAME_TEXT(batch_id, j->batch);
	SAME_TEXT(schedule_id, j->schedule_id);
	SAME_TEXT(chain_id, j->chain_id);
	SAME(chain_step, j->step);
	SAME_TEXT(group, j->group);
	SAME_TEXT(parent_id, j->parent);
	/* of a limit the rules say how it begins */
	if (!str_starts(r->hold_reason, j->hold_reason))
		SAME_TEXT(hold_reason, j->hold_reason);
	assert_int_equal(r->depends_on_n, j->deps_n);
	for (size_t i = 0; i < j->deps_n; i++)
		SAME_TEXT(depends_on[i], j->deps[i].id);
	SAME(waiting_on, model_unmet(j));
}

static void same_job(const struct model_job *j, const struct m_job *r)
{
	SAME(state, job_state_shown(j->state));
	SAME(blocked, j->state == JOB_BLOCKED);
	SAME_TEXT(queue, j->queue);
	SAME(seq, j->seq);
	SAME(priority, j->prio);
	SAME(attempt, j->attempt);
	SAME(max_retries, j->max_retries);
	SAME(retry_backoff, j->backoff);
	SAME(retry_base_delay, j->base);
	SAME(retry_max_delay, j->cap);
	SAME_TEXT(payload, j->payload.n > 0 ? j->payload : STR("{}"));
	SAME_TEXT(tags, j->tags);
	SAME_TEXT(worker_id, j->worker);
	SAME_TEXT(progress, j->progress);
	SAME_TEXT(checkpoint, j->checkpoint);
	SAME_TEXT(result, j->result);
	SAME_TEXT(response, j->response);
	SAME(cancel_requested, j->cancel_requested);
	assert_int_equal(r->errors_n, j->errors);
	SAME(lost_leases, j->lost_leases);
	SAME(log_lines, j->log_lines);
	SAME(timeout, j->timeout);
	if (j->last_error.n > 0)
		SAME_TEXT(last_error, j->last_error);
	same_times(j, r);
	same_links(j, r);
	model_compare_job_usage(j, r);
}

static void compare_job(struct fx *x, struct model_job *j, uint64_t last)
{
	struct m_job r;

	model_suspect = j->id;
	if (j->unnamed)
		fail_msg("the server did not make a job in %.*s, step %lld",
			 STR_ARG(j->queue), (long long)j->step);
	if (record_job(x->side[FX_MEM].kv, j->id, RECORD_ERRORS | RECORD_AGENT,
		       &x->arena, &r) != 1)
		fail_msg("job %.*s is gone", STR_ARG(j->id));
	learn_place(j, &r, last);
	learn_delay(j, &r);
	same_job(j, &r);
	model_compare_agent(j, &r, x);
}

static void compare_batch(struct fx *x, struct model_batch *b)
{
	struct m_batch_doc d = { 0 };
	struct buf v = BUF_INIT(0);
	struct key k;

	key_batch(&k, b->id);
	if (kv_get(x->side[FX_MEM].kv, key_str(&k), &v) != 1)
		fail_msg("batch %.*s is gone", STR_ARG(b->id));
	assert_int_equal(msg_decode(&msg_batch_doc,
				    arena_copy(&x->arena, buf_str(&v)),
				    &x->arena, &d),
			 0);
	buf_done(&v);
	assert_int_equal(d.total, b->total);
	assert_int_equal(d.succeeded, b->succeeded);
	assert_int_equal(d.failed, b->failed);
	assert_int_equal(d.sealed, b->sealed);
	assert_int_equal(d.ended_at, b->ended_at);
	if (b->callback != NULL)
		b->callback_id = b->callback->id;
	b->callback = NULL;
	if (!b->callback_lost)
		assert_true(str_eq(d.callback_job_id, b->callback_id));
}

bool model_read_schedule(struct fx *x, struct str id, struct m_schedule *ret)
{
	struct buf v = BUF_INIT(0);
	struct key k;
	int r;

	key_schedule(&k, SPACE_DEFAULT, id);
	r = kv_get(x->side[FX_MEM].kv, key_str(&k), &v);
	if (r == 1)
		assert_int_equal(msg_decode(&msg_schedule,
					    arena_copy(&x->arena, buf_str(&v)),
					    &x->arena, ret),
				 0);
	buf_done(&v);
	return r == 1;
}

static void compare_schedule(struct fx *x, const struct model_schedule *s)
{
	struct m_schedule r;

	if (!model_read_schedule(x, s->id, &r))
		fail_msg("schedule %.*s is gone", STR_ARG(s->id));
	assert_true(str_eq(r.name, s->name));
	assert_true(str_eq(r.queue, s->queue));
	assert_int_equal(r.paused, s->paused);
	assert_int_equal(r.ended, s->ended);
	assert_int_equal(r.next_run, s->next_run);
	assert_int_equal(r.last_run, s->last_run);
	assert_int_equal(r.runs, s->runs);
	assert_true(str_eq(r.last_job_id, s->last_job_id));
}

static bool has_unnamed(struct model *m)
{
	MODEL_EACH(m, j)
	{
		if (j->unnamed)
			return true;
	}
	return false;
}

void model_compare(struct model *m, struct fx *x, bool all)
{
	bool look;
	size_t there, n = 0;
	uint64_t last;

	model_settle(m);
	look = all || has_unnamed(m);
	there = look ? name_jobs(m, x) : 0;
	last = last_place(m);

	MODEL_EACH(m, j)
	{
		n++;
		if (j->touched || all)
			compare_job(x, j, last);
	}
	if (look && there != n)
		fail_msg("there are %zu jobs, the rules say %zu", there, n);
	if (all) {
		model_compare_usage(m, x);
		model_compare_scores(m, x);
		model_compare_providers(m, x);
		model_compare_budgets(m, x);
		model_compare_hooks(m, x);
		model_compare_sdb(m, x);
		model_compare_webhooks(m, x);
		model_compare_policies(m, x);
	}
	for (size_t i = 0; all && i < MODEL_SCHEDULES; i++) {
		if (m->schedules[i].used)
			compare_schedule(x, &m->schedules[i]);
	}
	for (size_t i = 0; i < MODEL_BATCHES; i++) {
		if (m->batches[i].used && (all || m->batches[i].callback))
			compare_batch(x, &m->batches[i]);
	}
}
