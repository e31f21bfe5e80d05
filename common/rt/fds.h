/*
 * Descriptors a process is started with, and how many it may have.
 */
#ifndef CORVO_FDS_H
#define CORVO_FDS_H

#include "proto/limits.h"
#include "util/buf.h"

struct settings;

/* Fills 0 to 2 where they are closed: a socket there would receive log
 * lines. */
void fds_fill_standard(void);

/* Closes all from 3 on that are not in keep; what is negative there counts as
 * nothing. Whoever started us may have left some open by mistake, and would
 * wait for ever for the end of a pipe that we hold. */
void fds_close_but(const int *keep, size_t n);

/* Listening sockets that were opened for us, by the supervisor
 * (CORVO_LISTEN_FD, separated by commas) or by systemd: how many. */
size_t fds_listeners(int fds[LIMIT_LISTENERS]);

/* N of a path /proc/self/fd/N or /dev/fd/N, else -1. */
int fds_of_path(const char *path);

/* Raises the limit of open files as far as it goes, and returns it. */
uint64_t fds_raise_limit(void);

/* How many of so many more descriptors the limit has room for. */
uint64_t fds_room_for(uint64_t wanted);

/*
 * A limit no process of a node can work with is -ERR_VALIDATION_ERROR with a
 * sentence in why; one that is too small for the settings is a warning in the
 * log.
 */
int fds_check_limit(const struct settings *s, struct buf *why);

#endif
