/*
 * See resend_gen.h: approval policies, links and deadlines.
 */
#ifndef CORVO_RESEND_GEN_POLICY_H
#define CORVO_RESEND_GEN_POLICY_H

#include "fsm/ties/link.h"
#include "resend_gen.h"

static inline void make_set_policy(struct rw *w, struct m_policy *m)
{
	static const struct str at[] = { STR("fetch"), STR("continue"),
					 STR("enqueue") };

	MSG_SET(m, policy, name, named(w, "p", rng_below(&w->r, 3)));
	MSG_SET(m, policy, mode, POLICY_ALL);
	MSG_SET(m, policy, queue, named(w, "q", 2));
	MSG_SET(m, policy, payload_jq, STR(". == 1"));
	MSG_SET(m, policy, iteration_min, 1);
	MSG_SET_LIST(m, policy, at, (struct str *)at,
		     1 + rng_below(&w->r, ARRAY_SIZE(at)));
	MSG_SET(m, policy, deadline, 1 + rng_below(&w->r, 5));
	MSG_SET(m, policy, on_deadline, (uint32_t)rng_below(&w->r, 3));
}

static inline void make_delete_policy(struct rw *w, struct m_policy_ref *m)
{
	MSG_SET(m, policy_ref, id, named(w, "p", rng_below(&w->r, 3)));
}

static inline void make_make_links(struct rw *w, struct m_make_links *m)
{
	MSG_SET(m, make_links, job_id, job_in(w, JOB_HELD));
	MSG_SET(m, make_links, by, STR("ann"));
	MSG_SET(m, make_links, salt, STR("salt"));
}

/* Mostly one that is good, once there is a secret to sign it with. */
static inline void make_decide(struct rw *w, struct m_decide *m)
{
	struct str id = job_in(w, JOB_HELD), token = STR("bad.link");
	struct fsm *f = w->x->side[FX_MEM].f;
	struct m_link_claim c = { 0 };
	struct m_job j;

	MSG_SET(m, decide, comment, STR("yes"));
	if (fx_count_keys(&w->x->side[FX_MEM], "al|") > 0 &&
	    record_job(w->x->side[FX_MEM].kv, id, 0, &w->arena, &j) > 0 &&
	    j.held != NULL) {
		MSG_SET(&c, link_claim, job_id, id);
		MSG_SET(&c, link_claim, number, j.held->number);
		MSG_SET(&c, link_claim, decision,
			(uint32_t)rng_below(&w->r, 2));
		MSG_SET(&c, link_claim, expires_at,
			w->x->now_ns + 100 * NS_PER_S);
		assert_int_equal(link_make(f, STR_NULL, &c, &token), 0);
	}
	MSG_SET(m, decide, token, arena_copy(&w->arena, token));
}

static inline void make_deadline(struct rw *w, struct m_maintain *m)
{
	MSG_SET(m, maintain, limit, 1 + (uint32_t)rng_below(&w->r, 5));
}

#endif
