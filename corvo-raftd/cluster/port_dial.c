/*
 * Dialling: a name is resolved at each dial, on a pool thread, and its
 * addresses are tried one after the other. See cluster/port.h.
 *
 * A name service that does not answer holds a thread for as long as it likes.
 * So few lookups run at a time, and whoever wants the same name waits for the
 * same one: the pool has other work, the log's above all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/port_impl.h"
#include "proto/limits.h"
#include "rt/log.h"

#define LOOKUPS 2 /* at a time */

struct port_dial {
	struct list node;
	struct port *port;
	enum port_purpose purpose;
	uint64_t raft_id;
	char *address;
	port_dial_fn *fn;
	void *ctx;
	struct loop_timer *soon;
	struct list waiting; /* in a lookup's list */
	struct netaddr addr[LIMIT_PEER_ADDRESSES];
	size_t n, next;
	struct port_conn *conn;
	char why[PORT_WHY_BYTES]; /* of the last address */
	enum hello_code code;     /* the same */
	bool said;
};

struct lookup {
	struct list node;
	struct port *port; /* NULL: gone */
	char *text;
	bool runs;
	struct list dials; /* by their `waiting` */
	/* what the thread finds */
	struct netaddr addr[LIMIT_PEER_ADDRESSES];
	size_t n;
	struct buf why;
};

struct port *dial_port(const struct port_dial *d)
{
	return d->port;
}

enum port_purpose dial_purpose(const struct port_dial *d)
{
	return d->purpose;
}

uint64_t dial_raft_id(const struct port_dial *d)
{
	return d->raft_id;
}

const char *dial_address(const struct port_dial *d)
{
	return d->address;
}

static void dial_free(struct port_dial *d)
{
	list_remove(&d->node);
	list_remove(&d->waiting);
	loop_timer_remove(d->soon);
	port_conn_free(d->conn);
	free(d->address);
	free(d);
}

void port_dial_cancel(struct port_dial *d)
{
	dial_free(d);
}

enum hello_code port_dial_code(const struct port *p)
{
	return p->dial_code;
}

const char *port_dial_why(const struct port *p)
{
	return p->dial_why;
}

static void dial_end(struct port_dial *d, struct port_conn *c)
{
	port_dial_fn *fn = d->fn;
	void *ctx = d->ctx;

	if (c == NULL && !d->said &&
	    port_may_say(d->port, d->address, PORT_SAY_OFF_NS))
		log_warn("cannot connect to %s: %s", d->address, d->why);
	d->port->dial_code = d->code;
	memcpy(d->port->dial_why, d->why, sizeof(d->why));
	dial_free(d);
	fn(ctx, c);
}

/* --- addresses --- */

/* The descriptor of a connection on its way, or -errno. */
static int start_connect(const struct netaddr *a)
{
	int fd = socket(a->sa.ss_family,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&a->sa, a->len) == 0 ||
	    errno == EINPROGRESS)
		return fd;
	r = -errno;
	(void)close(fd);
	return r;
}

static void dial_next(struct port_dial *d)
{
	while (d->next < d->n) {
		const struct netaddr *a = &d->addr[d->next++];
		int fd = start_connect(a);

		if (fd >= 0) {
			d->conn = conn_dial(d, fd);
			d->conn->peer.ip =
			    ip_of((const struct sockaddr *)&a->sa);
			return;
		}
		(void)snprintf(d->why, sizeof(d->why), "%s", strerror(-fd));
	}
	dial_end(d, NULL);
}

void dial_connected(struct port_dial *d, struct port_conn *c)
{
	CHECK(d->conn == c);
	d->conn = NULL;
	dial_end(d, c);
}

void dial_failed(struct port_dial *d, enum hello_code code, const char *why,
		 bool said)
{
	d->conn = NULL;
	d->code = code;
	d->said = d->said || said;
	(void)snprintf(d->why, sizeof(d->why), "%s", why);
	dial_next(d);
}

