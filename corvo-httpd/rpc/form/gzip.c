/*
 * See rpc/form/gzip.h.
 */
#include "rpc/form/gzip.h"

#include <limits.h>
#include <zlib.h>

#include "proto/err.h"

#define GZIP_WINDOW (MAX_WBITS + 16) /* with the head and sum of gzip */
#define PART_BYTES  (16u << 10)
#define GZIP_LEVEL  1 /* most of the gain for the least work */
#define GZIP_MEMORY 8

/* One call of inflate per part, so that a bomb is noticed early. */
static int unpack(z_stream *z, size_t max, struct buf *out)
{
	size_t before = out->n;
	int r = Z_OK;

	while (r == Z_OK) {
		char *to = buf_reserve(out, PART_BYTES);

		if (to == NULL)
			return -ERR_BODY_TOO_LARGE;
		z->next_out = (Bytef *)to;
		z->avail_out = PART_BYTES;
		r = inflate(z, Z_NO_FLUSH);
		out->n += PART_BYTES - z->avail_out;
		if (out->n - before > max)
			return -ERR_BODY_TOO_LARGE;
	}
	CHECK(r != Z_MEM_ERROR && r != Z_STREAM_ERROR);
	return r == Z_STREAM_END && z->avail_in == 0 ? 0 : -ERR_PARSE_ERROR;
}

int gzip_unpack(struct str in, size_t max, struct buf *out)
{
	z_stream z = { 0 };
	size_t before = out->n;
	int r;

	CHECK(in.n <= UINT_MAX);
	CHECK(inflateInit2(&z, GZIP_WINDOW) == Z_OK);
	z.next_in = (Bytef *)(uintptr_t)in.p;
	z.avail_in = (uInt)in.n;
	r = unpack(&z, max, out);
	(void)inflateEnd(&z);
	if (r < 0) {
		out->n = before;
		out->full = false;
	}
	return r;
}

void gzip_pack(struct str in, struct buf *out)
{
	z_stream z = { 0 };
	uLong most;
	char *to;

	CHECK(in.n <= UINT_MAX);
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
