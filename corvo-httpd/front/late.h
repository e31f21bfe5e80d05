/*
 * What is done a moment later. A client that goes on asking although
 * it is refused would have all of a core by being told so at once; one that
 * waits for each refusal costs next to nothing. Loop thread.
 */
#ifndef CORVO_LATE_H
#define CORVO_LATE_H

#include "front/exchange.h"
#include "rt/loop.h"

struct late;

struct late *late_new(struct loop *l);
void late_free(struct late *l);

/* Its answer is made; it is sent after LATE_NS. */
void late_add(struct exchange *x);
/* The rest of its body is read after LATE_NS. The connection is suspended. */
void late_read(struct exchange *x);
void late_remove(struct exchange *x); /* no-op when it is not one of them */

/* Closes a connection nobody serves, after LATE_NS; at once when too many of
 * them wait for it. */
void late_close(struct late *l, int fd);

#endif
