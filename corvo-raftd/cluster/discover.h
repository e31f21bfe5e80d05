/*
 * Where other nodes may be, as the settings join and discover say: their
 * addresses, or a name that is looked up. Looking may take as long as a name
 * service does, so it is done on a pool thread. Loop thread otherwise.
 */
#ifndef CORVO_DISCOVER_H
#define CORVO_DISCOVER_H

#include "cluster/found.h"
#include "rt/config.h"
#include "rt/loop.h"

struct discover;

/* Copies what it needs of the settings. */
struct discover *discover_new(struct loop *l, const struct settings *s);
void discover_free(struct discover *d); /* fn is not called any more */

/*
 * Looks, once; one at a time. fn gets what was found, which may be nothing,
 * and what could not be looked up: a clause, or an empty text. It is called
 * once, never inside discover_look; both are valid during the call.
 */
typedef void discover_fn(void *ctx, const struct found *f, struct str why);
void discover_look(struct discover *d, discover_fn *fn, void *ctx);

/*
 * The name of the headless service of a pod, of the pod's own name there:
 * "corvo-nodes.ns.svc" of "corvo-0.corvo-nodes.ns.svc:9400". Empty: it has
 * none.
 */
struct str discover_service(const char *advertise);

#endif
