/*
 * SRV records of a name: the only file that knows the resolver's own
 * functions, as getaddrinfo does not tell them.
 */
#ifndef CORVO_SRV_H
#define CORVO_SRV_H

#include "cluster/found.h"
#include "util/buf.h"

/*
 * Asks the name service, and may take long. Adds host:port of each record; 0
 * or -ERR_NOT_FOUND with a clause in `why`.
 */
int srv_look_up(const char *name, struct found *ret, struct buf *why);
/* The same of an answer as it came. False: it is no such answer. */
bool srv_read(const unsigned char *answer, size_t n, struct found *ret);

#endif
