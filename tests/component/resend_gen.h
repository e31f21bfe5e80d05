/*
 * One random request of every op of ops.def, of the few jobs, queues and the
 * like that there are. Without a make_<name> for a row test_fsm_resend does not
 * compile: a new op has to be one that can come again.
 */
#ifndef CORVO_RESEND_GEN_H
#define CORVO_RESEND_GEN_H

#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm_fixture.h"

#define RECENT 24 /* jobs that may be meant */

struct rw {
	struct rng r;
	struct fx *x;
	struct arena arena; /* of the requests being made */
	uint64_t jobs, batches, bulks, schedules, fetches;
};

static inline bool one_in(struct rw *w, uint64_t n)
{
	return rng_below(&w->r, n) == 0;
}

static inline struct str named(struct rw *w, const char *kind, uint64_t n)
{
	return arena_printf(&w->arena, "%s_%llu", kind, (unsigned long long)n);
}

static inline struct str recent(struct rw *w, const char *kind, uint64_t made)
{
	uint64_t back = 1 + rng_below(&w->r, RECENT);

	return named(w, kind, made > back ? made - back : 0);
}

static inline struct str some_queue(struct rw *w)
{
	return named(w, "q", rng_below(&w->r, 3));
}

/* Mostly one in such a state. */
static inline struct str job_in(struct rw *w, enum job_state s)
{
	struct str id = recent(w, "job", w->jobs);
	struct m_job j;

	for (int i = 0; i < RECENT && !one_in(w, 2 * RECENT); i++) {
		id = recent(w, "job", w->jobs);
		if (record_job(w->x->side[FX_MEM].kv, id, 0, &w->arena, &j) >
			0 &&
		    j.state == s)
			break;
	}
	return id;
}

static inline uint64_t token_of(struct rw *w, struct str id)
{
	const struct fsm_active *a = active_find(w->x->side[FX_MEM].f, id);

	return a != NULL ? a->token : 1 + rng_below(&w->r, 50);
}

/* --- one function per op --- */

#define OP(num, NAME, name, request, reply, who, level, doc) \
	static inline void make_##name(struct rw *w, struct m_##request *m);
#include "proto/defs/ops.def"

static inline void make_enqueue(struct rw *w, struct m_enqueue *m)
{
	MSG_SET(m, enqueue, job_id, named(w, "job", w->jobs++));
	MSG_SET(m, enqueue, queue, some_queue(w));
	MSG_SET(m, enqueue, max_retries, 1 + (uint32_t)rng_below(&w->r, 2));
	if (one_in(w, 3))
		MSG_SET(m, enqueue, scheduled_at,
			w->x->now_ns + rng_below(&w->r, NS_PER_S));
	if (one_in(w, 3)) {
		MSG_SET(m, enqueue, unique_key, STR("key"));
		MSG_SET(m, enqueue, unique_action,
			(uint32_t)rng_below(&w->r, 2));
	}
	if (one_in(w, 4))
		MSG_SET(m, enqueue, expire_after, 1 + rng_below(&w->r, 5));
	if (one_in(w, 4))
		MSG_SET(m, enqueue, batch_id, recent(w, "batch", w->batches));
	if (one_in(w, 4))
		MSG_SET(m, enqueue, expected_cost, rng_below(&w->r, NS_PER_S));
	if (one_in(w, 3)) {
		MSG_SET(m, enqueue, agent,
			arena_zalloc(&w->arena, sizeof(*m->agent)));
		MSG_SET(m->agent, agent, max_iterations,
			1 + (uint32_t)rng_below(&w->r, 3));
	}
	if (one_in(w, 4)) {
		MSG_SET(m, enqueue, idempotency_key, STR("again"));
		MSG_SET(m, enqueue, idempotency_hash, rng_below(&w->r, 2));
	}
}

static inline void make_enqueue_batch(struct rw *w, struct m_enqueue_batch *m)
{
	size_t n = 1 + rng_below(&w->r, 3);
	struct m_enqueue *jobs = arena_zalloc(&w->arena, n * sizeof(*jobs));
	struct m_batch_options *o = arena_zalloc(&w->arena, sizeof(*o));
	bool batch = one_in(w, 2);

	for (size_t i = 0; i < n; i++) {
		make_enqueue(w, &jobs[i]);
		if (batch)
			MSG_UNSET(&jobs[i], enqueue, batch_id);
		if (batch)
			jobs[i].batch_id = STR_NULL;
	}
	MSG_SET_LIST(m, enqueue_batch, jobs, jobs, n);
	if (!batch)
		return;
	MSG_SET(o, batch_options, callback_queue, some_queue(w));
	MSG_SET(m, enqueue_batch, batch, o);
	MSG_SET(m, enqueue_batch, batch_id, named(w, "batch", w->batches++));
}

