/*
 * Several jobs by their ids, as GET of one shows them. Read as in
 * serve/read.c: a thousand jobs must not hold up the loop. Ids come from
 * clients. A question is its own until its answer is given. How many are read
 * at a time, serve/line.c decides.
 */
#include <stdlib.h>

#include "serve/svc_impl.h"
#include "store/record.h"
#include "util/hmap.h"

struct jobs_ask {
	struct rpc_req req;
	struct svc *s;
	struct arena arena; /* ids, and the answer */
	struct m_job_ids ids;
	uint64_t *lease_ends; /* of each; 0: it has none */
	int err;
	uint64_t seq;
	struct buf out;
};

static void copy_ids(struct jobs_ask *a, const struct m_job_ids *m)
{
	struct str *list = arena_alloc(&a->arena, m->job_ids_n * sizeof(*list));

	for (size_t i = 0; i < m->job_ids_n; i++)
		list[i] = arena_copy(&a->arena, m->job_ids[i]);
	a->lease_ends =
	    arena_alloc(&a->arena, m->job_ids_n * sizeof(*a->lease_ends));
	for (size_t i = 0; i < m->job_ids_n; i++)
		a->lease_ends[i] = leases_end(a->s->p->leases, list[i]);
	MSG_SET_LIST(&a->ids, job_ids, job_ids, list, m->job_ids_n);
}

/*
 * Reads one job with memory of its own and keeps only as much of it as an
 * answer holds. 1 found, 0 absent, -ERR_*; adds to *bytes.
 */
static int read_job(struct jobs_ask *a, struct str id, struct m_job *ret,
		    size_t *bytes)
{
	struct arena arena = { .block_size = 64 * 1024 };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct m_job job;
	int r = record_job(a->s->p->kv, id, RECORD_ALL, &arena, &job);

	if (r > 0) {
		msg_encode(&msg_job, &job, &b);
		*bytes += b.n;
		CHECK(msg_decode(&msg_job, arena_copy(&a->arena, buf_str(&b)),
				 &a->arena, ret) == 0);
	}
	arena_done(&arena);
	return r;
}

/* Each job once, in the order asked for. 0 or -ERR_*. */
static int read_jobs(struct jobs_ask *a, struct m_job_list *ret)
{
	const struct str *ids = a->ids.job_ids;
	size_t n = a->ids.job_ids_n, bytes = 0, i;
	struct m_job *jobs = arena_alloc(&a->arena, n * sizeof(*jobs));
	struct hmap seen = { 0 };
	size_t found = 0;
	int r = 0;

	for (i = 0; i < n && r >= 0 && bytes < LIMIT_LIST_BYTES; i++) {
		if (hmap_put(&seen, ids[i], a) != NULL)
			continue;
		r = read_job(a, ids[i], &jobs[found], &bytes);
		if (r > 0)
			svc_show_lease(&jobs[found], a->lease_ends[i]);
		found += r > 0;
	}
	hmap_done(&seen);
	MSG_SET_LIST(ret, job_list, jobs, jobs, found);
	if (i < n)
		MSG_SET_LIST(ret, job_list, omitted, a->ids.job_ids + i, n - i);
	return MIN(r, 0);
}

static void jobs_work(void *ctx)
{
	struct jobs_ask *a = ctx;
	struct m_job_list list = { 0 };

	if (a->err == 0)
		a->err = -read_jobs(a, &list);
	if (a->err == 0)
		msg_encode(&msg_job_list, &list, &a->out);
	arena_done(&a->arena); /* megabytes, which take the loop a while */
}

static void jobs_done(void *ctx)
{
	struct jobs_ask *a = ctx;

	a->s->reads--;
	if (a->err != 0)
		svc_reply_error(a->req, a->err);
	else
		rpc_reply_take(a->req, a->seq, &a->out);
	buf_done(&a->out);
	free(a);
}

void q_get_jobs(struct svc *s, struct rpc_req req, const struct m_job_ids *m)
{
	struct jobs_ask *a;

	if (m->job_ids_n > LIMIT_BULK_GET) {
		svc_reply_error(req, ERR_BAD_MESSAGE);
		return;
	}
	s->reads++;
	a = xcalloc(1, sizeof(*a));
	a->req = req;
	a->s = s;
	a->seq = fsm_last_seq(s->p->fsm);
	copy_ids(a, m);
	a->err = -fsm_flush(s->p->fsm);
	worker_run(s->p->prompt, jobs_work, jobs_done, a);
}
