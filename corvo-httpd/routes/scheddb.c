/*
 * Scheduled-DB: creating, cancelling and deleting jobs. Bodies and ids are
 * hostile. Its clients know texts and statuses, which stand here as they know
 * them.
 */
#include "routes/scheddb.h"

#include "front/answer.h"
#include "proto/scheddb.h"
#include "req/work.h"
#include "routes/handlers.h"
#include "util/turn.h"

/* --- what all have in common --- */

void sdb_not_found(struct req *r)
{
	req_fail_text(r, ERR_NOT_FOUND, STR("Job not found"));
}

void sdb_fail(struct req *r, const struct rpc_reply *reply)
{
	if (reply->err == ERR_NOT_FOUND)
		sdb_not_found(r);
	else if (reply->err == ERR_LEADER_UNAVAILABLE)
		req_fail_text(r, reply->err, STR("No leader available"));
	else
		req_fail_text(r, reply->err, reply->body);
}

void *sdb_reply(struct req *r, const struct msg_desc *d,
		const struct rpc_reply *reply)
{
	struct rpc_reply copy = *reply;

	if (reply->err != 0) {
		sdb_fail(r, reply);
		return NULL;
	}
	copy.body = arena_copy(&r->arena, reply->body);
	return req_reply(r, d, &copy);
}

bool sdb_reply_briefly(struct req *r, const struct msg_desc *d,
		       const struct rpc_reply *reply, struct arena *a,
		       void *ret)
{
	if (reply->err != 0)
		sdb_fail(r, reply);
	else if (msg_decode(d, reply->body, a, ret) == 0)
		return true;
	else
		req_fail(r, ERR_BAD_MESSAGE, "%s", err_text(ERR_BAD_MESSAGE));
	return false;
}

bool sdb_is_once(const struct m_job *j)
{
	return j->scheduled_db != NULL && j->scheduled_db->size > 0;
}

bool sdb_is_recurring(const struct m_schedule *s)
{
	return s->job != NULL && s->job->scheduled_db != NULL;
}

void sdb_ask_jobs(struct req *r, struct str *ids, size_t n, req_reply_fn *then)
{
	struct m_job_ids m = { 0 };

	REQUIRE(n <= LIMIT_BULK_GET);
	MSG_SET_LIST(&m, job_ids, job_ids, ids, n);
	req_call_raftd(r, QUERY_GET_JOBS, STR_NULL, &msg_job_ids, &m, then);
}

/* --- POST /jobs --- */

static void refuse_room(struct req *r, const struct m_sdb_refusal *no)
{
	struct json_writer w = req_json(r);
	struct json_style style = req_style(r);
	unsigned long long current = no->current, limit = no->limit;
	struct str text =
	    no->requested > 0
		? arena_printf(&r->arena,
			       "insufficient memory: current=%llu bytes, "
			       "limit=%llu bytes, requested=%llu bytes",
			       current, limit,
			       (unsigned long long)no->requested)
		: arena_printf(&r->arena,
			       "maximum jobs reached: current=%llu, limit=%llu",
			       current, limit);

	r->x.err = ERR_INSUFFICIENT_STORAGE;
	r->x.retry_after_s = answer_retry_after(ERR_INSUFFICIENT_STORAGE);
	jw_object(&w);
	jw_key(&w, "error");
	jw_str(&w, text);
	jw_key(&w, "code");
	jw_cstr(&w, err_code(ERR_INSUFFICIENT_STORAGE));
	msg_members_to_json(&msg_sdb_refusal, no, &style, &w);
	jw_object_end(&w);
	req_answer(r, err_status(ERR_INSUFFICIENT_STORAGE));
}

static void on_created(struct req *r, const struct rpc_reply *reply)
{
	const struct m_sdb_job *m;

	if (reply->err == ERR_VALIDATION_ERROR) {
		req_fail(r, reply->err, "Job validation failed: %.*s",
			 STR_ARG(reply->body));
		return;
	}
	m = sdb_reply(r, &msg_sdb_job, reply);
	if (m == NULL)
		return;
	if (m->refusal != NULL)
		refuse_room(r, m->refusal);
	else
		req_answer_message(r, &msg_sdb_job, m, 200);
}

void h_sdb_create(struct req *r)
{
	struct m_sdb_create *m = arena_zalloc(&r->arena, sizeof(*m));

	if (sdb_read_new(r, m))
		req_call_raftd(r, OP_SDB_CREATE, STR(SDB_QUEUE),
			       &msg_sdb_create, m, on_created);
}

/* --- DELETE /jobs/{id} --- */

static void on_deleted(struct req *r, const struct rpc_reply *reply)
{
	if (reply->err != 0)
		sdb_fail(r, reply);
	else
		req_answer_empty(r, 204);
}

void h_sdb_delete(struct req *r)
{
	struct m_sdb_ref *m = arena_zalloc(&r->arena, sizeof(*m));

	if (req_read_path(r, &msg_sdb_ref, m))
		req_call_raftd(r, OP_SDB_DELETE, STR(SDB_QUEUE), &msg_sdb_ref,
			       m, on_deleted);
}

/* --- POST /jobs/{id}/cancel --- */

static void on_cancelled(struct req *r, const struct rpc_reply *reply)
{
	const struct m_sdb_cancelled *m =
	    sdb_reply(r, &msg_sdb_cancelled, reply);

	if (m != NULL)
		req_answer_message(r, &msg_sdb_cancelled, m, 200);
}

/* Its clients may send anything there; what is no object of that form counts as
 * none. False: a reason that is too long, or a strict request, was refused. */
static bool read_reason(struct req *r, struct m_sdb_cancel *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd = req_reader(r, &why);
	struct str text = buf_str(&r->x.body);
	struct m_sdb_cancel given = *m;
	struct json_error e;
	struct json v;
	int err = 0;
	bool is_object;

	turn_open();
	is_object = json_validate(text, LIMIT_JSON_DEPTH, &e) &&
		    json_type_of(json_root(text)) == JSON_OBJECT;
	if (is_object)
		err = msg_from_json(&rd, &msg_sdb_cancel, json_root(text),
				    &given);
	turn_close();
	if (req_is_unwanted(r)) /* it may have been read in part only */
		return false;
	if (!is_object)
		return true;
	if (err == 0) {
		*m = given;
	} else if (json_member(json_root(text), "reason", &r->arena, &v) &&
		   json_type_of(v) == JSON_STRING) {
		req_fail_text(r, -err, buf_str(&why));
		return false;
	} else {
		req_ignore(r, STR("reason"));
	}
	return req_read_done(r);
}

void h_sdb_cancel(struct req *r)
{
	struct m_sdb_cancel *m = arena_zalloc(&r->arena, sizeof(*m));

	if (req_read_path(r, &msg_sdb_cancel, m) && read_reason(r, m))
		req_call_raftd(r, OP_SDB_CANCEL, STR(SDB_QUEUE),
			       &msg_sdb_cancel, m, on_cancelled);
}