static inline void make_fetch(struct rw *w, struct m_fetch *m)
{
	struct str *q = arena_alloc(&w->arena, sizeof(*q));

	*q = some_queue(w);
	MSG_SET_LIST(m, fetch, queues, q, 1);
	MSG_SET(m, fetch, count, 2);
	MSG_SET(m, fetch, lease_duration, 1 + rng_below(&w->r, 9 * NS_PER_S));
	MSG_SET(m, fetch, fetch_id, ++w->fetches);
	MSG_SET(m, fetch, worker_id, STR("w1"));
}

static inline struct str *some_lines(struct rw *w)
{
	struct str *lines = arena_alloc(&w->arena, 2 * sizeof(*lines));

	lines[0] = STR("a line");
	lines[1] = STR("another");
	return lines;
}

static inline struct str some_model(struct rw *w)
{
	return named(w, "model", rng_below(&w->r, 3));
}

static inline struct m_usage *some_usage(struct rw *w)
{
	struct m_usage *u = arena_zalloc(&w->arena, sizeof(*u));

	MSG_SET(u, usage, input_tokens, rng_below(&w->r, 100));
	MSG_SET(u, usage, model, some_model(w));
	MSG_SET(u, usage, provider, STR("acme"));
	if (one_in(w, 2))
		MSG_SET(u, usage, units, STR("{\"gpu_seconds\":1.5}"));
	if (one_in(w, 2))
		MSG_SET(u, usage, report_id,
			named(w, "r", rng_below(&w->r, 2)));
	return u;
}

static inline void make_fail(struct rw *w, struct m_fail *m)
{
	MSG_SET(m, fail, job_id, job_in(w, JOB_ACTIVE));
	MSG_SET(m, fail, error, STR("boom"));
	if (!one_in(w, 3))
		MSG_SET(m, fail, lease_token, token_of(w, m->job_id));
	MSG_SET(m, fail, response, STR("{\"status\":500}"));
	if (one_in(w, 3))
		MSG_SET(m, fail, requeue, true);
	if (one_in(w, 3))
		MSG_SET_LIST(m, fail, logs, some_lines(w), 2);
	if (one_in(w, 2))
		MSG_SET(m, fail, usage, some_usage(w));
	if (one_in(w, 2))
		MSG_SET(m, fail, provider, some_model(w));
}

static inline void make_heartbeat(struct rw *w, struct m_heartbeat *m)
{
	struct m_beat *b = arena_zalloc(&w->arena, sizeof(*b));

	MSG_SET(b, beat, job_id, job_in(w, JOB_ACTIVE));
	MSG_SET(b, beat, progress, STR("[1]"));
	MSG_SET(b, beat, response, STR("{\"status\":202}"));
	MSG_SET_LIST(b, beat, logs, some_lines(w), 2);
	if (one_in(w, 2))
		MSG_SET(b, beat, usage, some_usage(w));
	MSG_SET_LIST(m, heartbeat, jobs, b, 1);
}

static inline void make_cancel(struct rw *w, struct m_job_ref *m)
{
	MSG_SET(m, job_ref, job_id,
		job_in(w, one_in(w, 2) ? JOB_ACTIVE : JOB_PENDING));
}

static inline void make_retry(struct rw *w, struct m_job_ref *m)
{
	MSG_SET(m, job_ref, job_id,
		job_in(w, one_in(w, 2) ? JOB_COMPLETED : JOB_DEAD));
}

static inline void make_delete(struct rw *w, struct m_job_ref *m)
{
	MSG_SET(m, job_ref, job_id, job_in(w, JOB_COMPLETED));
}

static inline void make_requeue(struct rw *w, struct m_job_ref *m)
{
	MSG_SET(m, job_ref, job_id, job_in(w, JOB_DEAD));
}

