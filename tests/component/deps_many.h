/*
 * Many jobs of one request that wait for each other.
 */
#ifndef CORVO_DEPS_MANY_H
#define CORVO_DEPS_MANY_H

#include "deps_world.h"

#define NAME_BYTES 32

struct many {
	struct m_enqueue *jobs;
	char (*names)[NAME_BYTES];
	char (*deps)[NAME_BYTES];
	struct str *ids;
	size_t n;
};

static inline void many_init(struct many *m, size_t n, const char *prefix)
{
	m->n = n;
	m->jobs = xcalloc(n, sizeof(*m->jobs));
	m->names = xcalloc(n, sizeof(*m->names));
	m->deps = xcalloc(n, sizeof(*m->deps));
	m->ids = xcalloc(n, sizeof(*m->ids));
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(m->names[i], NAME_BYTES, "%s%05zu", prefix, i);
		MSG_SET(&m->jobs[i], enqueue, job_id, str_from(m->names[i]));
		MSG_SET(&m->jobs[i], enqueue, queue, STR("q"));
	}
}

static inline void many_done(struct many *m)
{
	free(m->jobs);
	free(m->names);
	free(m->deps);
	free(m->ids);
}

static inline void many_depend(struct many *m, size_t i, const char *on)
{
	(void)snprintf(m->deps[i], NAME_BYTES, "%s", on);
	m->ids[i] = str_from(m->deps[i]);
	MSG_SET_LIST(&m->jobs[i], enqueue, depends_on, &m->ids[i], 1);
}

static inline void many_add(struct fx *x, struct many *m)
{
	struct m_enqueue_batch b = { 0 };

	MSG_SET_LIST(&b, enqueue_batch, jobs, m->jobs, m->n);
	if (fx_do(x, OP_ENQUEUE_BATCH, &b, NULL) != 0)
		fail_msg("%.*s", STR_ARG(x->replies[0].body));
}

/* Each waits for the one behind it: created before its parent. */
static inline void make_chain(struct many *m)
{
	for (size_t i = 0; i + 1 < m->n; i++) {
		char on[NAME_BYTES];

		(void)snprintf(on, sizeof(on), "#%zu", i + 1);
		many_depend(m, i, on);
	}
}

#endif
