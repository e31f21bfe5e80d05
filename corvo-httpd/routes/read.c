/*
 * The smaller reads: jobs by their ids, and jobs by their words. Arguments and
 * bodies come from clients.
 */
#include "proto/job_json.h"
#include "req/ask_view.h"
#include "routes/handlers.h"

/* --- POST /jobs/bulk-get --- */

static void on_jobs(struct req *r, const struct rpc_reply *reply)
{
	struct m_job_list *m = req_reply(r, &msg_job_list, reply);
	struct json_style style = req_style(r);
	struct json_writer w;

	if (m == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	w = req_json(r);
	jw_object(&w);
	jw_key(&w, "jobs");
	jw_array(&w);
	for (size_t i = 0; i < m->jobs_n; i++)
		job_to_json(&m->jobs[i], &style, &w);
	jw_array_end(&w);
	if (m->omitted_n > 0) {
		jw_key(&w, "omitted");
		jw_array(&w);
		for (size_t i = 0; i < m->omitted_n; i++)
			jw_str(&w, m->omitted[i]);
		jw_array_end(&w);
	}
	jw_object_end(&w);
	req_answer(r, 200);
}

void h_bulk_get(struct req *r)
{
	struct m_job_ids *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!req_read(r, &msg_job_ids, m))
		return;
	if (m->job_ids_n > LIMIT_BULK_GET) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "job_ids: at most %d at a time", LIMIT_BULK_GET);
		return;
	}
	req_call_raftd(r, QUERY_GET_JOBS, STR_NULL, &msg_job_ids, m, on_jobs);
}

/* --- GET /search/fulltext --- */

static void on_hits(struct req *r, const struct rpc_reply *reply)
{
	struct m_fulltext_reply *m = req_reply(r, &msg_fulltext_reply, reply);

	if (m != NULL)
		ask_view_answer(r, &msg_fulltext_reply, m, m->lag_ns);
}

/* 0: the default; for clients of v0.3.0 also what is out of range. */
static bool read_rows(struct req *r, uint64_t *ret)
{
	struct str text = STR_NULL;
	uint64_t n = 0;

	if (!req_is_compat(r))
		return req_number_argument(r, "limit", 1, LIMIT_FULLTEXT_ROWS,
					   ret);
	if (!req_text_argument(r, "limit", &text))
		return false;
	if (str_parse_u64(text, &n) && n <= LIMIT_FULLTEXT_ROWS)
		*ret = n;
	return true;
}

void h_fulltext(struct req *r)
{
	struct m_fulltext *m = arena_zalloc(&r->arena, sizeof(*m));
	uint64_t limit = 0;

	if (!req_text_argument(r, "q", &m->q) || !read_rows(r, &limit))
		return;
	if (m->q.n == 0) {
		req_fail(r, ERR_VALIDATION_ERROR, "q is required");
		return;
	}
	m->has |= MSG_BIT(fulltext, q);
	if (limit > 0)
		MSG_SET(m, fulltext, limit, (uint32_t)limit);
	ask_view(r, &msg_fulltext, m, on_hits);
}
