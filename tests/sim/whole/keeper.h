/*
 * What corvo-sched does of a machine: asks what is due, and proposes it.
 */
#ifndef CORVO_SIM_KEEPER_H
#define CORVO_SIM_KEEPER_H

#include "util/str.h"

struct keeper;
struct machine;

struct keeper *keeper_new(struct machine *m);
void keeper_free(struct keeper *k);
/* Asks for an op of the server's own; nobody waits for the answer. */
void keeper_ask(struct keeper *k, unsigned op, struct str body);

#endif
