/*
 * A push queue, and what its receiver answered.
 */
#include "script.h"

static void take(struct script *s, const char *id)
{
	struct str queue = STR("hooked");
	struct m_enqueue m = { 0 };
	struct m_fetch fetch = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, queue);
	script_one(s, OP_ENQUEUE, &m, NULL);
	MSG_SET_LIST(&fetch, fetch, queues, &queue, 1);
	MSG_SET(&fetch, fetch, worker_id, STR("push@node-1"));
	script_one(s, OP_FETCH, &fetch, NULL);
}

static void settings(struct script *s)
{
	struct m_push first = { 0 }, second = { 0 };
	struct m_set_queue m = { 0 };
	struct str gone[] = { STR("previous_secret") };

	MSG_SET(&first, push, url, STR("https://example.com/hook?a=b"));
	MSG_SET(&first, push, credentials, STR("me:secret"));
	MSG_SET(&first, push, method, PUSH_PUT);
	MSG_SET(&first, push, headers, STR("{\"X-Own\":\"1\"}"));
	MSG_SET(&first, push, timeout, 5 * SECOND);
	MSG_SET(&first, push, concurrency, 7);
	MSG_SET(&first, push, rate, 100);
	MSG_SET(&first, push, secret, STR("a secret of some bytes"));
	MSG_SET(&first, push, previous_secret, STR("another one of some"));
	MSG_SET(&first, push, format, PUSH_ENVELOPE);
	MSG_SET(&first, push, redirects, true);
	MSG_SET(&m, set_queue, queue, STR("hooked"));
	MSG_SET(&m, set_queue, push, &first);
	script_one(s, OP_SET_QUEUE, &m, NULL);
	MSG_SET(&second, push, concurrency, 9);
	MSG_SET_LIST(&second, push, remove, gone, 1);
	MSG_SET(&m, set_queue, push, &second);
	script_one(s, OP_SET_QUEUE, &m, NULL);
}

void script_push(struct script *s)
{
	struct m_heartbeat beats = { 0 };
	struct m_beat beat = { 0 };
	struct m_fail fail = { 0 };
	struct m_ack ack = { 0 };

	settings(s);
	take(s, "job_p0");
	MSG_SET(&ack, ack, job_id, STR("job_p0"));
	MSG_SET(&ack, ack, response, STR("{\"status\":200}"));
	script_one(s, OP_ACK, &ack, NULL);
	take(s, "job_p1");
	MSG_SET(&fail, fail, job_id, STR("job_p1"));
	MSG_SET(&fail, fail, error, STR("http_error"));
	MSG_SET(&fail, fail, response, STR("{\"status\":500}"));
	script_one(s, OP_FAIL, &fail, NULL);
	take(s, "job_p2");
	MSG_SET(&beat, beat, job_id, STR("job_p2"));
	MSG_SET(&beat, beat, response, STR("{\"status\":202}"));
	MSG_SET_LIST(&beats, heartbeat, jobs, &beat, 1);
	script_one(s, OP_HEARTBEAT, &beats, NULL);
}
