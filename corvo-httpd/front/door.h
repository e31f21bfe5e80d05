/*
 * Connections of which nothing is known yet. They cost a descriptor and a few
 * bytes; the first that come, which are only looked at, tell who serves them.
 * Loop thread.
 */
#ifndef CORVO_DOOR_H
#define CORVO_DOOR_H

#include "rt/loop.h"

struct conn;
struct door;

struct door_ops {
	/* It is theirs from now on, and may be gone after the call. */
	void (*is_h1)(void *ctx, struct conn *c);
	void (*is_h2)(void *ctx, struct conn *c);
	/* Its descriptor is closed; it is to be forgotten. */
	void (*closed)(void *ctx, struct conn *c);
};

/* NULL: no descriptor left. */
struct door *door_new(struct loop *l, const struct door_ops *ops, void *ctx);
void door_free(struct door *d); /* nobody is there any more; NULL: fine */

void door_add(struct door *d, struct conn *c);
/* Nothing has come that says what it is. */
bool door_is_silent(const struct conn *c);
/* Closes it; it is gone after that. */
void door_close(struct conn *c);

#endif
