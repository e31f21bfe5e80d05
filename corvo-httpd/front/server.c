/*
 * See front/server.h. A connection comes from the acceptor, waits at the door
 * until its first bytes tell what it speaks, and belongs to a front then.
 */
#include "front/server.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "front/acceptor.h"
#include "front/answer.h"
#include "front/clients.h"
#include "front/conn.h"
#include "front/door.h"
#include "front/h1.h"
#include "front/h2.h"
#include "front/intake.h"
#include "front/late.h"
#include "front/park.h"
#include "front/stream.h"
#include "rt/fds.h"
#include "rt/log.h"
#include "util/clock.h"

/*
 * A drain closes connections after their next answer; those that ask nothing
 * for so long are closed without one. Clients at work thus notice no cut.
 */
#define DRAIN_GRACE_NS (200 * NS_PER_MS)
#define DRAIN_TELL_NS  (2 * NS_PER_S) /* between lines about who is left */

struct server {
	struct server_config c;
	bool draining;
	struct conns conns;
	struct memory memory;
	struct clients clients;
	struct acceptor *acceptor;
	struct door *door;
	struct h1 *h1;
	struct h2s *h2s;
	struct late *late;
	struct park *park;
	struct streams *streams;
	struct answer_date date;
	struct rng rng;
	struct loop_timer *grace; /* armed by a drain */
	uint64_t told_ns;         /* since, or when it was told who is left */
	bool grace_over;
	bool noticed;    /* HTTP/2: that it ends */
	size_t ending_n; /* that waited, and are to be answered yet */
};

/* --- connections --- */

static bool has_room(void *ctx)
{
	const struct server *s = ctx;

	return conns_have_room(&s->conns);
}

static void take(struct server *s, struct conn *c)
{
	if (intake_connection(c))
		door_add(s->door, c);
	else if (!c->told)
		door_close(c);
	else if (h1_add(s->h1, c))
		intake_tell(c);
}

static void on_accepted(void *ctx, int fd, const struct sockaddr *sa,
			bool check_host, enum listen_part part)
{
	struct server *s = ctx;
	struct conn *c;

	if (!intake_admits(s, sa)) {
		late_close(s->late, fd);
		return;
	}
	c = conn_open(&s->conns, s, fd);
	if (c == NULL) {
		(void)close(fd);
		return;
	}
	c->peer = ip_of(sa);
	c->check_host = check_host;
	c->part = part;
	take(s, c);
}

static const struct acceptor_ops acceptor_ops = { has_room, on_accepted };

static void on_h1(void *ctx, struct conn *c)
{
	struct server *s = ctx;

	(void)h1_add(s->h1, c);
}

static void on_h2(void *ctx, struct conn *c)
{
	struct server *s = ctx;

	h2_add(s->h2s, c);
}

static void on_closed(void *ctx, struct conn *c)
{
	server_closed(ctx, c);
}

static const struct door_ops door_ops = { on_h1, on_h2, on_closed };

void server_closed(struct server *s, struct conn *c)
{
	intake_closed(c);
	conn_close(&s->conns, c);
	acceptor_resume(s->acceptor);
}

/* --- the loop --- */

static void on_grace_over(void *ctx)
{
	struct server *s = ctx;

	s->grace_over = true;
}

/* Some clients read nothing behind the notice: what waited is answered before
 * it. */
static void give_notice(struct server *s)
{
	if (!s->draining || s->noticed || (s->ending_n > 0 && !s->grace_over))
		return;
	s->noticed = true;
	h2_drain(s->h2s);
}

/* A stop that takes long says whom it waits for. */
static void tell_left(struct server *s)
{
	_cleanup_(buf_done) struct buf left = BUF_INIT(0);
	uint64_t now = clock_mono_ns();

	if (s->conns.n == 0 || now - s->told_ns < DRAIN_TELL_NS)
		return;
	s->told_ns = now;
	conns_put_left(&s->conns, &left);
	log_info("stopping; waits for %.*s", STR_ARG(buf_str(&left)));
}

void server_run(struct server *s)
{
	struct conns_refused refused;

	h1_run(s->h1);
	give_notice(s);
	h2_run(s->h2s);
	if (!s->grace_over)
		return;
	s->grace_over = false;
	acceptor_finish(s->acceptor);
	streams_cut_all(s->streams);
	conns_end_incomplete(&s->conns, &refused);
	if (refused.heads + refused.bodies + refused.streams > 0)
		log_info("stopping; refused what had not come completely: %zu "
			 "heads, %zu bodies, %zu streams without a message",
			 refused.heads, refused.bodies, refused.streams);
	h2_drain_end(s->h2s);
	tell_left(s);
	loop_timer_arm(s->grace, DRAIN_GRACE_NS / 8);
}

