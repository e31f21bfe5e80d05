/*
 * Clients of a cluster that ask for anything: random requests of every op of
 * ops.def, extreme ones among them, as component/wild_gen.h makes them, and
 * what corvo-sched would ask for at the wrong time. They have queues and jobs
 * of their own. What they are told is for the witness to judge.
 */
#ifndef CORVO_SIM_STRANGERS_H
#define CORVO_SIM_STRANGERS_H

struct strangers;
struct whole;

struct strangers *strangers_new(struct whole *w);
void strangers_calm(struct strangers *x);
void strangers_free(struct strangers *x); /* NULL is ignored */

#endif
