/*
 * A node that hears of no leader any more may have been removed meanwhile:
 * nobody tells it, as nobody sends it anything. So it knocks at the others,
 * one after the other, until it follows again; the leader refuses one that is
 * no member. Loop thread.
 */
#ifndef CORVO_LOST_H
#define CORVO_LOST_H

#include "cluster/port.h"
#include "serve/parts.h"

struct lost;

/* Sets p->removed. find: as peers_find, with its ctx. */
typedef void lost_find_fn(void *ctx, uint64_t raft_id, const char *configured,
			  struct buf *ret);
struct lost *lost_new(struct parts *p, struct port *port, lost_find_fn *find,
		      void *ctx);
void lost_free(struct lost *l); /* NULL is ignored */

#endif
