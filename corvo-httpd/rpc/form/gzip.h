/*
 * gzip (RFC 1952) of messages; the only file that knows zlib is gzip.c.
 */
#ifndef CORVO_GZIP_H
#define CORVO_GZIP_H

#include "util/buf.h"

struct gzip_limit {
	size_t max; /* bytes */
	/* Whether there is memory for n more; NULL: there is. */
	bool (*fits)(void *ctx, const struct buf *out, size_t n);
	void *ctx;
};

/*
 * Appends what is packed in `in`, which is hostile, in turns (util/turn.h). 0;
 * -ERR_BODY_TOO_LARGE: more than max bytes, and no more than that were
 * unpacked; -ERR_OVERLOADED: they did not fit; -ERR_PARSE_ERROR: it is no gzip,
 * is cut off, or something comes after it. Where it fails, out is as it was.
 */
int gzip_unpack_by(struct str in, const struct gzip_limit *l, struct buf *out);
int gzip_unpack(struct str in, size_t max, struct buf *out);

/* So much is taken of what came in so many bytes: it may be large, or packed
 * well, but not made of nothing. */
size_t gzip_most(size_t packed_n);

/* Appends it packed. */
void gzip_pack(struct str in, struct buf *out);

#endif
