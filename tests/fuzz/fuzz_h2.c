/*
 * What of HTTP/2 is looked at before the library, or after it: heads of frames,
 * and headers. Bytes that come in pieces have the same verdict as all at once.
 */
#include "front/h2_head.h"
#include "front/h2_scan.h"
#include "fuzz.h"
#include "proto/limits.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

struct outcome {
	enum h2_id_verdict verdict;
	unsigned unknown_n;
};

static struct outcome scan(struct str in, size_t piece)
{
	struct outcome o = { 0 };
	struct h2_scan s;

	h2_scan_init(&s);
	while (in.n > 0 && o.verdict == H2_ID_FINE) {
		size_t n = MIN(piece, in.n);
		size_t good = h2_scan_feed(&s, (const uint8_t *)in.p, n,
					   &o.verdict, &o.unknown_n);

		CHECK(good <= n && (good == n || o.verdict != H2_ID_FINE));
		in = str_skip(in, n);
	}
	return o;
}

static void frames(struct str in, size_t piece)
{
	struct outcome all = scan(in, in.n + 1), some = scan(in, piece);

	CHECK(all.verdict == some.verdict && all.unknown_n == some.unknown_n);
}

static void count_one(void *ctx, _unused_ const char *name,
		      _unused_ const char *value)
{
	++*(size_t *)ctx;
}

/* One without = has no value. */
static void ask_for(void *ctx, const char *name)
{
	(void)h2_head_argument(ctx, name);
}

/* Names and values, each with its length before it. */
static void headers(struct str in)
{
	struct h2_head h = { 0 };
	struct head read = { 0 };
	bool is_meant = true;
	size_t n = 0;

	h2_head_init(&h);
	while (in.n > 1 && is_meant) {
		size_t name_n = fuzz_choice(&in, 32);
		size_t value_n = fuzz_choice(&in, 256);
		struct str name = str_of(in.p, MIN(name_n, in.n)), value;

		in = str_skip(in, name.n);
		value = str_of(in.p, MIN(value_n, in.n));
		in = str_skip(in, value.n);
		is_meant = h2_head_add(&h, name, value);
	}
	if (h2_head_whole(&h) == 0) {
		h2_head_read(&h, &read);
		h2_head_each(&h, count_one, &n);
		h2_head_each_argument(&h, ask_for, &h);
		CHECK(h2_head_text(&h, h.path) != NULL);
		CHECK(n * 2 <= LIMIT_HEAD_BYTES);
	}
	h2_head_done(&h);
}

void fuzz_one(struct str in)
{
	if (fuzz_choice(&in, 2) == 0)
		frames(in, 1 + fuzz_choice(&in, 30));
	else
		headers(in);
}

static void put_frame(struct rng *rng, struct buf *out)
{
	static const char body[20];
	size_t n = rng_below(rng, sizeof(body));
	const char head[] = { 0,
			      0,
			      (char)n,
			      (char)rng_below(rng, 11),
			      (char)rng_below(rng, 6),
			      0,
			      0,
			      0,
			      (char)rng_below(rng, 9) };

	buf_append(out, head, sizeof(head));
	buf_append(out, body, n);
}

static void put_header(struct buf *out, const char *name, const char *value)
{
	buf_putc(out, (char)strlen(name));
	buf_putc(out, (char)strlen(value));
	buf_puts(out, name);
	buf_puts(out, value);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	bool is_head = rng_below(rng, 2) == 1;

	buf_putc(out, (char)is_head);
	if (is_head) {
		put_header(out, ":method", "GET");
		put_header(out, ":path", "/api/v1/jobs?limit=3&queue=a%20b");
		put_header(out, ":scheme", "http");
		put_header(out, ":authority", "localhost");
		put_header(out, "content-length", "12");
		put_header(out, "cookie", "a=b");
		return;
	}
	buf_putc(out, (char)rng_u64(rng));
	buf_puts(out, PREFACE);
	for (uint64_t n = rng_below(rng, 9); n > 0; n--)
		put_frame(rng, out);
}
