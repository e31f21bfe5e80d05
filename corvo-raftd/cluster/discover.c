#include "cluster/discover.h"

#include <stdlib.h>

#include "cluster/api_ask.h"
#include "cluster/srv.h"
#include "proto/err.h"
#include "rt/netaddr.h"

struct discover {
	struct loop *loop;
	enum discover_how how;
	char *join;        /* the setting */
	char *advertise;   /* host:port of this node */
	uint16_t port;     /* of it */
	struct look *look; /* under way */
};

/* One look; a thread has it, so it outlives its discover if need be. */
struct look {
	struct discover *d; /* NULL: gone */
	enum discover_how how;
	char *join;
	char *advertise;
	uint16_t port;
	discover_fn *fn;
	void *ctx;
	/* what the thread finds */
	struct found found;
	struct buf why;
};

/* --- lists --- */

bool found_has(const struct found *f, struct str address)
{
	for (size_t i = 0; i < f->n; i++)
		if (str_is(address, f->at[i]))
			return true;
	return false;
}

void found_add(struct found *f, struct str address)
{
	if (!hello_address_ok(address) || f->n == ARRAY_SIZE(f->at) ||
	    found_has(f, address))
		return;
	memcpy(f->at[f->n], address.p, address.n);
	f->at[f->n++][address.n] = '\0';
}

/* --- on a pool thread --- */

/* The first thing that could not be looked up is told. */
static void note(struct look *l, const struct buf *why)
{
	if (l->why.n == 0)
		buf_put_str(&l->why, buf_str(why));
}

static void add_addresses(struct look *l, const char *text)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf one = BUF_INIT(0);
	struct netaddr all[LIMIT_FOUND];
	size_t n;

	if (netaddr_resolve(text, false, all, ARRAY_SIZE(all), &n, &why) < 0)
		note(l, &why);
	for (size_t i = 0; i < n; i++) {
		buf_clear(&one);
		netaddr_put(&all[i].sa, &one);
		found_add(&l->found, buf_str(&one));
	}
}

static void add_service(struct look *l, struct str name)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	buf_put_str(&text, name);
	if (memchr(name.p, ':', name.n) == NULL)
		buf_printf(&text, ":%u", l->port);
	buf_putc(&text, '\0');
	add_addresses(l, text.p);
}

static void look_at(struct look *l, struct str place)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	buf_put_str(&text, place);
	buf_putc(&text, '\0');
	switch (l->how) {
	case DISCOVER_STATIC:
	case DISCOVER_GOSSIP:
		if (!str_starts(place, STR("http://")))
			found_add(&l->found, place);
		else if (api_ask_nodes(api_authority(place), &l->found, &why) <
			 0)
			note(l, &why);
		return;
	case DISCOVER_DNS:
		add_addresses(l, text.p);
		return;
	case DISCOVER_SRV:
		if (srv_look_up(text.p, &l->found, &why) < 0)
			note(l, &why);
		return;
	case DISCOVER_KUBERNETES:
		add_service(l, place);
		return;
	}
}

struct str discover_service(const char *advertise)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct str host, pod, service;
	uint16_t port;

	if (netaddr_split(advertise, &host, &port, &why) < 0 ||
	    netaddr_is_loopback(host) || !str_split(host, '.', &pod, &service))
		return STR_NULL;
	/* an address in digits is nobody's name */
	return memchr(pod.p, '-', pod.n) != NULL ? service : STR_NULL;
}

static void look_work(void *ctx)
{
	struct look *l = ctx;
	struct str rest = str_from(l->join), one;
	bool any = false;

	while (settings_next_join(&rest, &one)) {
		look_at(l, one);
		any = true;
	}
	if (any || l->how != DISCOVER_KUBERNETES)
		return;
	one = discover_service(l->advertise);
	if (one.n > 0)
		add_service(l, one);
	else
		buf_printf(&l->why,
			   "raft_advertise %s is not the name of a pod in a "
			   "headless service; set it, or join to the name of "
			   "that service",
			   l->advertise);
}

/* --- on the loop --- */

static void look_free(struct look *l)
{
	buf_done(&l->why);
	free(l->join);
	free(l->advertise);
	free(l);
}

static void look_done(void *ctx)
{
	struct look *l = ctx;

	if (l->d != NULL) {
		l->d->look = NULL;
		l->fn(l->ctx, &l->found, buf_str(&l->why));
	}
	look_free(l);
}

void discover_look(struct discover *d, discover_fn *fn, void *ctx)
{
	struct look *l = xcalloc(1, sizeof(*l));

	CHECK(d->look == NULL);
	l->d = d;
	l->how = d->how;
	l->join = xstrdup(d->join);
	l->advertise = xstrdup(d->advertise);
	l->port = d->port;
	l->fn = fn;
	l->ctx = ctx;
	l->why = BUF_INIT(0);
	d->look = l;
	loop_work(d->loop, look_work, look_done, l);
}

struct discover *discover_new(struct loop *l, const struct settings *s)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct discover *d = xcalloc(1, sizeof(*d));
	struct str host;

	d->loop = l;
	d->how = settings_discover(s);
	d->join = xstrdup(s->join);
	d->advertise = xstrdup(settings_advertise(s));
	(void)netaddr_split(d->advertise, &host, &d->port, &why);
	return d;
}

void discover_free(struct discover *d)
{
	if (d == NULL)
		return;
	if (d->look != NULL)
		d->look->d = NULL;
	free(d->join);
	free(d->advertise);
	free(d);
}
