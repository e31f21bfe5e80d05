/*
 * The port inside: what port.c, port_conn.c and port_dial.c share.
 */
#ifndef CORVO_PORT_IMPL_H
#define CORVO_PORT_IMPL_H

#include "cluster/port.h"
#include "rt/netaddr.h"
#include "util/list.h"

#define PORT_HELLO_NS   (3 * NS_PER_S)  /* to connect and shake hands */
#define PORT_SAY_NS     (10 * NS_PER_S) /* between lines about a peer */
#define PORT_SAY_OFF_NS (60 * NS_PER_S) /* that is just not there */
#define PORT_SAID       64              /* peers it knows that of */
#define PORT_WHY_BYTES  (HELLO_WHY_BYTES + 128)

/* When something was last logged about a peer. */
struct port_said {
	char who[HELLO_ADDRESS_BYTES + 1]; /* an address */
	uint64_t at_ns;                    /* clock_mono_ns; 0: never */
};

/* Where a node that dialled this one says it is. */
struct port_heard {
	uint64_t raft_id; /* 0: a free place */
	char address[HELLO_ADDRESS_BYTES + 1];
};

struct port {
	struct loop *loop;
	struct hello_id me;
	struct buf secret;
	bool (*is_member)(void *ctx, uint64_t raft_id, const char *name);
	void *ctx;
	struct {
		port_accept_fn *fn;
		void *ctx;
	} serve[PURPOSE_END];
	int fd; /* listens */
	struct loop_fd *watch;
	struct loop_timer *again; /* accepts go on then */
	struct buf bound;         /* with its NUL */
	struct list conns;        /* struct port_conn that came in */
	struct list dials;
	enum hello_code dial_code; /* of the dial that ends now, and why */
	char dial_why[PORT_WHY_BYTES];
	struct list lookups; /* of names; the first ones run */
	size_t looking;      /* that run */
	struct port_said said[PORT_SAID];
	struct port_heard heard[PORT_SAID];
	size_t heard_at; /* the place that goes to a new one */
};

/* Whether a line about this peer may be logged now; then it counts as said. */
bool port_may_say(struct port *p, const char *who, uint64_t every_ns);
/* All is well with it: what comes next is news. */
void port_said_forget(struct port *p, const char *who);

/* A peer has proven who it is. */
void port_hear(struct port *p, const struct port_peer *peer);

/* A socket that came in, or one on its way to the dial's address. */
void conn_accept(struct port *p, int fd, const struct ip *from);
struct port_conn *conn_dial(struct port_dial *d, int fd);

/* What a dial expects; what became of its connection. */
struct port *dial_port(const struct port_dial *d);
enum port_purpose dial_purpose(const struct port_dial *d);
uint64_t dial_raft_id(const struct port_dial *d); /* 0: any */
const char *dial_address(const struct port_dial *d);
void dial_connected(struct port_dial *d, struct port_conn *c);
/* c is gone. code: of a refusal, or 0. said: that has been logged. */
void dial_failed(struct port_dial *d, enum hello_code code, const char *why,
		 bool said);
void port_end_dials(struct port *p);

#endif
