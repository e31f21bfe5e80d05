/*
 * See cluster/port.h. Here: listening, and the bounds on who may come in.
 */
#include "cluster/port.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/port_impl.h"
#include "proto/limits.h"
#include "rt/log.h"
#include "util/clock.h"

#define ACCEPT_TURN    16                /* connections in one turn */
#define ACCEPT_REST_NS (100 * NS_PER_MS) /* when there are no descriptors */

/* --- what was said --- */

/* That of the peer, or else the oldest, which is to be taken over. */
static struct port_said *find_said(struct port *p, const char *who)
{
	struct port_said *oldest = &p->said[0];

	for (size_t i = 0; i < PORT_SAID; i++) {
		if (strcmp(p->said[i].who, who) == 0)
			return &p->said[i];
		if (p->said[i].at_ns < oldest->at_ns)
			oldest = &p->said[i];
	}
	return oldest;
}

bool port_may_say(struct port *p, const char *who, uint64_t every_ns)
{
	struct port_said *s = find_said(p, who);
	uint64_t now = clock_mono_ns();

	/* strangers with many addresses have no more than that together */
	if (s->at_ns != 0 && now - s->at_ns < every_ns)
		return false;
	s->at_ns = now;
	(void)snprintf(s->who, sizeof(s->who), "%s", who);
	return true;
}

void port_said_forget(struct port *p, const char *who)
{
	for (size_t i = 0; i < PORT_SAID; i++)
		if (strcmp(p->said[i].who, who) == 0)
			p->said[i].at_ns = 0;
}

/* --- coming in --- */

/* What is too much already, or NULL. */
static const char *too_many(const struct port *p, const struct ip *from)
{
	size_t all = 0, all_ip = 0, hellos = 0, hellos_ip = 0;

	LIST_FOREACH (it, &p->conns) {
		const struct port_conn *c =
		    list_entry(it, struct port_conn, node);
		bool same = memcmp(&c->peer.ip, from, sizeof(*from)) == 0;

		all++;
		all_ip += same;
		hellos += c->hs != NULL;
		hellos_ip += c->hs != NULL && same;
	}
	if (hellos >= LIMIT_PEER_HELLOS)
		return "too many connections are in their handshake";
	if (hellos_ip >= LIMIT_PEER_HELLOS_IP)
		return "too many of its connections are in their handshake";
	if (all >= LIMIT_PEER_CONNS)
		return "there are too many connections";
	if (all_ip >= LIMIT_PEER_CONNS_IP)
		return "it has too many connections";
	return NULL;
}

static void take_in(struct port *p, int fd, const struct sockaddr *sa)
{
	struct ip from = ip_of(sa);
	const char *why = too_many(p, &from);
	char text[IP_TEXT_BYTES];

	if (why == NULL) {
		conn_accept(p, fd, &from);
		return;
	}
	ip_format(&from, text);
	if (port_may_say(p, text, PORT_SAY_NS))
		log_warn("closed a connection of %s on %s: %s", text,
			 p->bound.p, why);
	(void)close(fd);
}

/* False: nobody is left, or nobody can be taken in now. */
static bool accept_one(struct port *p)
{
	struct sockaddr_storage sa;
	socklen_t n = sizeof(sa);
	int fd = accept4(p->fd, (struct sockaddr *)&sa, &n,
			 SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		take_in(p, fd, (struct sockaddr *)&sa);
		return true;
	}
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
	    errno == ENOMEM) {
		if (port_may_say(p, p->bound.p, PORT_SAY_NS))
			log_error("cannot take a connection on %s: %s",
				  p->bound.p, strerror(errno));
		loop_fd_watch(p->watch, 0);
		loop_timer_arm(p->again, ACCEPT_REST_NS);
		return false;
	}
	/* who left before being taken is nobody */
	return errno == ECONNABORTED || errno == EINTR;
}

static void on_listen(void *ctx, int fd, int events)
{
	struct port *p = ctx;

	(void)fd;
	(void)events;
	for (int i = 0; i < ACCEPT_TURN && accept_one(p); i++)
		;
}

