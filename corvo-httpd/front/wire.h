/*
 * The bytes between a socket and the server library, which is linked so that
 * it calls these where it would call recv, send and sendmsg (see cmake/). Here
 * the framing of each request is checked before the library sees a byte of it,
 * what a refused client still sends is thrown away, and the headers of an
 * answer are put into its head: the library would copy each of them thrice.
 */
#ifndef CORVO_WIRE_H
#define CORVO_WIRE_H

#include <sys/types.h>

#include "util/base.h"

struct conn;
struct msghdr;

/* From the first byte on; before the descriptor is closed wire_remove. */
void wire_add(struct conn *c);
void wire_remove(struct conn *c);
void wire_done(void); /* frees what it keeps, when all are removed */

/* As recv. Of a descriptor that was not added it is recv. */
ssize_t wire_recv(int fd, void *to, size_t n, int flags);

/* As send and sendmsg, but that conn.headers stand in the head of an answer. */
ssize_t wire_send(int fd, const void *p, size_t n, int flags);
ssize_t wire_sendmsg(int fd, const struct msghdr *m, int flags);

/*
 * A request of it has been answered. If the next one is known to be bad and
 * no other stands before it, it is refused now.
 */
void wire_begin_turn(void); /* more of bodies may be read */
void wire_answered(struct conn *c);

#endif
