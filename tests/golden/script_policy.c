/*
 * Approval policies, holds, links and decisions.
 */
#include "script.h"

static void set(struct script *s, const char *name, const char *at,
		uint64_t deadline)
{
	struct m_policy m = { 0 };
	struct str points[] = { str_from(at) };

	MSG_SET(&m, policy, name, str_from(name));
	MSG_SET(&m, policy, mode, POLICY_ALL);
	MSG_SET(&m, policy, queue, STR("asked*"));
	MSG_SET(&m, policy, tag_key, STR("risk"));
	MSG_SET(&m, policy, tag_value, STR("high"));
	MSG_SET(&m, policy, payload_jq, STR(".n > 1"));
	MSG_SET_LIST(&m, policy, at, points, 1);
	MSG_SET(&m, policy, priority, 3);
	if (deadline > 0) {
		MSG_SET(&m, policy, deadline, deadline);
		MSG_SET(&m, policy, on_deadline, DEADLINE_REJECT);
	}
	script_one(s, OP_SET_POLICY, &m, NULL);
}

static void make(struct script *s, const char *id)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("asked"));
	MSG_SET(&m, enqueue, tags, STR("{\"risk\":\"high\"}"));
	MSG_SET(&m, enqueue, payload, STR("{\"n\":2}"));
	script_one(s, OP_ENQUEUE, &m, NULL);
}

static void approve(struct script *s, const char *id)
{
	struct m_approve m = { 0 };

	MSG_SET(&m, approve, job_id, str_from(id));
	MSG_SET(&m, approve, by, STR("ada"));
	MSG_SET(&m, approve, comment, STR("fine"));
	script_one(s, OP_APPROVE, &m, NULL);
}

void script_policy(struct script *s)
{
	struct m_maintain due = { 0 };
	struct m_policy_ref gone = { 0 };
	struct m_make_links links = { 0 };
	struct m_approval_links made;
	struct m_decide decide = { 0 };
	struct m_fetch fetch = { 0 };
	struct str queue = STR("asked");

	set(s, "in", "enqueue", 60 * SECOND);
	make(s, "job_asked1");
	make(s, "job_asked2");
	make(s, "job_asked3");
	approve(s, "job_asked1");
	MSG_SET(&links, make_links, job_id, STR("job_asked2"));
	MSG_SET(&links, make_links, by, STR("eve"));
	MSG_SET(&links, make_links, salt, STR("by chance"));
	script_one(s, OP_MAKE_LINKS, &links, &made);
	MSG_SET(&decide, decide, token, made.approve);
	script_one(s, OP_DECIDE, &decide, NULL);
	set(s, "out", "fetch", 0);
	MSG_SET_LIST(&fetch, fetch, queues, &queue, 1);
	script_one(s, OP_FETCH, &fetch, NULL); /* both are held */
	approve(s, "job_asked2");
	s->now_ns += 60 * SECOND;
	script_one(s, OP_DEADLINE, &due, NULL);
	MSG_SET(&gone, policy_ref, id, STR("in"));
	script_one(s, OP_DELETE_POLICY, &gone, NULL);
}
