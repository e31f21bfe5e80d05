/*
 * gzip (RFC 1952) of messages; the only file that knows zlib is gzip.c.
 */
#ifndef CORVO_GZIP_H
#define CORVO_GZIP_H

#include "util/buf.h"

/*
 * Appends what is packed in `in`, which is hostile. 0; -ERR_BODY_TOO_LARGE:
 * more than max bytes, and no more than that were unpacked; -ERR_PARSE_ERROR:
 * it is no gzip, is cut off, or something comes after it. Where it fails, out
 * is as it was.
 */
int gzip_unpack(struct str in, size_t max, struct buf *out);

/* Appends it packed. */
void gzip_pack(struct str in, struct buf *out);

#endif
