/*
 * Its beginning, and what it holds in memory. See front/exchange.h.
 */
#include "front/exchange.h"

#include "front/answer.h"
#include "front/conn.h"
#include "front/intake.h"
#include "front/server.h"
#include "front/stream.h"
#include "proto/err.h"
#include "proto/limits.h"

/* Such bodies, and answers that ask nobody, may use the reserve. */
#define RESERVED_BYTES (256u << 10)

/* A body that comes is kept once more on its way to raftd. */
static uint64_t of_body(uint64_t bytes)
{
	return 2 * bytes;
}

void exchange_count(struct exchange *x)
{
	size_t n = x->work_n + x->ahead_n + x->head_n;

	n += x->coming ? of_body(x->body.cap) : x->body.cap + x->out.cap;
	if (x->stream != NULL)
		n += stream_bytes(x->stream);
	memory_hold(server_memory(x->server), &x->held, x->is_cut ? 0 : n);
}

void exchange_cut(struct exchange *x)
{
	x->is_cut = true;
	exchange_count(x);
}

static bool find_room(struct exchange *x, uint64_t more, bool reserve,
		      enum memory_reason r)
{
	struct memory *m = server_memory(x->server);

	if (memory_fits(m, x->held, more, reserve))
		return true;
	slow_cut(server_conns(x->server), x, more);
	if (memory_fits(m, x->held, more, reserve))
		return true;
	m->refused[r]++;
	return false;
}

bool exchange_fits_body(struct exchange *x, uint64_t bytes)
{
	x->body.max = bytes != 0 ? bytes : LIMIT_BODY_BYTES;
	return bytes <= LIMIT_SMALL_BYTES ||
	       find_room(x, of_body(bytes), bytes <= RESERVED_BYTES,
			 MEMORY_BODY);
}

bool exchange_fits_more(struct exchange *x, size_t n)
{
	const struct buf *b = &x->body;
	uint64_t cap = MIN(MAX(b->cap * 2, b->n + n), b->max);

	return b->n + n <= MAX(b->cap, (size_t)LIMIT_SMALL_BYTES) ||
	       find_room(x, of_body(cap - b->cap), cap <= RESERVED_BYTES,
			 MEMORY_BODY);
}

bool exchange_fits_work(struct exchange *x, uint64_t bytes)
{
	return bytes <= LIMIT_SMALL_BYTES ||
	       find_room(x, bytes, bytes <= RESERVED_BYTES, MEMORY_BODY);
}

bool exchange_fits_grown(struct exchange *x, const struct buf *b, size_t n)
{
	size_t cap = MAX(2 * b->cap, b->n + n);

	return n <= b->cap - b->n || exchange_fits_work(x, cap - b->cap);
}

bool exchange_fits_answer(struct exchange *x, uint64_t bytes, bool reserve)
{
	return bytes <= LIMIT_SMALL_BYTES ||
	       find_room(x, bytes, reserve, MEMORY_ANSWER);
}

struct exchange *exchange_begin(struct conn *c)
{
	const struct server_config *s = server_config(c->server);
	struct exchange *x = s->ops->begin(s->ctx);

	x->server = c->server;
	x->front = c->front;
	x->conn = c;
	x->client = c->peer;
	return x;
}

void exchange_refused(struct exchange *x, int err, struct str text)
{
	buf_done(&x->body); /* what comes of it is thrown away */
	x->coming = false;
	x->retry_after_s = err == ERR_RATE_LIMITED
			       ? intake_retry_after(x->server, &x->client)
			       : answer_retry_after(err);
	server_config(x->server)->ops->refused(x, err, text);
	exchange_count(x);
}

static void give_pieces(struct exchange *x)
{
	const struct body_ops *to = x->body_to;

	if (x->body.n > 0)
		to->bytes(x, x->body.p, x->body.n);
	to->end(x);
}

void exchange_whole(struct exchange *x)
{
	CHECK(x->coming);
	x->coming = false;
	x->pace = (struct pace){ 0 };
	if (intake_refuses(x))
		return;
	if (x->body_to != NULL)
		give_pieces(x);
	else
		server_config(x->server)->ops->complete(x);
}

void exchange_end(struct exchange *x)
{
	if (x->stream != NULL)
		stream_free(x->stream);
	/* work that is not done uses what it holds, and may hold more */
	if (x->in_turns) {
		x->unwanted = true;
		server_config(x->server)->ops->left(x);
	}
	memory_hold(server_memory(x->server), &x->held, 0);
	server_ended(x);
	server_config(x->server)->ops->end(x);
}

void exchange_resume(struct exchange *x)
{
	x->front->resume(x);
}

void exchange_work(struct exchange *x)
{
	x->in_turns = true;
}

static bool is_gone(const struct exchange *x)
{
	return x->front->is_gone != NULL && x->front->is_gone(x);
}

void exchange_worked(struct exchange *x)
{
	x->in_turns = false;
	/* what has begun to be carried out meanwhile goes on */
	if (!x->answered && (x->unwanted || (!x->outlives && is_gone(x))))
		exchange_left(x);
}

void exchange_decoded(struct exchange *x, struct buf *bytes)
{
	buf_done(&x->body);
	x->body = *bytes;
	*bytes = BUF_INIT(0);
	exchange_count(x);
}

void exchange_unpacked(struct exchange *x, struct buf *plain)
{
	exchange_decoded(x, plain);
	intake_unpacked(x, x->body.n);
}

void exchange_wake(struct exchange *x)
{
	x->front->wake(x);
}

void exchange_took(struct exchange *x, size_t n)
{
	x->front->took(x, n);
}

void exchange_abandon(struct exchange *x)
{
	x->abandoned = true;
	if (x->waiting) /* else it is just being begun */
		exchange_resume(x);
}

void exchange_unwanted(struct exchange *x)
{
	if (!x->in_turns || x->outlives || x->unwanted)
		return;
	x->unwanted = true;
	server_config(x->server)->ops->unwanted(x);
}

void exchange_left(struct exchange *x)
{
	x->unwanted = true;
	server_config(x->server)->ops->left(x);
	exchange_abandon(x);
}

uint64_t exchange_place(const struct exchange *x)
{
	return x->front->place(x);
}

bool exchange_is_past(const struct exchange *x, uint64_t place)
{
	return x->front->is_past(x, place);
}

bool exchange_is_left(const struct exchange *x)
{
	return conn_is_left(x->conn);
}

bool exchange_if_left(struct exchange *x)
{
	CHECK(!x->answered && !x->abandoned);
	if (!exchange_is_left(x))
		return false;
	if (x->in_turns) /* work cannot wait for its own end */
		x->unwanted = true;
	else
		exchange_left(x);
	return true;
}
