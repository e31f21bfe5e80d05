/*
 * POST /heartbeat. Clients send their jobs in one of two forms, a map from
 * id to members or a list of objects with a job_id; both become the same op.
 */
#include "req/req.h"
#include "routes/handlers.h"
#include "util/hmap.h"

/* --- reading --- */

/* False when a job is named twice; the answer could not hold both. */
static bool are_ids_unique(struct req *r, const struct m_heartbeat *m, int err)
{
	struct hmap seen = { 0 };
	size_t i;

	for (i = 0; i < m->jobs_n; i++)
		if (hmap_put(&seen, m->jobs[i].job_id, &m->jobs[i]) != NULL)
			break;
	hmap_done(&seen);
	if (i == m->jobs_n)
		return true;
	req_fail(r, err, "jobs: \"%.*s\" is given twice",
		 STR_ARG(m->jobs[i].job_id));
	return false;
}

/* A text that holds JSON stands for that JSON. */
static struct str parse_text(struct req *r, struct str raw)
{
	struct json v = { raw };
	struct json_error e;
	struct str text;

	if (raw.n == 0 || json_type_of(v) != JSON_STRING)
		return raw;
	text = json_string(v, &r->arena);
	return json_validate(text, LIMIT_JSON_DEPTH, &e) ? json_root(text).raw
							 : raw;
}

static bool read_list(struct req *r, struct json body, struct m_heartbeat *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd = req_reader(r, &why);
	int err = msg_from_json(&rd, &msg_heartbeat, body, m);

	if (err != 0) {
		req_fail_text(r, -err, buf_str(&why));
		return false;
	}
	for (size_t i = 0; i < m->jobs_n; i++) {
		struct m_beat *b = &m->jobs[i];

		b->progress = parse_text(r, b->progress);
		b->checkpoint = parse_text(r, b->checkpoint);
	}
	return true;
}

/* One entry of the map. */
static bool read_beat(struct req *r, struct str id, struct json v,
		      struct m_beat *b)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd = req_reader(r, &why);
	int err = 0;

	rd.under =
	    arena_printf(&r->arena, "jobs.%.*s.", (int)MIN(id.n, 64u), id.p);
	MSG_SET(b, beat, job_id, id);
	if (json_type_of(v) == JSON_NULL)
		err = msg_check(&msg_beat, b, &why);
	else if (json_type_of(v) == JSON_OBJECT)
		err = msg_from_json(&rd, &msg_beat, v, b);
	else {
		buf_printf(&why, "must be an object, not %s",
			   json_type_name(json_type_of(v)));
		err = -ERR_VALIDATION_ERROR;
	}
	b->job_id = id; /* whatever the object says */
	if (err == 0)
		return true;
	req_fail(r, -err, "jobs.%.*s: %.*s", (int)MIN(id.n, 64u), id.p,
		 STR_ARG(buf_str(&why)));
	return false;
}

static bool read_map(struct req *r, struct json jobs, struct m_heartbeat *m)
{
	struct json_iter it = json_iter(jobs);
	size_t n = json_count(jobs);
	struct json v;
	struct str id;

	if (n > LIMIT_HEARTBEAT_JOBS) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "jobs: must have at most %d members",
			 LIMIT_HEARTBEAT_JOBS);
		return false;
	}
	MSG_SET_LIST(m, heartbeat, jobs,
		     arena_zalloc(&r->arena, n * sizeof(*m->jobs)), 0);
	while (json_next_member(&it, &r->arena, &id, &v)) {
		if (!read_beat(r, id, v, &m->jobs[m->jobs_n]))
			return false;
		m->jobs_n++;
	}
	return true;
}

/*
 * The body without its jobs, so that the other members are read by the
 * table: their bytes, with an empty list in the place of the map.
 */
static struct json without_map(struct req *r, struct json body,
			       struct json jobs)
{
	size_t head = (size_t)(jobs.raw.p - body.raw.p);
	const char *tail = jobs.raw.p + jobs.raw.n;

	return json_root(
	    arena_printf(&r->arena, "%.*s[]%.*s", (int)head, body.raw.p,
			 (int)(body.raw.p + body.raw.n - tail), tail));
}

static bool read_heartbeat(struct req *r, struct m_heartbeat *m)
{
	struct json body, jobs;

	if (r->form != NULL)
		return req_read(r, &msg_heartbeat, m) &&
		       are_ids_unique(r, m, ERR_VALIDATION_ERROR);
	if (!req_read_json(r, true, &body))
		return false;
	if (!json_member(body, "jobs", &r->arena, &jobs) ||
	    json_type_of(jobs) != JSON_OBJECT)
		return read_list(r, body, m) &&
		       are_ids_unique(r, m, ERR_VALIDATION_ERROR);
	/* In a map the id is a member's name, which may stand once only. */
	return read_list(r, without_map(r, body, jobs), m) &&
	       read_map(r, jobs, m) && are_ids_unique(r, m, ERR_PARSE_ERROR);
}

/* --- answering --- */

enum beat_kind { BEAT_ACKED, BEAT_UNKNOWN, BEAT_CANCELED };

static enum beat_kind kind_of(const struct m_beat_reply *b)
{
	if (b->unknown)
		return BEAT_UNKNOWN;
	return str_is(b->status, "ok") ? BEAT_ACKED : BEAT_CANCELED;
}

static void write_ids(struct json_writer *w, const char *name,
		      const struct m_heartbeat_reply *m, enum beat_kind kind)
{
	jw_key(w, name);
	jw_array(w);
	for (size_t i = 0; i < m->jobs_n; i++)
		if (kind_of(&m->jobs[i]) == kind)
			jw_str(w, m->jobs[i].job_id);
	jw_array_end(w);
}

static void answer(struct req *r, const struct m_heartbeat_reply *m)
{
	struct json_style style = req_style(r);
	struct json_writer w;

	if (r->form != NULL) {
		req_answer_message(r, &msg_heartbeat_reply, m, 200);
		return;
	}
	w = req_json(r);
	jw_object(&w);
	jw_key(&w, "jobs");
	jw_object(&w);
	for (size_t i = 0; i < m->jobs_n; i++) {
		jw_key_str(&w, m->jobs[i].job_id);
		msg_to_json(&msg_beat_reply, &m->jobs[i], &style, &w);
	}
	jw_object_end(&w);
	write_ids(&w, "acked", m, BEAT_ACKED);
	write_ids(&w, "unknown", m, BEAT_UNKNOWN);
	write_ids(&w, "canceled", m, BEAT_CANCELED);
	jw_object_end(&w);
	req_answer(r, 200);
}

static void on_beaten(struct req *r, const struct rpc_reply *reply)
{
	struct m_heartbeat_reply *m = req_reply(r, &msg_heartbeat_reply, reply);

	if (m != NULL)
		answer(r, m);
}

void h_heartbeat(struct req *r)
{
	struct m_heartbeat *m = arena_zalloc(&r->arena, sizeof(*m));
	struct m_heartbeat_reply none = { 0 };

	if (!read_heartbeat(r, m) || !req_read_done(r))
		return;
	if (m->jobs_n == 0 && m->worker_id.n == 0)
		answer(r, &none);
	else
		req_call_raftd(r, OP_HEARTBEAT, STR_NULL, &msg_heartbeat, m,
			       on_beaten);
}
