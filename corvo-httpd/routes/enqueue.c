/*
 * POST /enqueue and /enqueue/batch. Ids are made here, so that a request that
 * is sent again after a crash of raftd names the same job.
 */
#include "proto/job_json.h"
#include "req/job_check.h"
#include "req/req.h"
#include "routes/handlers.h"
#include "util/hash.h"
#include "util/turn.h"

/* False: it was refused. b: the batch it is an item of, or NULL. */
static bool is_job_ok(struct req *r, const struct m_enqueue_batch *b,
		      const struct m_enqueue *e)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int err;

	if (b != NULL)
		buf_printf(&why, "job %zu ", (size_t)(e - b->jobs));
	err = job_check(r->h->set, e, &why);
	if (err < 0)
		req_fail_text(r, -err, buf_str(&why));
	return err == 0;
}

/*
 * The header Idempotency-Key, empty when there is none, and what the request
 * is known by. The last bit tells the kinds apart, so that the answer to one
 * is never taken for that of the other. False: an error has been answered.
 */
static bool read_idempotency(struct req *r, bool is_batch, struct str *key,
			     uint64_t *hash)
{
	const char *text = req_header(r, HEAD_IDEMPOTENCY_KEY);

	*key = STR_NULL;
	if (text == NULL)
		return true;
	*key = str_from(text);
	*hash = (hash_stable(r->x.body.p, r->x.body.n) & ~1ULL) | is_batch;
	if (key->n > 0 && key->n <= LIMIT_UNIQUE_KEY_BYTES && str_is_utf8(*key))
		return true;
	req_fail(r, ERR_VALIDATION_ERROR,
		 "the header Idempotency-Key must have 1 to %d bytes of UTF-8",
		 LIMIT_UNIQUE_KEY_BYTES);
	return false;
}

/* --- one --- */

/* The earlier job is not the one asked for, so it is not shown as `job`. */
static void answer_duplicate(struct req *r, struct m_enqueue_reply *m)
{
	struct json_style style = req_style(r);
	struct json_writer w = req_json(r);

	MSG_UNSET(m, enqueue_reply, status);
	jw_object(&w);
	msg_members_to_json(&msg_enqueue_reply, m, &style, &w);
	jw_key(&w, "status");
	jw_cstr(&w, "duplicate");
	jw_key(&w, "unique_job_id");
	jw_str(&w, m->job_id);
	jw_object_end(&w);
	req_answer(r, 200);
}

static void on_enqueued(struct req *r, const struct rpc_reply *reply)
{
	const struct m_enqueue *e = r->state;
	struct m_enqueue_reply *m = req_reply(r, &msg_enqueue_reply, reply);
	struct json_style style = req_style(r);
	struct json_writer w;
	struct m_agent_state agent;
	struct m_job job;

	if (m == NULL)
		return;
	r->x.replayed = m->replayed;
	if (r->form != NULL) {
		struct m_enqueue_answer a = enqueue_answer_of(m);

		req_answer_message(r, &msg_enqueue_answer, &a, 201);
		return;
	}
	if (m->unique_existing) {
		answer_duplicate(r, m);
		return;
	}
	job_from_enqueue(e, m, &agent, &job);
	w = req_json(r);
	jw_object(&w);
	msg_members_to_json(&msg_enqueue_reply, m, &style, &w);
	jw_key(&w, "job");
	job_to_json(&job, &style, &w);
	jw_object_end(&w);
	req_answer(r, 201);
}

void enqueue_send(struct req *r, struct m_enqueue *e)
{
	struct str key;
	uint64_t hash;

	if (!is_job_ok(r, NULL, e) || !read_idempotency(r, false, &key, &hash))
		return;
	if (key.n > 0) {
		MSG_SET(e, enqueue, idempotency_key, key);
		MSG_SET(e, enqueue, idempotency_hash, hash);
	}
	job_give_ids(r->h, &r->arena, e);
	r->state = e;
	req_call_raftd(r, OP_ENQUEUE, e->queue, &msg_enqueue, e, on_enqueued);
}

