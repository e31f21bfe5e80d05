/*
 * Messages of remote calls, as protobuf and as JSON. What can be read can be
 * written, and is the same when it is read again; what cannot has a reason.
 */
#include "fuzz.h"
#include "rpc/pb/pb.h"
#include "rpc/pb/wire.h"

#define WHY_BYTES 4096

/* One of those that clients send. */
static const struct pb_desc *desc_of(unsigned i)
{
	static unsigned n;

	while (pb_method_at(n) != NULL)
		n++;
	return pb_method_at(i % n)->request;
}

typedef int read_fn(const struct msg_reader *rd, const struct pb_desc *d,
		    struct str in, void *m);
typedef void write_fn(const struct pb_desc *d, const void *m, struct buf *out);

static int read_json(const struct msg_reader *rd, const struct pb_desc *d,
		     struct str in, void *m)
{
	struct json_error e;

	if (!json_validate(in, LIMIT_JSON_DEPTH, &e)) {
		buf_puts(rd->why, "no JSON");
		return -ERR_PARSE_ERROR;
	}
	return pb_read_json(rd, d, json_root(in), m);
}

static void write_json(const struct pb_desc *d, const void *m, struct buf *out)
{
	struct json_writer w = JSON_WRITER(out);

	pb_write_json(d, m, &w);
}

static void there_and_back(const struct pb_desc *d, struct str in,
			   read_fn *read, write_fn *write)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(WHY_BYTES);
	_cleanup_(buf_done) struct buf once = BUF_INIT(0);
	_cleanup_(buf_done) struct buf twice = BUF_INIT(0);
	struct ignored ignored = { 0 };
	struct arena a = { 0 };
	struct msg_reader rd = { .a = &a, .why = &why, .ignored = &ignored };
	void *m = arena_zalloc(&a, d->msg->size);
	void *back = arena_zalloc(&a, d->msg->size);

	if (read(&rd, d, in, m) < 0) {
		CHECK(why.n > 0);
	} else {
		write(d, m, &once);
		CHECK(read(&rd, d, buf_str(&once), back) == 0);
		write(d, back, &twice);
		CHECK(str_eq(buf_str(&once), buf_str(&twice)));
	}
	arena_done(&a);
}

void fuzz_one(struct str in)
{
	bool is_json = fuzz_choice(&in, 2) == 1;
	const struct pb_desc *d = desc_of(fuzz_choice(&in, 256));

	there_and_back(d, in, is_json ? read_json : pb_read,
		       is_json ? write_json : pb_write);
}

/* --- examples --- */

static void put_field(struct rng *rng, const struct pb_field *f, bool is_json,
		      struct buf *out)
{
	static const char *const texts[] = { "q", "{}", "high", "7", "" };
	const char *text = texts[rng_below(rng, ARRAY_SIZE(texts))];
	bool is_text = f->type >= PB_string && f->type <= PB_word;

	if (is_json && is_text)
		buf_printf(out, "\"%s\":\"%s\"", f->name, text);
	else if (is_json)
		buf_printf(out, "\"%s\":%s", f->name,
			   f->type == PB_message ? "{}" : "3");
	else if (is_text)
		wire_put_bytes(out, f->number, str_from(text));
	else if (f->type == PB_message || f->type == PB_time)
		wire_put_bytes(out, f->number, STR(""));
	else if (f->type != PB_double)
		wire_put_number(out, f->number, rng_below(rng, 300));
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	bool is_json = rng_below(rng, 2) == 1;
	uint8_t i = (uint8_t)rng_u64(rng);
	const struct pb_desc *d = desc_of(i);

	buf_putc(out, (char)is_json);
	buf_putc(out, (char)i);
	if (is_json)
		buf_putc(out, '{');
	for (size_t k = 0; k < d->n; k++) {
		if (is_json && k > 0)
			buf_putc(out, ',');
		put_field(rng, &d->fields[k], is_json, out);
	}
	if (is_json)
		buf_putc(out, '}');
}