static inline void make_move(struct rw *w, struct m_move *m)
{
	MSG_SET(m, move, job_id, recent(w, "job", w->jobs));
	MSG_SET(m, move, queue, some_queue(w));
}

static inline void make_priority(struct rw *w, struct m_set_priority *m)
{
	MSG_SET(m, set_priority, job_id, job_in(w, JOB_PENDING));
	MSG_SET(m, set_priority, priority, (uint32_t)rng_below(&w->r, 3));
}

static inline void make_pause(struct rw *w, struct m_queue_ref *m)
{
	MSG_SET(m, queue_ref, queue, some_queue(w));
}

static inline void make_resume(struct rw *w, struct m_queue_ref *m)
{
	make_pause(w, m);
}

static inline void make_renew(struct rw *w, struct m_renew *m)
{
	struct m_renewal *l = arena_zalloc(&w->arena, sizeof(*l));

	MSG_SET(l, renewal, job_id, job_in(w, JOB_ACTIVE));
	MSG_SET(l, renewal, lease_token, token_of(w, l->job_id));
	MSG_SET(l, renewal, lease_expires_at, w->x->now_ns + 9 * NS_PER_S);
	MSG_SET_LIST(m, renew, leases, l, 1);
}

static inline void make_promote(struct rw *w, struct m_maintain *m)
{
	MSG_SET(m, maintain, limit, 1 + (uint32_t)rng_below(&w->r, 3));
}

static inline void make_reclaim(struct rw *w, struct m_maintain *m)
{
	make_promote(w, m);
}

static inline void make_expire(struct rw *w, struct m_maintain *m)
{
	make_promote(w, m);
}

static inline void make_release(struct rw *w, struct m_maintain *m)
{
	make_promote(w, m);
}

static inline void make_purge(struct rw *w, struct m_maintain *m)
{
	make_promote(w, m);
	MSG_SET(m, maintain, retention_ns, 20 * NS_PER_S);
}

static inline void make_trim_events(struct rw *w, struct m_maintain *m)
{
	uint64_t last = fsm_last_seq(w->x->side[FX_MEM].f);

	MSG_SET(m, maintain, upto_seq, last > 200 ? last - 200 : 0);
}

static inline void make_set_queue(struct rw *w, struct m_set_queue *m)
{
	struct m_push *p = arena_zalloc(&w->arena, sizeof(*p));

	if (one_in(w, 2)) {
		MSG_SET(p, push, url, STR("http://example.com/"));
		MSG_SET(m, set_queue, push, p);
	}
	if (one_in(w, 3))
		MSG_SET(m, set_queue, result_schema,
			one_in(w, 2) ? STR("{\"type\":\"null\"}")
				     : STR("{\"type\":\"object\"}"));
	MSG_SET(m, set_queue, queue, some_queue(w));
	MSG_SET(m, set_queue, max_concurrency,
		2 + (uint32_t)rng_below(&w->r, 9));
}

static inline void make_set_limits(struct rw *w, struct m_limits *m)
{
	MSG_SET(m, limits, max_queues, 100 + (uint32_t)rng_below(&w->r, 9));
}

static inline void make_set_settings(struct rw *w, struct m_cluster_settings *m)
{
	MSG_SET(m, cluster_settings, max_queues,
		100 + (uint32_t)rng_below(&w->r, 9));
	MSG_SET(m, cluster_settings, queue_idle,
		NS_PER_S * (1 + rng_below(&w->r, 9)));
}

static inline void make_set_member(struct rw *w, struct m_member *m)
{
	uint64_t id = 1 + rng_below(&w->r, 5);

	MSG_SET(m, member, raft_id, id);
	MSG_SET(m, member, name, named(w, "node", id));
	MSG_SET(m, member, address, named(w, "host", rng_below(&w->r, 3)));
	MSG_SET(m, member, level_max, 1);
	MSG_SET(m, member, fetching, rng_below(&w->r, 2));
	MSG_SET(m, member, installed, rng_below(&w->r, 3));
	MSG_SET(m, member, clock_off, rng_below(&w->r, 2) != 0);
	if (one_in(w, 2))
		MSG_SET(m, member, differs, 1 + rng_below(&w->r, 2));
	if (one_in(w, 4))
		MSG_SET(m, member, compare, true);
}

static inline void make_forget_member(struct rw *w, struct m_member_ref *m)
{
	MSG_SET(m, member_ref, raft_id, 1 + rng_below(&w->r, 5));
}

