/*
 * The checkpoint that stands for the last snapshot of the log: hard links to
 * the files of the store, in <data-dir>/checkpoints/snapshot.
 */
#ifndef CORVO_KEEP_H
#define CORVO_KEEP_H

#include "store/kv.h"

void keep_path(const char *data_dir, struct buf *ret); /* with a NUL */
/* Replaces it by one of now, flushed. Any thread. 0 or -ERR_* with a sentence
 * in why. */
int keep_make(struct kv *kv, const char *data_dir, struct buf *why);

#endif
