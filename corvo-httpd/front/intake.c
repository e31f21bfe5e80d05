/*
 * See front/intake.h.
 */
#include "front/intake.h"

#include "front/answer.h"
#include "front/clients.h"
#include "front/conn.h"
#include "front/exchange.h"
#include "front/head.h"
#include "front/late.h"
#include "front/server.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "util/clock.h"

/* Connections that are told why they are refused, at a time: they stay for a
 * moment, so that the client can read it. The others are just closed. */
#define TOLD_MAX 256

/* --- connections --- */

void intake_connection(struct conn *c)
{
	struct clients *cs = server_clients(c->server);
	struct conns *all = server_conns(c->server);

	if (clients_may_connect(cs, &c->peer, clock_mono_ns(), &c->client))
		return;
	if (all->told_n >= TOLD_MAX) {
		conn_cut(c);
		return;
	}
	all->told_n++;
	c->told = true;
	conn_refuse(c, ERR_RATE_LIMITED,
		    STR("this address has as many connections as "
			"client_max_connections allows; close some, or try "
			"again after retry_after_ms"));
}

bool intake_admits(struct server *s, const struct sockaddr *peer)
{
	struct ip ip = ip_of(peer);

	return clients_may_knock(server_clients(s), &ip, clock_mono_ns());
}

/* One that came for nothing was work like a request; one that was refused as
 * such takes nothing, as refused requests do not. */
void intake_closed(const struct conn *c)
{
	struct clients *cs = server_clients(c->server);

	if (!c->has_asked && !c->told && !nets_has(&cs->trusted, &c->peer))
		(void)clients_may_ask(cs, &c->peer, clock_mono_ns());
}

void intake_recount(struct server *s)
{
	struct clients *cs = server_clients(s);
	uint64_t now_ns = clock_mono_ns();

	LIST_FOREACH (it, &server_conns(s)->all) {
		struct conn *c = list_entry(it, struct conn, node);

		clients_disconnect(cs, c->client);
		c->client = NULL;
		if (!c->told)
			c->client = clients_connect(cs, &c->peer, now_ns);
	}
}

/* --- requests --- */

/* 0: none, or it comes in chunks. The framing has seen to it that it is a
 * number, and not too large. */
static uint64_t declared_length(const struct conn *c)
{
	const char *text = c->exchange->head.value[HEAD_CONTENT_LENGTH];
	uint64_t n;

	return text != NULL && str_parse_u64(str_from(text), &n) ? n : 0;
}

unsigned intake_retry_after(const struct conn *c)
{
	return clients_wait_s(server_clients(c->server),
			      c->exchange != NULL ? &c->exchange->client
						  : &c->peer,
			      clock_mono_ns());
}

static void refuse_body(struct conn *c)
{
	conn_refuse(c, ERR_OVERLOADED,
		    STR("memory for requests is short; try again after "
			"retry_after_ms"));
}

static void find_client(struct conn *c)
{
	const struct clients *cs = server_clients(c->server);
	_cleanup_(buf_done) struct buf list = BUF_INIT(LIMIT_HEAD_BYTES);

	if (cs->trusted.n == 0 || !nets_has(&cs->trusted, &c->peer))
		return;
	head_values(c, "X-Forwarded-For", &list);
	c->exchange->client = clients_find(cs, &c->peer, buf_str(&list));
}

/*
 * The connection stays, as proxies send requests of several clients by one; but
 * no large body is waited for.
 */
static void refuse_rate(struct conn *c, uint64_t length)
{
	if (length > LIMIT_SMALL_BYTES ||
	    c->exchange->head.value[HEAD_TRANSFER_ENCODING] != NULL)
		conn_refuse(c, ERR_RATE_LIMITED, STR_NULL);
	else
		c->exchange->over_rate = true;
}

void intake_head(struct conn *c)
{
	struct exchange *x = c->exchange;
	uint64_t length = declared_length(c);

	c->has_asked = true;
	find_client(c);
	if (!clients_may_ask(server_clients(c->server), &x->client,
			     x->start_ns))
		refuse_rate(c, length);
	else if (!exchange_fits_body(x, length))
		refuse_body(c);
}

/* Long bodies and answers take long: the time is that of now. */
static void take_bytes(const struct exchange *x, size_t n)
{
	struct clients *cs = server_clients(x->server);

	if (n >= CLIENT_TAKE_BYTES)
		clients_take_bytes(cs, &x->client, n, clock_mono_ns());
}

void intake_body(struct conn *c, const char *data, size_t n)
{
	struct exchange *x = c->exchange;

	take_bytes(x, x->came_n % CLIENT_TAKE_BYTES + n);
	x->came_n += n;
	if (c->phase == CONN_LINGER || x->over_rate)
		return;
	if (n <= x->body.max - x->body.n && !exchange_fits_more(x, n)) {
		refuse_body(c);
		return;
	}
	buf_append(&x->body, data, n);
	exchange_count(x);
	if (x->body.full) /* in chunks; a length is refused with its head */
		conn_refuse(c, ERR_BODY_TOO_LARGE, STR_NULL);
}

bool intake_must_wait(const struct conn *c)
{
	struct clients *cs = server_clients(c->server);

	return cs->rate != 0 && c->phase == CONN_BODY &&
	       clients_is_in_debt(cs, &c->exchange->client, clock_mono_ns());
}

bool intake_refuses(struct conn *c)
{
	struct exchange *x = c->exchange;

	if (!x->over_rate)
		return false;
	x->err = ERR_RATE_LIMITED;
	x->retry_after_s = intake_retry_after(c);
	answer_error_body(&x->out, x->err, STR_NULL, x->retry_after_s);
	exchange_refused(c, x->err);
	if (clients_is_deaf(server_clients(x->server), &x->client, x->start_ns))
		late_add(x);
	else
		x->answered = true;
	return true;
}

void intake_answer(const struct exchange *x)
{
	take_bytes(x, x->out.n);
}
