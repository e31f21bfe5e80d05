/*
 * What an approval policy would have held: it is tried on the jobs that were
 * created lately, newest first, as far as a limited number and time allow. Jobs
 * are judged by what they are now: what one has cost in all, and the iteration
 * it has come to.
 *
 * The policy comes from a client; its texts are only ever read or compared.
 */
#include "jq/policy.h"
#include "db/timetext.h"
#include "query/query_impl.h"
#include "util/clock.h"

#define TRIAL_BUDGET_NS (1 * NS_PER_S)

static const char sql[] =
    "SELECT id, queue, state, created_at, cost_nano, agent_iteration,"
    " started_at, tags, payload FROM jobs WHERE created_at>=?1"
    " ORDER BY created_at DESC, id DESC LIMIT ?2";

enum {
	T_ID,
	T_QUEUE,
	T_STATE,
	T_CREATED,
	T_COST,
	T_ITERATION,
	T_STARTED,
	T_TAGS,
	T_PAYLOAD
};

struct trial {
	struct query *q;
	struct policy policy;
	struct m_policy_trial reply;
	struct m_trial_job *jobs; /* LIMIT_TRIAL_SHOWN */
};

static struct str text_or_none(struct db_stmt *s, int i)
{
	return db_is_null(s, i) ? STR_NULL : db_text(s, i);
}

/* What was known of the job there; false: it has not come there. */
static bool set_scene(struct db_stmt *s, enum policy_point at,
		      struct policy_subject *ret)
{
	uint32_t iteration = (uint32_t)db_i64(s, T_ITERATION);

	ret->cost = (uint64_t)db_i64(s, T_COST);
	ret->iteration = iteration;
	switch (at) {
	case POINT_ENQUEUE:
		ret->cost = 0;
		ret->iteration = iteration > 0;
		return true;
	case POINT_FETCH:
		return !db_is_null(s, T_STARTED);
	case POINT_CONTINUE:
		ret->iteration = iteration - 1;
		return iteration > 1;
	}
	return false;
}

static bool is_held(struct trial *t, struct db_stmt *s, enum policy_point *ret)
{
	struct policy_subject subject = {
		.queue = db_text(s, T_QUEUE),
		.tags = text_or_none(s, T_TAGS),
		.payload = text_or_none(s, T_PAYLOAD),
	};

	for (int at = POINT_ENQUEUE; at <= POINT_CONTINUE; at++) {
		*ret = (enum policy_point)at;
		if ((t->policy.at >> at & 1) != 0 &&
		    set_scene(s, *ret, &subject) &&
		    policy_matches(&t->policy, &subject))
			return true;
	}
	return false;
}

static void show(struct trial *t, struct db_stmt *s, enum policy_point at)
{
	struct arena *a = &t->q->arena;
	struct m_trial_job *j;

	if (t->reply.held++ >= LIMIT_TRIAL_SHOWN)
		return;
	j = &t->jobs[t->reply.jobs_n++];
	*j = (struct m_trial_job){ 0 };
	MSG_SET(j, trial_job, id, arena_copy(a, db_text(s, T_ID)));
	MSG_SET(j, trial_job, queue, arena_copy(a, db_text(s, T_QUEUE)));
	MSG_SET(j, trial_job, state, arena_copy(a, db_text(s, T_STATE)));
	MSG_SET(j, trial_job, at, at);
	MSG_SET(j, trial_job, created_at,
		timetext_parse(db_text(s, T_CREATED)));
}

/* 0: all were looked at; 1: there are more; -ERR_*. */
static int look(struct trial *t, struct db_stmt *s)
{
	uint64_t end_ns = clock_mono_ns() + TRIAL_BUDGET_NS;
	enum policy_point at;
	int r;

	while ((r = db_step(s)) == 1) {
		if (t->reply.looked_at == LIMIT_TRIAL_JOBS ||
		    clock_mono_ns() > end_ns)
			return 1;
		t->reply.looked_at++;
		t->reply.since = timetext_parse(db_text(s, T_CREATED));
		if (is_held(t, s, &at))
			show(t, s, at);
	}
	return r;
}

static int try_all(struct trial *t, uint64_t since_ns)
{
	struct timetext times = { 0 };
	char since[TIMETEXT_LEN];
	struct db_stmt *s;
	int r = db_prepare(t->q->db, sql, &s);

	if (r < 0)
		return r;
	timetext_put(&times, since_ns, since);
	db_bind_text(s, 1, str_of(since, sizeof(since)));
	db_bind_i64(s, 2, LIMIT_TRIAL_JOBS + 1);
	r = look(t, s);
	db_finalize(s);
	if (r < 0)
		return r;
	MSG_SET(&t->reply, policy_trial, since,
		r == 0 ? since_ns : t->reply.since);
	MSG_SET(&t->reply, policy_trial, complete, r == 0);
	return 0;
}

static int read_policy(struct query *q, const struct m_try_policy *m,
		       struct policy *ret)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (m->period > LIMIT_TRIAL_S * NS_PER_S)
		return query_refuse(q, "period: must be at most %d hours",
				    LIMIT_TRIAL_S / 3600);
	if (!policy_read(m->policy, &q->arena, ret, &why))
		return query_refuse(q, "policy.%.*s", STR_ARG(buf_str(&why)));
	if (MSG_HAS(m->policy, policy, provider_state))
		return query_refuse(q, "policy.provider_state: cannot be "
				       "tried; how providers did is not kept");
	return 0;
}

int query_try_policy(struct query *q, const struct query_ask *ask,
		     struct buf *out)
{
	const struct m_try_policy *m = ask->request;
	uint64_t period = m->period > 0 ? m->period : LIMIT_TRIAL_S * NS_PER_S;
	struct trial t = { .q = q };
	int r = read_policy(q, m, &t.policy);

	if (r < 0)
		return r;
	t.jobs = arena_alloc(&q->arena, LIMIT_TRIAL_SHOWN * sizeof(*t.jobs));
	r = try_all(&t, m->now_ns - MIN(period, m->now_ns));
	policy_done(&t.policy);
	if (r < 0)
		return r;
	MSG_SET(&t.reply, policy_trial, held, t.reply.held);
	MSG_SET(&t.reply, policy_trial, looked_at, t.reply.looked_at);
	MSG_SET_LIST(&t.reply, policy_trial, jobs, t.jobs, t.reply.jobs_n);
	MSG_SET(&t.reply, policy_trial, lag_ns, ask->lag_ns);
	msg_encode(&msg_policy_trial, &t.reply, out);
	return 0;
}
