/*
 * HTTP/1: the seam to libmicrohttpd, with front/h1_head.c. It runs on our loop:
 * the descriptors of its daemons are watched, and h1_run, called at the end of
 * each turn, does what is to be done.
 *
 * The library walks over all suspended connections of a daemon whenever one of
 * them is resumed; so there are several daemons, and only those run in which
 * something happened. They are filled one after the other: few connections
 * cost what they cost with one. Loop thread.
 */
#ifndef CORVO_H1_H
#define CORVO_H1_H

#include "front/front.h"

struct conn;
struct h1;
struct server;

extern const struct front h1_front;

/* NULL with a sentence in why: it does not start. */
struct h1 *h1_new(struct server *s, size_t max_connections, struct buf *why);
void h1_free(struct h1 *h); /* closes all of its connections; NULL: fine */

/* Serves it; false: it could not, and the connection is gone. */
bool h1_add(struct h1 *h, struct conn *c);

void h1_run(struct h1 *h);     /* end of a turn */
void h1_run_all(struct h1 *h); /* in this turn, whatever has happened */

#endif
