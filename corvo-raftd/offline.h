/*
 * What the commands have in common that change a data directory whose node does
 * not run.
 */
#ifndef CORVO_OFFLINE_H
#define CORVO_OFFLINE_H

#include "cluster/fit.h"
#include "store/kv.h"

struct offline {
	bool is_begun;
	int lock[2];
};

/*
 * The directory is there, is that of who runs this, and nobody uses it: it is
 * locked until offline_end. 0, or -ERR_CONFLICT with a sentence in why.
 */
int offline_begin(struct offline *o, const char *data_dir, struct buf *why);
void offline_end(struct offline *o);

/* What an open store says of itself. 0 or -ERR_* with a sentence in why. */
int offline_read(struct kv *kv, struct store_state *ret, struct buf *why);
/* The same of a store at this path, which is left as it is; of none: nothing.
 */
int offline_look(const char *path, struct store_state *ret, struct buf *why);

#endif
