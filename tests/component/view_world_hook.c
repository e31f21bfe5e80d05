/*
 * More of view_world.h: webhooks are set, changed, disabled and deleted.
 */
#include "view_world.h"

static const char *const ids[] = { "wa", "wb", "wc" };
static const char *const kinds[] = { "completed", "dead", "enq*", "*" };

static bool chance(struct world *w, unsigned percent)
{
	return rng_below(w->rng, 100) < percent;
}

static void set(struct world *w, struct str id)
{
	struct m_set_webhook m = { 0 };
	struct str events[] = {
		str_from(kinds[rng_below(w->rng, ARRAY_SIZE(kinds))]),
		STR("webhook_\"test\""),
	};
	struct str queue = STR("z\xc3\xbcrich");

	MSG_SET(&m, set_webhook, id, id);
	MSG_SET(&m, set_webhook, url, STR("http://127.0.0.1/in?a=b"));
	MSG_SET(&m, set_webhook, credentials, STR("me:s3cr3t"));
	MSG_SET(&m, set_webhook, secret, STR("0123456789abcdef"));
	MSG_SET_LIST(&m, set_webhook, events, events, 1 + chance(w, 50));
	if (chance(w, 50))
		MSG_SET_LIST(&m, set_webhook, queues, &queue, 1);
	MSG_SET(&m, set_webhook, enabled, chance(w, 70));
	MSG_SET(&m, set_webhook, retry_limit, (uint32_t)rng_below(w->rng, 9));
	if (chance(w, 30))
		MSG_SET(&m, set_webhook, change, true);
	world_apply(w, OP_SET_WEBHOOK, &msg_set_webhook, &m);
}

/* Its receiver is gone, if the webhook has something to deliver. */
static void disable(struct world *w, struct str id)
{
	struct m_webhook_report m = { 0 };
	struct m_delivery d = { 0 };
	struct m_webhook now;

	if (!fsm_webhook(w->fsm, id, &now))
		return;
	MSG_SET(&m, webhook_report, id, id);
	MSG_SET(&m, webhook_report, number, now.number);
	MSG_SET(&m, webhook_report, from, now.position);
	MSG_SET(&m, webhook_report, to, fsm_last_seq(w->fsm));
	MSG_SET(&d, delivery, seq, m.to);
	MSG_SET(&d, delivery, attempt, 1);
	MSG_SET(&d, delivery, state, DELIVERY_FAILED);
	MSG_SET_LIST(&m, webhook_report, deliveries, &d, 1);
	MSG_SET(&m, webhook_report, gone, true);
	world_apply(w, OP_WEBHOOK_REPORT, &msg_webhook_report, &m);
}

void world_webhook(struct world *w)
{
	struct str id = str_from(ids[rng_below(w->rng, ARRAY_SIZE(ids))]);
	struct m_webhook_ref ref = { 0 };

	if (chance(w, 60)) {
		set(w, id);
	} else if (chance(w, 60)) {
		disable(w, id);
	} else {
		MSG_SET(&ref, webhook_ref, id, id);
		world_apply(w, OP_DELETE_WEBHOOK, &msg_webhook_ref, &ref);
	}
}
