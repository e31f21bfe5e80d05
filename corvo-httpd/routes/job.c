/*
 * Reads of one job: the job itself, at once or when it has ended, and its log.
 * The waiting is done by raftd; here the request is only parked, so that it is
 * dropped when its client goes away.
 */
#include <strings.h>

#include "front/park.h"
#include "front/server.h"
#include "proto/job_json.h"
#include "req/req.h"
#include "routes/handlers.h"
#include "util/timefmt.h"

#define WAIT_MAX_NS (LIMIT_WAIT_S * NS_PER_S)

/* --- GET /jobs/{job_id} --- */

static void on_job(struct req *r, const struct rpc_reply *reply)
{
	struct json_style style = req_style(r);
	struct m_job *job = req_reply(r, &msg_job, reply);
	struct json_writer w;

	if (job == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	w = req_json(r);
	job_to_json(job, &style, &w);
	req_answer(r, r->match.route->status);
}

static void ask_now(struct req *r)
{
	struct m_job_ref *m = r->state;

	MSG_UNSET(m, job_ref, wait_ns);
	m->wait_ns = 0;
	req_call_raftd(r, QUERY_GET_JOB, STR_NULL, &msg_job_ref, m, on_job);
}

/*
 * A question sent again to a restarted raftd begins its wait anew and may pass
 * our deadline; then the job is shown as it is.
 */
static void on_awaited(struct req *r, const struct rpc_reply *reply)
{
	if (reply->err == ERR_REQUEST_TIMEOUT)
		ask_now(r);
	else
		on_job(r, reply);
}

static void ask_and_wait(struct req *r)
{
	const struct m_job_ref *m = r->state;

	req_call(r, &(struct req_call){
			.client = r->h->raftd,
			.id = QUERY_GET_JOB,
			.desc = &msg_job_ref,
			.m = m,
			.timeout_ns = m->wait_ns + r->h->set->op_timeout,
			.timeout_err = ERR_REQUEST_TIMEOUT,
			.then = on_awaited,
		    });
	r->end_parked = ask_now;
	park_add(&r->x);
}

/* "wait=30" among other preferences; one that cannot be read is no wish. */
static bool read_preference(struct str text, uint64_t *ret)
{
	struct str rest = text, one, parameters;

	while (rest.n > 0) {
		(void)str_split(rest, ',', &one, &rest);
		(void)str_split(one, ';', &one, &parameters);
		one = str_trim(one);
		if (one.n > 5 && strncasecmp(one.p, "wait=", 5) == 0)
			return duration_read(str_skip(one, 5), ret);
	}
	return false;
}

/*
 * The argument counts before the header, whose wish may be passed over.
 * False: an error has been answered.
 */
static bool read_wait(struct req *r, uint64_t *ret, bool *is_wish)
{
	const char *prefer = req_header(r, HEAD_PREFER);

	*ret = 0;
	if (prefer != NULL && !read_preference(str_from(prefer), ret))
		*ret = 0;
	*is_wish = req_raw_argument(r, "wait") == NULL;
	return req_duration_argument(r, "wait", ret);
}

void h_get_job(struct req *r)
{
	struct m_job_ref *m = arena_zalloc(&r->arena, sizeof(*m));
	uint64_t wait_ns;
	bool is_wish;

	if (!req_read(r, &msg_job_ref, m) || !read_wait(r, &wait_ns, &is_wish))
		return;
	r->state = m;
	if (wait_ns == 0 || r->h->draining) {
		ask_now(r);
		return;
	}
	MSG_SET(m, job_ref, wait_ns, MIN(wait_ns, WAIT_MAX_NS));
	r->x.preferred_ns = is_wish ? m->wait_ns : 0;
	ask_and_wait(r);
}

/* --- GET /jobs/{job_id}/logs --- */

void h_job_logs(struct req *r)
{
	struct m_job_logs *m = arena_zalloc(&r->arena, sizeof(*m));
	uint64_t after = 0, limit = LIMIT_LOG_PAGE;

	if (!req_read(r, &msg_job_logs, m) ||
	    !req_number_argument(r, "after", 0, UINT32_MAX, &after) ||
	    !req_number_argument(r, "limit", 1, LIMIT_LOG_PAGE, &limit))
		return;
	MSG_SET(m, job_logs, after, after);
	MSG_SET(m, job_logs, limit, (uint32_t)limit);
	req_call_raftd(r, QUERY_JOB_LOGS, STR_NULL, &msg_job_logs, m,
		       req_answer_query);
}

/* --- GET /jobs/{job_id}/iterations --- */

void h_iterations(struct req *r)
{
	struct m_iterations *m = arena_zalloc(&r->arena, sizeof(*m));
	uint64_t after = 0, limit = 100;

	if (!req_read(r, &msg_iterations, m) ||
	    !req_number_argument(r, "after", 0, UINT32_MAX, &after) ||
	    !req_number_argument(r, "limit", 1, LIMIT_ITERATION_PAGE, &limit))
		return;
	MSG_SET(m, iterations, after, (uint32_t)after);
	MSG_SET(m, iterations, limit, (uint32_t)limit);
	req_call_raftd(r, QUERY_LIST_ITERATIONS, STR_NULL, &msg_iterations, m,
		       req_answer_query);
}

/* --- POST /jobs/{job_id}/replay --- */

void h_replay(struct req *r)
{
	struct m_replay *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!req_read(r, &msg_replay, m))
		return;
	MSG_SET(m, replay, new_job_id, req_make_id(r, "job_"));
	req_call_raftd(r, OP_REPLAY, STR_NULL, &msg_replay, m, req_answer_op);
}
