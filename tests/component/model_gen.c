/*
 * See model_run.h: the operations of workers, people and time. New jobs are
 * in model_gen_enqueue.c.
 */
#include "model_run.h"

#include "proto/limits.h"

#define RETENTION (40 * NS_PER_S)

static struct str some_worker(struct run *n)
{
	static const char *const names[] = { "w0", "w1", "w2" };

	return str_from(names[run_below(n, ARRAY_SIZE(names))]);
}

/* A job in somebody's hands, or any. */
static struct str active_job(struct run *n)
{
	size_t from = n->m->top ? run_below(n, n->m->top) : 0;

	for (size_t i = 0; i < n->m->top && !run_chance(n, 2); i++) {
		const struct model_job *j = &n->m->jobs[(from + i) % n->m->top];

		if (j->used && j->state == JOB_ACTIVE)
			return j->id;
	}
	return run_job(n);
}

/* How a worker names itself: by token, by name, both or not; rarely wrong. */
struct self {
	bool has_token;
	uint64_t token;
	struct str worker;
};

static struct self name_self(struct run *n, struct str id)
{
	const struct model_job *j = model_find(n->m, id);
	struct self s = { .has_token = run_chance(n, 60) };

	s.token = j != NULL ? j->token : 7;
	if (run_chance(n, 4))
		s.token--;
	if (run_chance(n, 20))
		s.worker =
		    j != NULL && run_chance(n, 85) ? j->worker : some_worker(n);
	return s;
}

static void add_logs(struct run *n, struct str **ret, size_t *ret_n)
{
	struct str *lines = arena_alloc(&n->arena, 3 * sizeof(*lines));

	*ret_n = run_chance(n, 10) ? 1 + run_below(n, 3) : 0;
	for (size_t i = 0; i < *ret_n; i++)
		lines[i] = STR("a line");
	*ret = lines;
}

/* --- workers --- */

/* With turns by weight it is left open which expired jobs a fetch meets. */
static void settle_expiry(struct run *n)
{
	struct m_maintain op = { 0 };
	struct m_maintain_reply r;

	(void)model_expire(n->m);
	MSG_SET(&op, maintain, limit, LIMIT_MAINTAIN_JOBS);
	run_must(n, OP_EXPIRE, &op, &r);
	assert_false(r.more);
	model_compare(n->m, n->x, false);
}

static bool any_is_fair(struct run *n)
{
	for (size_t i = 0; i < MODEL_QUEUES; i++) {
		if (n->m->queues[i].used &&
		    n->m->queues[i].set.fairness == FAIRNESS_GROUP)
			return true;
	}
	return false;
}

static void fetch(struct run *n)
{
	struct m_fetch op = { 0 };
	struct m_fetch_reply r;
	struct str queues[3];
	size_t queues_n = 1 + run_below(n, 3);

	if (any_is_fair(n))
		settle_expiry(n);
	for (size_t i = 0; i < queues_n; i++)
		queues[i] = run_queue(n);
	MSG_SET_LIST(&op, fetch, queues, queues, queues_n);
	if (run_chance(n, 80))
		MSG_SET(&op, fetch, worker_id, some_worker(n));
	if (run_chance(n, 60))
		MSG_SET(&op, fetch, lease_duration,
			1 + run_below(n, 20 * NS_PER_S));
	if (run_chance(n, 50))
		MSG_SET(&op, fetch, count, 1 + (uint32_t)run_below(n, 4));
	MSG_SET(&op, fetch, fetch_id, ++n->fetches);
	run_must(n, OP_FETCH, &op, &r);
	model_fetch_holds(n->m, &op, n->x);
	model_fetch(n->m, &op, &r);
}

static void ack(struct run *n)
{
	struct m_ack op = { 0 };
	struct m_status_reply r;
	struct self s;

	MSG_SET(&op, ack, job_id, active_job(n));
	s = name_self(n, op.job_id);
	if (s.has_token)
		MSG_SET(&op, ack, lease_token, s.token);
	if (s.worker.n > 0)
		MSG_SET(&op, ack, worker_id, s.worker);
	if (run_chance(n, 50))
		MSG_SET(&op, ack, result,
			run_chance(n, 80) ? STR("{\"n\":1}") : STR("2"));
	if (run_chance(n, 10))
		MSG_SET(&op, ack, checkpoint, STR("[\"acked\"]"));
	if (run_chance(n, 20))
		MSG_SET(&op, ack, response, STR("{\"status\":200}"));
	if (run_chance(n, 15))
		MSG_SET(&op, ack, step_status, (uint32_t)run_below(n, 2));
	add_logs(n, &op.logs, &op.logs_n);
	if (op.logs_n > 0)
		op.has |= MSG_BIT(ack, logs);
	run_fill_turn(n, &op);
	op.usage = run_usage(n);
	if (op.usage != NULL)
		op.has |= MSG_BIT(ack, usage);
	if (run_chance(n, 20))
		MSG_SET(&op, ack, provider,
			run_chance(n, 50) ? STR("zeta") : STR("acme"));
	if (run_chance(n, 20))
		MSG_SET(&op, ack, latency, run_below(n, 9 * NS_PER_S));
	model_ack(n->m, &op, ERR_NOT_FOUND);
	if (!run_do(n, OP_ACK, &op, &r))
		return;
	assert_true(str_eq(r.error, n->m->ack_error));
	assert_str_is(r.status, r.error.n == 0 ? "ok"
					       : enum_text(&enum_job_state,
							   n->m->ack_status));
}

