/*
 * A store that reads another one, which outlives it, and writes down what is
 * written: to be compared, byte by byte, with what another state machine
 * writes.
 */
#ifndef CORVO_TAP_KV_H
#define CORVO_TAP_KV_H

#include "store/kv.h"

/* passes: writes go to the store below as well; else only into the text. */
struct kv *tap_new(struct kv *below, bool passes);
/* All batches since tap_clear. */
struct str tap_said(struct kv *kv);
void tap_clear(struct kv *kv);
/* How often keys of that kind were looked through; it is counted from the first
 * call on, which says 0. */
uint64_t tap_looks(struct kv *kv, const char *kind);
/* The first change in which two such texts differ, readable; nothing: they are
 * the same. */
void tap_compare(struct str a, struct str b, struct buf *ret);

#endif
