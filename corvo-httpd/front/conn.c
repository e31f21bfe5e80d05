/*
 * Open connections and their time limits. See front/conn.h.
 */
#include "front/conn.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "front/answer.h"
#include "front/clients.h"
#include "front/door.h"
#include "front/exchange.h"
#include "front/h2.h"
#include "front/intake.h"
#include "front/server.h"
#include "front/wire.h"
#include "proto/err.h"
#include "util/clock.h"

/* How long a refused client may go on sending before it is cut off. */
#define LINGER_NS    (2 * NS_PER_S)
#define SWEEP_MAX_NS (250 * NS_PER_MS)
#define SWEEP_MIN_NS (10 * NS_PER_MS)
#define SWEEP_TURN   256 /* connections that a sweep looks at in a turn */

#define EXTRA_MAX  32                /* connections there is no place for */
#define SHED_TRIES 8                 /* idle ones looked at, to make room */
#define FRESH_NS   (1 * NS_PER_S)    /* so long a request has to come */
#define LEAVE_NS   (400 * NS_PER_MS) /* the same, and its answer, in a drain */
#define LINGER_END (100 * NS_PER_MS) /* and to read that it is refused */

void conn_cut(struct conn *c)
{
	if (c->front == NULL)
		door_close(c);
	else
		(void)shutdown(c->fd, SHUT_RDWR);
}

bool conn_acked(const struct conn *c, uint64_t *ret)
{
	struct tcp_info i = { 0 };
	socklen_t n = sizeof(i);

	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &i, &n) < 0)
		return false;
	*ret = i.tcpi_bytes_acked;
	return true;
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

static void sweep_body(const struct conns *cs, struct conn *c, uint64_t now_ns)
{
	if (is_at_end(c))
		conn_cut(c);
	else if (is_over(c, now_ns, cs->request_timeout_ns))
		conn_refuse(c, ERR_REQUEST_TIMEOUT, STR_NULL);
	else if (c->exchange != NULL)
		slow_look(cs, c->exchange, now_ns);
}