void server_drain(struct server *s)
{
	s->draining = true;
	s->told_ns = clock_mono_ns();
	park_end_all(s->park);
	streams_end_all(s->streams);
	h1_run_all(s->h1);
	loop_timer_arm(s->grace, DRAIN_GRACE_NS);
}

bool server_is_draining(const struct server *s)
{
	return s->draining;
}

bool server_accepts(const struct server *s)
{
	return !acceptor_is_stopped(s->acceptor);
}

size_t server_connections(const struct server *s)
{
	return s->conns.n;
}

void server_put_left(struct server *s, struct buf *ret)
{
	conns_put_left(&s->conns, ret);
}

struct late *server_late(struct server *s)
{
	return s->late;
}

struct park *server_park(struct server *s)
{
	return s->park;
}

struct streams *server_streams(struct server *s)
{
	return s->streams;
}

struct memory *server_memory(struct server *s)
{
	return &s->memory;
}

struct conns *server_conns(struct server *s)
{
	return &s->conns;
}

struct h2s *server_h2s(struct server *s)
{
	return s->h2s;
}

struct door *server_door(struct server *s)
{
	return s->door;
}

struct rng *server_rng(struct server *s)
{
	return &s->rng;
}

struct answer_date *server_date(struct server *s)
{
	return &s->date;
}

const struct server_config *server_config(const struct server *s)
{
	return &s->c;
}

struct clients *server_clients(struct server *s)
{
	return &s->clients;
}

void server_reload(struct server *s)
{
	clients_set(&s->clients, s->c.settings);
	intake_recount(s);
}

/* --- life --- */

static size_t most_connections(const struct settings *set)
{
	return (size_t)fds_room_for(set->max_connections);
}

static void init_limits(struct server *s)
{
	const struct settings *set = s->c.settings;

	conns_init(&s->conns, s->c.loop, set, most_connections(set),
		   &s->memory);
	clients_init(&s->clients, LIMIT_CLIENTS);
	clients_set(&s->clients, set);
	memory_init(&s->memory, set->http_max_memory, set->httpd_processes);
}

/* Of what needs a descriptor. False: there is none. */
static bool init_parts(struct server *s)
{
	s->late = late_new(s->c.loop);
	s->park = park_new(s->c.loop);
	s->streams = streams_new(s->c.loop);
	s->door = door_new(s->c.loop, &door_ops, s);
	s->h2s = h2s_new(s);
	return s->park != NULL && s->streams != NULL && s->door != NULL &&
	       s->h2s != NULL;
}

static void free_parts(struct server *s)
{
	h2s_free(s->h2s);
	h1_free(s->h1);
	acceptor_free(s->acceptor);
	door_free(s->door);
	late_free(s->late);
	park_free(s->park);
	streams_free(s->streams);
	loop_timer_remove(s->grace);
	conns_done(&s->conns);
	clients_done(&s->clients);
	memory_done(&s->memory);
	free(s);
}

struct server *server_new(const struct server_config *c,
			  const struct listeners *ls, struct buf *why)
{
	struct server *s = xcalloc(1, sizeof(*s));
	uint64_t seed;

	s->c = *c;
	rng_system(&seed, sizeof(seed));
	rng_seed(&s->rng, seed);
	s->grace = loop_timer_add(c->loop, on_grace_over, s);
	init_limits(s);
	if (!init_parts(s))
		buf_printf(why, "cannot start the HTTP server: %s",
			   strerror(errno));
	else
		s->h1 = h1_new(s, most_connections(c->settings), why);
	if (s->h1 == NULL) {
		free_parts(s);
		return NULL;
	}
	s->acceptor = acceptor_new(c->loop, c->settings, ls, &acceptor_ops, s);
	return s;
}

static void abandon(_unused_ void *ctx, struct exchange *x)
{
	if (x->late_ns != 0 && x->reads_on)
		exchange_wake(x);
	late_remove(x);
	if (!x->waiting)
		return;
	park_remove(x);
	exchange_left(x);
}

static void close_at_door(_unused_ void *ctx, struct conn *c)
{
	if (c->front == NULL)
		door_close(c);
}

void server_free(struct server *s)
{
	if (s == NULL)
		return;
	acceptor_stop(s->acceptor);
	conns_each_exchange(&s->conns, abandon, NULL);
	streams_cut_all(s->streams);
	conns_each(&s->conns, close_at_door, NULL);
	free_parts(s);
}

void server_ended(struct exchange *x)
{
	if (x->ending)
		x->server->ending_n--;
	x->ending = false;
}

const char *server_request_id(struct conn *c, char room[REQUEST_ID_MADE])
{
	return c->exchange != NULL ? c->exchange->request_id
				   : answer_make_id(room, &c->server->rng);
}

void server_end_parked(struct exchange *x)
{
	x->ending = true;
	x->server->ending_n++;
	x->server->c.ops->end_parked(x);
}