static void ack_batch(struct run *n)
{
	struct m_ack_item items[4] = { 0 };
	struct m_ack_batch op = { 0 };
	struct m_ack_batch_reply r;
	size_t refused = 0;

	for (size_t i = 0; i < 4; i++) {
		struct self s;

		MSG_SET(&items[i], ack_item, job_id, active_job(n));
		s = name_self(n, items[i].job_id);
		if (s.has_token)
			MSG_SET(&items[i], ack_item, lease_token, s.token);
		if (run_chance(n, 30))
			MSG_SET(&items[i], ack_item, result, STR("2"));
		items[i].usage = run_usage(n);
		if (items[i].usage != NULL)
			items[i].has |= MSG_BIT(ack_item, usage);
	}
	MSG_SET_LIST(&op, ack_batch, acks, items, 4);
	run_must(n, OP_ACK_BATCH, &op, &r);
	for (size_t i = 0; i < 4; i++) {
		struct m_ack one = { 0 };

		MSG_SET(&one, ack, job_id, items[i].job_id);
		if (MSG_HAS(&items[i], ack_item, result))
			MSG_SET(&one, ack, result, items[i].result);
		if (MSG_HAS(&items[i], ack_item, lease_token))
			MSG_SET(&one, ack, lease_token, items[i].lease_token);
		if (MSG_HAS(&items[i], ack_item, usage))
			MSG_SET(&one, ack, usage, items[i].usage);
		n->m->errs_n = 0;
		model_ack(n->m, &one, ERR_NOT_FOUND);
		if (n->m->errs_n == 0 && n->m->ack_error.n > 0)
			model_refuse(n->m, ERR_RESULT_INVALID);
		if (n->m->errs_n == 0)
			continue;
		assert_true(refused < r.refused_n);
		assert_true(str_eq(r.refused[refused].job_id, items[i].job_id));
		assert_str_is(r.refused[refused].code, err_code(n->m->errs[0]));
		refused++;
	}
	assert_int_equal(r.refused_n, refused);
	assert_int_equal(r.acked, 4 - refused);
}

static void fail_job(struct run *n)
{
	struct m_fail op = { 0 };
	struct m_fail_reply r, say = { 0 };
	struct self s;

	MSG_SET(&op, fail, job_id, active_job(n));
	s = name_self(n, op.job_id);
	if (s.has_token)
		MSG_SET(&op, fail, lease_token, s.token);
	if (s.worker.n > 0)
		MSG_SET(&op, fail, worker_id, s.worker);
	MSG_SET(&op, fail, error, STR("boom"));
	if (run_chance(n, 20))
		MSG_SET(&op, fail, response, STR("{\"status\":500}"));
	if (run_chance(n, 15))
		MSG_SET(&op, fail, requeue, true);
	if (run_chance(n, 15))
		MSG_SET(&op, fail, retry, run_chance(n, 50));
	if (run_chance(n, 15))
		MSG_SET(&op, fail, retry_after, run_below(n, 9 * NS_PER_S));
	op.usage = run_usage(n);
	if (op.usage != NULL)
		op.has |= MSG_BIT(fail, usage);
	if (run_chance(n, 50))
		MSG_SET(&op, fail, provider,
			run_chance(n, 50) ? STR("zeta") : STR("acme"));
	if (run_chance(n, 20))
		MSG_SET(&op, fail, latency, run_below(n, 9 * NS_PER_S));
	model_fail(n->m, &op, &say);
	if (!run_do(n, OP_FAIL, &op, &r))
		return;
	assert_int_equal(r.status, say.status);
	assert_int_equal(r.attempts_remaining, say.attempts_remaining);
	if (r.status == JOB_RETRYING)
		assert_true(r.next_attempt_at >= n->m->failed_at &&
			    r.next_attempt_at <= say.next_attempt_at);
	else
		assert_false(MSG_HAS(&r, fail_reply, next_attempt_at));
}

