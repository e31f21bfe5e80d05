/*
 * Its beginning, and what it holds in memory. See front/exchange.h.
 */
#include "front/exchange.h"

#include "front/conn.h"
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
	size_t n = x->body.cap + x->out.cap + x->work_n;

	if (x->conn->phase == CONN_BODY)
		n = of_body(x->body.cap);
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
	slow_cut(server_conns(x->server), x->conn, more);
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
	x->conn = c;
	x->client = c->peer;
	return x;
}

void exchange_refused(struct conn *c, int err)
{
	const struct front_ops *ops = server_config(c->server)->ops;
	bool has_head = c->exchange != NULL;
	struct exchange *x = has_head ? c->exchange : exchange_begin(c);

	buf_done(&x->body); /* what comes of it is thrown away */
	exchange_count(x);
	x->status = err_status(err);
	ops->refused(x, err);
	if (has_head)
		return;
	memory_hold(server_memory(x->server), &x->held, 0);
	ops->end(x);
}
