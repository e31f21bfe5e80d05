/*
 * Between node_uv.c and node_transport.c, the only files that know the
 * library's part on libuv.
 */
#ifndef CORVO_NODE_UV_H
#define CORVO_NODE_UV_H

#include "cluster/node_base.h"

#include <raft/uv.h>

struct node_base {
	struct raft_uv_transport transport;
	struct node *node;
	raft_uv_accept_cb accept; /* of the library, for streams that came */
	struct list dials;        /* struct transport_dial under way */
	uint64_t garbage_ns;      /* a stream was last said to have it */
};

void node_wire_transport(struct node *n);

#endif
