/*
 * What processes and nodes send each other: messages on a link, whatever the
 * pieces they come in, frames in them, and entries of the log.
 */
#include "fuzz.h"
#include "proto/frame.h"
#include "rt/ipc_bytes.h"
#include "rt/ipc_head.h"

static void entry(struct str in)
{
	_cleanup_(buf_done) struct buf once = BUF_INIT(0);
	struct arena a = ARENA_INIT;
	struct frame_writer w;
	struct entry e, again;

	if (entry_decode(in, &a, &e) == 0) {
		CHECK(entry_format(in) == e.format);
		entry_begin_for(&w, &once, e.now_ns, e.seed, e.callers,
				e.callers_n);
		for (size_t i = 0; i < e.n; i++)
			entry_add(&w, &e.items[i]);
		entry_end(&w);
		CHECK(entry_decode(buf_str(&once), &a, &again) == 0);
		CHECK(again.n == e.n && again.callers_n == e.callers_n);
	}
	arena_done(&a);
}

static void frame(struct str in)
{
	struct arena a = ARENA_INIT;
	struct frame f;

	if (frame_decode(in, &a, &f) == 0)
		CHECK(f.kind >= FRAME_HELLO && f.kind <= FRAME_PART);
	arena_done(&a);
}

struct told {
	struct buf messages;
	bool is_bad;
};

static void take(struct ipc_rx *rx, struct str piece, struct told *t)
{
	struct str message;
	int r = 0;

	while (piece.n > 0 && !t->is_bad) {
		size_t n;

		ipc_rx_settle(rx);
		n = MIN(piece.n, rx->cap - rx->n);
		CHECK(n > 0);
		memcpy(rx->p + rx->n, piece.p, n);
		rx->n += n;
		piece = str_skip(piece, n);
		while ((r = ipc_rx_next(rx, &message)) > 0) {
			buf_printf(&t->messages, "%zu:", message.n);
			buf_put_str(&t->messages, message);
			frame(message);
		}
		t->is_bad = r < 0;
	}
}

static struct told link_of(struct str in, size_t piece)
{
	struct told t = { 0 };
	struct ipc_rx rx;

	ipc_rx_init(&rx);
	for (size_t at = 0; at < in.n; at += piece)
		take(&rx, str_of(in.p + at, MIN(piece, in.n - at)), &t);
	ipc_rx_done(&rx);
	return t;
}

static void links(struct str in, size_t piece)
{
	struct told all = link_of(in, in.n + 1), some = link_of(in, piece);

	CHECK(all.is_bad == some.is_bad);
	CHECK(str_eq(buf_str(&all.messages), buf_str(&some.messages)));
	buf_done(&all.messages);
	buf_done(&some.messages);
}

void fuzz_one(struct str in)
{
	switch (fuzz_choice(&in, 3)) {
	case 0:
		frame(in);
		break;
	case 1:
		entry(in);
		break;
	default:
		links(in, 1 + fuzz_choice(&in, 30));
	}
}

static void put_frame(struct rng *rng, struct buf *out)
{
	struct frame_request q = { .id = 7,
				   .op = OP_ACK,
				   .number = 7,
				   .key = STR("q"),
				   .body = STR("\x80") };
	struct frame_reply r = { .id = 7, .seq = 3, .body = STR("\x80") };
	struct frame_hello h = { .version = STR("0.4.0"), .origin = 5 };
	enum frame_kind kind =
	    (enum frame_kind)(FRAME_HELLO + rng_below(rng, 6));
	struct frame_writer w;

	frame_begin(&w, out, kind, 9);
	for (uint64_t n = rng_below(rng, 3); n > 0; n--) {
		if (kind == FRAME_REQUEST)
			frame_add_request(&w, &q);
		else if (kind == FRAME_FORWARD)
			frame_add_forward(&w, &q);
		else if (kind == FRAME_CANCEL)
			frame_add_cancel(&w, 7);
		else if (kind == FRAME_REPLY)
			frame_add_reply(&w, &r);
	}
	if (kind == FRAME_HELLO)
		frame_add_hello(&w, &h);
	frame_end(&w);
}

static void put_entry(struct buf *out)
{
	const struct entry_caller caller = { .origin = 5, .done = 2 };
	struct entry_item item = {
		.op = OP_ACK, .body = STR("\x80"), .caller = 1, .id = 7
	};
	struct frame_writer w;

	entry_begin_for(&w, out, NS_PER_S, 1, &caller, 1);
	entry_add(&w, &item);
	entry_end(&w);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	unsigned how = (unsigned)rng_below(rng, 3);
	struct ipc_head head;

	if (how == 1)
		put_entry(&b);
	else
		put_frame(rng, &b);
	buf_putc(out, (char)how);
	head = ipc_head_of(b.n);
	if (how == 2) {
		buf_putc(out, 3);
		buf_append(out, &head, sizeof(head));
	}
	buf_put_str(out, buf_str(&b));
	if (how == 2)
		buf_append(out, &head, sizeof(head));
}
