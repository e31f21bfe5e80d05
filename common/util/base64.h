/*
 * Base64 (RFC 4648). Read in both alphabets, with padding or without; written
 * in the first one.
 */
#ifndef CORVO_BASE64_H
#define CORVO_BASE64_H

#include "util/buf.h"

void base64_write(struct buf *out, struct str bytes, bool with_padding);

/* Appends what it stands for; false: it is none, or nobody wants it any more
 * (util/turn.h), and out is as it was. */
bool base64_read(struct buf *out, struct str text);

#endif
