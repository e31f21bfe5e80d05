/*
 * The port of this node for other nodes: one listening address, and the dialler
 * of theirs. A connection begins with the handshake of cluster/hello.h; then it
 * is handed to whoever serves its purpose.
 *
 * All on the loop thread. What strangers can make it spend is bounded: a
 * handshake has 3 seconds and a few KiB, and the limits LIMIT_PEER_* of
 * proto/limits.h hold for their number. Why somebody was refused, or could not
 * be reached, is logged in one line, of each peer at most every 10 seconds.
 */
#ifndef CORVO_PORT_H
#define CORVO_PORT_H

#include "cluster/hello.h"
#include "rt/ip.h"
#include "rt/loop.h"
#include "util/buf.h"
#include "util/list.h"

struct port;
struct port_dial;

struct port_config {
	struct loop *loop;
	const char *bind;   /* host:port to listen on */
	struct hello_id me; /* versions of 0: those of this program */
	struct str secret;  /* copied; may be empty */
	/*
	 * Whether a node that knows the secret may still connect, for anything
	 * but to join. NULL: any.
	 */
	bool (*is_member)(void *ctx, uint64_t raft_id, const char *name);
	void *ctx;
};

/*
 * Listens. 0 or -ERR_VALIDATION_ERROR with a sentence in `why`. SIGPIPE is
 * ignored in the process from now on.
 */
int port_open(const struct port_config *c, struct port **ret, struct buf *why);
/*
 * Ends what is in its handshake or being dialled, without callbacks. What was
 * handed on lives on. NULL is ignored.
 */
void port_free(struct port *p);

struct loop *port_loop(const struct port *p);
/* "127.0.0.1:9400", as it came out. */
const char *port_bound(const struct port *p);
/* Where the node last said it is, when it dialled this one; NULL: it has not.
 */
const char *port_heard(const struct port *p, uint64_t raft_id);
/* This node has come to be in that cluster. */
void port_set_cluster(struct port *p, const struct history *cluster);

/* Who is at the other end; proven by the secret. */
struct port_peer {
	struct history cluster; /* none: in no cluster yet */
	uint64_t raft_id;
	uint16_t version; /* that both speak */
	char name[HELLO_NAME_BYTES + 1];
	char address[HELLO_ADDRESS_BYTES + 1]; /* host:port to dial it */
	struct ip ip;                          /* where it is */
};

/* A connection after its handshake. Whoever is given it owns it. */
struct port_conn {
	int fd; /* non-blocking stream socket */
	enum port_purpose purpose;
	struct port_peer peer;
	/* inside */
	struct port *port; /* NULL: it is gone */
	struct list node;
	bool inbound;
	struct handshake *hs; /* NULL: it is over */
};

void port_conn_free(struct port_conn *c); /* closes it; NULL is ignored */
/* Frees all but the descriptor, which is the caller's from now on, and counts
 * no more as a connection of the port. */
int port_conn_take_fd(struct port_conn *c);

/* NULL for fn: connections for that purpose are refused. */
typedef void port_accept_fn(void *ctx, struct port_conn *c);
void port_serve(struct port *p, enum port_purpose purpose, port_accept_fn *fn,
		void *ctx);

struct port_target {
	uint64_t raft_id;    /* 0: whoever is there */
	const char *address; /* host:port */
};

/*
 * Dials, once: the name is resolved now, and its addresses are tried in turn.
 * fn is called once, never inside port_dial: with a connection, or with NULL
 * when nobody could be reached or one side refused. It is logged, why.
 */
typedef void port_dial_fn(void *ctx, struct port_conn *c);
struct port_dial *port_dial(struct port *p, enum port_purpose purpose,
			    const struct port_target *t, port_dial_fn *fn,
			    void *ctx);
void port_dial_cancel(struct port_dial *d); /* before fn was called */
/* Inside fn, of a dial that failed: what it was refused with, by either side;
 * 0: it came to no refusal. */
enum hello_code port_dial_code(const struct port *p);
const char *port_dial_why(const struct port *p); /* in words */

#endif
