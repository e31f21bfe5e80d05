/*
 * Messages, as msgpack and as JSON: all of the tables. What can be read can be
 * written, and is the same when it is read again; what cannot has a reason.
 */
#include "fuzz.h"
#include "proto/msg_json.h"

static const struct msg_desc *desc_of(unsigned i)
{
	static unsigned n;

	while (msg_at(n) != NULL)
		n++;
	return msg_at(i % n);
}

static void packed(const struct msg_desc *d, struct str in)
{
	_cleanup_(buf_done) struct buf once = BUF_INIT(0);
	_cleanup_(buf_done) struct buf twice = BUF_INIT(0);
	_cleanup_(buf_done) struct buf json = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&json);
	struct arena a = ARENA_INIT;
	void *m = arena_zalloc(&a, d->size);

	if (msg_decode(d, in, &a, m) == 0) {
		msg_encode(d, m, &once);
		CHECK(msg_needs_level(d, m) >= 1);
		CHECK(msg_decode(d, buf_str(&once), &a, m) == 0);
		msg_encode(d, m, &twice);
		CHECK(str_eq(buf_str(&once), buf_str(&twice)));
		msg_to_json(d, m, &(struct json_style){ 0 }, &w);
	}
	arena_done(&a);
}

static bool read_json(const struct msg_desc *d, struct str in, bool is_03,
		      struct arena *a, void *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct ignored ignored = { 0 }, unknown = { 0 };
	struct msg_reader rd = { .a = a,
				 .why = &why,
				 .ignored = &ignored,
				 .unknown = is_03 ? NULL : &unknown,
				 .compat_03 = is_03 };
	struct json_error e;

	if (!json_validate(in, LIMIT_JSON_DEPTH, &e) ||
	    json_type_of(json_root(in)) != JSON_OBJECT)
		return false;
	if (msg_from_json(&rd, d, json_root(in), m) == 0)
		return true;
	CHECK(why.n > 0);
	return false;
}

static void as_json(const struct msg_desc *d, struct str in, bool is_03)
{
	_cleanup_(buf_done) struct buf once = BUF_INIT(0);
	_cleanup_(buf_done) struct buf twice = BUF_INIT(0);
	struct arena a = ARENA_INIT;
	void *m = arena_zalloc(&a, d->size);

	if (read_json(d, in, is_03, &a, m)) {
		msg_encode(d, m, &once);
		CHECK(msg_decode(d, buf_str(&once), &a, m) == 0);
		msg_encode(d, m, &twice);
		CHECK(str_eq(buf_str(&once), buf_str(&twice)));
	}
	arena_done(&a);
}

void fuzz_one(struct str in)
{
	unsigned how = fuzz_choice(&in, 3);
	const struct msg_desc *d =
	    desc_of(fuzz_choice(&in, 256) << 8 | fuzz_choice(&in, 256));

	if (how == 0)
		packed(d, in);
	else
		as_json(d, in, how == 1);
}

/* --- examples --- */

static const char *example_of(const struct field_desc *f)
{
	static const char *const of[] = {
		[K_bool] = "true", [K_u32] = "3",
		[K_u64] = "\"3\"", [K_i64] = "-3",
		[K_f64] = "0.5",   [K_str] = "\"q\"",
		[K_raw] = "{}",    [K_dur] = "\"5s\"",
		[K_secs] = "5",    [K_strs] = "[\"a\"]",
		[K_msg] = "{}",    [K_msgs] = "[{}]",
		[K_nano] = "0.25", [K_time] = "\"2026-01-02T03:04:05Z\"",
	};

	return f->kind == K_enum ? "\"high\"" : of[f->kind];
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	unsigned how = (unsigned)rng_below(rng, 3);
	uint16_t i = (uint16_t)rng_u64(rng);
	const struct msg_desc *d = desc_of(i);
	_cleanup_(buf_done) struct buf json = BUF_INIT(0);
	struct arena a = ARENA_INIT;
	void *m = arena_zalloc(&a, d->size);

	buf_putc(&json, '{');
	for (size_t k = 0; k < d->n; k++)
		if (rng_below(rng, 4) > 0)
			buf_printf(&json, "%s\"%s\":%s", json.n > 1 ? "," : "",
				   d->fields[k].name,
				   example_of(&d->fields[k]));
	buf_putc(&json, '}');
	buf_putc(out, (char)how);
	buf_putc(out, (char)(i >> 8));
	buf_putc(out, (char)i);
	if (how > 0)
		buf_put_str(out, buf_str(&json));
	else if (read_json(d, buf_str(&json), true, &a, m))
		msg_encode(d, m, out);
	arena_done(&a);
}
