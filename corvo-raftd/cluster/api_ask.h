/*
 * Where the nodes of a cluster are, asked of the HTTP API of one of them: for
 * who knows that address, and not the one of its port for other nodes.
 */
#ifndef CORVO_API_ASK_H
#define CORVO_API_ASK_H

#include "cluster/found.h"
#include "util/buf.h"

/* "host:port" of "http://host:port" or "http://host:port/"; empty: it is
 * none. */
struct str api_authority(struct str url);

/*
 * Asks, and waits for at most a few seconds; for a pool thread. Adds the
 * addresses of all nodes. 0 or -ERR_NOT_FOUND with a clause in `why`. The
 * answer may be anything: it is bounded, and checked before it is used.
 */
int api_ask_nodes(struct str authority, struct found *ret, struct buf *why);
/* The same of an answer as it came, with its head. */
int api_read_nodes(struct str authority, struct str answer, struct found *ret,
		   struct buf *why);

#endif
