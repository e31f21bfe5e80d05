/*
 * Links between the processes of a node, over nng's ipc:// streams. A link has
 * one listening and one dialling end. See rt/link.h.
 *
 * nng's threads only wake the loop. Never fork in a process that made a struct
 * ipc.
 */
#ifndef CORVO_IPC_H
#define CORVO_IPC_H

#include "rt/link.h"
#include "rt/loop.h"
#include "util/buf.h"

struct ipc;

struct ipc *ipc_new(struct loop *l);
void ipc_free(struct ipc *i); /* closes all links, joins nng's callbacks */
struct loop *ipc_loop(struct ipc *i);

/* Ends nng's threads. Last of all, in a process that has no struct ipc left. */
void ipc_exit(void);

/* path is a socket file; 0 or -ERR_INTERNAL_ERROR with text in why */
int ipc_listen(struct ipc *i, const char *path, const struct link_ops *ops,
	       void *ctx, struct link **ret, struct buf *why);
int ipc_dial(struct ipc *i, const char *path, const struct link_ops *ops,
	     void *ctx, struct link **ret, struct buf *why);

#endif
