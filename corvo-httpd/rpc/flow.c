/*
 * See rpc/flow.h. What comes in is hostile.
 */
#include "rpc/flow.h"

#include "front/intake.h"
#include "front/memory.h"
#include "front/server.h"
#include "front/stream.h"
#include "req/guarded.h"
#include "rpc/form/gzip.h"
#include "rt/turns.h"
#include "util/base64.h"
#include "util/clock.h"
#include "util/turn.h"

#define RATE_NS (10 * NS_PER_MS) /* who asks too often is looked at again */

struct flow {
	struct req *r;
	struct remote *c;
	struct stream *out;
	const struct flow_ops *ops;
	void *ctx;
	struct stream_kind kind;
	struct buf in;          /* an envelope that has not come completely */
	size_t at;              /* of it: handed on */
	size_t untaken;         /* bytes the front waits to hear of */
	size_t kept;            /* bytes its reader has */
	struct turn_work *work; /* on a large message; NULL: on none */
	bool work_failed;       /* a check of ours */
	struct buf message;     /* as it came */
	struct buf plain;       /* unpacked */
	bool is_packed;
	struct loop_timer *again;
	struct loop_timer *limit;
	uint64_t part_ns; /* since when a message is here in part; 0: none */
	bool is_paused;
	bool is_over_rate; /* paused because its client asks too often */
	bool is_reading;   /* messages are being handed on */
	bool has_begun;    /* bytes have come */
	bool has_all;      /* the client has ended its side */
	bool told_end;
	bool is_ending;
};

/* --- memory --- */

static void count(struct flow *f)
{
	f->r->x.work_n = arena_bytes(&f->r->arena) + f->in.cap + f->kept +
			 sizeof(*f) + f->message.cap + f->plain.cap;
	exchange_count(&f->r->x);
}

void flow_keeps(struct flow *f, size_t n)
{
	f->kept = n;
	count(f);
}

bool flow_is_crowded(const struct flow *f)
{
	return f->kept > LIMIT_SMALL_BYTES &&
	       memory_is_short(server_memory(f->r->x.server));
}

/* --- time --- */

/* A message has to come as soon as a request would, and all before the client
 * gives up. */
static void arm_limit(struct flow *f)
{
	uint64_t now = clock_mono_ns(), by = UINT64_MAX;

	if (f->r->deadline_ns != 0)
		by = f->r->deadline_ns;
	if (f->part_ns != 0)
		by = MIN(by, f->part_ns + f->r->h->set->request_timeout);
	if (by == UINT64_MAX)
		loop_timer_disarm(f->limit);
	else
		loop_timer_arm(f->limit, by > now ? by - now : 0);
}

static void on_limit(void *ctx)
{
	struct flow *f = ctx;
	uint64_t by = f->r->deadline_ns;

	flow_end(f, ERR_REQUEST_TIMEOUT,
		 by != 0 && clock_mono_ns() >= by
		     ? STR("the deadline of the call is over")
		     : STR("a message did not come completely in time"));
}

