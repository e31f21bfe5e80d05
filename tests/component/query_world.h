/*
 * A view filled by hand, and questions to it; shared by test_query.c and
 * test_search.c.
 */
#ifndef CORVO_QUERY_WORLD_H
#define CORVO_QUERY_WORLD_H

#include "view_fixture.h"

/* --- rows --- */

/* Job i of the test: seven at a time have the same creation. */
static inline void make_job(struct m_job *j, unsigned i, char *id,
			    size_t id_size)
{
	static const struct str queues[] = { { "a", 1 }, { "b", 1 } };

	(void)snprintf(id, id_size, "job_%06u", (i * 7919) % 999983);
	*j = (struct m_job){ 0 };
	MSG_SET(j, job, id, str_from(id));
	MSG_SET(j, job, queue, queues[i % 3 == 0]);
	MSG_SET(j, job, state, 1 + i % 8);
	MSG_SET(j, job, priority, i % 3);
	MSG_SET(j, job, payload, STR("{\"n\": 1}"));
	MSG_SET(j, job, max_retries, 3);
	MSG_SET(j, job, retry_backoff, BACKOFF_LINEAR);
	MSG_SET(j, job, retry_base_delay, 1500001);
	MSG_SET(j, job, retry_max_delay, 600 * NS_PER_S);
	MSG_SET(j, job, created_at,
		1794700000 * NS_PER_S + i / 7 * 100 * NS_PER_MS);
}

static inline void fill(struct fixture *f, unsigned n)
{
	char(*ids)[32] = xcalloc(n, sizeof(*ids));
	struct m_job *jobs = xcalloc(n, sizeof(*jobs));
	struct m_tail_reply r = { .last_seq = n, .jobs = jobs, .jobs_n = n };

	for (unsigned i = 0; i < n; i++)
		make_job(&jobs[i], i, ids[i], sizeof(ids[i]));
	assert_int_equal(mirror_apply(f->view.mirror, &r), 0);
	free(jobs);
	free(ids);
}

/* --- asking --- */

static inline void search(struct fixture *f, const struct m_search *m,
			  struct m_search_reply *ret)
{
	run(f, QUERY_SEARCH_JOBS, m, ret);
	assert_int_equal(ret->lag_ns, 7);
	assert_true(MSG_HAS(ret, search_reply, jobs));
	assert_true(MSG_HAS(ret, search_reply, total));
	assert_int_equal(ret->has_more, MSG_HAS(ret, search_reply, cursor));
}

#endif
