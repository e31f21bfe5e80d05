/*
 * Streams of HTTP/2 and the exchanges they are. See front/h2_parts.h.
 *
 * What the library tells comes inside of its calls; a stream is forgotten only
 * when the library has closed it, or at the end of a turn.
 */
#include <stdlib.h>
#include <strings.h>

#include "front/answer.h"
#include "front/exchange.h"
#include "front/h2_parts.h"
#include "front/intake.h"
#include "front/late.h"
#include "front/server.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "util/clock.h"

/* --- life --- */

static struct h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

static struct h2_stream *stream_new(struct h2 *h, int32_t id)
{
	struct h2_stream *st = xcalloc(1, sizeof(*st));

	st->h = h;
	st->id = id;
	st->cut_code = NGHTTP2_CANCEL;
	h2_head_init(&st->head);
	list_push_back(&h->streams, &st->node);
	h->streams_n++;
	h2_place_new(st);
	return st;
}

static void forget(struct h2_stream *st)
{
	struct h2 *h = st->h;

	if (!st->is_over)
		(void)nghttp2_session_set_stream_user_data(h->session, st->id,
							   NULL);
	list_remove(&st->node);
	h2_place_end(st);
	h2_head_done(&st->head);
	h->asked_n -= st->has_asked;
	h->streams_n--;
	if (!st->has_asked || h->asked_n > 0) {
		free(st);
		return;
	}
	free(st);
	conn_enter(h->conn, CONN_IDLE, clock_mono_ns());
	if (h->conn->is_extra)
		h2_goodbye(h);
}

void h2_stream_end(struct h2_stream *st, bool sent)
{
	struct exchange *x = st->x;

	st->x = NULL;
	if (x != NULL) {
		x->sent = sent;
		late_remove(x);
		exchange_end(x);
	}
	forget(st);
}

/* Nobody waits for its answer. */
static void leave(struct h2_stream *st)
{
	struct exchange *x = st->x;

	if (x != NULL && x->waiting) {
		x->waiting = false;
		x->unwanted = true;
		server_config(x->server)->ops->left(x);
	}
	h2_stream_end(st, false);
}

static bool is_held(const struct h2_stream *st)
{
	const struct exchange *x = st->x;

	return x != NULL && (x->outlives || x->in_turns) && x->waiting;
}

bool h2_streams_hold(const struct h2 *h)
{
	LIST_FOREACH (it, &h->streams)
		if (is_held(list_entry(it, struct h2_stream, node)))
			return true;
	return false;
}

/* What is in out, or in rest, does not arrive. */
static void end_unsent(struct h2 *h)
{
	LIST_FOREACH_SAFE (it, &h->done)
		h2_stream_end(list_entry(it, struct h2_stream, node), false);
}

void h2_streams_lost(struct h2 *h)
{
	end_unsent(h);
	LIST_FOREACH_SAFE (it, &h->streams) {
		struct h2_stream *st = list_entry(it, struct h2_stream, node);

		if (is_held(st))
			exchange_unwanted(st->x);
		else
			leave(st);
	}
}

void h2_streams_left(struct h2 *h)
{
	end_unsent(h);
	LIST_FOREACH_SAFE (it, &h->streams)
		leave(list_entry(it, struct h2_stream, node));
}

void h2_streams_drop_cut(struct h2 *h)
{
	LIST_FOREACH_SAFE (it, &h->streams) {
		struct h2_stream *st = list_entry(it, struct h2_stream, node);

		if (!st->is_cut)
			continue;
		if (!st->is_over)
			(void)nghttp2_submit_rst_stream(h->session,
							NGHTTP2_FLAG_NONE,
							st->id, st->cut_code);
		leave(st);
	}
}

/* --- heads --- */

