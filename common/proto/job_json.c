/*
 * What clients see of a job, beyond the plain members of message `job`.
 */
#include "proto/job_json.h"

#include "proto/agent.h"
#include "proto/job.h"

void job_to_json(const struct m_job *j, const struct json_style *style,
		 struct json_writer *w)
{
	jw_object(w);
	msg_members_to_json(&msg_job, j, style, w);
	if (MSG_HAS(j, job, worker_id)) {
		jw_key(w, "worker");
		jw_object(w);
		jw_key(w, "id");
		jw_str(w, j->worker_id);
		if (MSG_HAS(j, job, hostname)) {
			jw_key(w, "hostname");
			jw_str(w, j->hostname);
		}
		jw_object_end(w);
	}
	jw_object_end(w);
}

/* Takes a member over when it is there. */
#define COPY(member)                                          \
	do {                                                  \
		if (MSG_HAS(e, enqueue, member))              \
			MSG_SET(ret, job, member, e->member); \
	} while (0)

/* The member, or what an enqueue without it gets. */
#define COPY_OR(member, otherwise) \
	MSG_SET(ret, job, member,  \
		MSG_HAS(e, enqueue, member) ? e->member : (otherwise))

/* The same for what a queue may name in the place of its jobs. */
#define RULE_OR(member, otherwise)                            \
	MSG_SET(ret, job, member,                             \
		MSG_HAS(r, enqueue_reply, member) ? r->member \
		: MSG_HAS(e, enqueue, member)     ? e->member \
						  : (otherwise))

/* The request was taken, so its limits are good. */
static void show_agent(const struct m_enqueue *e, struct m_agent_state *agent,
		       struct m_job *ret)
{
	struct m_agent limits = *e->agent;
	struct m_job_doc doc = { .agent = &limits };

	(void)agent_settle(&limits);
	agent_show(&doc, NULL, agent);
	MSG_SET(ret, job, agent, agent);
}

void job_from_enqueue(const struct m_enqueue *e,
		      const struct m_enqueue_reply *r,
		      struct m_agent_state *agent, struct m_job *ret)
{
	*ret = (struct m_job){ 0 };
	MSG_SET(ret, job, id, r->job_id);
	MSG_SET(ret, job, queue, e->queue);
	MSG_SET(ret, job, state, r->status);
	MSG_SET(ret, job, attempt, 0);
	MSG_SET(ret, job, created_at, r->created_at);
	COPY_OR(payload, STR("{}"));
	COPY_OR(priority, PRIORITY_NORMAL);
	RULE_OR(max_retries, JOB_DEFAULT_MAX_RETRIES);
	RULE_OR(retry_backoff, BACKOFF_EXPONENTIAL);
	RULE_OR(retry_base_delay, JOB_DEFAULT_BASE_DELAY_NS);
	RULE_OR(retry_max_delay, JOB_DEFAULT_MAX_DELAY_NS);
	COPY(retry_jitter);
	if (MSG_HAS(r, enqueue_reply, retry_jitter))
		MSG_SET(ret, job, retry_jitter, r->retry_jitter);
	COPY(tags);
	COPY(checkpoint);
	COPY(parent_id);
	COPY(batch_id);
	if (MSG_HAS(e, enqueue, chain)) {
		MSG_SET(ret, job, chain_id, r->chain_id);
		MSG_SET(ret, job, chain_step, 0);
		MSG_SET(ret, job, chain_config, e->chain);
	}
	if (e->depends_on_n > 0) {
		MSG_SET_LIST(ret, job, depends_on, e->depends_on,
			     e->depends_on_n);
		MSG_SET(ret, job, on_dependency_failure,
			e->on_dependency_failure);
	}
	COPY(unique_key);
	COPY(timeout);
	COPY(expected_cost);
	COPY(expected);
	COPY(group);
	if (MSG_HAS(e, enqueue, agent))
		show_agent(e, agent, ret);
	if (r->status == JOB_SCHEDULED)
		COPY(scheduled_at);
	if (r->status == JOB_SCHEDULED && e->delay > 0)
		MSG_SET(ret, job, scheduled_at, r->created_at + e->delay);
	if (e->unique_key.n > 0 && e->unique_period > 0)
		COPY(unique_period);
	if (e->expire_after > 0) {
		MSG_SET(ret, job, expire_at, r->created_at + e->expire_after);
		COPY(expire_after);
	}
	COPY(as_numbers);
}
