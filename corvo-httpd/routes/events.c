/*
 * The event log: a page of it, and as a stream that goes on. The query string
 * and Last-Event-ID come from clients. What a stream needs lives in its
 * request.
 */
#include "front/server.h"
#include "front/stream.h"
#include "req/event_filter.h"
#include "req/event_json.h"
#include "req/guarded.h"
#include "req/hub.h"
#include "req/req.h"
#include "routes/handlers.h"

#define PAGE_DEFAULT 100
/* Events a filter leaves out before the client is told where it is. */
#define SKIPPED_MAX 1000

/* --- filters --- */

/* A comma-separated argument; false when an error has been answered. */
static bool read_names(struct req *r, const char *name, struct event_names *ret)
{
	struct str rest = STR_NULL, item;
	size_t max = 1;

	if (!req_text_argument(r, name, &rest))
		return false;
	for (size_t i = 0; i < rest.n; i++)
		max += rest.p[i] == ',';
	ret->items = arena_alloc(&r->arena, max * sizeof(*ret->items));
	while (rest.n > 0) {
		(void)str_split(rest, ',', &item, &rest);
		item = str_trim(item);
		if (item.n > 0)
			ret->items[ret->n++] = item;
	}
	return true;
}

static bool read_types(struct req *r, struct event_filter *f)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct event_names l = { 0 };
	int err;

	if (!read_names(r, "types", &l))
		return false;
	err = event_filter_types(f, l.items, l.n, &why);
	if (err < 0)
		req_fail_text(r, -err, buf_str(&why));
	return err == 0;
}

static bool read_filter(struct req *r, struct event_filter *f)
{
	return read_names(r, "queues", &f->queues) &&
	       read_names(r, "job_ids", &f->job_ids) && read_types(r, f);
}

/* --- GET /cluster/events --- */

static void on_page(struct req *r, const struct rpc_reply *reply)
{
	struct m_events_reply *m = req_reply(r, &msg_events_reply, reply);
	const struct event_filter *f = r->state;
	struct json_writer w;

	if (m == NULL)
		return;
	w = req_json(r);
	jw_object(&w);
	jw_key(&w, "events");
	jw_array(&w);
	for (size_t i = 0; i < m->events_n; i++)
		if (event_filter_matches(f, &m->events[i]))
			event_to_json(&m->events[i], &w);
	jw_array_end(&w);
	jw_key(&w, "next");
	jw_u64(&w, m->next);
	jw_key(&w, "head_seq");
	jw_u64(&w, m->head_seq);
	if (m->lost) {
		jw_key(&w, "lost");
		jw_bool(&w, true);
	}
	jw_object_end(&w);
	req_answer(r, 200);
}

static void ask(struct req *r, uint64_t after_seq, uint64_t limit,
		req_reply_fn *then)
{
	struct m_events_ask m = { 0 };

	MSG_SET(&m, events_ask, after_seq, after_seq);
	MSG_SET(&m, events_ask, limit, (uint32_t)limit);
	req_call_raftd(r, QUERY_EVENTS, STR_NULL, &msg_events_ask, &m, then);
}

void h_cluster_events(struct req *r)
{
	struct event_filter *f = arena_zalloc(&r->arena, sizeof(*f));
	uint64_t after_seq = 0, limit = PAGE_DEFAULT;

	r->state = f;
	if (!read_filter(r, f) ||
	    !req_number_argument(r, "after_seq", 0, UINT64_MAX, &after_seq) ||
	    !req_number_argument(r, "limit", 1, UINT64_MAX, &limit))
		return;
	ask(r, after_seq, MIN(limit, (uint64_t)LIMIT_EVENTS_PAGE), on_page);
}

/* --- GET /events --- */

struct watch {
	struct req *r;
	struct stream *stream;
	struct hub_sub *sub;
	struct event_filter filter;
	bool resumed; /* the client named its place */
	uint64_t pos; /* last event seen */
	uint64_t told;
};

/* Where the client is: by header, which a browser sends, or by argument. */
static bool read_place(struct req *r, struct watch *w)
{
	const char *header = req_header(r, HEAD_LAST_EVENT_ID);
	struct str text = str_trim(str_from(header));

	if (text.n == 0 && !req_text_argument(r, "last_event_id", &text))
		return false;
	w->resumed = text.n > 0;
	if (!w->resumed || str_parse_u64(text, &w->pos))
		return true;
	req_fail(r, ERR_VALIDATION_ERROR,
		 "last_event_id: must be the id of an event of this stream");
	return false;
}

/* An id without an event: where to go on, for a client that is cut off. */
static void tell_place(struct watch *w)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(64);

	buf_printf(&b, "id: %llu\n\n", (unsigned long long)w->pos);
	stream_write(w->stream, buf_str(&b));
	w->told = w->pos;
}

static void write_more(_unused_ struct req *r, void *arg)
{
	struct watch *w = arg;
	struct m_event e;
	int n = 0;

	while (stream_room(w->stream) > 0 && (n = hub_next(w->sub, &e)) > 0) {
		w->pos = e.seq;
		if (event_filter_matches(&w->filter, &e)) {
			stream_write(w->stream, hub_frame(w->sub));
			w->told = e.seq;
		} else if (w->pos - w->told >= SKIPPED_MAX) {
			tell_place(w);
		}
	}
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

	hub_unsubscribe(w->sub);
}

static const struct stream_ops watch_ops = {
	.on_room = fill,
	.on_closed = on_closed,
};

/* The place is known and the log has it: whatever comes after is sent. */
static void on_place(struct req *r, const struct rpc_reply *reply)
{
	struct watch *w = r->state;

	if (!hub_place(r, reply, w->resumed, &w->pos))
		return;
	w->sub = hub_subscribe(r->h->hub, w->pos, fill, w);
	hub_charge(w->sub, &r->x);
	w->stream = req_answer_stream(r, &watch_ops, w);
	tell_place(w);
}

void h_events(struct req *r)
{
	struct watch *w = arena_zalloc(&r->arena, sizeof(*w));

	w->r = r;
	r->state = w;
	if (read_filter(r, &w->filter) && read_place(r, w))
		ask(r, w->pos, 1, on_place);
}
