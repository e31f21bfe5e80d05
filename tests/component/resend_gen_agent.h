/*
 * The part of resend_gen.h that is about acks, held jobs and agents.
 */
#ifndef CORVO_RESEND_GEN_AGENT_H
#define CORVO_RESEND_GEN_AGENT_H

#include "resend_gen.h"

/* What the job may be told: it is not known whether it is an agent's. */
static inline uint32_t some_turn(struct rw *w)
{
	return (uint32_t)rng_below(&w->r, 3);
}

static inline void make_ack(struct rw *w, struct m_ack *m)
{
	if (one_in(w, 2))
		MSG_SET(m, ack, agent_status, some_turn(w));
	if (one_in(w, 3))
		MSG_SET(m, ack, checkpoint, STR("[7]"));
	MSG_SET(m, ack, job_id, job_in(w, JOB_ACTIVE));
	if (!one_in(w, 3))
		MSG_SET(m, ack, lease_token, token_of(w, m->job_id));
	MSG_SET(m, ack, result, STR("{\"n\":1}"));
	MSG_SET(m, ack, response, STR("{\"status\":200}"));
	if (one_in(w, 2))
		MSG_SET_LIST(m, ack, logs, some_lines(w), 2);
	if (one_in(w, 2))
		MSG_SET(m, ack, usage, some_usage(w));
	if (one_in(w, 2))
		MSG_SET(m, ack, latency, rng_below(&w->r, NS_PER_S));
}

static inline void make_ack_batch(struct rw *w, struct m_ack_batch *m)
{
	struct m_ack_item *items = arena_zalloc(&w->arena, 3 * sizeof(*items));

	for (size_t i = 0; i < 3; i++) {
		MSG_SET(&items[i], ack_item, job_id, job_in(w, JOB_ACTIVE));
		if (one_in(w, 2))
			MSG_SET(&items[i], ack_item, lease_token,
				token_of(w, items[i].job_id));
		if (one_in(w, 2))
			MSG_SET(&items[i], ack_item, usage, some_usage(w));
		if (one_in(w, 2))
			MSG_SET(&items[i], ack_item, agent_status,
				some_turn(w));
	}
	MSG_SET_LIST(m, ack_batch, acks, items, 3);
}

static inline void make_approve(struct rw *w, struct m_approve *m)
{
	MSG_SET(m, approve, job_id, job_in(w, JOB_HELD));
	if (one_in(w, 3))
		MSG_SET(m, approve, max_iterations,
			(uint32_t)rng_below(&w->r, 9));
}

/* One that has ended an iteration; false: any. */
static inline bool job_with_iterations(struct rw *w, struct str *ret)
{
	struct m_iteration_list list;

	for (int i = 0; i < 4 * RECENT; i++) {
		*ret = recent(w, "job", w->jobs);
		if (record_iterations(w->x->side[FX_MEM].kv, *ret, 0, 1,
				      &w->arena, &list) == 0 &&
		    list.iterations_n > 0)
			return true;
	}
	return false;
}

static inline void make_score(struct rw *w, struct m_score *m)
{
	bool of_one = one_in(w, 3);
	struct str id = recent(w, "job", w->jobs);

	if (of_one)
		(void)job_with_iterations(w, &id);
	MSG_SET(m, score, job_id, id);
	MSG_SET(m, score, name, some_model(w));
	MSG_SET(m, score, value, (double)rng_below(&w->r, 100) / 8);
	if (one_in(w, 2))
		MSG_SET(m, score, by, STR("ann"));
	if (of_one)
		MSG_SET(m, score, iteration, 1 + (uint32_t)rng_below(&w->r, 2));
}

/* One that will be refused takes no name: or those of jobs that are there would
 * soon be none of the recent ones. */
static inline void make_replay(struct rw *w, struct m_replay *m)
{
	struct str id;
	bool found = job_with_iterations(w, &id);

	MSG_SET(m, replay, job_id, id);
	MSG_SET(m, replay, from, 1);
	MSG_SET(m, replay, new_job_id, named(w, "job", w->jobs));
	w->jobs += found;
}

static inline void make_reject(struct rw *w, struct m_hold *m)
{
	MSG_SET(m, hold, job_id, job_in(w, JOB_HELD));
	MSG_SET(m, hold, reason, STR("no"));
}

static inline void make_hold(struct rw *w, struct m_hold *m)
{
	MSG_SET(m, hold, job_id,
		job_in(w, one_in(w, 2) ? JOB_PENDING : JOB_ACTIVE));
}

#endif
