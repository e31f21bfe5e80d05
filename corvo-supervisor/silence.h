/*
 * Whether the silence of a process is its own fault.
 *
 * One that wants to run while others do, or waits for the disk, is not stuck,
 * and would be no better off after a restart, which costs more of both. That
 * time is not held against it, up to a limit.
 */
#ifndef CORVO_SILENCE_H
#define CORVO_SILENCE_H

#include "child.h"

/* True: it is given more time, see excused_ns, and the log says why. */
bool silence_excuse(struct child *c, uint64_t now_ns);

#endif