static void on_again(void *ctx)
{
	struct port *p = ctx;

	loop_fd_watch(p->watch, LOOP_READ);
}

/* --- the port --- */

static void note_bound(struct port *p)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	socklen_t n = sizeof(sa);

	(void)getsockname(p->fd, (struct sockaddr *)&sa, &n);
	netaddr_put(&sa, &p->bound);
	buf_putc(&p->bound, '\0');
}

/* In builds for tests CORVO_FAULT_HELLO names other ones: "2 3". */
static void set_versions(struct hello_id *me)
{
	me->min = me->max = HELLO_VERSION;
#ifdef CORVO_FAULTS
	const char *other = getenv("CORVO_FAULT_HELLO");

	if (other != NULL)
		(void)sscanf(other, "%" SCNu16 " %" SCNu16, &me->min, &me->max);
#endif
}

int port_open(const struct port_config *c, struct port **ret, struct buf *why)
{
	struct netaddr a;
	struct port *p;
	int fd = netaddr_parse(c->bind, &a, why);

	if (fd == 0)
		fd = netaddr_listen(&a, c->bind, why);
	if (fd < 0)
		return fd;
	(void)signal(SIGPIPE, SIG_IGN);
	p = xcalloc(1, sizeof(*p));
	p->loop = c->loop;
	p->me = c->me;
	if (p->me.max == 0)
		set_versions(&p->me);
	p->secret = p->bound = BUF_INIT(0);
	buf_put_str(&p->secret, c->secret);
	p->is_member = c->is_member;
	p->ctx = c->ctx;
	list_init(&p->conns);
	list_init(&p->dials);
	list_init(&p->lookups);
	p->fd = fd;
	note_bound(p);
	p->again = loop_timer_add(p->loop, on_again, p);
	p->watch = loop_fd_add(p->loop, fd, LOOP_READ, on_listen, p);
	*ret = p;
	return 0;
}

void port_free(struct port *p)
{
	if (p == NULL)
		return;
	loop_fd_remove(p->watch);
	loop_timer_remove(p->again);
	(void)close(p->fd);
	port_end_dials(p);
	LIST_FOREACH_SAFE (it, &p->conns) {
		struct port_conn *c = list_entry(it, struct port_conn, node);

		if (c->hs != NULL) {
			port_conn_free(c);
			continue;
		}
		list_remove(&c->node);
		c->port = NULL;
	}
	buf_done(&p->secret);
	buf_done(&p->bound);
	free(p);
}

struct loop *port_loop(const struct port *p)
{
	return p->loop;
}

const char *port_bound(const struct port *p)
{
	return p->bound.p;
}

void port_set_cluster(struct port *p, const struct history *cluster)
{
	p->me.cluster = *cluster;
}

void port_serve(struct port *p, enum port_purpose purpose, port_accept_fn *fn,
		void *ctx)
{
	CHECK(purpose > 0 && purpose < PURPOSE_END);
	p->serve[purpose].fn = fn;
	p->serve[purpose].ctx = ctx;
}

/* --- where others are --- */

static const struct port_heard *find_heard(const struct port *p,
					   uint64_t raft_id)
{
	for (size_t i = 0; raft_id != 0 && i < ARRAY_SIZE(p->heard); i++)
		if (p->heard[i].raft_id == raft_id)
			return &p->heard[i];
	return NULL;
}

void port_hear(struct port *p, const struct port_peer *peer)
{
	struct port_heard *h =
	    (struct port_heard *)find_heard(p, peer->raft_id);

	if (h == NULL)
		h = &p->heard[p->heard_at++ % ARRAY_SIZE(p->heard)];
	h->raft_id = peer->raft_id;
	memcpy(h->address, peer->address, sizeof(h->address));
}

const char *port_heard(const struct port *p, uint64_t raft_id)
{
	const struct port_heard *h = find_heard(p, raft_id);

	return h != NULL ? h->address : NULL;
}
