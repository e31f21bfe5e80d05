/*
 * What follows from the records of an agent's job.
 */
#ifndef CORVO_AGENT_H
#define CORVO_AGENT_H

#include "proto/proto.h"

/* max_cost is another name of max_cost_usd: what is kept has the one. False:
 * they say two things. */
bool agent_settle(struct m_agent *a);

/* The present iteration, from 1. live may be NULL: it is as it was created. */
uint32_t agent_iteration(const struct m_job_live *live);

/* The limits that hold: those it was given later, else those at first. */
const struct m_agent *agent_limits(const struct m_job_doc *doc,
				   const struct m_job_live *live);

/* What clients see. doc is that of an agent's job, live may be NULL. */
void agent_show(const struct m_job_doc *doc, const struct m_job_live *live,
		struct m_agent_state *ret);

#endif