static inline void make_leader(struct rw *w, struct m_leader *m)
{
	MSG_SET(m, leader, raft_id, 1 + rng_below(&w->r, 5));
	MSG_SET(m, leader, name, named(w, "node", m->raft_id));
	MSG_SET(m, leader, term, w->x->raft_index);
}

/* A higher one than this program knows would stop it. */
static inline void make_set_level(struct rw *w, struct m_level *m)
{
	(void)w;
	MSG_SET(m, level, level, FEATURE_LEVEL);
}

static inline void make_set_usage(struct rw *w, struct m_usage_settings *m)
{
	struct str *tags = arena_alloc(&w->arena, sizeof(*tags));

	*tags = STR("team");
	MSG_SET_LIST(m, usage_settings, tags, tags, rng_below(&w->r, 2));
	if (one_in(w, 2))
		MSG_SET(m, usage_settings, retention,
			3600 * NS_PER_S * rng_below(&w->r, 3));
}

static inline void make_set_price(struct rw *w, struct m_price *m)
{
	MSG_SET(m, price, provider, STR("acme"));
	MSG_SET(m, price, model, some_model(w));
	MSG_SET(m, price, input_per_million, rng_below(&w->r, NS_PER_S));
}

static inline void make_set_budget(struct rw *w, struct m_budget *m)
{
	static const char *const tags[] = { "team:red", "team:blue" };
	enum budget_scope s = (enum budget_scope)rng_below(&w->r, 4);

	MSG_SET(m, budget, scope, s);
	if (s == BUDGET_QUEUE)
		MSG_SET(m, budget, target, some_queue(w));
	if (s == BUDGET_GROUP)
		MSG_SET(m, budget, target, STR("g"));
	if (s == BUDGET_TAG)
		MSG_SET(m, budget, target, str_from(tags[one_in(w, 2)]));
	MSG_SET(m, budget, daily_usd, rng_below(&w->r, 1000 * NS_PER_S));
	MSG_SET(m, budget, on_exceed, BUDGET_ALERT);
}

static inline void make_delete_budget(struct rw *w, struct m_budget_ref *m)
{
	MSG_SET(m, budget_ref, scope, STR("queue"));
	MSG_SET(m, budget_ref, target, some_queue(w));
}

static inline void make_delete_price(struct rw *w, struct m_price_ref *m)
{
	MSG_SET(m, price_ref, provider, STR("acme"));
	MSG_SET(m, price_ref, model, some_model(w));
}

#ifdef CORVO_EXTRA_OP
static inline void make_set_note(struct rw *w, struct m_note *m)
{
	MSG_SET(m, note, note, named(w, "note", rng_below(&w->r, 3)));
}
#endif

static inline void make_clock_set(struct rw *w, struct m_clock_set *m)
{
	if (one_in(w, 2))
		return; /* goes on with what is left */
	MSG_SET(m, clock_set, from_ns, w->x->now_ns);
	MSG_SET(m, clock_set, to_ns, w->x->now_ns + 1);
}

static inline void make_clear_queue(struct rw *w, struct m_clear_queue *m)
{
	MSG_SET(m, clear_queue, queue, named(w, "q", 0));
}

static inline void make_delete_queue(struct rw *w, struct m_clear_queue *m)
{
	make_clear_queue(w, m);
}

static inline void make_open_batch(struct rw *w, struct m_open_batch *m)
{
	MSG_SET(m, open_batch, batch_id, named(w, "batch", w->batches++));
	MSG_SET(m, open_batch, callback_queue, some_queue(w));
}

static inline void make_seal_batch(struct rw *w, struct m_batch_ref *m)
{
	MSG_SET(m, batch_ref, batch_id, recent(w, "batch", w->batches));
}

static inline void make_set_schedule(struct rw *w, struct m_schedule *m)
{
	bool create = one_in(w, 2);

	MSG_SET(m, schedule, id,
		create ? named(w, "sch", w->schedules++)
		       : recent(w, "sch", w->schedules));
	MSG_SET(m, schedule, name, m->id);
	MSG_SET(m, schedule, queue, some_queue(w));
	MSG_SET(m, schedule, cron, STR("@daily"));
	MSG_SET(m, schedule, next_run, w->x->now_ns + rng_below(&w->r, 99));
	MSG_SET(m, schedule, create, create);
}

