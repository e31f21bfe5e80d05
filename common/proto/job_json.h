/*
 * Job JSON as clients see it: the members of message `job`, and the worker
 * as an object beside the flat members.
 */
#ifndef CORVO_JOB_JSON_H
#define CORVO_JOB_JSON_H

#include "proto/msg_json.h"

void job_to_json(const struct m_job *j, const struct json_style *style,
		 struct json_writer *w);

/* The job an enqueue has just made, without asking anybody. agent: room for
 * where its loop is, should it be an agent's. */
void job_from_enqueue(const struct m_enqueue *e,
		      const struct m_enqueue_reply *r,
		      struct m_agent_state *agent, struct m_job *ret);

#endif
