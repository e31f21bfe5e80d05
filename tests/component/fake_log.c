/*
 * See fake_log.h.
 */
#include "fake_log.h"

#include <stdlib.h>

static void answer(struct rpc_req req, uint64_t seq, const struct msg_desc *d,
		   const void *m)
{
	struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	rpc_reply(req, 0, seq, buf_str(&b));
	buf_done(&b);
}

void fake_log_bulk(struct rpc_req req)
{
	struct m_bulk m = { 0 };

	MSG_SET(&m, bulk, id, STR(FAKE_LOG_BULK));
	MSG_SET(&m, bulk, status, BULK_RUNNING);
	MSG_SET(&m, bulk, total, FAKE_LOG_EVENTS);
	answer(req, FAKE_LOG_BEGIN, &msg_bulk, &m);
}

static void fill(struct m_event *e, uint64_t seq)
{
	MSG_SET(e, event, seq, seq);
	MSG_SET(e, event, at, 1);
	if (seq <= FAKE_LOG_SHORT) {
		MSG_SET(e, event, type, EVENT_STARTED);
		MSG_SET(e, event, job_id, STR("job_1"));
		return;
	}
	MSG_SET(e, event, type, EVENT_BULK_PROGRESS);
	MSG_SET(e, event, bulk_id, STR(FAKE_LOG_BULK));
	MSG_SET(e, event, data,
		STR("{\"status\":\"running\",\"action\":\"cancel\","
		    "\"total\":20000,\"processed\":1}"));
}

/* Those after m->after_seq, up to head. */
static void answer_page(struct rpc_req req, const struct m_events_ask *m,
			uint64_t head)
{
	size_t n = MIN(head - m->after_seq, (uint64_t)m->limit);
	struct m_events_reply reply = { 0 };
	struct m_event *e;

	if (n == 0 && m->wait_ns > 0)
		return;
	e = xcalloc(n + 1, sizeof(*e));
	for (size_t i = 0; i < n; i++)
		fill(&e[i], m->after_seq + 1 + i);
	MSG_SET_LIST(&reply, events_reply, events, e, n);
	MSG_SET(&reply, events_reply, next, m->after_seq + n);
	MSG_SET(&reply, events_reply, head_seq, head);
	answer(req, 1, &msg_events_reply, &reply);
	free(e);
}

void fake_log_events(struct rpc_req req, const struct m_events_ask *m)
{
	if (m->after_seq >= FAKE_LOG_BEGIN)
		answer_page(req, m, FAKE_LOG_BEGIN + FAKE_LOG_EVENTS);
	else if (m->after_seq <= FAKE_LOG_SHORT)
		answer_page(req, m, FAKE_LOG_SHORT);
	else
		rpc_reply(req, ERR_OVERLOADED, 0, STR(""));
}
