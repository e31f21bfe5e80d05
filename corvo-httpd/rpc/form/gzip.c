/*
 * See rpc/form/gzip.h.
 */
#include "rpc/form/gzip.h"

#include <limits.h>
#include <zlib.h>

#include "proto/err.h"
#include "proto/limits.h"
#include "util/turn.h"

#define GZIP_WINDOW (MAX_WBITS + 16) /* with the head and sum of gzip */
#define PART_BYTES  (16u << 10)
#define GZIP_LEVEL  1 /* most of the gain for the least work */
#define GZIP_MEMORY 8

size_t gzip_most(size_t packed_n)
{
	size_t n = packed_n * LIMIT_UNPACKED_RATIO;

	return MIN(MAX(n, (size_t)LIMIT_UNPACKED_BYTES),
		   (size_t)LIMIT_BODY_BYTES);
}

/* One call of inflate per part, so that a bomb is noticed early. */
static int unpack(z_stream *z, const struct gzip_limit *l, struct buf *out)
{
	size_t before = out->n;
	int r = Z_OK;

	while (r == Z_OK) {
		char *to;

		turn_stride();
		if (turn_is_over() ||
		    (l->fits != NULL && !l->fits(l->ctx, out, PART_BYTES)))
			return -ERR_OVERLOADED;
		to = buf_reserve(out, PART_BYTES);
		if (to == NULL)
			return -ERR_BODY_TOO_LARGE;
		z->next_out = (Bytef *)to;
		z->avail_out = PART_BYTES;
		r = inflate(z, Z_NO_FLUSH);
		out->n += PART_BYTES - z->avail_out;
		if (out->n - before > l->max)
			return -ERR_BODY_TOO_LARGE;
	}
	CHECK(r != Z_MEM_ERROR && r != Z_STREAM_ERROR);
	return r == Z_STREAM_END && z->avail_in == 0 ? 0 : -ERR_PARSE_ERROR;
}

int gzip_unpack_by(struct str in, const struct gzip_limit *l, struct buf *out)
{
	z_stream z = { 0 };
	size_t before = out->n;
	int r;

	REQUIRE(in.n <= UINT_MAX);
	CHECK(inflateInit2(&z, GZIP_WINDOW) == Z_OK);
	z.next_in = (Bytef *)(uintptr_t)in.p;
	z.avail_in = (uInt)in.n;
	r = unpack(&z, l, out);
	(void)inflateEnd(&z);
	if (r < 0) {
		out->n = before;
		out->full = false;
	}
	return r;
}

int gzip_unpack(struct str in, size_t max, struct buf *out)
{
	const struct gzip_limit l = { .max = max };

	return gzip_unpack_by(in, &l, out);
}

void gzip_pack(struct str in, struct buf *out)
{
	z_stream z = { 0 };
	uLong most;
	char *to;

	REQUIRE(in.n <= UINT_MAX);
	CHECK(deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
			   Z_DEFAULT_STRATEGY) == Z_OK);
	most = deflateBound(&z, (uLong)in.n);
	to = buf_reserve(out, most);
	if (to != NULL) {
		z.next_in = (Bytef *)(uintptr_t)in.p;
		z.avail_in = (uInt)in.n;
		z.next_out = (Bytef *)to;
		z.avail_out = (uInt)most;
		CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
		out->n += most - z.avail_out;
	}
	(void)deflateEnd(&z);
}
