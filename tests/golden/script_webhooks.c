/*
 * Webhooks.
 */
#include "script.h"

static void set(struct script *s, const char *id, struct m_webhook *ret)
{
	struct str events[] = { STR("dead"), STR("comp*") };
	struct str queues[] = { STR("mail.*") };
	struct m_set_webhook m = { 0 };

	MSG_SET(&m, set_webhook, id, str_from(id));
	MSG_SET(&m, set_webhook, url, STR("https://example.com/in"));
	MSG_SET(&m, set_webhook, credentials, STR("me:word"));
	MSG_SET_LIST(&m, set_webhook, events, events, 2);
	MSG_SET_LIST(&m, set_webhook, queues, queues, 1);
	MSG_SET(&m, set_webhook, secret, STR("0123456789abcdef"));
	MSG_SET(&m, set_webhook, previous_secret, STR("fedcba9876543210"));
	MSG_SET(&m, set_webhook, retry_limit, 4);
	MSG_SET(&m, set_webhook, headers, STR("{\"X-A\":\"b\"}"));
	script_one(s, OP_SET_WEBHOOK, &m, ret);
}

static struct m_delivery delivery(uint64_t seq, uint32_t attempt,
				  uint32_t state)
{
	struct m_delivery d = { 0 };

	MSG_SET(&d, delivery, seq, seq);
	MSG_SET(&d, delivery, attempt, attempt);
	MSG_SET(&d, delivery, state, state);
	MSG_SET(&d, delivery, type, EVENT_DEAD);
	MSG_SET(&d, delivery, job_id, STR("job_x"));
	MSG_SET(&d, delivery, queue, STR("mail.a"));
	MSG_SET(&d, delivery, at, 1700000000 * SECOND);
	MSG_SET(&d, delivery, duration_ms, 1.5);
	if (state == DELIVERY_DELIVERED) {
		MSG_SET(&d, delivery, status_code, 200);
		return d;
	}
	MSG_SET(&d, delivery, error, STR("http_error: it answered 500"));
	MSG_SET(&d, delivery, status_code, 500);
	MSG_SET(&d, delivery, response, STR("no"));
	if (state == DELIVERY_RETRYING)
		MSG_SET(&d, delivery, next_at, 1700000010 * SECOND);
	return d;
}

static void report(struct script *s, const struct m_webhook *w, uint64_t from,
		   uint64_t to, struct m_delivery *list, size_t n)
{
	struct m_webhook_report m = { 0 };

	MSG_SET(&m, webhook_report, id, STR("out"));
	MSG_SET(&m, webhook_report, number, w->number);
	MSG_SET(&m, webhook_report, from, from);
	MSG_SET(&m, webhook_report, to, to);
	MSG_SET_LIST(&m, webhook_report, deliveries, list, n);
	script_one(s, OP_WEBHOOK_REPORT, &m, NULL);
}

void script_webhooks(struct script *s)
{
	struct m_webhook w;
	struct m_webhook_ref ref = { 0 };
	struct m_replay_webhook again = { 0 };
	struct m_delivery list[3];
	uint64_t at;

	set(s, "gone", NULL);
	MSG_SET(&ref, webhook_ref, id, STR("gone"));
	script_one(s, OP_DELETE_WEBHOOK, &ref, NULL);
	set(s, "out", &w);
	at = w.position;
	MSG_SET(&ref, webhook_ref, id, STR("out"));
	for (int i = 0; i < 5; i++)
		script_one(s, OP_TEST_WEBHOOK, &ref, NULL);
	list[0] = delivery(at + 1, 1, DELIVERY_DELIVERED);
	list[1] = delivery(at + 2, 1, DELIVERY_RETRYING);
	list[2] = delivery(at + 4, 0, DELIVERY_RETRYING); /* under way */
	report(s, &w, at, at + 4, list, 3);
	list[0] = delivery(at + 2, 2, DELIVERY_FAILED);
	report(s, &w, at + 4, at + 4, list, 1);
	MSG_SET(&again, replay_webhook, id, STR("out"));
	MSG_SET(&again, replay_webhook, from_seq, at + 1);
	MSG_SET(&again, replay_webhook, to_seq, at + 3);
	script_one(s, OP_REPLAY_WEBHOOK, &again, NULL);
	MSG_SET(&again, replay_webhook, one, true);
	script_one(s, OP_REPLAY_WEBHOOK, &again, NULL);
}
