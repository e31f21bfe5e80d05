/*
 * What questions to the view have in common: the event it must hold before it
 * answers, and how long to wait for that.
 */
#ifndef CORVO_VIEW_ASK_H
#define CORVO_VIEW_ASK_H

#include "proto/proto.h"

/* False when such a message carries neither. */
bool view_ask_get(const struct msg_desc *d, const void *m, uint64_t *ret_seq,
		  uint64_t *ret_wait_ns);
bool view_ask_set(const struct msg_desc *d, void *m, uint64_t seq,
		  uint64_t wait_ns);

#endif
