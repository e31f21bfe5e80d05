/*
 * A machine that is given up: its node is removed from the cluster, and another
 * one with an empty disk and a number of its own takes its place. Or nobody
 * removes it: it comes back with its name and an empty disk.
 */
#ifndef CORVO_SIM_CHANGE_H
#define CORVO_SIM_CHANGE_H

#include <stdbool.h>

struct change;
struct machine;
struct whole;

struct change *change_new(struct whole *w);
void change_free(struct change *c);
/* One at a time: nothing happens, and it returns false, while the last one has
 * not joined. */
bool change_begin(struct change *c, struct machine *m);
/* It is being replaced, and starts when that is done. */
bool change_is_of(const struct change *c, const struct machine *m);

#endif
