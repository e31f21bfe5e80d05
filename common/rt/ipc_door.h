/*
 * The door of a link that listens: it serves one peer at a time, so one that
 * says nothing must not keep others out. Loop thread; for rt/ipc_nng.c only.
 */
#ifndef CORVO_IPC_DOOR_H
#define CORVO_IPC_DOOR_H

#include "rt/loop.h"
#include "util/buf.h"

struct ipc_door {
	int fd; /* a copy of the listening socket's, or -1 */
	struct loop_timer *timer;
	uint64_t look_ns; /* until the next look; 0: none is awaited */
	bool hurries;     /* one was let go, and others stand in line still */
	loop_fn *on_silent;
	void *ctx;
};

/* Before all else. on_silent(ctx): the peer that has come shall go. */
void ipc_door_init(struct ipc_door *d, struct loop *l, loop_fn *on_silent,
		   void *ctx);
void ipc_door_done(struct ipc_door *d);
/* It listens at the path now. */
void ipc_door_open(struct ipc_door *d, const char *path);
/* Somebody else waits to be let in. */
bool ipc_door_is_wanted(const struct ipc_door *d);

/* A peer has come, and has to say something soon; it has, or is gone. */
void ipc_door_await(struct ipc_door *d);
void ipc_door_heard(struct ipc_door *d);

/* "ipc://" and the path, NUL-terminated; -ERR_INTERNAL_ERROR with a sentence in
 * why when it is too long for a socket. */
int ipc_door_url(const char *path, struct buf *ret, struct buf *why);

#endif
