/*
 * More of resend_gen.h: jobs of Scheduled-DB.
 */
#ifndef CORVO_RESEND_SDB_H
#define CORVO_RESEND_SDB_H

#include "resend_gen.h"

static inline struct str some_sdb(struct rw *w)
{
	return named(w, "sdb", rng_below(&w->r, 4));
}

static inline void make_sdb_create(struct rw *w, struct m_sdb_create *m)
{
	struct m_sdb_settings *s = arena_zalloc(&w->arena, sizeof(*s));

	MSG_SET(m, sdb_create, id, some_sdb(w));
	MSG_SET(m, sdb_create, webhook_url,
		named(w, "http://h/", rng_below(&w->r, 3)));
	MSG_SET(m, sdb_create, timestamp,
		w->x->now_ns + rng_below(&w->r, NS_PER_S));
	MSG_SET(m, sdb_create, limit_jobs, 3);
	MSG_SET(m, sdb_create, limit_bytes, 700);
	if (one_in(w, 2)) {
		MSG_SET(s, sdb_settings, history_retention, NS_PER_S);
		MSG_SET(s, sdb_settings, execution_timeout, NS_PER_S);
		MSG_SET(s, sdb_settings, inprogress_timeout, NS_PER_S);
		MSG_SET(s, sdb_settings, max_attempts,
			1 + (uint32_t)rng_below(&w->r, 2));
		MSG_SET(m, sdb_create, settings, s);
	}
	if (one_in(w, 2))
		return;
	MSG_SET(m, sdb_create, type, SDB_RECURRING);
	MSG_SET(m, sdb_create, cron_expression, STR("* * * * *"));
	MSG_SET(m, sdb_create, next_ns,
		w->x->now_ns + rng_below(&w->r, NS_PER_S) + 1);
	if (one_in(w, 2))
		MSG_SET(m, sdb_create, run_id, named(w, "job", w->jobs++));
}

static inline void make_sdb_cancel(struct rw *w, struct m_sdb_cancel *m)
{
	MSG_SET(m, sdb_cancel, id, some_sdb(w));
	if (one_in(w, 2))
		MSG_SET(m, sdb_cancel, reason, STR("enough"));
}

static inline void make_sdb_delete(struct rw *w, struct m_sdb_ref *m)
{
	MSG_SET(m, sdb_ref, id, some_sdb(w));
}

#endif
