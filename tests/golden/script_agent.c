/*
 * Agents' loops: iterations, limits, a hold, a replay.
 */
#include "script.h"

static void enqueue(struct script *s)
{
	struct m_enqueue m = { 0 };
	struct m_agent a = { 0 };

	MSG_SET(&a, agent, max_iterations, 2);
	MSG_SET(&a, agent, max_cost, 5 * NS_PER_S);
	MSG_SET(&a, agent, iteration_timeout, 600 * SECOND);
	MSG_SET(&a, agent, limits, STR("{\"tokens\":50000}"));
	MSG_SET(&m, enqueue, job_id, STR("job_loop0"));
	MSG_SET(&m, enqueue, queue, STR("agents"));
	MSG_SET(&m, enqueue, agent, &a);
	MSG_SET(&m, enqueue, checkpoint, STR("[]"));
	script_one(s, OP_ENQUEUE, &m, NULL);
}

static void fetch(struct script *s)
{
	struct m_fetch m = { 0 };
	struct str queue = STR("agents");

	MSG_SET_LIST(&m, fetch, queues, &queue, 1);
	MSG_SET(&m, fetch, worker_id, STR("w9"));
	script_one(s, OP_FETCH, &m, NULL);
}

static void ack(struct script *s, enum agent_status status, struct str said)
{
	struct m_usage u = { 0 };
	struct m_ack m = { 0 };

	fetch(s);
	MSG_SET(&u, usage, input_tokens, 1000);
	MSG_SET(&u, usage, cost_usd, 12000000);
	MSG_SET(&m, ack, job_id, STR("job_loop0"));
	MSG_SET(&m, ack, agent_status, status);
	MSG_SET(&m, ack, usage, &u);
	MSG_SET(&m, ack, trace, STR("{\"span\":\"a1\"}"));
	if (said.n > 0)
		MSG_SET(&m, ack, checkpoint, said);
	script_one(s, OP_ACK, &m, NULL);
}

/* One that stands apart from its job. */
static void large_checkpoint(struct script *s)
{
	char text[5000];
	struct m_enqueue m = { 0 };

	memset(text, '7', sizeof(text));
	MSG_SET(&m, enqueue, job_id, STR("job_loop1"));
	MSG_SET(&m, enqueue, queue, STR("large"));
	MSG_SET(&m, enqueue, checkpoint, str_of(text, sizeof(text)));
	script_one(s, OP_ENQUEUE, &m, NULL);
}

static void score(struct script *s)
{
	struct m_score m = { 0 };

	MSG_SET(&m, score, job_id, STR("job_loop0"));
	MSG_SET(&m, score, name, STR("tone"));
	MSG_SET(&m, score, value, -1);
	MSG_SET(&m, score, iteration, 2);
	script_one(s, OP_SCORE, &m, NULL);
}

/* A result that is not what the queue asks for. */
static void schema(struct script *s)
{
	struct m_set_queue set = { 0 };
	struct m_enqueue m = { 0 };
	struct m_fetch fetch = { 0 };
	struct m_ack ack = { 0 };
	struct str queue = STR("judged");

	MSG_SET(&set, set_queue, queue, queue);
	MSG_SET(&set, set_queue, result_schema,
		STR("{\"type\":\"object\",\"required\":[\"label\"]}"));
	script_one(s, OP_SET_QUEUE, &set, NULL);
	MSG_SET(&m, enqueue, job_id, STR("job_judged0"));
	MSG_SET(&m, enqueue, queue, queue);
	script_one(s, OP_ENQUEUE, &m, NULL);
	MSG_SET_LIST(&fetch, fetch, queues, &queue, 1);
	script_one(s, OP_FETCH, &fetch, NULL);
	MSG_SET(&ack, ack, job_id, m.job_id);
	MSG_SET(&ack, ack, result, STR("{\"lable\":\"spam\"}"));
	script_one(s, OP_ACK, &ack, NULL);
}

void script_agent(struct script *s)
{
	struct m_approve approve = { 0 };
	struct m_replay replay = { 0 };

	enqueue(s);
	ack(s, AGENT_CONTINUE, STR("[\"one\"]"));
	ack(s, AGENT_CONTINUE, STR_NULL); /* held: max_iterations */
	MSG_SET(&approve, approve, job_id, STR("job_loop0"));
	MSG_SET(&approve, approve, max_iterations, 20);
	script_one(s, OP_APPROVE, &approve, NULL);
	ack(s, AGENT_HOLD, STR("[\"three\"]"));
	score(s);
	schema(s);
	MSG_SET(&replay, replay, job_id, STR("job_loop0"));
	MSG_SET(&replay, replay, from, 1);
	MSG_SET(&replay, replay, new_job_id, STR("job_loop2"));
	script_one(s, OP_REPLAY, &replay, NULL);
	large_checkpoint(s);
}
