/*
 * Jobs in the hands of a worker, and what it says of them.
 */
#ifndef CORVO_LEASE_WORLD_H
#define CORVO_LEASE_WORLD_H

#include "fsm_fixture.h"

#define TOKEN_NONE  0
#define TOKEN_WRONG 999

static inline struct m_fetched take(struct fx *x, const char *id)
{
	struct m_fetched j;

	fx_enqueue(x, id, "q");
	assert_true(fx_fetch(x, "q", &j));
	assert_str_is(j.job_id, id);
	return j;
}

static inline struct m_ack ack_of(const char *id, uint64_t token,
				  const char *worker)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, str_from(id));
	if (token != TOKEN_NONE)
		MSG_SET(&m, ack, lease_token, token);
	if (worker != NULL)
		MSG_SET(&m, ack, worker_id, str_from(worker));
	return m;
}

static inline struct m_fail fail_of(const char *id, uint64_t token,
				    const char *worker)
{
	struct m_fail m = { 0 };

	MSG_SET(&m, fail, job_id, str_from(id));
	if (token != TOKEN_NONE)
		MSG_SET(&m, fail, lease_token, token);
	if (worker != NULL)
		MSG_SET(&m, fail, worker_id, str_from(worker));
	return m;
}

#define LOST(id) "the lease on job \"" id "\" is no longer yours"

#endif
