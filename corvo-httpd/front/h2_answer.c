/*
 * Answers over HTTP/2. See front/h2_parts.h.
 *
 * The library asks for as much of an answer as the client's windows take. The
 * bytes of one with a fixed end go from where they are into what is sent; those
 * of a stream are taken as there is room.
 */
#include <strings.h>

#include "front/answer.h"
#include "front/exchange.h"
#include "front/h2_parts.h"
#include "front/intake.h"
#include "front/late.h"
#include "front/server.h"
#include "front/stream.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "util/clock.h"

/* --- heads and trailers --- */

static void nv_begin(struct h2s *all)
{
	buf_clear(&all->names);
	all->nv_n = 0;
}

/* Places in names: it may move while it grows. */
static void nv_add(void *ctx, const char *name, const char *value)
{
	struct h2s *all = ctx;
	size_t name_n = strlen(name), value_n = strlen(value);
	char *p;

	if (all->nv_n == all->nv_cap) {
		all->nv_cap = MAX(all->nv_cap * 2, (size_t)32);
		all->nv = xrealloc(all->nv, all->nv_cap * sizeof(all->nv[0]));
	}
	all->nv[all->nv_n++] =
	    (nghttp2_nv){ .namelen = name_n, .valuelen = value_n };
	p = buf_reserve(&all->names, name_n + value_n);
	for (size_t i = 0; i < name_n; i++)
		p[i] = name[i] >= 'A' && name[i] <= 'Z'
			   ? (char)(name[i] - 'A' + 'a')
			   : name[i];
	memcpy(p + name_n, value, value_n);
	all->names.n += name_n + value_n;
}

static const nghttp2_nv *nv_end(struct h2s *all)
{
	uint8_t *p = (uint8_t *)all->names.p;

	for (size_t i = 0; i < all->nv_n; i++) {
		nghttp2_nv *nv = &all->nv[i];

		nv->name = p;
		nv->value = p + nv->namelen;
		p += nv->namelen + nv->valuelen;
	}
	return all->nv;
}

static void add_number(struct h2s *all, const char *name, uint64_t n)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(32);

	buf_put_u64(&b, n);
	buf_putc(&b, '\0');
	nv_add(all, name, b.p);
}

static bool has_length(const struct exchange *x)
{
	return x->stream == NULL && x->trailers_n == 0 && x->status != 204;
}

/* --- bodies --- */

/* Nothing comes behind what was said; trailers do, if there are any. */
static void end_body(struct h2_stream *st, uint32_t *flags)
{
	const struct exchange *x = st->x;
	struct h2s *all = st->h->owner;

	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (x->trailers_n == 0)
		return;
	*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	nv_begin(all);
	for (size_t i = 0; i < x->trailers_n; i++)
		nv_add(all, x->trailers[i].name, x->trailers[i].value);
	(void)nghttp2_submit_trailer(st->h->session, st->id, nv_end(all),
				     all->nv_n);
}

uint64_t h2_sent_to(const struct h2 *h)
{
	const struct h2s *all = h->owner;

	return h->sent_n + h->rest.n + (all->gathers == h ? all->out.n : 0);
}

static ssize_t take_stream(struct h2_stream *st, char *to, size_t max,
			   uint32_t *flags)
{
	ssize_t n = stream_take(st->x->stream, to, max);

	switch (n) {
	case STREAM_NOTHING:
		st->deferred = true;
		h2_place_rests(st);
		return NGHTTP2_ERR_DEFERRED;
	case STREAM_OVER:
		end_body(st, flags);
		return 0;
	case STREAM_BROKEN:
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	default:
		st->taken += (size_t)n;
		h2_place_moved(st);
		st->sent_to = h2_sent_to(st->h) + (uint64_t)n;
		return n;
	}
}

