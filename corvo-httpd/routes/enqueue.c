/*
 * POST /enqueue and /enqueue/batch. Ids are made here, so that a request that
 * is sent again after a crash of raftd names the same job.
 */
#include "proto/job_json.h"
#include "req/req.h"
#include "routes/handlers.h"
#include "util/hash.h"

/* Which job of a request is meant, in front of a refusal. */
static struct str place_of(struct req *r, const struct m_enqueue_batch *b,
			   const struct m_enqueue *e)
{
	if (b == NULL)
		return STR("");
	return arena_printf(&r->arena, "job %zu ", (size_t)(e - b->jobs));
}

static bool is_step_ok(struct req *r, struct str place,
		       const struct m_chain_step *s, const char *name)
{
	uint64_t max = r->h->set->max_payload_size;

	if (s == NULL || s->payload.n <= max)
		return true;
	req_fail(r, ERR_PAYLOAD_TOO_LARGE,
		 "%.*schain payload too large: %s for queue \"%.*s\" has %zu "
		 "bytes (max %llu)",
		 STR_ARG(place), name, STR_ARG(s->queue), s->payload.n,
		 (unsigned long long)max);
	return false;
}

static bool is_chain_ok(struct req *r, struct str place,
			const struct m_chain *c)
{
	for (size_t i = 0; i < c->steps_n; i++)
		if (!is_step_ok(r, place, &c->steps[i], "a step"))
			return false;
	return is_step_ok(r, place, c->on_failure, "on_failure") &&
	       is_step_ok(r, place, c->on_exit, "on_exit");
}

/* False: it was refused. b: the batch it is an item of, or NULL. */
static bool is_payload_ok(struct req *r, const struct m_enqueue_batch *b,
			  const struct m_enqueue *e)
{
	uint64_t max = r->h->set->max_payload_size;

	if (e->payload.n > max) {
		req_fail(r, ERR_PAYLOAD_TOO_LARGE,
			 "%.*spayload too large: %zu bytes (max %llu)",
			 STR_ARG(place_of(r, b, e)), e->payload.n,
			 (unsigned long long)max);
		return false;
	}
	if (!MSG_HAS(e, enqueue, chain))
		return true;
	return is_chain_ok(r, place_of(r, b, e), e->chain);
}

/* The same. */
static bool is_delay_ok(struct req *r, const struct m_enqueue_batch *b,
			const struct m_enqueue *e)
{
	if (!MSG_HAS(e, enqueue, delay) || !MSG_HAS(e, enqueue, scheduled_at))
		return true;
	req_fail(r, ERR_VALIDATION_ERROR,
		 "%.*sdelay: may not stand beside scheduled_at",
		 STR_ARG(place_of(r, b, e)));
	return false;
}

static void give_ids(struct req *r, struct m_enqueue *e)
{
	MSG_SET(e, enqueue, job_id, req_make_id(r, "job_"));
	if (MSG_HAS(e, enqueue, chain))
		MSG_SET(e, enqueue, chain_id, req_make_id(r, "chn_"));
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

/* Of a remote call: what it says is a text, "duplicate" among them. */
static void answer_call(struct req *r, const struct m_enqueue_reply *m)
{
	struct m_enqueue_answer a = { 0 };

	MSG_SET(&a, enqueue_answer, job_id, m->job_id);
	MSG_SET(&a, enqueue_answer, status,
		m->unique_existing
		    ? STR("duplicate")
		    : str_from(enum_text(&enum_job_state, m->status)));
	MSG_SET(&a, enqueue_answer, unique_existing, m->unique_existing);
	MSG_SET(&a, enqueue_answer, batch_id, m->batch_id);
	MSG_SET(&a, enqueue_answer, replaced, m->replaced);
	MSG_SET(&a, enqueue_answer, replayed, m->replayed);
	req_answer_message(r, &msg_enqueue_answer, &a, 201);
}

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
	struct m_job job;

	if (m == NULL)
		return;
	r->x.replayed = m->replayed;
	if (r->form != NULL) {
		answer_call(r, m);
		return;
	}
	if (m->unique_existing) {
		answer_duplicate(r, m);
		return;
	}
	job_from_enqueue(e, m, &job);
	w = req_json(r);
	jw_object(&w);
	msg_members_to_json(&msg_enqueue_reply, m, &style, &w);
	jw_key(&w, "job");
	job_to_json(&job, &style, &w);
	jw_object_end(&w);
	req_answer(r, 201);
}

void enqueue_one(struct req *r)
{
	struct m_enqueue *e = arena_zalloc(&r->arena, sizeof(*e));
	struct str key;
	uint64_t hash;

	if (!req_read(r, &msg_enqueue, e) || !is_payload_ok(r, NULL, e) ||
	    !is_delay_ok(r, NULL, e) ||
	    !read_idempotency(r, false, &key, &hash))
		return;
	if (key.n > 0) {
		MSG_SET(e, enqueue, idempotency_key, key);
		MSG_SET(e, enqueue, idempotency_hash, hash);
	}
	give_ids(r, e);
	r->state = e;
	req_call_raftd(r, OP_ENQUEUE, e->queue, &msg_enqueue, e, on_enqueued);
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
	for (size_t i = 0; i < b->jobs_n; i++) {
		if (!is_payload_ok(r, b, &b->jobs[i]) ||
		    !is_delay_ok(r, b, &b->jobs[i]))
			return;
		give_ids(r, &b->jobs[i]);
	}
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

	/* The word alone decides nothing; it saves the search for it. */
	if (r->x.body.n == 0 ||
	    memmem(r->x.body.p, r->x.body.n, "\"jobs\"", 6) == NULL) {
		enqueue_one(r);
		return;
	}
	if (!req_read_json(r, false, &v))
		return;
	if (json_member(v, "jobs", &r->arena, &jobs) &&
	    json_type_of(jobs) == JSON_ARRAY)
		h_enqueue_batch(r);
	else
		enqueue_one(r);
}
