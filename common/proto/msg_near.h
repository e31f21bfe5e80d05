/*
 * Names that are a letter or two away from a member's: slips of who wrote the
 * request, which had better be told than passed over.
 */
#ifndef CORVO_MSG_NEAR_H
#define CORVO_MSG_NEAR_H

#include "proto/msg_json.h"

#define NAME_FAR SIZE_MAX

/* How many letters are wrong, at most 2; NAME_FAR: it is another word. */
size_t name_slips(struct str name, struct str member);

/* Puts the nearest member a client may send into *ret; false: none is near. */
bool msg_near(const struct msg_desc *d, struct str name, struct buf *ret);
/* The same of one that the name is the first word of: of node, node_id. */
bool msg_longer(const struct msg_desc *d, struct str name, struct buf *ret);

#endif