/* The source is not asked: a stream may be gone when the library is not. */
static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to,
		       size_t max, uint32_t *flags,
		       _unused_ nghttp2_data_source *source, _unused_ void *ctx)
{
	struct h2_stream *st =
	    nghttp2_session_get_stream_user_data(session, id);
	size_t left;

	if (st == NULL || st->x == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (st->x->stream != NULL)
		return take_stream(st, (char *)to, max, flags);
	left = st->x->out.n - st->taken;
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (left <= max)
		end_body(st, flags);
	return (ssize_t)MIN(left, max);
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame,
			const uint8_t *head, size_t n,
			_unused_ nghttp2_data_source *source, void *ctx)
{
	struct h2 *h = ctx;
	struct h2_stream *st =
	    nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	struct buf *out = &h->owner->out;

	if (st == NULL || st->x == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	CHECK(frame->data.padlen == 0 && n <= st->x->out.n - st->taken);
	buf_append(out, head, 9);
	if (n > 0)
		buf_append(out, st->x->out.p + st->taken, n);
	st->taken += n;
	h2_place_moved(st);
	st->sent_to = h2_sent_to(h);
	/* it would go on with all that the client's windows take */
	return out->n >= H2_WRITE_BYTES ? NGHTTP2_ERR_PAUSE : 0;
}

/*
 * To make us take requests back is as good as to do it. One beyond the number
 * that was agreed on may have been sent before that was known.
 */
static void note_reset(struct h2 *h, uint32_t code)
{
	if (code == NGHTTP2_REFUSED_STREAM)
		h2_note_frame(h);
	else if (code != NGHTTP2_NO_ERROR && code != NGHTTP2_CANCEL)
		h2_note_reset(h);
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame,
		   void *ctx)
{
	struct h2 *h = ctx;
	struct h2_stream *st;

	if (frame->hd.type == NGHTTP2_RST_STREAM)
		note_reset(h, frame->rst_stream.error_code);
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	h2_limits_moved(&h->limits);
	if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
		return 0;
	st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (st == NULL)
		return 0;
	st->all_sent = true;
	/* answered before all of it has come: the rest is not wanted */
	if (!st->is_whole)
		(void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE,
						st->id, NGHTTP2_NO_ERROR);
	return 0;
}

void h2_answer_callbacks(nghttp2_session_callbacks *cb)
{
	nghttp2_session_callbacks_set_send_data_callback(cb, on_send_data);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
}

/* --- answers --- */

void h2_answer(struct h2_stream *st)
{
	static const nghttp2_data_provider body = { .read_callback = on_read };
	struct exchange *x = st->x;
	struct h2s *all = st->h->owner;
	const struct answer_to to = { nv_add, all };
	bool has_body =
	    strcmp(x->method, "HEAD") != 0 &&
	    (x->out.n > 0 || x->stream != NULL || x->trailers_n > 0);

	CHECK(x->answered && !st->submitted);
	st->submitted = true;
	nv_begin(all);
	add_number(all, ":status", (uint64_t)x->status);
	answer_headers(&to, x, server_date(x->server));
	if (has_length(x))
		add_number(all, "content-length", x->out.n);
	/* it fails only for a stream that is closed already */
	if (nghttp2_submit_response(st->h->session, st->id, nv_end(all),
				    all->nv_n, has_body ? &body : NULL) != 0)
		st->is_cut = true;
	h2_place_moved(st);
	buf_shrink(&x->body, LIMIT_SMALL_BYTES); /* what it was made of */
	exchange_count(x);
	intake_answer(x);
	h2_mark(st->h);
}

/* It has been told something else by now; but a stream that has only a head can
 * still end like that. */
static void refuse_answered(struct exchange *x, int err, struct str text)
{
	if (!x->coming || x->stream == NULL || x->body_to == NULL ||
	    x->came_n > 0)
		return;
	x->coming = false;
	x->body_to->refuse(x, err, text);
}

void h2_refuse(struct exchange *x, int err, struct str text)
{
	if (x->answered) {
		refuse_answered(x, err, text);
		return;
	}
	exchange_refused(x, err, text);
	late_remove(x);
	x->waiting = false;
	x->answered = true;
	h2_answer(x->h2);
}