static void note_part(struct flow *f, bool is_part)
{
	if (is_part == (f->part_ns != 0))
		return;
	f->part_ns = is_part ? clock_mono_ns() : 0;
	arm_limit(f);
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

/* No message is to be handed on now. */
static bool is_held(const struct flow *f)
{
	return f->is_paused || f->work != NULL;
}

/* One that waits for its reader holds the client back; an incomplete one does
 * not, or it would never be complete. */
static void take(struct flow *f)
{
	size_t left = f->in.n - f->at, hold = is_held(f) ? left : 0, n;

	if (f->at > 0) {
		memmove(f->in.p, f->in.p + f->at, left);
		f->in.n = left;
		f->at = 0;
	}
	if (left == 0)
		buf_shrink(&f->in, LIMIT_SMALL_BYTES);
	note_part(f, left > 0 && !is_held(f));
	hold = MIN(hold, f->untaken);
	n = f->untaken - hold;
	f->untaken = hold;
	count(f);
	if (n > 0)
		exchange_took(&f->r->x, n);
}

static void read_on(struct flow *f);

static bool fits(void *ctx, const struct buf *out, size_t n)
{
	struct flow *f = ctx;

	count(f);
	return exchange_fits_grown(&f->r->x, out, n);
}

/* False: the stream ends. */
static bool unpack(struct flow *f)
{
	struct str packed = buf_str(&f->message);
	const struct gzip_limit l = { gzip_most(packed.n), fits, f };
	int err;

	turn_open();
	err = gzip_unpack_by(packed, &l, &f->plain);
	turn_close();
	intake_message(&f->r->x, f->plain.n);
	if (err < 0)
		flow_end(f, -err, remote_unpack_text(err));
	return err == 0;
}

static void take_large(_unused_ struct req *r, void *arg)
{
	struct flow *f = arg;

	if (!f->is_packed)
		f->ops->message(f->ctx, buf_str(&f->message));
	else if (unpack(f) && !f->is_ending) /* which it may do meanwhile */
		f->ops->message(f->ctx, buf_str(&f->plain));
}

/* Not on the thread of the loop, where the guard of the request stands. */
static void work(void *ctx)
{
	struct flow *f = ctx;

	f->work_failed = !req_try(f->r, take_large, f);
}

static void after_work(_unused_ struct req *r, void *arg)
{
	struct flow *f = arg;

	buf_done(&f->message);
	buf_done(&f->plain);
	count(f);
	if (!f->is_ending)
		read_on(f);
}

static void on_worked(void *ctx)
{
	struct flow *f = ctx;

	f->work = NULL;
	if (f->work_failed)
		req_give_up(f->r);
	else
		req_guarded(f->r, after_work, f);
}

static void end_for_stop(_unused_ struct req *r, void *arg)
{
	flow_end(arg, ERR_SHUTTING_DOWN, STR_NULL);
}

static void on_time_is_up(void *ctx)
{
	struct flow *f = ctx;

	turns_hurry(f->work);
	req_guarded(f->r, end_for_stop, f);
}

static const struct turn_ops work_ops = {
	.work = work,
	.done = on_worked,
	.time_is_up = on_time_is_up,
};

/* What is large, or may become it, is read in turns with all else. */
static void hand_on_large(struct flow *f, const struct envelope *e)
{
	if (!exchange_fits_work(&f->r->x, e->data.n)) {
		flow_end(f, ERR_OVERLOADED, REQ_NO_ROOM);
		return;
	}
	buf_put_str(&f->message, e->data);
	f->is_packed = (e->flags & ENVELOPE_PACKED) != 0;
	f->work = turns_add(f->r->h->turns, &work_ops, f);
	if (!f->is_packed)
		intake_message(&f->r->x, 0);
}

static void hand_on(struct flow *f, const struct envelope *e)
{
	if ((e->flags & ~ENVELOPE_PACKED) != 0 ||
	    ((e->flags & ENVELOPE_PACKED) != 0 && !f->c->unpacks)) {
		flow_end(f, ERR_PARSE_ERROR,
			 STR("an envelope has flags that mean nothing here, "
			     "or is packed and no header says how"));
	} else if ((e->flags & ENVELOPE_PACKED) != 0 ||
		   e->data.n > LIMIT_SMALL_BYTES) {
		hand_on_large(f, e);
	} else {
		f->ops->message(f->ctx, e->data);
		intake_message(&f->r->x, 0);
	}
}

static bool is_ready(struct flow *f)
{
	f->is_over_rate = intake_must_wait(&f->r->x);
	if (f->is_over_rate)
		loop_timer_arm(f->again, RATE_NS);
	f->is_paused = f->is_over_rate ||
		       (f->ops->ready != NULL && !f->ops->ready(f->ctx));
	return !f->is_paused;
}

static void read_on(struct flow *f)
{
	struct envelope e;
	struct str rest;
	int n = 0;

	if (f->is_reading)
		return;
	f->is_reading = true;
	while (!is_held(f) && !f->is_ending) {
		rest = str_of(f->in.p + f->at, f->in.n - f->at);
		n = envelope_next(&rest, LIMIT_BODY_BYTES, &e);
		if (n <= 0 || !is_ready(f))
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
	if (!f->has_all || is_held(f) || f->told_end)
		return;
	f->told_end = true;
	if (f->in.n > 0)
		flow_end(f, ERR_PARSE_ERROR,
			 STR("the last message has not come completely"));
	else
		f->ops->ended(f->ctx);
}

static void begin_once(struct flow *f)
{
	if (f->has_begun)
		return;
	f->has_begun = true;
	if (f->ops->begun != NULL && !f->is_ending)
		f->ops->begun(f->ctx);
}

void flow_feed(struct flow *f, struct str bytes)
{
	begin_once(f);
	if (f->is_ending) {
		exchange_took(&f->r->x, bytes.n);
		return;
	}
	f->untaken += bytes.n;
	if (!exchange_fits_grown(&f->r->x, &f->in, bytes.n)) {
		flow_end(f, ERR_OVERLOADED, REQ_NO_ROOM);
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

static void go_on(_unused_ struct req *r, void *arg)
{
	struct flow *f = arg;

	if (f->is_over_rate) /* that was to wait for a moment */
		f->is_over_rate = f->is_paused = false;
	if (!f->is_paused && !f->is_ending)
		read_on(f);
}

static void on_again(void *ctx)
{
	struct flow *f = ctx;

	req_guarded(f->r, go_on, f);
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
	struct buf *b = &f->r->h->frame;

	if (f->is_ending)
		return;
	buf_clear(b);
	remote_put(f->c, d, m, b);
	write_out(f, buf_str(b));
	buf_shrink(b, STREAM_BUFFER_BYTES);
}

bool flow_is_ending(const struct flow *f)
{
	return f->is_ending;
}

/* How it ended: trailers, or the last envelope. */
static void put_end(struct flow *f, int err, struct str text, struct buf *out)
{
	struct rpc_status s = { 0 };

	f->is_ending = true;
	f->r->x.err = err;
	if (err != 0)
		s = remote_status(err, text);
	if (f->c->form.protocol == RPC_GRPC)
		remote_set_trailers(f->r, &s);
	else
		remote_put_end(f->c, &s, out);
}

void flow_end(struct flow *f, int err, struct str text)
{
	_cleanup_(buf_done) struct buf last = BUF_INIT(0);

	if (f->is_ending)
		return;
	put_end(f, err, text, &last);
	write_out(f, buf_str(&last));
	stream_end(f->out);
	if (!f->is_reading) /* else its reader does */
		drop_input(f);
}

/* The same where the stream is ended by others. */
static void explain(void *ctx, struct buf *out, int err)
{
	struct flow *f = ctx;
	_cleanup_(buf_done) struct buf last = BUF_INIT(0);

	put_end(f, err, STR_NULL, &last);
	if (f->c->form.is_text)
		base64_write(out, buf_str(&last), true);
	else
		buf_put_str(out, buf_str(&last));
}

static void tell_room(_unused_ struct req *r, void *arg)
{
	struct flow *f = arg;

	if (!f->is_ending)
		f->ops->room(f->ctx);
}

static void on_room(void *ctx)
{
	struct flow *f = ctx;

	req_guarded(f->r, tell_room, f);
}

static void tell_stop(_unused_ struct req *r, void *arg)
{
	struct flow *f = arg;

	if (f->ops->stop != NULL)
		f->ops->stop(f->ctx);
	else
		flow_end(f, ERR_SHUTTING_DOWN, STR_NULL);
}

static void on_stop(void *ctx)
{
	struct flow *f = ctx;

	req_guarded(f->r, tell_stop, f);
}

/* What was given up may have been a reader of its messages. */
static void on_broken(struct req *r)
{
	struct flow *f = remote_of(r)->flow;

	f->is_reading = false;
	flow_end(f, ERR_INTERNAL_ERROR,
		 STR("the stream failed a check of the server; its log says "
		     "which"));
}

static void on_closed(void *ctx)
{
	struct flow *f = ctx;

	f->is_ending = true;
	if (f->work != NULL)
		turns_drop(f->r->h->turns, f->work);
	f->ops->closed(f->ctx);
	buf_done(&f->message);
	buf_done(&f->plain);
	loop_timer_remove(f->again);
	loop_timer_remove(f->limit);
	buf_done(&f->in);
}

static const struct stream_ops stream_ops = {
	.on_room = on_room,
	.on_stop = on_stop,
	.on_closed = on_closed,
};

/* An empty message in its envelope. */
static struct str empty_message(const struct rpc_form *form)
{
	if (form->is_text)
		return STR("AAAAAAA=");
	return form->is_json ? STR("\0\0\0\0\2{}") : STR("\0\0\0\0\0");
}

bool flow_may_begin(struct req *r)
{
	if (r->h->draining)
		req_fail_text(r, ERR_SHUTTING_DOWN, STR_NULL);
	return !r->h->draining;
}

struct flow *flow_begin(struct req *r, const struct flow_ops *ops, void *ctx,
			bool keepalive)
{
	struct flow *f = arena_zalloc(&r->arena, sizeof(*f));

	f->r = r;
	f->c = remote_of(r);
	f->c->flow = f;
	r->broken = on_broken;
	f->ops = ops;
	f->ctx = ctx;
	f->kind.content_type = form_content_type(&f->c->form);
	f->kind.frame_end =
	    f->c->form.is_text ? envelope_end_text : envelope_end;
	f->kind.explain = explain;
	if (keepalive)
		f->kind.keepalive = empty_message(&f->c->form);
	f->again = loop_timer_add(r->h->d->loop, on_again, f);
	f->limit = loop_timer_add(r->h->d->loop, on_limit, f);
	remote_name_coding(r);
	f->out = req_answer_pieces(r, &f->kind, &stream_ops, f);
	if (r->deadline_ns != 0)
		arm_limit(f);
	return f;
}
