/*
 * A node with data of one cluster whose setting join names nodes of another:
 * joining would mean losing what it has, and serving it would hide that the
 * node stands where nobody wanted it. So it says which it is and stops. But a
 * node that was recovered only says so: nodes of the cluster it is the rest of
 * may have come back, and must not keep it from serving. And while somebody
 * cannot be asked who may be of its own cluster, it goes on. Looks until a node
 * of its own cluster answers, or all have. Loop thread.
 */
#ifndef CORVO_APART_H
#define CORVO_APART_H

#include "cluster/port.h"
#include "rt/daemon.h"

struct apart;

/* NULL: setting join names nobody. */
struct apart *apart_new(struct daemon *d, struct port *port,
			const struct history *own);
void apart_free(struct apart *a); /* NULL is ignored */

#endif