static void heartbeat(struct run *n)
{
	struct m_beat beats[3] = { 0 };
	struct m_heartbeat op = { 0 };
	struct m_heartbeat_reply r;

	for (size_t i = 0; i < 3; i++) {
		struct m_beat *b = &beats[i];
		struct self s;

		MSG_SET(b, beat, job_id, active_job(n));
		s = name_self(n, b->job_id);
		if (s.has_token)
			MSG_SET(b, beat, lease_token, s.token);
		if (s.worker.n > 0)
			MSG_SET(b, beat, worker_id, s.worker);
		if (run_chance(n, 30))
			MSG_SET(b, beat, progress, STR("[1]"));
		if (run_chance(n, 20))
			MSG_SET(b, beat, checkpoint, STR("[2]"));
		add_logs(n, &b->logs, &b->logs_n);
		if (b->logs_n > 0)
			b->has |= MSG_BIT(beat, logs);
		b->usage = run_usage(n);
		if (b->usage != NULL)
			b->has |= MSG_BIT(beat, usage);
	}
	MSG_SET_LIST(&op, heartbeat, jobs, beats, 3);
	run_must(n, OP_HEARTBEAT, &op, &r);
	assert_int_equal(r.jobs_n, 3);
	for (size_t i = 0; i < 3; i++) {
		struct m_beat_reply say;

		model_beat(n->m, op.worker_id, &beats[i], &say);
		assert_true(str_eq(r.jobs[i].status, say.status));
		assert_true(str_eq(r.jobs[i].code, say.code));
		assert_int_equal(r.jobs[i].unknown, say.unknown);
		assert_int_equal(r.jobs[i].lease_expires_at,
				 say.lease_expires_at);
	}
}

static void renew(struct run *n)
{
	struct m_renewal l = { 0 };
	struct m_renew op = { 0 };

	MSG_SET(&l, renewal, job_id, active_job(n));
	MSG_SET(&l, renewal, lease_token, name_self(n, l.job_id).token);
	MSG_SET(&l, renewal, lease_expires_at,
		n->x->now_ns + run_below(n, 20 * NS_PER_S));
	MSG_SET_LIST(&op, renew, leases, &l, 1);
	model_renew(n->m, &l);
	run_must(n, OP_RENEW, &op, NULL);
}

/* --- people --- */

static void job_op(struct run *n, enum op_id op)
{
	struct m_job_ref m = { 0 };
	struct m_status_reply r;
	const char *status;

	MSG_SET(&m, job_ref, job_id, run_job(n));
	status = model_job_op(n->m, op, m.job_id);
	if (run_do(n, op, &m, &r))
		assert_str_is(r.status, status);
}

static void cancel(struct run *n)
{
	job_op(n, OP_CANCEL);
}

static void retry(struct run *n)
{
	job_op(n, OP_RETRY);
}

static void delete_job(struct run *n)
{
	job_op(n, OP_DELETE);
}

static void requeue(struct run *n)
{
	job_op(n, OP_REQUEUE);
}

static void move(struct run *n)
{
	struct m_move op = { 0 };
	struct m_status_reply r;

	MSG_SET(&op, move, job_id, run_job(n));
	MSG_SET(&op, move, queue, run_queue(n));
	model_move(n->m, &op);
	if (run_do(n, OP_MOVE, &op, &r))
		assert_str_is(r.status, "moved");
}

static void set_priority(struct run *n, struct str id, uint32_t priority)
{
	struct m_set_priority op = { 0 };

	MSG_SET(&op, set_priority, job_id, id);
	MSG_SET(&op, set_priority, priority, priority);
	model_priority(n->m, &op);
	(void)run_do(n, OP_PRIORITY, &op, NULL);
}

static void priority(struct run *n)
{
	struct str id = run_job(n);

	set_priority(n, id, (uint32_t)run_below(n, 3));
}

/* Time and again: each time the job comes back to its old place. */
static void there_and_back(struct run *n)
{
	struct str id = run_job(n);
	const struct model_job *j = model_find(n->m, id);

	if (j == NULL || j->state != JOB_PENDING)
		return;
	for (uint64_t i = run_below(n, 4) + 1; i > 0; i--) {
		uint32_t own = j->prio;

		set_priority(n, id, (own + 1) % 3);
		set_priority(n, id, own);
	}
}

