/*
 * A snapshot of another node takes the place of this node's store and log.
 *
 * While the node runs it is fetched into <data-dir>/incoming/<index>
 * (download.h); when all of it is there and on disk, <data-dir>/incoming/ready
 * is written, with what the log has to say then, and the process ends. The
 * next one puts it in place before it opens anything. A crash at any moment
 * leaves `ready`, and the next start does it again, or what is left of it.
 *
 * The votes this node gave (metadata1, metadata2) stay.
 *
 * Of a node whose store is damaged only the store is replaced: the cluster may
 * count on what its log has. The log must have the entry the new store ends
 * with, or all stays as it is.
 */
#ifndef CORVO_INSTALL_H
#define CORVO_INSTALL_H

#include "cluster/node.h"

/* Says that the snapshot is complete. 0 or -ERR_* with a sentence in why. */
int install_ready(const struct settings *s, const struct node_install *i,
		  struct buf *why);

/* The entry of the snapshot that is there to be put in place; 0: none. And
 * whether it takes the place of a damaged store. */
uint64_t install_index(const struct settings *s, bool *ret_heals);

/* Puts one in place, if there is one. 0; or -ERR_CONFLICT when it says things
 * that cannot be, or -ERR_*, with a sentence in why. */
int install_finish(const struct settings *s, struct buf *why);

/* The same up to that step, as a crash would end it. */
#define INSTALL_STEPS 7
int install_steps(const struct settings *s, unsigned steps, struct buf *why);

#endif