static int on_begin(_unused_ nghttp2_session *session,
		    const nghttp2_frame *frame, void *ctx)
{
	struct h2 *h = ctx;
	struct h2_stream *st;

	if (frame->hd.type != NGHTTP2_HEADERS ||
	    frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	st = stream_new(h, frame->hd.stream_id);
	h->head_ns = clock_mono_ns();
	return nghttp2_session_set_stream_user_data(h->session, st->id, st);
}

/* They say nothing here, but a few bytes may stand for many long ones. */
static bool trailer_fits(struct h2_stream *st, size_t n)
{
	st->trailers_n += n + LIMIT_HEAD_ENTRY_BYTES;
	return st->trailers_n <= LIMIT_HEAD_BYTES;
}

static int refuse_headers(struct h2 *h)
{
	h2_end_by(h, H2_HEAD, NGHTTP2_ENHANCE_YOUR_CALM);
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
		     const uint8_t *name, size_t name_n, const uint8_t *value,
		     size_t value_n, _unused_ uint8_t flags, void *ctx)
{
	struct h2_stream *st = stream_of(session, frame->hd.stream_id);

	if (st == NULL)
		return 0;
	if (st->x != NULL
		? trailer_fits(st, name_n + value_n)
		: h2_head_add(&st->head, str_of((const char *)name, name_n),
			      str_of((const char *)value, value_n)))
		return 0;
	return refuse_headers(ctx);
}

/* The library would leave it out; but who names it again and again from its
 * table has it looked at each time. */
static int on_bad_header(nghttp2_session *session, const nghttp2_frame *frame,
			 _unused_ const uint8_t *name, size_t name_n,
			 _unused_ const uint8_t *value, size_t value_n,
			 _unused_ uint8_t flags, void *ctx)
{
	struct h2_stream *st = stream_of(session, frame->hd.stream_id);
	size_t n = name_n + value_n;

	if (st == NULL)
		return 0;
	if (st->x != NULL ? trailer_fits(st, n) : h2_head_add_bad(&st->head, n))
		return 0;
	return refuse_headers(ctx);
}

/* Refused for what the head says alone. */
static bool is_refused(struct h2_stream *st, int err)
{
	struct exchange *x = st->x;

	if (err != 0)
		h2_place_refuse(st, -err, str_from(st->head.why));
	else
		h2_place_find(st);
	return !x->coming;
}

/* An exchange has been given something, and may have an answer. */
static void after(struct h2_stream *st)
{
	struct exchange *x = st->x;

	if (x->abandoned)
		st->is_cut = true;
	else if (x->answered && !st->submitted)
		h2_answer(st);
	else if (!x->answered)
		x->waiting = true;
	h2_mark(st->h);
}

/* The end of what comes may be far off. Who has said that it is near is told
 * then: there are clients that lose an answer in the middle of what they send.
 */
static bool is_end_far(const struct exchange *x)
{
	return x->body_to != NULL || x->head.value[HEAD_CONTENT_LENGTH] == NULL;
}

static void refuse_head(struct h2_stream *st)
{
	if (!is_end_far(st->x))
		return;
	exchange_whole(st->x);
	after(st);
}

static void on_head(struct h2_stream *st)
{
	struct conn *c = st->h->conn;
	int err = h2_head_whole(&st->head);
	struct exchange *x = exchange_begin(c);
	const char *path = h2_head_text(&st->head, st->head.path);
	const char *method = h2_head_text(&st->head, st->head.method);

	st->h->head_ns = 0;
	st->has_asked = true;
	if (st->h->asked_n++ == 0)
		conn_enter(c, CONN_WORK, clock_mono_ns());
	st->x = x;
	x->h2 = st;
	x->method = method != NULL ? method : "";
	x->path = str_from(path != NULL ? path : "");
	h2_head_read(&st->head, &x->head);
	answer_name_request(x, server_rng(c->server));
	x->coming = true;
	x->head_n = h2_head_bytes(&st->head);
	exchange_count(x);
	if (is_refused(st, err))
		return;
	h2_place_coming(st);
	intake_head(x);
	if (!x->coming)
		return;
	if (x->refusal != 0) {
		refuse_head(st);
	} else if (x->body_to != NULL) {
		x->body_to->head(x);
		after(st);
	}
}

/* --- bodies --- */

static void open_window(struct h2_stream *st, size_t n)
{
	n = MIN(n, st->untaken);
	st->untaken -= n;
	if (!st->is_over && n > 0)
		(void)nghttp2_session_consume_stream(st->h->session, st->id, n);
	h2_mark(st->h);
}

static int on_data(nghttp2_session *session, _unused_ uint8_t flags, int32_t id,
		   const uint8_t *data, size_t n, void *ctx)
{
	struct h2 *h = ctx;
	struct h2_stream *st = stream_of(session, id);
	struct exchange *x = st != NULL ? st->x : NULL;

	(void)nghttp2_session_consume_connection(session, n);
	h2_limits_moved(&h->limits);
	if (x == NULL || h->closing_ns != 0)
		return 0;
	st->untaken += n;
	if (!x->coming) { /* refused: the rest is thrown away */
		open_window(st, n);
		return 0;
	}
	intake_body(x, (const char *)data, n);
	if (x->coming && !x->answered && !h2_place_body(st))
		return 0;
	if (x->body_to != NULL) {
		h2_place_came(st); /* it has begun, see rpc/flow.h */
		if (x->coming && x->answered && !st->submitted)
			after(st);
		return 0;
	}
	if (x->late_ns != 0)
		return 0; /* its window stays shut for a moment */
	if (intake_must_wait(x))
		late_read(x);
	else
		open_window(st, st->untaken);
	return 0;
}

static void on_whole(struct h2_stream *st)
{
	struct exchange *x = st->x;

	st->is_whole = true;
	h2_place_came(st);
	if (x == NULL || !x->coming)
		return;
	late_remove(x);
	x->reads_on = false;
	exchange_whole(x);
	after(st);
}

/* --- frames --- */

void h2_note_frame(struct h2 *h)
{
	if (!h2_limits_frame(&h->limits, clock_mono_ns()))
		h2_end_by(h, H2_FRAMES, NGHTTP2_ENHANCE_YOUR_CALM);
}

void h2_note_reset(struct h2 *h)
{
	if (!h2_limits_reset(&h->limits, clock_mono_ns()))
		h2_end_by(h, H2_RESETS, NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame,
		    void *ctx)
{
	struct h2 *h = ctx;
	struct h2_stream *st = NULL;
	bool ends = false;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		st = stream_of(session, frame->hd.stream_id);
		ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
		if (frame->hd.type == NGHTTP2_DATA && !ends &&
		    frame->hd.length <= frame->data.padlen)
			h2_note_frame(h); /* nothing, or only padding */
		break;
	case NGHTTP2_RST_STREAM:
		h2_note_reset(h);
		break;
	default:
		h2_note_frame(h);
	}
	if (st == NULL || h->closing_ns != 0)
		return 0;
	if (st->x == NULL)
		on_head(st);
	if (ends)
		on_whole(st);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id,
		    _unused_ uint32_t code, void *ctx)
{
	struct h2 *h = ctx;
	struct h2_stream *st = stream_of(session, id);

	if (st == NULL)
		return 0;
	h->head_ns = st->x == NULL ? 0 : h->head_ns;
	st->is_over = true;
	if (st->all_sent) { /* it is sent when out is */
		list_remove(&st->node);
		list_push_back(&h->done, &st->node);
		h2_limits_answered(&h->limits);
	} else if (is_held(st)) {
		exchange_unwanted(st->x);
	} else {
		leave(st);
	}
	h2_mark(h);
	return 0;
}

void h2_stream_callbacks(nghttp2_session_callbacks *cb)
{
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(cb,
								 on_bad_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
}

/* --- the front --- */

static void each_header(const struct exchange *x, head_header_fn *fn, void *ctx)
{
	h2_head_each(&x->h2->head, fn, ctx);
}

static const char *argument(const struct exchange *x, const char *name)
{
	return h2_head_argument(&x->h2->head, name);
}

static void each_argument(const struct exchange *x, head_name_fn *fn, void *ctx)
{
	h2_head_each_argument(&x->h2->head, fn, ctx);
}

static void resume(struct exchange *x)
{
	struct h2_stream *st = x->h2;

	CHECK(x->waiting);
	x->waiting = false;
	if (st->is_over || x->abandoned)
		st->is_cut = true; /* at the end of the turn */
	else
		h2_answer(st);
	h2_mark(st->h);
}

static void wake(struct exchange *x)
{
	struct h2_stream *st = x->h2;

	if (st->is_over)
		return;
	if (x->coming && x->body_to == NULL)
		open_window(st, st->untaken);
	if (st->deferred) {
		st->deferred = false;
		h2_place_moved(st);
		(void)nghttp2_session_resume_data(st->h->session, st->id);
	}
	h2_mark(st->h);
}

static void took(struct exchange *x, size_t n)
{
	open_window(x->h2, n);
}

static void cut(struct exchange *x)
{
	x->h2->is_cut = true;
	h2_mark(x->h2->h);
}

static bool is_gone(const struct exchange *x)
{
	return x->h2->is_over;
}

static bool progress(const struct exchange *x, uint64_t *ret)
{
	*ret = x->h2->taken;
	return true;
}

static uint64_t place(const struct exchange *x)
{
	return h2_sent_to(x->h2->h);
}

static bool is_past(const struct exchange *x, uint64_t at)
{
	return x->h2->h->sent_n >= at;
}

const struct front h2_front = {
	.name = "HTTP/2",
	.duplex = true,
	.notices = true,
	.each_header = each_header,
	.argument = argument,
	.each_argument = each_argument,
	.resume = resume,
	.wake = wake,
	.took = took,
	.refuse = h2_refuse,
	.cut = cut,
	.is_gone = is_gone,
	.progress = progress,
	.place = place,
	.is_past = is_past,
};
