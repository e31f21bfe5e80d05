/*
 * Links (rt/link.h) between nodes, over connections of cluster/port.h.
 *
 * A link that dials keeps on trying for as long as it has a target, with
 * pauses that grow to a second. One for a peer that dials us is given each of
 * its connections. Both cost 64 KiB while nothing large is on its way, and read
 * a bounded amount per turn of the loop.
 */
#ifndef CORVO_PEER_LINK_H
#define CORVO_PEER_LINK_H

#include "cluster/port.h"
#include "rt/link.h"

/* Has no target yet. The port must outlive it. */
struct link *peer_link_new(struct port *p, enum port_purpose purpose,
			   const struct link_ops *ops, void *ctx);
/*
 * Whom to dial from now on; copied; NULL: nobody. Another one than before ends
 * the connection: on_down is called before this returns.
 */
void peer_link_target(struct link *l, const struct port_target *t);

/* For a peer that dials us: up while it is connected. */
struct link *peer_link_inbound(const struct link_ops *ops, void *ctx);
/*
 * Takes the connection over. One that is there already is ended: on_down, then
 * on_up, before this returns.
 */
void peer_link_attach(struct link *l, struct port_conn *c);

/* Who is at the other end; NULL while the link is down. */
const struct port_peer *peer_link_peer(const struct link *l);

#endif
