/*
 * What is around messages: envelopes, as they are, packed and as text, and the
 * headers that say how. Bytes that come in pieces mean the same as all at once;
 * what is unpacked keeps to its limit.
 */
#include "fuzz.h"
#include "proto/err.h"
#include "rpc/form/form.h"
#include "rpc/form/gzip.h"
#include "util/base64.h"

#define MESSAGE_MAX 300 /* bytes, so that inputs get there */
#define UNPACKED    2000

/* What came of some bytes. */
struct outcome {
	struct buf messages; /* each with its flags before it */
	int err;             /* 0: more may come */
};

static void take(struct outcome *o, struct str *in)
{
	struct envelope e;
	int n;

	while ((n = envelope_next(in, MESSAGE_MAX, &e)) > 0) {
		CHECK(e.data.n <= MESSAGE_MAX);
		buf_putc(&o->messages, (char)e.flags);
		buf_put_str(&o->messages, e.data);
	}
	o->err = n;
}

static void in_pieces(struct str in, size_t piece)
{
	struct outcome all = { 0 }, some = { 0 };
	_cleanup_(buf_done) struct buf held = BUF_INIT(0);
	struct str whole = in, rest;

	take(&all, &whole);
	for (size_t at = 0; at < in.n && some.err == 0; at += piece) {
		buf_append(&held, in.p + at, MIN(piece, in.n - at));
		rest = buf_str(&held);
		take(&some, &rest);
		memmove(held.p, rest.p, rest.n);
		held.n = rest.n;
	}
	CHECK(all.err == some.err);
	CHECK(str_eq(buf_str(&all.messages), buf_str(&some.messages)));
	buf_done(&all.messages);
	buf_done(&some.messages);
}

static void packed(struct str in)
{
	_cleanup_(buf_done) struct buf plain = BUF_INIT(0);
	_cleanup_(buf_done) struct buf again = BUF_INIT(0);
	_cleanup_(buf_done) struct buf back = BUF_INIT(0);
	int r = gzip_unpack(in, UNPACKED, &plain);

	CHECK(plain.n <= UNPACKED && (r == 0 || plain.n == 0));
	if (r < 0)
		return;
	gzip_pack(buf_str(&plain), &again);
	CHECK(gzip_unpack(buf_str(&again), UNPACKED, &back) == 0);
	CHECK(str_eq(buf_str(&plain), buf_str(&back)));
}

static void as_text(struct str in)
{
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(buf_done) struct buf back = BUF_INIT(0);

	if (!form_read_text(in, &bytes)) {
		CHECK(bytes.n == 0);
		return;
	}
	CHECK(bytes.n <= in.n);
	base64_write(&text, buf_str(&bytes), true);
	CHECK(form_read_text(buf_str(&text), &back));
	CHECK(str_eq(buf_str(&bytes), buf_str(&back)));
}

static void headers(struct str in)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct rpc_form form, again;
	uint64_t ns;

	buf_put_str(&text, in);
	buf_putc(&text, '\0');
	(void)form_takes_gzip(text.p);
	(void)form_connect_timeout(text.p, &ns);
	(void)form_grpc_timeout(text.p, &ns);
	if (!form_parse(text.p, &form))
		return;
	CHECK(form_parse(form_content_type(&form), &again));
	CHECK(form.protocol == again.protocol &&
	      form.is_json == again.is_json && form.is_text == again.is_text);
}

void fuzz_one(struct str in)
{
	switch (fuzz_choice(&in, 4)) {
	case 0:
		in_pieces(in, 1 + fuzz_choice(&in, 40));
		break;
	case 1:
		packed(in);
		break;
	case 2:
		as_text(in);
		break;
	default:
		headers(in);
	}
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	static const char *const texts[] = {
		"application/grpc-web-text+proto; charset=utf-8",
		"application/connect+json",
		"100m",
		"identity, gzip;q=0.5",
	};
	struct str bytes = str_from(texts[rng_below(rng, ARRAY_SIZE(texts))]);
	unsigned choice = (unsigned)rng_below(rng, 4);

	buf_putc(out, (char)choice);
	if (choice == 1) {
		gzip_pack(bytes, out);
	} else if (choice == 2) {
		base64_write(out, bytes, true);
		base64_write(out, bytes, rng_below(rng, 2) == 0);
	} else if (choice == 3) {
		buf_put_str(out, bytes);
	} else {
		buf_putc(out, (char)rng_u64(rng));
		envelope_write(out, 0, bytes);
		envelope_write(out, ENVELOPE_PACKED, STR("x"));
		envelope_write(out, ENVELOPE_END, STR("{}"));
	}
}
