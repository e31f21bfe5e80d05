/*
 * Finding and starting the programs of a node.
 */
#ifndef CORVO_SPAWN_H
#define CORVO_SPAWN_H

#include <sys/types.h>

#include "util/buf.h"

/*
 * The path of a program, NUL-terminated, into ret (cleared first): in
 * $CORVO_LIBEXEC, next to our own executable, or in the folder of its name
 * next to ours, as in a build tree. -ERR_NOT_FOUND with text in why.
 */
int spawn_find(const char *program, struct buf *ret, struct buf *why);

struct spawn_args {
	const char *path;    /* of the program */
	const char *program; /* its argv[0] */
	int argc;            /* flags */
	char *const *argv;
	int notify_fd; /* the child's end; CORVO_NOTIFY_FD */
	const struct listeners *listeners; /* CORVO_LISTEN_FD; or NULL */
	int config_fd;            /* read as the file of --config; -1: none */
	int lock_fd;              /* held for as long as the child lives */
	unsigned number;          /* CORVO_NUMBER */
	uint64_t watchdog_ms;     /* CORVO_WATCHDOG_MS */
	uint64_t node_started_ns; /* CORVO_NODE_STARTED_NS */
	uint64_t memory;          /* CORVO_MEMORY_LIMIT; 0: unknown */
};

/*
 * Forks and executes. The child has the descriptors of args beside standard
 * input (/dev/null), output and error, SIGTERM, SIGINT and SIGHUP blocked, all
 * other signals as they are by default, and dies with us.
 * Returns its pid or -errno.
 */
pid_t spawn(const struct spawn_args *args);

#endif