static void hold(struct run *n)
{
	struct m_hold op = { 0 };
	struct m_status_reply r;

	MSG_SET(&op, hold, job_id, run_job(n));
	if (run_chance(n, 50))
		MSG_SET(&op, hold, reason, STR("look first"));
	if (run_chance(n, 30))
		MSG_SET(&op, hold, by, STR("ada"));
	model_hold(n->m, &op);
	if (run_do(n, OP_HOLD, &op, &r))
		assert_str_is(r.status, "held");
}

static void reject(struct run *n)
{
	struct m_hold op = { 0 };
	struct m_status_reply r;

	MSG_SET(&op, hold, job_id, run_job(n));
	if (run_chance(n, 30))
		MSG_SET(&op, hold, by, STR("alan"));
	if (run_chance(n, 30))
		MSG_SET(&op, hold, reason, STR("no"));
	if (run_chance(n, 30))
		MSG_SET(&op, hold, comment, STR("never"));
	model_reject(n->m, &op);
	if (run_do(n, OP_REJECT, &op, &r))
		assert_str_is(r.status, "dead");
}

/* --- time --- */

static bool some_depend(struct run *n)
{
	MODEL_EACH(n->m, j)
	{
		if (model_unmet(j) > 0)
			return true;
	}
	return false;
}

/*
 * Portions until nothing is left; how many in all. Where one may end another
 * it is left open which jobs are in a portion: then all are in one.
 */
static uint32_t maintain(struct run *n, enum op_id op, uint64_t retention)
{
	struct m_maintain m = { 0 };
	struct m_maintain_reply r;
	uint32_t count = 0;

	if (op == OP_PROMOTE || op == OP_PURGE || !some_depend(n))
		MSG_SET(&m, maintain, limit, 1 + (uint32_t)run_below(n, 20));
	MSG_SET(&m, maintain, retention_ns, retention);
	MSG_SET(&m, maintain, idle_ns, NS_PER_S); /* of purge */
	do {
		run_must(n, op, &m, &r);
		assert_true(m.limit == 0 || r.count <= m.limit);
		count += r.count;
	} while (r.more);
	return count;
}

static void promote(struct run *n)
{
	uint32_t count = model_promote(n->m);

	assert_int_equal(maintain(n, OP_PROMOTE, 0), count);
}

static void reclaim(struct run *n)
{
	uint32_t count = maintain(n, OP_RECLAIM, 0);

	assert_int_equal(model_reclaim(n->m), count);
}

static void expire(struct run *n)
{
	uint32_t count = maintain(n, OP_EXPIRE, 0);

	assert_int_equal(model_expire(n->m), count);
}

static void deadline(struct run *n)
{
	uint32_t count = maintain(n, OP_DEADLINE, 0);

	assert_int_equal(model_deadline(n->m), count);
}

/* When it goes is left open, but nobody may need it. */
static void learn_forgotten(struct run *n)
{
	for (size_t i = 0; i < MODEL_QUEUES; i++) {
		struct model_queue *q = &n->m->queues[i];
		struct m_queue there;

		if (!q->used || fsm_queue(n->x->side[0].f, q->name, &there))
			continue;
		assert_false(q->paused || q->set.has != 0);
		MODEL_EACH(n->m, j) assert_false(str_eq(j->queue, q->name));
		q->used = false;
	}
}

/* What ended long ago goes, so that the population stays small. */
static void purge(struct run *n)
{
	model_purge(n->m, RETENTION);
	(void)maintain(n, OP_PURGE, RETENTION);
	learn_forgotten(n);
}

const struct run_kind run_kinds[] = {
	{ 24, run_enqueue },   { 4, run_enqueue_batch },
	{ 26, fetch },         { 14, ack },
	{ 2, ack_batch },      { 10, fail_job },
	{ 4, heartbeat },      { 2, renew },
	{ 4, cancel },         { 4, retry },
	{ 2, delete_job },     { 2, requeue },
	{ 4, hold },           { 5, run_approve },
	{ 2, reject },         { 3, move },
	{ 3, priority },       { 3, run_pause },
	{ 3, run_set_queue },  { 2, run_open_batch },
	{ 3, run_seal_batch }, { 6, run_schedule },
	{ 1, run_clear },      { 8, promote },
	{ 6, reclaim },        { 6, expire },
	{ 3, purge },          { 6, run_bulk },
	{ 1, run_limits },     { 2, run_price },
	{ 2, run_budget },     { 4, run_score },
	{ 3, run_replay },     { 2, run_hook },
	{ 6, run_sdb },        { 5, run_webhook },
	{ 4, run_policy },     { 4, run_link },
	{ 4, deadline },       { 2, there_and_back },
};
const size_t run_kinds_n = ARRAY_SIZE(run_kinds);