static void on_soon(void *ctx)
{
	dial_next(ctx);
}

/* --- names --- */

static void lookup_work(void *ctx)
{
	struct lookup *l = ctx;

	(void)netaddr_resolve(l->text, false, l->addr, ARRAY_SIZE(l->addr),
			      &l->n, &l->why);
}

static void lookup_free(struct lookup *l)
{
	list_remove(&l->node);
	buf_done(&l->why);
	free(l->text);
	free(l);
}

static void run_lookups(struct port *p);

static void take_addresses(struct port_dial *d, const struct lookup *l)
{
	memcpy(d->addr, l->addr, sizeof(l->addr));
	d->n = l->n;
	(void)snprintf(d->why, sizeof(d->why), "%.*s",
		       STR_ARG(buf_str(&l->why)));
}

static void lookup_done(void *ctx)
{
	struct lookup *l = ctx;
	struct port *p = l->port;

	if (p == NULL) {
		lookup_free(l);
		return;
	}
	p->looking--;
	list_remove(&l->node); /* who asks from now on, asks anew */
	while (!list_empty(&l->dials)) {
		struct port_dial *d =
		    list_entry(l->dials.next, struct port_dial, waiting);

		list_remove(&d->waiting);
		take_addresses(d, l);
		/* in a turn of its own: others may be cancelled by it */
		loop_timer_arm(d->soon, 0);
	}
	lookup_free(l);
	run_lookups(p);
}

static void run_lookups(struct port *p)
{
	LIST_FOREACH_SAFE (it, &p->lookups) {
		struct lookup *l = list_entry(it, struct lookup, node);

		if (l->runs)
			continue;
		if (p->looking == LOOKUPS)
			return;
		if (list_empty(&l->dials)) {
			lookup_free(l);
			continue;
		}
		l->runs = true;
		p->looking++;
		loop_work(p->loop, lookup_work, lookup_done, l);
	}
}

static struct lookup *find_lookup(struct port *p, const char *text)
{
	struct lookup *l;

	LIST_FOREACH (it, &p->lookups) {
		l = list_entry(it, struct lookup, node);
		if (strcmp(l->text, text) == 0)
			return l;
	}
	l = xcalloc(1, sizeof(*l));
	l->port = p;
	l->text = xstrdup(text);
	l->why = BUF_INIT(0);
	list_init(&l->dials);
	list_push_back(&p->lookups, &l->node);
	return l;
}

/* Numbers are no names: nobody has to be asked. */
static bool is_numeric(struct port_dial *d)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	return netaddr_resolve(d->address, true, d->addr, ARRAY_SIZE(d->addr),
			       &d->n, &why) == 0;
}

struct port_dial *port_dial(struct port *p, enum port_purpose purpose,
			    const struct port_target *t, port_dial_fn *fn,
			    void *ctx)
{
	struct port_dial *d = xcalloc(1, sizeof(*d));

	d->port = p;
	d->purpose = purpose;
	d->raft_id = t->raft_id;
	d->address = xstrdup(t->address);
	d->fn = fn;
	d->ctx = ctx;
	d->soon = loop_timer_add(p->loop, on_soon, d);
	list_push_back(&p->dials, &d->node);
	if (is_numeric(d)) {
		loop_timer_arm(d->soon, 0);
	} else {
		struct lookup *l = find_lookup(p, d->address);

		list_push_back(&l->dials, &d->waiting);
		run_lookups(p);
	}
	return d;
}

void port_end_dials(struct port *p)
{
	while (!list_empty(&p->dials))
		dial_free(list_entry(p->dials.next, struct port_dial, node));
	LIST_FOREACH_SAFE (it, &p->lookups) {
		struct lookup *l = list_entry(it, struct lookup, node);

		list_remove(&l->node);
		l->port = NULL;
		if (!l->runs)
			lookup_free(l);
	}
}
