/*
 * What tests of dependencies share: jobs by short names in queue "q", and what
 * becomes of them.
 */
#ifndef CORVO_DEPS_WORLD_H
#define CORVO_DEPS_WORLD_H

#include "fsm_fixture.h"

#define IDS_MAX 16

/* A job to be; deps: ids separated by spaces. */
struct want {
	const char *id, *deps;
	bool ignore;
	struct str ids[IDS_MAX];
};

static inline void fill(struct want *w, struct m_enqueue *m)
{
	struct str rest = str_from(w->deps ? w->deps : "");
	size_t n = 0;

	*m = (struct m_enqueue){ 0 };
	MSG_SET(m, enqueue, job_id, str_from(w->id));
	MSG_SET(m, enqueue, queue, STR("q"));
	while (rest.n > 0) {
		assert_true(n < IDS_MAX);
		(void)str_split(rest, ' ', &w->ids[n++], &rest);
	}
	if (n > 0)
		MSG_SET_LIST(m, enqueue, depends_on, w->ids, n);
	if (w->ignore)
		MSG_SET(m, enqueue, on_dependency_failure, DEPENDENCY_IGNORE);
}

static inline enum job_state add_want(struct fx *x, struct want w)
{
	struct m_enqueue m;
	struct m_enqueue_reply r;

	fill(&w, &m);
	if (fx_do(x, OP_ENQUEUE, &m, &r) != 0)
		fail_msg("%.*s", STR_ARG(x->replies[0].body));
	return r.status;
}

static inline void add(struct fx *x, const char *id, const char *deps)
{
	enum job_state s = add_want(x, (struct want){ .id = id, .deps = deps });

	assert_int_equal(s, JOB_PENDING);
}

static inline void add_ignoring(struct fx *x, const char *id, const char *deps)
{
	struct want w = { .id = id, .deps = deps, .ignore = true };

	assert_int_equal(add_want(x, w), JOB_PENDING);
}

static inline void fill_all(struct want *w, struct m_enqueue *jobs, size_t n,
			    struct m_enqueue_batch *ret)
{
	for (size_t i = 0; i < n; i++)
		fill(&w[i], &jobs[i]);
	*ret = (struct m_enqueue_batch){ 0 };
	MSG_SET_LIST(ret, enqueue_batch, jobs, jobs, n);
}

static inline void add_all(struct fx *x, struct want *w, size_t n)
{
	struct m_enqueue jobs[IDS_MAX];
	struct m_enqueue_batch m;

	fill_all(w, jobs, n, &m);
	if (fx_do(x, OP_ENQUEUE_BATCH, &m, NULL) != 0)
		fail_msg("%.*s", STR_ARG(x->replies[0].body));
}

static inline void refuse(struct fx *x, const char *deps, const char *text)
{
	struct want w = { .id = "new", .deps = deps };
	struct m_enqueue m;

	fill(&w, &m);
	fx_refused(x, OP_ENQUEUE, &m, ERR_VALIDATION_ERROR, text);
}

static inline void refuse_all(struct fx *x, struct want *w, size_t n,
			      const char *text)
{
	struct m_enqueue jobs[IDS_MAX];
	struct m_enqueue_batch m;

	fill_all(w, jobs, n, &m);
	fx_refused(x, OP_ENQUEUE_BATCH, &m, ERR_VALIDATION_ERROR, text);
}

static inline void ack(struct fx *x, const char *id)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, str_from(id));
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

/* Fetches the job that must be next, and completes it. */
static inline void run(struct fx *x, const char *id)
{
	fx_expect(x, "q", id);
	ack(x, id);
}

static inline void kill(struct fx *x, const char *id)
{
	struct m_fail m = { 0 };

	fx_expect(x, "q", id);
	MSG_SET(&m, fail, job_id, str_from(id));
	MSG_SET(&m, fail, retry, false);
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
	fx_expect_state(x, id, JOB_DEAD);
}

static inline void expect_waiting(struct fx *x, const char *id, uint32_t n)
{
	const struct m_job *j = fx_job(x, id);

	assert_int_equal(j->waiting_on, n);
	assert_int_equal(j->blocked, n > 0);
}

static inline void expect_error(struct fx *x, const char *id, const char *text)
{
	fx_expect_state(x, id, JOB_DEAD);
	assert_str_is(fx_job(x, id)->last_error, text);
}

static inline void restart_both(struct fx *x)
{
	fx_restart(x, FX_MEM);
	fx_restart(x, FX_ROCKS);
}

#endif
