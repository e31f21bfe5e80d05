/*
 * More of resend_gen.h: webhooks.
 */
#ifndef CORVO_RESEND_WEBHOOKS_H
#define CORVO_RESEND_WEBHOOKS_H

#include "fsm/ties/webhook.h"
#include "resend_hooks.h"

static inline struct str some_webhook(struct rw *w)
{
	return one_in(w, 2) ? STR("wa") : STR("wb");
}

static inline void make_set_webhook(struct rw *w, struct m_set_webhook *m)
{
	MSG_SET(m, set_webhook, id, some_webhook(w));
	MSG_SET(m, set_webhook, url, STR("http://127.0.0.1/"));
	if (one_in(w, 2))
		MSG_SET(m, set_webhook, change, true);
	if (one_in(w, 3))
		MSG_SET(m, set_webhook, secret, STR("0123456789abcdef"));
	MSG_SET(m, set_webhook, enabled, !one_in(w, 8));
	MSG_SET(m, set_webhook, disable_after, NS_PER_S);
}

static inline void make_delete_webhook(struct rw *w, struct m_webhook_ref *m)
{
	MSG_SET(m, webhook_ref, id, one_in(w, 4) ? some_webhook(w) : STR("no"));
}

static inline void make_test_webhook(struct rw *w, struct m_webhook_ref *m)
{
	MSG_SET(m, webhook_ref, id, some_webhook(w));
}

static inline uint64_t some_event(struct rw *w)
{
	uint64_t last = fsm_last_seq(w->x->side[FX_MEM].f);

	return last - MIN(last, rng_below(&w->r, 30));
}

static inline void make_replay_webhook(struct rw *w, struct m_replay_webhook *m)
{
	MSG_SET(m, replay_webhook, id, some_webhook(w));
	MSG_SET(m, replay_webhook, from_seq, some_event(w));
	MSG_SET(m, replay_webhook, to_seq, m->from_seq + 20);
	MSG_SET(m, replay_webhook, one, one_in(w, 2));
}

static inline void make_webhook_report(struct rw *w, struct m_webhook_report *m)
{
	const struct fsm *f = w->x->side[FX_MEM].f;
	struct str id = some_webhook(w);
	const struct fsm_webhook *h = webhook_find(f, id);
	struct m_delivery *d = arena_zalloc(&w->arena, sizeof(*d));

	MSG_SET(m, webhook_report, id, id);
	if (h == NULL)
		return;
	MSG_SET(m, webhook_report, number, h->m.number);
	MSG_SET(m, webhook_report, from, h->st.position);
	MSG_SET(m, webhook_report, to,
		MIN(h->st.position + 3, fsm_last_seq(f)));
	MSG_SET(m, webhook_report, replay_id, h->st.replay_id);
	MSG_SET(m, webhook_report, replay_at, h->st.replay_to);
	MSG_SET(d, delivery, seq, m->to);
	MSG_SET(d, delivery, attempt, 1);
	if (h->tries_n > 0 && one_in(w, 2)) {
		MSG_SET(d, delivery, seq, h->tries[0].seq);
		MSG_SET(d, delivery, attempt, h->tries[0].tries + 1);
	}
	MSG_SET(d, delivery, state, (uint32_t)rng_below(&w->r, 3));
	MSG_SET(d, delivery, error, STR("no"));
	MSG_SET(m, webhook_report, gone, one_in(w, 20));
	MSG_SET_LIST(m, webhook_report, deliveries, d, 1);
}

#endif
