/*
 * Where requests of HTTP/1 begin and end: the same, whatever the pieces the
 * bytes come in.
 */
#include "front/framing.h"
#include "fuzz.h"
#include "proto/err.h"
#include "proto/limits.h"

#define REQUESTS 4

/* A head that is too large and malformed is refused for what is met first:
 * that depends on the pieces. */
static bool is_same(int a, int b)
{
	return a == b ||
	       (a < 0 && b < 0 &&
		(a == -ERR_HEAD_TOO_LARGE || b == -ERR_HEAD_TOO_LARGE));
}

void fuzz_one(struct str in)
{
	size_t piece = 1 + fuzz_choice(&in, 40), good = 0;
	struct framing whole = { 0 }, parts = { 0 };
	int r = framing_feed(&whole, in.p, in.n, &good), p = 0;

	CHECK(good <= in.n);
	CHECK(r <= 0 && (r < 0 || whole.why == NULL));
	for (size_t at = 0; at < in.n && p == 0; at += piece) {
		size_t n = MIN(piece, in.n - at);

		p = framing_feed(&parts, in.p + at, n, &good);
		CHECK(good <= n);
	}
	CHECK(is_same(p, r) && parts.whole == whole.whole);
	CHECK(r != 0 || parts.state == whole.state);
	CHECK(whole.head_n <= LIMIT_HEAD_BYTES || r != 0);
}

static const char *const lines[] = {
	"Host: localhost",
	"Host: b",
	"Content-Length: 3",
	"Content-Length: 3, 3",
	"Transfer-Encoding: chunked",
	"Transfer-Encoding: gzip, chunked",
	"Cookie: a=b",
	"X-Long: some more of it",
	"Connection: close",
	"Expect: 100-continue",
};

static void put_line(struct buf *out, const char *line)
{
	buf_puts(out, line);
	buf_puts(out, "\r\n");
}

static void put_request(struct rng *rng, struct buf *out)
{
	static const char *const heads[] = {
		"GET / HTTP/1.1",
		"POST /api/v1/enqueue?a=b HTTP/1.1",
		"OPTIONS * HTTP/1.1",
		"GET http://localhost/x HTTP/1.0",
	};

	put_line(out, heads[rng_below(rng, ARRAY_SIZE(heads))]);
	put_line(out, lines[0]);
	for (uint64_t n = rng_below(rng, 4); n > 0; n--)
		put_line(out, lines[rng_below(rng, ARRAY_SIZE(lines))]);
	put_line(out, "");
	switch (rng_below(rng, 3)) {
	case 0:
		buf_puts(out, "abc");
		break;
	case 1:
		buf_puts(out, "3;x=\"y\"\r\nabc\r\n0\r\nTrailer: 1\r\n\r\n");
		break;
	default:
		break;
	}
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	buf_putc(out, (char)rng_u64(rng));
	for (uint64_t n = 1 + rng_below(rng, REQUESTS); n > 0; n--)
		put_request(rng, out);
}
