/*
 * `corvo admin skip-entry`: the last way out, when an entry of the log kills
 * the node at every start and no version is at hand that can apply it. Offline.
 *
 * The entry is marked in the file `skip` of the data directory, by its index,
 * term and id: no other entry is meant. The node then applies nothing of it
 * (fsm_skip), and says so at each start. Every node of the cluster has to leave
 * out the same entries; one that does not has another state from there on.
 */
#ifndef CORVO_SKIP_H
#define CORVO_SKIP_H

#include "fsm/fsm.h"

/* INDEX, --yes and flags. Exit status as of recover_main. */
int skip_main(int argc, char *const argv[]);

/*
 * Tells the state machine what is marked, and the log. 0, or -ERR_CONFLICT with
 * a sentence in why: the file cannot be read.
 */
int skips_load(const char *data_dir, struct fsm *f, struct buf *why);

#endif
