/*
 * HTTP/2: the seam to nghttp2, with the other files of that name. Requests are
 * streams of a connection; each is an exchange like any other. What gathers in
 * a turn for a connection leaves in one write at its end. Loop thread.
 */
#ifndef CORVO_H2_H
#define CORVO_H2_H

#include "front/conn.h"
#include "front/front.h"

struct h2;  /* a connection */
struct h2s; /* all of a process */

extern const struct front h2_front;

/* What was wrong with clients, and ended their connections. */
enum h2_reason {
	H2_PROTOCOL, /* it is not HTTP/2 */
	H2_FRAMES,   /* too many that ask for nothing */
	H2_RESETS,   /* too many requests taken back */
	H2_HEAD,     /* a head nobody can mean */
	H2_SLOW,     /* takes nothing of what is sent, or sends half a head */
	H2_REASONS,
};
const char *h2_reason_name(enum h2_reason r); /* for a label */

struct h2s *h2s_new(struct server *s); /* NULL: no descriptor left */
/* Closes all of its connections; NULL: fine. */
void h2s_free(struct h2s *all);
size_t h2s_count(const struct h2s *all);
uint64_t h2s_ended(const struct h2s *all, enum h2_reason r);

/* The preface is in the socket. It is served from now on. */
void h2_add(struct h2s *all, struct conn *c);
void h2_run(struct h2s *all);   /* end of a turn */
void h2_drain(struct h2s *all); /* tells clients to ask elsewhere */
/* And takes nothing more of those that have had time to hear that. */
void h2_drain_end(struct h2s *all);

/* A look at its limits, now and then. */
void h2_sweep(struct h2 *h, const struct conns *cs, uint64_t now_ns);
/* The server stops: refuses what has been coming for so long. */
void h2_refuse_coming(struct h2 *h, uint64_t now_ns, uint64_t after_ns,
		      struct conns_refused *ret);
/* Ends it in order, at the end of the turn; requests under way end, too. */
void h2_goodbye(struct h2 *h);
void h2_each_exchange(struct h2 *h, conn_exchange_fn *fn, void *ctx);

#endif
