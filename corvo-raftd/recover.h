/*
 * `corvo recover`: makes a node again from its store, when its log is lost,
 * damaged or of another moment. Offline; the node must not run.
 *
 * Entries of the log that go on where the store ends are applied first. Then
 * the node gets a log of its own that begins there, and a new history, so that
 * nothing that knows the old one (a view, a copy of the old log) is taken for
 * part of it. Nothing is deleted: what is replaced is moved aside.
 *
 * `corvo cluster recover`: the same with a log that is sound, when too many of
 * the other nodes are lost for good: the new cluster is this node alone. The
 * others belong to the old history, and are refused.
 */
#ifndef CORVO_RECOVER_H
#define CORVO_RECOVER_H

#include "util/base.h"

/* Flags only. Exit status: 0 done, or nothing to do; 1 failed; 2 refused.
 * alone: --yes is one of them, without which nothing is changed. */
int recover_main(int argc, char *const argv[], bool alone);

#endif
