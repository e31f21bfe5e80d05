/*
 * See rpc/flow.h. What comes in is hostile.
 */
#include "rpc/flow.h"

#include "front/stream.h"
#include "rpc/form/gzip.h"
#include "util/base64.h"

struct flow {
	struct req *r;
	struct remote *c;
	struct stream *out;
	const struct flow_ops *ops;
	void *ctx;
	struct stream_kind kind;
	struct buf in;  /* an envelope that has not come completely */
	size_t at;      /* of it: handed on */
	size_t untaken; /* bytes the front waits to hear of */
	size_t kept;    /* bytes its reader has */
	struct loop_timer *again;
	bool is_paused;
	bool is_reading; /* messages are being handed on */
	bool has_all;    /* the client has ended its side */
	bool told_end;
	bool is_ending;
};

/* --- memory --- */

static void count(struct flow *f)
{
	f->r->x.work_n =
	    arena_bytes(&f->r->arena) + f->in.cap + f->kept + sizeof(*f);
	exchange_count(&f->r->x);
}

void flow_keeps(struct flow *f, size_t n)
{
	f->kept = n;
	count(f);
}

/* --- in --- */

/* What is left of the body is thrown away. */
static void drop_input(struct flow *f)
{
	buf_done(&f->in);
	f->at = 0;
	if (f->untaken > 0)
		exchange_took(&f->r->x, f->untaken);
	f->untaken = 0;
}

/* One that waits for its reader holds the client back; an incomplete one does
 * not, or it would never be complete. */
static void take(struct flow *f)
{
	size_t left = f->in.n - f->at, hold = f->is_paused ? left : 0, n;

	if (f->at > 0) {
		memmove(f->in.p, f->in.p + f->at, left);
		f->in.n = left;
		f->at = 0;
	}
	if (left == 0)
		buf_shrink(&f->in, LIMIT_SMALL_BYTES);
	hold = MIN(hold, f->untaken);
	n = f->untaken - hold;
	f->untaken = hold;
	count(f);
	if (n > 0)
		exchange_took(&f->r->x, n);
}

static void hand_on_packed(struct flow *f, struct str data)
{
	_cleanup_(buf_done) struct buf plain = BUF_INIT(0);
	int err = gzip_unpack(data, LIMIT_BODY_BYTES, &plain);

	if (err < 0)
		flow_end(f, -err,
			 err == -ERR_PARSE_ERROR
			     ? STR("a message is not packed by gzip, or not "
				   "completely")
			     : STR("a message is larger than 16 MiB"));
	else
		f->ops->message(f->ctx, buf_str(&plain));
}

static void hand_on(struct flow *f, const struct envelope *e)
{
	if ((e->flags & ~ENVELOPE_PACKED) != 0 ||
	    ((e->flags & ENVELOPE_PACKED) != 0 && !f->c->unpacks))
		flow_end(f, ERR_PARSE_ERROR,
			 STR("an envelope has flags that mean nothing here, "
			     "or is packed and no header says how"));
	else if ((e->flags & ENVELOPE_PACKED) != 0)
		hand_on_packed(f, e->data);
	else
		f->ops->message(f->ctx, e->data);
}

static void read_on(struct flow *f)
{
	struct envelope e;
	struct str rest;
	int n = 0;

	if (f->is_reading)
		return;
	f->is_reading = true;
	while (!f->is_paused && !f->is_ending) {
		rest = str_of(f->in.p + f->at, f->in.n - f->at);
		n = envelope_next(&rest, LIMIT_BODY_BYTES, &e);
		if (n <= 0)
			break;
		f->at = f->in.n - rest.n;
		hand_on(f, &e);
	}
	f->is_reading = false;
	if (n < 0)
		flow_end(f, -n,
			 n == -ERR_BODY_TOO_LARGE
			     ? STR("a message is larger than 16 MiB")
			     : STR("an envelope has flags that mean nothing"));
	if (f->is_ending) {
		drop_input(f);
		return;
	}
	take(f);
	if (!f->has_all || f->is_paused || f->told_end)
		return;
	f->told_end = true;
	if (f->in.n > 0)
		flow_end(f, ERR_PARSE_ERROR,
			 STR("the last message has not come completely"));
	else
		f->ops->ended(f->ctx);
}

