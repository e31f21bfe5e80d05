/*
 * See front/intake.h.
 */
#include "front/intake.h"

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

bool intake_connection(struct conn *c)
{
	struct clients *cs = server_clients(c->server);
	struct conns *all = server_conns(c->server);

	if (clients_may_connect(cs, &c->peer, clock_mono_ns(), &c->client))
		return true;
	c->told = all->told_n < TOLD_MAX;
	all->told_n += c->told;
	return false;
}

void intake_tell(struct conn *c)
{
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

static void recount(void *ctx, struct conn *c)
{
	const uint64_t *now_ns = ctx;
	struct clients *cs = server_clients(c->server);

	clients_disconnect(cs, c->client);
	c->client = NULL;
	if (!c->told)
		c->client = clients_connect(cs, &c->peer, *now_ns);
}

void intake_recount(struct server *s)
{
	uint64_t now_ns = clock_mono_ns();

	conns_each(server_conns(s), recount, &now_ns);
}

/* --- requests --- */

/* 0: none, or it comes in chunks, or it is no number one could count to. */
static uint64_t declared_length(const struct exchange *x)
{
	const char *text = x->head.value[HEAD_CONTENT_LENGTH];
	uint64_t n;

	return text != NULL && str_parse_u64(str_from(text), &n) ? n : 0;
}

unsigned intake_retry_after(struct server *s, const struct ip *client)
{
	return clients_wait_s(server_clients(s), client, clock_mono_ns());
}

/* What is taken in pieces has a limit of its own for each message. */
static bool is_too_long(const struct exchange *x)
{
	const char *text = x->head.value[HEAD_CONTENT_LENGTH];
	uint64_t n;

	return text != NULL && !(x->body_to != NULL && x->front->duplex) &&
	       (!str_parse_u64(str_from(text), &n) || n > LIMIT_BODY_BYTES);
}

static void refuse_body(struct exchange *x)
{
	x->front->refuse(x, ERR_OVERLOADED,
			 STR("memory for requests is short; try again after "
			     "retry_after_ms"));
}

static void find_client(struct exchange *x)
{
	const struct clients *cs = server_clients(x->server);
	const struct ip *peer = &x->conn->peer;
	_cleanup_(buf_done) struct buf list = BUF_INIT(LIMIT_HEAD_BYTES);

	if (cs->trusted.n == 0 || !nets_has(&cs->trusted, peer))
		return;
	head_values(x, "X-Forwarded-For", &list);
	x->client = clients_find(cs, peer, buf_str(&list));
}

/*
 * The connection stays, as proxies send requests of several clients by one; but
 * no large body is waited for.
 */
static void refuse_head(struct exchange *x, int err, struct str text)
{
	x->refusal = err;
	x->refusal_text = text;
	if (declared_length(x) > LIMIT_SMALL_BYTES ||
	    x->head.value[HEAD_TRANSFER_ENCODING] != NULL)
		x->front->refuse(x, err, text);
}

bool intake_is_probe(struct str path)
{
	return str_is(path, "/healthz") || str_is(path, "/readyz") ||
	       str_is(path, "/grpc.health.v1.Health/Check");
}

static bool is_one_too_many(struct exchange *x)
{
	return x->conn->is_extra &&
	       !conns_admit(server_conns(x->server), x->conn) &&
	       !intake_is_probe(x->path);
}

void intake_head(struct exchange *x)
{
	struct str why = STR_NULL;
	int err;

	x->conn->has_asked = true;
	find_client(x);
	err = server_config(x->server)->ops->head(x, &why);
	if (is_one_too_many(x))
		x->front->refuse(x, ERR_OVERLOADED,
				 STR("this node has as many connections as "
				     "max_connections allows, all of them at "
				     "work; try again after retry_after_ms"));
	else if (!clients_may_ask(server_clients(x->server), &x->client,
				  x->start_ns))
		refuse_head(x, ERR_RATE_LIMITED, STR_NULL);
	else if (err < 0)
		refuse_head(x, -err, why);
	else if (is_too_long(x))
		x->front->refuse(x, ERR_BODY_TOO_LARGE, STR_NULL);
	else if (!exchange_fits_body(x, declared_length(x)))
		refuse_body(x);
}

/* Long bodies and answers take long: the time is that of now. */
static void take_bytes(const struct exchange *x, size_t n)
{
	struct clients *cs = server_clients(x->server);

	if (n >= CLIENT_TAKE_BYTES)
		clients_take_bytes(cs, &x->client, n, clock_mono_ns());
}

void intake_body(struct exchange *x, const char *data, size_t n)
{
	take_bytes(x, x->came_n % CLIENT_TAKE_BYTES + n);
	x->came_n += n;
	if (!x->coming || x->refusal != 0)
		return;
	if (x->body_to != NULL && x->front->duplex) {
		x->body_to->bytes(x, data, n);
		return;
	}
	if (n <= x->body.max - x->body.n && !exchange_fits_more(x, n)) {
		refuse_body(x);
		return;
	}
	buf_append(&x->body, data, n);
	exchange_count(x);
	if (x->body.full) /* a length is refused with its head */
		x->front->refuse(x, ERR_BODY_TOO_LARGE, STR_NULL);
}

bool intake_offer(struct exchange *x, const char *data, size_t *n)
{
	if (x->late_ns != 0)
		return false;
	intake_body(x, data, *n);
	*n = 0;
	if (!intake_must_wait(x))
		return false;
	late_read(x);
	return true;
}

void intake_message(const struct exchange *x, size_t unpacked_n)
{
	struct clients *cs = server_clients(x->server);

	if (cs->rate != 0)
		clients_take_bytes(cs, &x->client,
				   CLIENT_TAKE_BYTES + unpacked_n,
				   clock_mono_ns());
}

void intake_unpacked(const struct exchange *x, size_t n)
{
	take_bytes(x, n);
}

bool intake_must_wait(const struct exchange *x)
{
	struct clients *cs = server_clients(x->server);

	/* what is thrown away is little, see refuse_head */
	return cs->rate != 0 && x->coming && x->refusal == 0 &&
	       clients_is_in_debt(cs, &x->client, clock_mono_ns());
}

bool intake_refuses(struct exchange *x)
{
	if (x->refusal == 0)
		return false;
	exchange_refused(x, x->refusal, x->refusal_text);
	if (x->refusal == ERR_RATE_LIMITED &&
	    clients_is_deaf(server_clients(x->server), &x->client, x->start_ns))
		late_add(x);
	else
		x->answered = true;
	return true;
}

void intake_answer(const struct exchange *x)
{
	take_bytes(x, x->out.n);
}
