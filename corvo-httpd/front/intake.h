/*
 * What is let in: connections and requests of clients within their limits, and
 * bodies there is room for. All else is refused here, before it costs anything.
 */
#ifndef CORVO_INTAKE_H
#define CORVO_INTAKE_H

#include "util/str.h"

struct conn;
struct exchange;
struct ip;
struct server;
struct sockaddr;

/* Before a connection is taken; false: it is closed, and not told why. */
bool intake_admits(struct server *s, const struct sockaddr *peer);
/* A connection has been opened. False: its client has too many, and it is to
 * be told so, if it is one of those that are. */
bool intake_connection(struct conn *c);
void intake_tell(struct conn *c);
void intake_closed(const struct conn *c);
/* The limits of clients have changed: who is connected is counted anew. */
void intake_recount(struct server *s);

/* Seconds until a request of that client may be in time, at least one. */
unsigned intake_retry_after(struct server *s, const struct ip *client);

/* Who looks after this node has to be answered whatever others do. */
bool intake_is_probe(struct str path);
/* The head of a request is here. */
void intake_head(struct exchange *x);
/* Bytes of its body. */
void intake_body(struct exchange *x, const char *data, size_t n);
/*
 * The same for a front that keeps what is not taken and offers it again, which
 * it does also while it is suspended: *n bytes are left. True: it is to be
 * suspended.
 */
bool intake_offer(struct exchange *x, const char *data, size_t *n);
/* A message of a body that is many of them is worth a request, and those that
 * were packed are worth what came out. */
void intake_message(const struct exchange *x, size_t unpacked_n);
void intake_unpacked(const struct exchange *x, size_t n);
/* Whether its client has sent more than it may, and the rest of the body is
 * not to be read for a moment. */
bool intake_must_wait(const struct exchange *x);

/* The request is complete. True: it has been answered with a refusal, or will
 * be in a moment. */
bool intake_refuses(struct exchange *x);
/* An answer is on its way. */
void intake_answer(const struct exchange *x);

#endif
