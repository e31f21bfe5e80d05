/*
 * Shared by the files of Scheduled-DB's routes.
 */
#ifndef CORVO_ROUTES_SCHEDDB_H
#define CORVO_ROUTES_SCHEDDB_H

#include "req/req.h"

/* The body of a new job as an operation; false: it has been refused, in the
 * words of Scheduled-DB. (routes/scheddb_new.c) */
bool sdb_read_new(struct req *r, struct m_sdb_create *ret);

/* The decoded reply, which lasts as long as the request; NULL: it was an error,
 * and has been answered in the words of Scheduled-DB. */
void *sdb_reply(struct req *r, const struct msg_desc *d,
		const struct rpc_reply *reply);
void sdb_fail(struct req *r, const struct rpc_reply *reply);
void sdb_not_found(struct req *r);

/* Of a job, a schedule: whether clients of Scheduled-DB know it by its id. */
bool sdb_is_once(const struct m_job *j);
bool sdb_is_recurring(const struct m_schedule *s);

/*
 * The same with memory of the caller's, and only until the reply is gone: of
 * jobs as they are stored, of which little is shown. False: it was an error,
 * and has been answered.
 */
bool sdb_reply_briefly(struct req *r, const struct msg_desc *d,
		       const struct rpc_reply *reply, struct arena *a,
		       void *ret);

/*
 * Asks raftd for jobs by their ids. A reply has as many as fit; `omitted` are
 * the others, and who wants whole pages asks for a smaller one.
 */
void sdb_ask_jobs(struct req *r, struct str *ids, size_t n, req_reply_fn *then);

#endif
