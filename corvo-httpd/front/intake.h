/*
 * What is let in: connections and requests of clients within their limits, and
 * bodies there is room for. All else is refused here, before it costs anything.
 */
#ifndef CORVO_INTAKE_H
#define CORVO_INTAKE_H

#include "util/base.h"

struct conn;
struct exchange;
struct server;
struct sockaddr;

/* Before a connection is taken; false: it is closed, and not told why. */
bool intake_admits(struct server *s, const struct sockaddr *peer);
/* A connection has been opened; it may be refused or cut. */
void intake_connection(struct conn *c);
void intake_closed(const struct conn *c);
/* The limits of clients have changed: who is connected is counted anew. */
void intake_recount(struct server *s);

/* Seconds until a request of its client may be in time, at least one. */
unsigned intake_retry_after(const struct conn *c);

/* The head of a request is here, and its exchange. */
void intake_head(struct conn *c);
/* Bytes of its body. */
void intake_body(struct conn *c, const char *data, size_t n);
/* Whether its client has sent more than it may, and the rest of the body is
 * not to be read for a moment. */
bool intake_must_wait(const struct conn *c);

/* The request is complete. True: it has been answered with a refusal, or will
 * be in a moment. */
bool intake_refuses(struct conn *c);
/* An answer is on its way. */
void intake_answer(const struct exchange *x);

#endif