void flow_feed(struct flow *f, struct str bytes)
{
	if (f->is_ending) {
		exchange_took(&f->r->x, bytes.n);
		return;
	}
	f->untaken += bytes.n;
	if (!exchange_fits_more(&f->r->x, bytes.n)) {
		flow_end(f, ERR_OVERLOADED, REQ_NO_ROOM);
		drop_input(f);
		return;
	}
	buf_put_str(&f->in, bytes);
	read_on(f);
}

void flow_feed_end(struct flow *f)
{
	f->has_all = true;
	if (!f->is_ending)
		read_on(f);
}

void flow_pause(struct flow *f)
{
	f->is_paused = true;
}

static void on_again(void *ctx)
{
	struct flow *f = ctx;

	if (!f->is_paused && !f->is_ending)
		read_on(f);
}

void flow_go(struct flow *f)
{
	if (!f->is_paused)
		return;
	f->is_paused = false;
	if (!f->is_reading)
		loop_timer_arm(f->again, 0);
}

/* --- out --- */

size_t flow_room(const struct flow *f)
{
	return stream_room(f->out);
}

/* What is written at once is one piece of base64, if it is that. */
static void write_out(struct flow *f, struct str bytes)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	if (f->c->form.is_text) {
		base64_write(&text, bytes, true);
		bytes = buf_str(&text);
	}
	stream_write(f->out, bytes);
}

void flow_send(struct flow *f, const struct pb_desc *d, const void *m)
{
	struct buf *b = &f->r->h->scratch;

	if (f->is_ending)
		return;
	buf_clear(b);
	remote_put(f->c, d, m, b);
	write_out(f, buf_str(b));
}

bool flow_is_ending(const struct flow *f)
{
	return f->is_ending;
}

void flow_end(struct flow *f, int err, struct str text)
{
	_cleanup_(buf_done) struct buf last = BUF_INIT(0);
	struct rpc_status s = { 0 };

	if (f->is_ending)
		return;
	f->is_ending = true;
	if (err != 0)
		s = remote_status(err, text);
	f->r->x.err = err;
	if (f->c->form.protocol == RPC_GRPC) {
		remote_set_trailers(f->r, &s);
	} else {
		remote_put_end(f->c, &s, &last);
		write_out(f, buf_str(&last));
	}
	stream_end(f->out);
}

static void on_room(void *ctx)
{
	struct flow *f = ctx;

	if (!f->is_ending)
		f->ops->room(f->ctx);
}

static void on_closed(void *ctx)
{
	struct flow *f = ctx;

	f->is_ending = true;
	f->ops->closed(f->ctx);
	loop_timer_remove(f->again);
	buf_done(&f->in);
}

static const struct stream_ops stream_ops = {
	.on_room = on_room,
	.on_closed = on_closed,
};

/* An empty message in its envelope. */
static struct str empty_message(const struct rpc_form *form)
{
	if (form->is_text)
		return STR("AAAAAAA=");
	return form->is_json ? STR("\0\0\0\0\2{}") : STR("\0\0\0\0\0");
}

struct flow *flow_begin(struct req *r, const struct flow_ops *ops, void *ctx,
			bool keepalive)
{
	struct flow *f = arena_zalloc(&r->arena, sizeof(*f));
	struct rpc_status gone = remote_status(ERR_SHUTTING_DOWN, STR_NULL);

	f->r = r;
	f->c = remote_of(r);
	f->c->flow = f;
	f->ops = ops;
	f->ctx = ctx;
	f->kind.content_type = form_content_type(&f->c->form);
	if (keepalive)
		f->kind.keepalive = empty_message(&f->c->form);
	f->again = loop_timer_add(r->h->d->loop, on_again, f);
	remote_name_coding(r);
	/* for the case that it is ended by others */
	if (f->c->form.protocol == RPC_GRPC)
		remote_set_trailers(r, &gone);
	f->out = req_answer_pieces(r, &f->kind, &stream_ops, f);
	return f;
}