void enqueue_one(struct req *r)
{
	struct m_enqueue *e = arena_zalloc(&r->arena, sizeof(*e));

	if (req_read(r, &msg_enqueue, e))
		enqueue_send(r, e);
}

/* --- several --- */

static void write_small_job(struct json_writer *w, const struct m_enqueue *e,
			    struct str id, const struct m_enqueue_reply *m)
{
	const char *state;

	jw_object(w);
	jw_key(w, "id");
	jw_str(w, id);
	jw_key(w, "queue");
	jw_str(w, e->queue);
	state = m != NULL ? enum_text(&enum_job_state, m->status) : NULL;
	if (state != NULL) {
		jw_key(w, "state");
		jw_cstr(w, state);
	}
	if (m != NULL && m->unique_existing) {
		jw_key(w, "unique_existing");
		jw_bool(w, true);
	}
	if (m != NULL && m->replaced) {
		jw_key(w, "replaced");
		jw_bool(w, true);
	}
	jw_object_end(w);
}

static void on_batch_enqueued(struct req *r, const struct rpc_reply *reply)
{
	const struct m_enqueue_batch *b = r->state;
	struct m_enqueue_batch_reply *m;
	struct json_style style = req_style(r);
	struct json_writer w;

	m = req_reply(r, &msg_enqueue_batch_reply, reply);
	if (m == NULL)
		return;
	if (m->job_ids_n != b->jobs_n) {
		req_fail_text(r, ERR_BAD_MESSAGE, STR_NULL);
		return;
	}
	r->x.replayed = m->replayed;
	w = req_json(r);
	jw_object(&w);
	msg_members_to_json(&msg_enqueue_batch_reply, m, &style, &w);
	jw_key(&w, "jobs");
	jw_array(&w);
	for (size_t i = 0; i < b->jobs_n; i++)
		write_small_job(&w, &b->jobs[i], m->job_ids[i],
				i < m->jobs_n ? &m->jobs[i] : NULL);
	jw_array_end(&w);
	jw_object_end(&w);
	req_answer(r, 201);
}

/* False: one of them was refused. */
static bool take_jobs(struct req *r, struct m_enqueue_batch *b)
{
	for (size_t i = 0; i < b->jobs_n; i++) {
		turn_open();
		turn_step();
		turn_close();
		if (!is_job_ok(r, b, &b->jobs[i]))
			return false;
		job_give_ids(r->h, &r->arena, &b->jobs[i]);
	}
	return true;
}

void h_enqueue_batch(struct req *r)
{
	struct m_enqueue_batch *b = arena_zalloc(&r->arena, sizeof(*b));
	struct str key;
	uint64_t hash;

	if (!req_read(r, &msg_enqueue_batch, b) ||
	    !read_idempotency(r, true, &key, &hash))
		return;
	if (key.n > 0) {
		MSG_SET(b, enqueue_batch, idempotency_key, key);
		MSG_SET(b, enqueue_batch, idempotency_hash, hash);
	}
	if (!take_jobs(r, b))
		return;
	if (MSG_HAS(b, enqueue_batch, batch))
		MSG_SET(b, enqueue_batch, batch_id, req_make_id(r, "batch_"));
	r->state = b;
	req_call_raftd(r, OP_ENQUEUE_BATCH,
		       b->jobs_n > 0 ? b->jobs[0].queue : STR_NULL,
		       &msg_enqueue_batch, b, on_batch_enqueued);
}

/* A body with a jobs array is a batch, on either route. */
void h_enqueue(struct req *r)
{
	struct json v, jobs;
	bool has_jobs;

	/* The word alone decides nothing; it saves the search for it. */
	turn_open();
	has_jobs = str_has(buf_str(&r->x.body), STR("\"jobs\""));
	turn_close();
	if (!has_jobs) {
		enqueue_one(r);
		return;
	}
	if (!req_read_json(r, false, &v))
		return;
	turn_open();
	has_jobs = json_member(v, "jobs", &r->arena, &jobs) &&
		   json_type_of(jobs) == JSON_ARRAY;
	turn_close();
	if (has_jobs)
		h_enqueue_batch(r);
	else
		enqueue_one(r);
}