/* Who only sends nothing more may read the answer yet. */
static bool is_reset(const struct conn *c)
{
	struct pollfd p = { .fd = c->fd };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

static void sweep_work(const struct conns *cs, struct exchange *x,
		       uint64_t now_ns)
{
	if (x->in_turns && is_reset(x->conn))
		exchange_unwanted(x);
	else
		slow_look(cs, x, now_ns);
}

static void sweep_one(const struct conns *cs, struct conn *c, uint64_t now_ns)
{
	if (c->h2 != NULL) {
		h2_sweep(c->h2, cs, now_ns);
		return;
	}
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
		sweep_body(cs, c, now_ns);
		break;
	case CONN_LINGER:
		if (is_over(c, now_ns, LINGER_NS))
			conn_cut(c);
		break;
	case CONN_WORK:
		if (c->exchange != NULL)
			sweep_work(cs, c->exchange, now_ns);
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

/* So that a sweep under way goes on behind it. */
static void take_out(struct conns *cs, struct conn *c)
{
	if (cs->sweep.next == &c->node)
		cs->sweep.next = c->node.next;
	list_remove(&c->node);
}

/* The next one that this sweep has not met; NULL: it has met all. */
static struct conn *next_to_sweep(struct conns *cs)
{
	struct conn *c;

	while (cs->sweep.next == &cs->lists[cs->sweep.list]) {
		if (++cs->sweep.list == CONNS_LISTS)
			return NULL;
		cs->sweep.next = cs->lists[cs->sweep.list].next;
	}
	c = list_entry(cs->sweep.next, struct conn, node);
	cs->sweep.next = c->node.next;
	return c;
}

static void end_sweep(struct conns *cs)
{
	cs->sweep.next = NULL;
	/* many small requests may have taken what is kept for them */
	if (memory_is_short(cs->memory))
		slow_cut(cs, NULL, cs->memory->used / 8);
	memory_trim(cs->memory);
	arm(cs);
}

/* Each of them may cost a system call, so many are looked at in turns. */
static void on_sweep(void *ctx)
{
	struct conns *cs = ctx;
	uint64_t now_ns = clock_mono_ns();

	cs->armed = false;
	if (cs->sweep.next == NULL) {
		cs->sweep.list = 0;
		cs->sweep.next = cs->lists[0].next;
	}
	for (int i = 0; i < SWEEP_TURN; i++) {
		struct conn *c = next_to_sweep(cs);

		if (c == NULL) {
			end_sweep(cs);
			return;
		}
		sweep_one(cs, c, now_ns);
	}
	cs->armed = true;
	loop_timer_arm(cs->timer, 0);
}

void conns_init(struct conns *cs, struct loop *l, const struct settings *set,
		size_t max, struct memory *memory)
{
	uint64_t least_ns = MIN(set->request_timeout, set->idle_timeout);
	uint64_t sweep_ns = MIN(least_ns, set->answer_timeout) / 8;

	*cs = (struct conns){
		.max = max,
		.timer = loop_timer_add(l, on_sweep, cs),
		.sweep_ns = MIN(MAX(sweep_ns, SWEEP_MIN_NS), SWEEP_MAX_NS),
		.request_timeout_ns = set->request_timeout,
		.idle_timeout_ns = set->idle_timeout,
		.answer_timeout_ns = set->answer_timeout,
		.memory = memory,
	};
	for (int i = 0; i < CONNS_LISTS; i++)
		list_init(&cs->lists[i]);
}

void conns_done(struct conns *cs)
{
	CHECK(cs->n == 0);
	loop_timer_remove(cs->timer);
	wire_done();
}

/* --- places --- */

static size_t places_taken(const struct conns *cs)
{
	CHECK(cs->n >= cs->extra_n + cs->shed_n);
	return cs->n - cs->extra_n - cs->shed_n;
}

bool conns_have_room(const struct conns *cs)
{
	return places_taken(cs) < cs->max || cs->extra_n < EXTRA_MAX ||
	       !list_empty(&cs->lists[CONNS_IDLE]) ||
	       !list_empty(&cs->lists[CONNS_NEW]) ||
	       !list_empty(&cs->lists[CONNS_COMING]);
}

/* Something of a request is here already. */
static bool has_bytes(const struct conn *c)
{
	char byte;

	if (c->front == NULL)
		return !door_is_silent(c);
	return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Who has sent the head of a request is told, and can ask again. */
static void shed_h1(struct conn *c)
{
	if (c->phase == CONN_BODY)
		conn_refuse(c, ERR_OVERLOADED,
			    STR("this node has as many connections as "
				"max_connections allows, and this request had "
				"not come completely"));
	conn_cut(c);
}

/* Its front closes it soon. */
static void shed(struct conns *cs, struct conn *c)
{
	cs->shed_sum++;
	if (!c->is_extra) {
		c->is_shed = true;
		cs->shed_n++;
	}
	take_out(cs, c);
	list_push_back(&cs->lists[CONNS_BUSY], &c->node);
	c->list = CONNS_BUSY;
	if (c->front == NULL)
		door_close(c);
	else if (c->h2 != NULL)
		h2_goodbye(c->h2);
	else
		shed_h1(c);
}

/* One that has been so for so long. False: there is none, or all are at work.
 */
static bool shed_one(struct conns *cs, enum conn_list from, uint64_t for_ns)
{
	uint64_t now_ns = clock_mono_ns();
	struct list *l = &cs->lists[from];

	for (int i = 0; i < SHED_TRIES && !list_empty(l); i++) {
		struct conn *c = list_entry(l->next, struct conn, node);

		if (!is_over(c, now_ns, for_ns))
			return false;
		if (!has_bytes(c)) {
			shed(cs, c);
			return true;
		}
		take_out(cs, c); /* it is not what it seems */
		list_push_back(l, &c->node);
	}
	return false;
}

bool conns_admit(struct conns *cs, struct conn *c)
{
	if (places_taken(cs) >= cs->max)
		return false;
	c->is_extra = false;
	cs->extra_n--;
	return true;
}

/* --- life --- */

static bool find_place(struct conns *cs)
{
	if (places_taken(cs) < cs->max)
		return true;
	/* who has a first request ready sends it at once */
	if (!shed_one(cs, CONNS_NEW, FRESH_NS) &&
	    !shed_one(cs, CONNS_IDLE, 0) && !shed_one(cs, CONNS_NEW, 0))
		(void)shed_one(cs, CONNS_COMING, 0);
	return places_taken(cs) < cs->max; /* it may have been an extra one */
}

struct conn *conn_open(struct conns *cs, struct server *s, int fd)
{
	bool fits = find_place(cs);
	struct conn *c;

	if (!fits && cs->extra_n >= EXTRA_MAX)
		return NULL;
	c = xcalloc(1, sizeof(*c));
	c->server = s;
	c->fd = fd;
	c->is_extra = !fits;
	cs->extra_n += c->is_extra;
	cs->extra_sum += c->is_extra;
	c->list = CONNS_NEW;
	list_push_back(&cs->lists[CONNS_NEW], &c->node);
	conn_enter(c, CONN_NEW, clock_mono_ns());
	wire_add(c);
	cs->n++;
	arm(cs);
	return c;
}

void conn_close(struct conns *cs, struct conn *c)
{
	CHECK(c->exchange == NULL && c->h2 == NULL);
	clients_disconnect(server_clients(c->server), c->client);
	cs->told_n -= c->told;
	cs->extra_n -= c->is_extra;
	cs->shed_n -= c->is_shed;
	wire_remove(c);
	take_out(cs, c);
	cs->n--;
	buf_done(&c->headers);
	free(c);
}

/* Half a head is worth no more than silence, nor is an extra one that has been
 * told so. */
static enum conn_list list_of(const struct conn *c, enum conn_phase phase)
{
	if (phase == CONN_NEW || phase == CONN_HEAD ||
	    (phase == CONN_IDLE && !c->has_asked) ||
	    (phase == CONN_LINGER && c->is_extra))
		return CONNS_NEW;
	if (phase == CONN_BODY)
		return CONNS_COMING;
	return phase == CONN_IDLE ? CONNS_IDLE : CONNS_BUSY;
}

void conn_enter(struct conn *c, enum conn_phase phase, uint64_t now_ns)
{
	enum conn_list list = c->is_shed ? c->list : list_of(c, phase);
	struct conns *cs = server_conns(c->server);

	/* One limit holds for head and body together; work has none. */
	if (phase != CONN_BODY && phase != CONN_WORK)
		c->since_ns = now_ns;
	c->phase = phase;
	if (list == c->list)
		return;
	c->list = list;
	take_out(cs, c);
	list_push_back(&cs->lists[list], &c->node);
}

void conns_each(struct conns *cs, conn_fn *fn, void *ctx)
{
	for (int i = 0; i < CONNS_LISTS; i++)
		LIST_FOREACH_SAFE (it, &cs->lists[i])
			fn(ctx, list_entry(it, struct conn, node));
}

struct each_exchange {
	conn_exchange_fn *fn;
	void *ctx;
};

static void each_of(void *ctx, struct conn *c)
{
	const struct each_exchange *e = ctx;

	if (c->h2 != NULL)
		h2_each_exchange(c->h2, e->fn, e->ctx);
	else if (c->exchange != NULL)
		e->fn(e->ctx, c->exchange);
}

void conns_each_exchange(struct conns *cs, conn_exchange_fn *fn, void *ctx)
{
	struct each_exchange e = { fn, ctx };

	conns_each(cs, each_of, &e);
}

void conn_refuse(struct conn *c, int err, struct str text)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(8192);
	struct exchange *x =
	    c->exchange != NULL ? c->exchange : exchange_begin(c);
	char id[REQUEST_ID_MADE];

	exchange_refused(x, err, text);
	buf_printf(&out,
		   "HTTP/1.1 %d %s\r\n"
		   "Content-Type: %s\r\n"
		   "Content-Length: %zu\r\n"
		   "X-Request-Id: %s\r\n"
		   "Connection: close\r\n",
		   x->status, err_code(err), x->content_type, x->out.n,
		   server_request_id(c, id));
	if (x->retry_after_s != 0)
		buf_printf(&out, "Retry-After: %u\r\n", x->retry_after_s);
	buf_puts(&out, "\r\n");
	buf_put_str(&out, buf_str(&x->out));
	/* A socket nothing was written to takes these few bytes at once; if
	 * the client is gone there is nobody to tell. */
	(void)send(c->fd, out.p, out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(c->fd, SHUT_WR);
	if (c->exchange == NULL)
		exchange_end(x);
	conn_enter(c, CONN_LINGER, clock_mono_ns());
}

/* A request that is already in the socket is still served, and who has just
 * connected is about to ask. */
static void close_idle(struct conn *c, uint64_t now_ns)
{
	if (has_bytes(c) ||
	    (c->phase == CONN_NEW && !is_over(c, now_ns, LEAVE_NS)))
		return;
	if (c->h2 != NULL)
		h2_goodbye(c->h2);
	else
		conn_cut(c);
}

struct leaving {
	struct conns_refused *refused;
	uint64_t now_ns;
};

static void refuse_h1(struct conn *c, const struct leaving *l)
{
	bool is_body = c->phase == CONN_BODY;

	if (!is_over(c, l->now_ns, LEAVE_NS))
		return;
	l->refused->bodies += is_body;
	l->refused->heads += !is_body;
	if (c->front == NULL || c->handle == NULL)
		conn_cut(c);
	else
		conn_refuse(c, ERR_SHUTTING_DOWN, STR_NULL);
}

static void end_one(void *ctx, struct conn *c)
{
	const struct leaving *l = ctx;

	if (c->h2 != NULL)
		h2_refuse_coming(c->h2, l->now_ns, LEAVE_NS, l->refused);
	switch (c->phase) {
	case CONN_NEW:
	case CONN_IDLE:
		close_idle(c, l->now_ns);
		break;
	case CONN_HEAD:
	case CONN_BODY:
		refuse_h1(c, l);
		break;
	case CONN_LINGER:
		if (is_over(c, l->now_ns, LINGER_END))
			conn_cut(c);
		break;
	case CONN_WORK:
		break;
	}
}

void conns_end_incomplete(struct conns *cs, struct conns_refused *ret)
{
	struct leaving l = { ret, clock_mono_ns() };

	*ret = (struct conns_refused){ 0 };
	conns_each(cs, end_one, &l);
}

/* --- who is left --- */

#define TARGET_TOLD 120 /* bytes */

struct left {
	size_t in[CONN_LINGER + 1]; /* by phase */
	size_t requests;
	const struct exchange *oldest; /* NULL: none */
};

static void count_conn(void *ctx, struct conn *c)
{
	struct left *l = ctx;

	l->in[c->phase]++;
}

static void count_exchange(void *ctx, struct exchange *x)
{
	struct left *l = ctx;

	l->requests++;
	if (l->oldest == NULL || x->start_ns < l->oldest->start_ns)
		l->oldest = x;
}

void conns_put_left(struct conns *cs, struct buf *ret)
{
	struct left l = { 0 };
	const struct exchange *x;

	conns_each(cs, count_conn, &l);
	conns_each_exchange(cs, count_exchange, &l);
	buf_printf(ret,
		   "%zu connections: %zu at work, %zu not complete, %zu "
		   "lingering, %zu idle",
		   cs->n, l.in[CONN_WORK], l.in[CONN_HEAD] + l.in[CONN_BODY],
		   l.in[CONN_LINGER], l.in[CONN_NEW] + l.in[CONN_IDLE]);
	x = l.oldest;
	if (x == NULL)
		return;
	buf_printf(
	    ret, "; %zu requests, the oldest for %llu s: %s %.*s", l.requests,
	    (unsigned long long)((clock_mono_ns() - x->start_ns) / NS_PER_S),
	    x->method == NULL ? "?" : x->method,
	    (int)MIN(x->path.n, (size_t)TARGET_TOLD), x->path.p);
}
