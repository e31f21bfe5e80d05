/*
 * Connections in a world: two ends, each a link (rt/link.h) of a process.
 * Messages arrive in their order, some time after they were sent. While the way
 * between two machines is cut they wait, as on TCP; the end of one side is
 * heard by the other, which is not told while the way is cut.
 */
#ifndef CORVO_SIM_WIRE_H
#define CORVO_SIM_WIRE_H

#include "rt/link.h"
#include "sim/host.h"
#include "sim/net.h"

struct wire;

struct sim_link {
	struct link link;
	const struct link_ops *ops;
	void *ctx;
	struct loop *loop;
	struct wire *wire; /* NULL: down */
	unsigned side;     /* of it */
	unsigned busy;     /* callbacks it is in */
	bool closed;
	struct sim_event sent;
	/* what kind of link it is: */
	void (*on_lost)(struct sim_link *l); /* it has gone down */
	void (*on_close)(struct sim_link *l);
};

void wire_link_init(struct sim_link *l, struct loop *loop,
		    const struct link_ops *ops, void *ctx);

/* A connection between two loops; no end has a link yet. */
struct wire *wire_new(struct loop *a, struct loop *b);
/* An end that has no link is given one: it is up. In an event of its loop. */
void wire_attach(struct wire *w, unsigned side, struct sim_link *l);
/* That end will never have one. */
void wire_refuse(struct wire *w, unsigned side);
/* The link lets go of its connection, without a callback. */
void wire_let_go(struct sim_link *l);

static inline struct sim_link *sim_link_of(struct link *l)
{
	return container_of(l, struct sim_link, link);
}

/* The process of that loop is dead: all its ends are closed, and whoever dials
 * it or waits for it finds nobody. */
void wire_abandon(struct loop *l);
void ipc_abandon(struct loop *l);
void port_abandon(struct loop *l);
/* Both directions of all connections between the two end, at times. */
void wire_break_some(struct sim *s, unsigned percent);

#endif
