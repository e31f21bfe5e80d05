/*
 * The descriptor of a connection that a library has made and does not tell.
 *
 * It is looked for among all of this process, once for each connection: a
 * UNIX socket that is connected to the path, or was accepted at it.
 */
#ifndef CORVO_IPC_FD_H
#define CORVO_IPC_FD_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the socket with this inode is another connection. */
typedef bool ipc_fd_known_fn(void *ctx, ino_t inode);

/*
 * A copy of it, which is the caller's to close, and its inode; -1: there is
 * none that is open still, or more than one that is not known.
 */
int ipc_fd_find(const char *path, bool accepted, ipc_fd_known_fn *known,
		void *ctx, ino_t *ret_inode);

/* A copy of the socket that listens at the path, likewise; -1: there is none.
 */
int ipc_fd_find_listener(const char *path);

#endif
