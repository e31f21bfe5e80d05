/*
 * Takes connections from the listening sockets, as long as there is room for
 * them; others wait in the kernel. Loop thread.
 */
#ifndef CORVO_ACCEPTOR_H
#define CORVO_ACCEPTOR_H

#include <sys/socket.h>

#include "rt/listen.h"
#include "rt/loop.h"

struct acceptor_ops {
	bool (*has_room)(void *ctx);
	/* The descriptor is the callee's. check_host: only this machine reaches
	 * it, and browsers do. */
	void (*take)(void *ctx, int fd, const struct sockaddr *sa,
		     bool check_host, enum listen_part part);
};

struct acceptor;

/* The sockets stay the caller's. */
struct acceptor *acceptor_new(struct loop *l, const struct settings *set,
			      const struct listeners *ls,
			      const struct acceptor_ops *ops, void *ctx);
void acceptor_free(struct acceptor *a);
void acceptor_resume(struct acceptor *a); /* there may be room again */
void acceptor_stop(struct acceptor *a);   /* for good */
/* Takes what the kernel has, as far as there is room, and no more after that.
 */
void acceptor_finish(struct acceptor *a);
bool acceptor_is_stopped(const struct acceptor *a);

#endif
