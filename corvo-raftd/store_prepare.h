/*
 * The format of the store at a start.
 */
#ifndef CORVO_STORE_PREPARE_H
#define CORVO_STORE_PREPARE_H

#include "rt/notify.h"
#include "store/kv.h"

/* A store of an older format is upgraded, and the log told, as of all errors of
 * the store from now on; signs of life go to notify meanwhile. 0 or -ERR_* with
 * a sentence in why. */
int store_prepare(struct kv *kv, struct notify *notify, const char *path,
		  struct buf *why);

#endif
