/*
 * A cluster that an older release has left behind: the first machine has its
 * store and a log that was cut there, and upgrades them; the others join it.
 */
#ifndef CORVO_SIM_OLD_H
#define CORVO_SIM_OLD_H

struct kv;
struct machine;

/* Before its first start. */
void old_begin(struct machine *m);
/* What the store is after the upgrade: a copy. */
struct kv *old_store(void);

#endif
