/*
 * Ops that fail a check of ours (MUST of core/entry.h). The log has them for
 * good: a process that stopped would stop again at every start, on every node.
 *
 * Such an op is given up where the check stands, and its entry undone. What is
 * in memory may be half changed, so it is loaded anew from the store, where the
 * entries before it are; then the entry is applied again. It may have been what
 * was in memory that was wrong: then all is well now. An op that fails also so
 * fails on every replica, for nothing but the store and the entry decides: the
 * next time round it is left out, and answered 500.
 *
 * Loading takes as long as at a start. This is the way out of a bug, not a way
 * to go.
 */
#ifndef CORVO_FSM_FAULT_H
#define CORVO_FSM_FAULT_H

#include "fsm/core/state.h"
#include "proto/frame.h"

typedef int fault_fn(struct fsm *f, const struct entry_item *item);

/* An entry begins, for the first time. */
void faults_begin(struct fsm *f);
/* Calls fn; when a check fails in it f->faults.hit is set, and this returns
 * -ERR_INTERNAL_ERROR. */
int fault_guard(struct fsm *f, const struct entry_item *item, fault_fn *fn);
/* bounds_settle at the end of the entry. A check that fails in it is the fault
 * of the op that made it necessary. */
void faults_settle(struct fsm *f, const struct entry *e);

/* The i-th of the entry is left out. */
bool fault_is_undone(const struct fsm *f, size_t i);
int fault_refuse(struct fsm *f); /* its answer */
/* So many before the i-th are that those from it on get another entry. */
bool faults_are_many(const struct fsm *f, size_t i);
/* Everything was loaded anew: the entry begins once more. */
void faults_loaded(struct fsm *f);

#endif
