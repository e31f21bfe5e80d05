/*
 * The sockets of the HTTP API, as the setting `bind` lists them: addresses, and
 * files (unix:/path) with socket_mode and socket_group. Behind them those of
 * scheddb_bind and scheddb_metrics_bind, at which only a part of it is served.
 */
#ifndef CORVO_LISTEN_H
#define CORVO_LISTEN_H

#include <sys/stat.h>

#include "proto/limits.h"
#include "rt/config.h"

/* What is served at a socket. */
enum listen_part { LISTEN_ALL, LISTEN_SCHEDDB, LISTEN_METRICS };

struct listeners {
	int fd[LIMIT_LISTENERS];
	struct stat file[LIMIT_LISTENERS]; /* of those that are files */
	size_t n;
};

/* The path of "unix:/path"; NULL: it is another address. */
const char *listen_path(const char *text);

/*
 * Calls fn with each part of the list, until it returns other than 0, which is
 * returned.
 */
typedef int listen_item_fn(void *ctx, const char *text);
int listen_items(const char *list, listen_item_fn *fn, void *ctx,
		 struct buf *why);

/* A file of that name can be a socket. -ERR_VALIDATION_ERROR with a text. */
int listen_check_path(const char *path, struct buf *why);
/* "0660" into *ret; false when it is no mode. */
bool listen_parse_mode(const char *text, mode_t *ret);

/*
 * Opens all of them, or none. The file of a socket that nobody listens on is
 * replaced; one that is in use, or is something else, is left alone and
 * refused. -ERR_VALIDATION_ERROR with a sentence in why.
 */
int listeners_open(const struct settings *s, struct listeners *ret,
		   struct buf *why);
/* The same of those alone that follow the ones of `bind`, which have been given
 * to us. */
int listeners_open_parts(const struct settings *s, struct listeners *ls,
			 struct buf *why);
/* Of a socket by its place. */
enum listen_part listen_part(const struct settings *s, size_t place);

/*
 * Nobody connects any more: files that are ours are removed, and at other
 * sockets the kernel does not hear who begins to. Connections that it has made
 * already are still to be accepted: it would reset them when they are closed.
 * Whoever tries meanwhile is refused when they are.
 */
void listeners_refuse(const struct listeners *ls);
/* Closes them, and removes the files that are still ours. */
void listeners_close(struct listeners *ls);

/* "127.0.0.1:8080,unix:/run/corvo.sock", as it came out. */
void listeners_put(const struct listeners *ls, struct buf *out);

#endif
