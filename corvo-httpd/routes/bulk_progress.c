/*
 * GET /bulk/{id}/progress: a bulk operation as an event stream, for any number
 * of watchers. The first frame is what it is like now; one follows for each
 * event of it; the frame of its end is the last.
 *
 * Each frame tells all there is to know, so a client that comes back with
 * Last-Event-ID gets one frame for whatever it missed. The id and the header
 * come from clients. What a stream needs lives in its request.
 */
#include "front/stream.h"
#include "req/guarded.h"
#include "req/hub.h"
#include "req/req.h"
#include "routes/handlers.h"
#include "util/json.h"

struct watch {
	struct req *r;
	struct stream *stream;
	struct hub_sub *sub; /* NULL: it ends with what was written */
	struct str id;       /* of the operation */
};

/* What a frame says. */
struct state {
	enum bulk_status status;
	struct str action, error;
	uint64_t total, processed, affected, skipped;
	uint64_t at_ns;
	uint64_t seq;
};

static bool has_ended(const struct state *s)
{
	return s->status == BULK_COMPLETED || s->status == BULK_CANCELLED ||
	       s->status == BULK_FAILED;
}

/* of_event: what happened; an ended one is named by how it did. */
static const char *type_of(const struct state *s, enum event_type of_event)
{
	if (s->status == BULK_COMPLETED)
		return "bulk.async.completed";
	if (s->status == BULK_CANCELLED)
		return "bulk.async.cancelled";
	if (s->status == BULK_FAILED)
		return "bulk.async.failed";
	if (of_event == EVENT_BULK_STARTED)
		return "bulk.async.started";
	if (of_event == EVENT_BULK_PAUSED)
		return "bulk.async.paused";
	if (of_event == EVENT_BULK_RESUMED)
		return "bulk.async.resumed";
	return "bulk.async.progress";
}

static void put_number(struct json_writer *w, const char *name, uint64_t n)
{
	jw_key(w, name);
	jw_u64(w, n);
}

static void put_text(struct json_writer *w, const char *name, struct str text)
{
	jw_key(w, name);
	jw_str(w, text);
}

static void write_frame(struct watch *watch, const struct state *s,
			enum event_type of_event)
{
	_cleanup_(buf_done) struct buf data = BUF_INIT(0);
	_cleanup_(buf_done) struct buf frame = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&data);
	const char *type = type_of(s, of_event);

	jw_object(&w);
	put_text(&w, "type", str_from(type));
	put_text(&w, "task_id", watch->id);
	put_text(&w, "bulk_operation_id", watch->id);
	put_text(&w, "status",
		 str_from(enum_text(&enum_bulk_status, s->status)));
	put_text(&w, "action", s->action);
	put_number(&w, "total", s->total);
	put_number(&w, "processed", s->processed);
	put_number(&w, "affected", s->affected);
	put_number(&w, "skipped", s->skipped);
	put_number(&w, "percent",
		   s->total > 0 ? s->processed * 100 / s->total : 100);
	if (s->error.n > 0)
		put_text(&w, "error", s->error);
	put_number(&w, "created_at_ns", s->at_ns);
	jw_object_end(&w);
	stream_frame(&frame, s->seq, type, buf_str(&data));
	stream_write(watch->stream, buf_str(&frame));
	if (has_ended(s))
		stream_end(watch->stream);
}

/* --- events --- */

static void read_number(struct json v, const char *name, struct arena *a,
			uint64_t *ret)
{
	struct json n;

	if (json_member(v, name, a, &n))
		(void)json_u64(n, ret);
}

static struct str read_text(struct json v, const char *name, struct arena *a)
{
	struct json text;

	return json_member(v, name, a, &text) ? json_string(text, a) : STR_NULL;
}

/* The members are those the state machine wrote. */
static void state_of_event(const struct m_event *e, struct arena *a,
			   struct state *ret)
{
	struct json v = json_root(e->data);
	uint32_t status = BULK_RUNNING;

	*ret = (struct state){ .at_ns = e->at, .seq = e->seq };
	(void)enum_parse(&enum_bulk_status, read_text(v, "status", a), &status);
	ret->status = (enum bulk_status)status;
	ret->action = read_text(v, "action", a);
	ret->error = read_text(v, "error", a);
	read_number(v, "total", a, &ret->total);
	read_number(v, "processed", a, &ret->processed);
	read_number(v, "affected", a, &ret->affected);
	read_number(v, "skipped", a, &ret->skipped);
}

static void write_event(struct watch *w, const struct m_event *e)
{
	struct arena a = ARENA_INIT;
	struct state s;

	state_of_event(e, &a, &s);
	write_frame(w, &s, e->type);
	arena_done(&a);
}

static void write_more(_unused_ struct req *r, void *arg)
{
	struct watch *w = arg;
	struct m_event e;
	int n = 0;

	if (w->sub == NULL)
		return;
	while (stream_room(w->stream) > 0 && (n = hub_next(w->sub, &e)) > 0)
		if (str_eq(e.bulk_id, w->id))
			write_event(w, &e);
	if (stream_room(w->stream) == 0)
		hub_rest(w->sub);
	if (n < 0)
		stream_end_error(w->stream, ERR_EVENTS_LOST);
}

static void fill(void *ctx)
{
	struct watch *w = ctx;

	req_guarded(w->r, write_more, w);
}

static void on_closed(void *ctx)
{
	struct watch *w = ctx;

	if (w->sub != NULL)
		hub_unsubscribe(w->sub);
}

static const struct stream_ops watch_ops = {
	.on_room = fill,
	.on_closed = on_closed,
};

/* --- the beginning --- */

static void state_of_bulk(const struct m_bulk *m, struct state *ret)
{
	*ret = (struct state){
		.status = m->status,
		.action = str_from(enum_text(&enum_bulk_action, m->action)),
		.error = m->error,
		.total = m->total,
		.processed = m->processed,
		.affected = m->affected,
		.skipped = m->skipped,
		.at_ns = m->updated_at,
		.seq = m->event,
	};
}

/* The event a client has seen last; false when it names none. */
static bool read_place(struct req *r, uint64_t *ret)
{
	const char *header = req_header(r, HEAD_LAST_EVENT_ID);

	return header != NULL && str_parse_u64(str_trim(str_from(header)), ret);
}

static void on_bulk(struct req *r, const struct rpc_reply *reply)
{
	struct watch *w = r->state;
	struct m_bulk *m = req_reply(r, &msg_bulk, reply);
	uint64_t place;
	bool resumes;
	struct state s;

	if (m == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	resumes = read_place(r, &place);
	state_of_bulk(m, &s);
	if (resumes && place >= s.seq && has_ended(&s)) {
		req_answer_empty(r, 204); /* it has seen the end */
		return;
	}
	if (!has_ended(&s)) {
		w->sub = hub_subscribe(r->h->hub, reply->seq, fill, w);
		hub_charge(w->sub, &r->x);
	}
	w->stream = req_answer_stream(r, &watch_ops, w);
	if (!resumes)
		write_frame(w, &s, EVENT_BULK_STARTED);
	else if (place < s.seq)
		write_frame(w, &s, EVENT_BULK_PROGRESS);
}

void h_bulk_progress(struct req *r)
{
	struct watch *w = arena_zalloc(&r->arena, sizeof(*w));
	struct m_bulk_ref *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!req_read(r, &msg_bulk_ref, m))
		return;
	w->r = r;
	w->id = m->bulk_id;
	r->state = w;
	req_call_raftd(r, QUERY_GET_BULK, STR_NULL, &msg_bulk_ref, m, on_bulk);
}
