/*
 * What is listed of a job, and schedules: read off the loop, for it may be many
 * megabytes; by the worker that gives way to nobody, as somebody waits. How
 * many are read at a time, serve/line.c decides. Ids come from clients. Loop
 * thread, but for work.
 */
#include <stdlib.h>

#include "serve/svc_impl.h"
#include "store/record.h"

struct read;
/* 0, -ERR_NOT_FOUND: there is no such job, or -ERR_*. */
typedef int read_fn(struct kv *kv, const void *ask, struct arena *a, void *ret);

struct read {
	struct svc *s;
	struct rpc_req req;
	const struct msg_desc *asked, *reply;
	read_fn *fn;
	struct arena arena;
	void *ask;         /* of type asked, in the arena */
	struct str job_id; /* the same; empty: it is about none */
	uint64_t seq;
	int err;
	struct buf out;
};

static void work(void *ctx)
{
	struct read *r = ctx;
	void *reply = arena_zalloc(&r->arena, r->reply->size);
	struct m_job job;
	int found = 1;

	if (r->err == 0 && r->job_id.n > 0)
		found = record_job(r->s->p->kv, r->job_id, 0, &r->arena, &job);
	if (r->err == 0 && found <= 0)
		r->err = found < 0 ? -found : ERR_NOT_FOUND;
	if (r->err == 0)
		r->err = -r->fn(r->s->p->kv, r->ask, &r->arena, reply);
	if (r->err != 0)
		return;
	msg_encode(r->reply, reply, &r->out);
	arena_done(&r->arena); /* megabytes, which take the loop a while */
}

static void done(void *ctx)
{
	struct read *r = ctx;

	r->s->reads--; /* the next one is begun when the turn ends */
	if (r->err == ERR_NOT_FOUND)
		svc_reply_no_job(r->s, r->req, r->job_id);
	else if (r->err != 0)
		svc_reply_error(r->req, r->err);
	else
		rpc_reply_take(r->req, r->seq, &r->out);
	arena_done(&r->arena);
	buf_done(&r->out);
	free(r);
}

/* Its texts are the request's, which goes. */
static void copy_ask(struct read *r, const void *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	msg_encode(r->asked, m, &b);
	r->ask = arena_alloc(&r->arena, r->asked->size);
	CHECK(msg_decode(r->asked, arena_copy(&r->arena, buf_str(&b)),
			 &r->arena, r->ask) == 0);
}

static void begin(struct svc *s, struct rpc_req req,
		  const struct msg_desc *asked, const void *m,
		  struct str job_id, const struct msg_desc *reply, read_fn *fn)
{
	struct read *r = xcalloc(1, sizeof(*r));

	r->s = s;
	r->req = req;
	r->asked = asked;
	r->reply = reply;
	r->fn = fn;
	r->arena.block_size = 64 * 1024;
	copy_ask(r, m);
	r->job_id = arena_copy(&r->arena, job_id);
	r->seq = svc_newest_seq(s);
	r->err = -fsm_flush(s->p->fsm);
	s->reads++;
	worker_run(s->p->prompt, work, done, r);
}

/* --- of a job --- */

static int read_scores(struct kv *kv, const void *ask, struct arena *a,
		       void *ret)
{
	const struct m_job_ref *m = ask;

	return record_scores(kv, m->job_id, a, ret);
}

void q_job_scores(struct svc *s, struct rpc_req req, const struct m_job_ref *m)
{
	begin(s, req, &msg_job_ref, m, m->job_id, &msg_score_list, read_scores);
}

static int read_logs(struct kv *kv, const void *ask, struct arena *a, void *ret)
{
	const struct m_job_logs *m = ask;

	return record_logs(kv, m->job_id, m->after, m->limit, a, ret);
}

void q_job_logs(struct svc *s, struct rpc_req req, const struct m_job_logs *m)
{
	begin(s, req, &msg_job_logs, m, m->job_id, &msg_job_logs_reply,
	      read_logs);
}

static int read_iterations(struct kv *kv, const void *ask, struct arena *a,
			   void *ret)
{
	const struct m_iterations *m = ask;

	return record_iterations(kv, m->job_id, m->after, m->limit, a, ret);
}

void q_list_iterations(struct svc *s, struct rpc_req req,
		       const struct m_iterations *m)
{
	begin(s, req, &msg_iterations, m, m->job_id, &msg_iteration_list,
	      read_iterations);
}

/* --- schedules --- */

static int read_schedules(struct kv *kv, const void *ask, struct arena *a,
			  void *ret)
{
	const struct m_list_schedules *m = ask;

	return record_schedules(kv, m->after, m->limit, a, ret);
}

void q_list_schedules(struct svc *s, struct rpc_req req,
		      const struct m_list_schedules *m)
{
	begin(s, req, &msg_list_schedules, m, STR_NULL, &msg_schedule_list,
	      read_schedules);
}