static inline void make_delete_schedule(struct rw *w, struct m_schedule_ref *m)
{
	MSG_SET(m, schedule_ref, id, recent(w, "sch", w->schedules));
}

static inline struct m_schedule schedule_now(struct rw *w, struct str id)
{
	struct m_schedule s = { 0 };

	(void)fsm_schedule(w->x->side[FX_MEM].f, id, &w->arena, &s);
	return s;
}

static inline void make_pause_schedule(struct rw *w, struct m_pause_schedule *m)
{
	struct str id = recent(w, "sch", w->schedules);

	MSG_SET(m, pause_schedule, id, id);
	MSG_SET(m, pause_schedule, paused, one_in(w, 2));
	MSG_SET(m, pause_schedule, version, schedule_now(w, id).version);
	MSG_SET(m, pause_schedule, next_ns, w->x->now_ns + 1);
}

static inline void make_run_schedule(struct rw *w, struct m_fire *m)
{
	MSG_SET(m, fire, id, recent(w, "sch", w->schedules));
	MSG_SET(m, fire, job_id, named(w, "job", w->jobs++));
}

static inline void make_fire(struct rw *w, struct m_fire *m)
{
	struct m_schedule s;

	make_run_schedule(w, m);
	s = schedule_now(w, m->id);
	MSG_SET(m, fire, version, s.version);
	MSG_SET(m, fire, due_ns, s.next_run);
	MSG_SET(m, fire, next_ns, w->x->now_ns + 50);
}

static inline enum bulk_action some_action(struct rw *w)
{
	static const enum bulk_action all[] = { BULK_RETRY, BULK_CANCEL,
						BULK_HOLD, BULK_DELETE };

	return all[rng_below(&w->r, ARRAY_SIZE(all))];
}

static inline struct str *some_jobs(struct rw *w, size_t n)
{
	struct str *ids = arena_alloc(&w->arena, n * sizeof(*ids));

	for (size_t i = 0; i < n; i++)
		ids[i] = recent(w, "job", w->jobs);
	return ids;
}

static inline void make_bulk_act(struct rw *w, struct m_bulk_act *m)
{
	MSG_SET(m, bulk_act, action, some_action(w));
	MSG_SET_LIST(m, bulk_act, job_ids, some_jobs(w, 4), 4);
}

static inline void make_bulk_create(struct rw *w, struct m_bulk_create *m)
{
	MSG_SET(m, bulk_create, bulk_id, named(w, "bulk", w->bulks++));
	MSG_SET(m, bulk_create, action, some_action(w));
}

static inline struct m_bulk bulk_now(struct rw *w, struct str id)
{
	struct m_bulk b = { 0 };

	(void)fsm_bulk(w->x->side[FX_MEM].f, id, &w->arena, &b);
	return b;
}

/* The last ones: earlier ones have ended. */
static inline struct str some_bulk(struct rw *w)
{
	uint64_t back = 1 + rng_below(&w->r, 3);

	return named(w, "bulk", w->bulks > back ? w->bulks - back : 0);
}

static inline void make_bulk_add(struct rw *w, struct m_bulk_add *m)
{
	struct str id = some_bulk(w);

	MSG_SET(m, bulk_add, bulk_id, id);
	MSG_SET(m, bulk_add, page, bulk_now(w, id).pages);
	MSG_SET_LIST(m, bulk_add, job_ids, some_jobs(w, 4), 4);
	MSG_SET(m, bulk_add, last, one_in(w, 2));
}

static inline void make_bulk_control(struct rw *w, struct m_bulk_control *m)
{
	static const enum bulk_status all[] = { BULK_PAUSED, BULK_RUNNING,
						BULK_CANCELLED };

	MSG_SET(m, bulk_control, bulk_id, some_bulk(w));
	MSG_SET(m, bulk_control, status,
		all[rng_below(&w->r, ARRAY_SIZE(all))]);
}

static inline void make_bulk_step(struct rw *w, struct m_bulk_step *m)
{
	struct str id = some_bulk(w);

	MSG_SET(m, bulk_step, bulk_id, id);
	MSG_SET(m, bulk_step, processed, bulk_now(w, id).processed);
	MSG_SET(m, bulk_step, max, 2);
}

#include "resend_gen_agent.h"
#include "resend_gen_policy.h"

#endif
