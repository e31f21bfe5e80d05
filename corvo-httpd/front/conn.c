/*
 * Open connections and their time limits. See front/conn.h.
 */
#include "front/conn.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "front/answer.h"
#include "front/clients.h"
#include "front/exchange.h"
#include "front/intake.h"
#include "front/server.h"
#include "front/wire.h"
#include "proto/err.h"
#include "util/clock.h"

/* How long a refused client may go on sending before it is cut off. */
#define LINGER_NS    (2 * NS_PER_S)
#define SWEEP_MAX_NS (250 * NS_PER_MS)
#define SWEEP_MIN_NS (10 * NS_PER_MS)

void conn_cut(struct conn *c)
{
	(void)shutdown(c->fd, SHUT_RDWR);
}

bool conn_is_left(const struct conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

static bool is_over(const struct conn *c, uint64_t now_ns, uint64_t limit_ns)
{
	return now_ns - c->since_ns > limit_ns;
}

/*
 * The library may miss an end of file that came together with the last bytes
 * of a request that is not complete; then it would wait for more of it.
 */
static bool is_at_end(const struct conn *c)
{
	char byte;

	return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void sweep_one(struct conns *cs, struct conn *c, uint64_t now_ns)
{
	switch (c->phase) {
	case CONN_NEW:
	case CONN_HEAD:
		if (is_over(c, now_ns, cs->request_timeout_ns) || is_at_end(c))
			conn_cut(c);
		break;
	case CONN_IDLE:
		if (is_over(c, now_ns, cs->idle_timeout_ns))
			conn_cut(c);
		break;
	case CONN_BODY:
		if (is_at_end(c))
			conn_cut(c);
		else if (is_over(c, now_ns, cs->request_timeout_ns))
			conn_refuse(c, ERR_REQUEST_TIMEOUT, STR_NULL);
		else
			slow_look(cs, c, now_ns);
		break;
	case CONN_LINGER:
		if (is_over(c, now_ns, LINGER_NS))
			conn_cut(c);
		break;
	case CONN_WORK:
		slow_look(cs, c, now_ns);
		break;
	}
}

static void arm(struct conns *cs)
{
	if (cs->armed || cs->n == 0)
		return;
	cs->armed = true;
	loop_timer_arm(cs->timer, cs->sweep_ns);
}

static void on_sweep(void *ctx)
{
	struct conns *cs = ctx;
	uint64_t now_ns = clock_mono_ns();

	cs->armed = false;
	LIST_FOREACH (it, &cs->all)
		sweep_one(cs, list_entry(it, struct conn, node), now_ns);
	/* many small requests may have taken what is kept for them */
	if (memory_is_short(cs->memory))
		slow_cut(cs, NULL, cs->memory->used / 8);
	memory_trim(cs->memory);
	arm(cs);
}

void conns_init(struct conns *cs, struct loop *l, const struct settings *set,
		struct memory *memory)
{
	uint64_t least_ns = MIN(set->request_timeout, set->idle_timeout);
	uint64_t sweep_ns = MIN(least_ns, set->answer_timeout) / 8;

	*cs = (struct conns){
		.timer = loop_timer_add(l, on_sweep, cs),
		.sweep_ns = MIN(MAX(sweep_ns, SWEEP_MIN_NS), SWEEP_MAX_NS),
		.request_timeout_ns = set->request_timeout,
		.idle_timeout_ns = set->idle_timeout,
		.answer_timeout_ns = set->answer_timeout,
		.memory = memory,
	};
	list_init(&cs->all);
}

void conns_done(struct conns *cs)
{
	CHECK(cs->n == 0);
	loop_timer_remove(cs->timer);
	wire_done();
}

struct conn *conn_open(struct conns *cs, struct server *s, void *handle, int fd)
{
	struct conn *c = xcalloc(1, sizeof(*c));

	c->server = s;
	c->handle = handle;
	c->fd = fd;
	conn_enter(c, CONN_NEW, clock_mono_ns());
	wire_add(c);
	list_push_back(&cs->all, &c->node);
	cs->n++;
	arm(cs);
	return c;
}

void conn_close(struct conns *cs, struct conn *c)
{
	CHECK(c->exchange == NULL);
	clients_disconnect(server_clients(c->server), c->client);
	cs->told_n -= c->told;
	wire_remove(c);
	list_remove(&c->node);
	cs->n--;
	free(c);
}

void conn_enter(struct conn *c, enum conn_phase phase, uint64_t now_ns)
{
	/* One limit holds for head and body together; work has none. */
	if (phase != CONN_BODY && phase != CONN_WORK)
		c->since_ns = now_ns;
	c->phase = phase;
	c->pace = (struct pace){ 0 };
}

void conn_refuse(struct conn *c, int err, struct str text)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(4096);
	_cleanup_(buf_done) struct buf out = BUF_INIT(8192);
	unsigned retry_after_s = err == ERR_RATE_LIMITED
				     ? intake_retry_after(c)
				     : answer_retry_after(err);
	char id[REQUEST_ID_MADE];

	answer_error_body(&body, err, text, retry_after_s);
	buf_printf(&out,
		   "HTTP/1.1 %d %s\r\n"
		   "Content-Type: application/json\r\n"
		   "Content-Length: %zu\r\n"
		   "X-Request-Id: %s\r\n"
		   "Connection: close\r\n",
		   err_status(err), err_code(err), body.n,
		   server_request_id(c, id));
	if (retry_after_s != 0)
		buf_printf(&out, "Retry-After: %u\r\n", retry_after_s);
	buf_puts(&out, "\r\n");
	buf_put_str(&out, buf_str(&body));
	/* A socket nothing was written to takes these few bytes at once; if
	 * the client is gone there is nobody to tell. */
	(void)send(c->fd, out.p, out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(c->fd, SHUT_WR);
	exchange_refused(c, err);
	conn_enter(c, CONN_LINGER, clock_mono_ns());
}

void conns_close_idle(struct conns *cs)
{
	char byte;

	LIST_FOREACH (it, &cs->all) {
		struct conn *c = list_entry(it, struct conn, node);

		if (c->phase != CONN_IDLE && c->phase != CONN_NEW)
			continue;
		/* A request that is already in the socket is still served. */
		if (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
			continue;
		conn_cut(c);
	}
}
