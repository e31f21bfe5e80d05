/*
 * Anything at all goes into the readers of remote calls: bytes at random, and
 * good messages with a few bytes changed. Nothing is read past its end (the
 * sanitizers look), what is read can be written and read again, and the memory
 * it takes is bounded by that of the input.
 */
#include "pb_world.h"
#include "rpc/form/form.h"
#include "rpc/form/gzip.h"

#define ROUNDS 20000
#define BYTES  300
/* The largest struct for two bytes of input, the list doubled, and texts. */
#define MEMORY_PER_BYTE 2048

static size_t read_ok;

static void read_and_write(struct pb_world *w, const struct pb_desc *d,
			   struct str in)
{
	struct msg_reader rd = pb_reader(w);
	_cleanup_(buf_done) struct buf once = BUF_INIT(0);
	_cleanup_(buf_done) struct buf twice = BUF_INIT(0);
	void *m = arena_zalloc(&w->a, d->msg->size);
	void *back = arena_zalloc(&w->a, d->msg->size);

	if (pb_read(&rd, d, in, m) < 0) {
		assert_true(w->why.n > 0);
		return;
	}
	read_ok++;
	pb_write(d, m, &once);
	assert_int_equal(pb_read(&rd, d, buf_str(&once), back), 0);
	pb_write(d, back, &twice);
	assert_true(str_eq(buf_str(&once), buf_str(&twice)));
}

/* A message that means something, at random: fields that exist, mostly. */
static void grow(struct rng *rng, const struct pb_desc *d, unsigned depth,
		 struct buf *out);

static void grow_field(struct rng *rng, const struct pb_field *f,
		       unsigned depth, struct buf *out)
{
	static const struct str texts[] = { { "q", 1 },
					    { "{}", 2 },
					    { "high", 4 },
					    { "", 0 },
					    { "\xc3\xa9", 2 } };
	_cleanup_(buf_done) struct buf sub = BUF_INIT(0);

	if (f->type == PB_message || f->type == PB_time) {
		if (f->type == PB_message && depth < 3)
			grow(rng, f->sub, depth + 1, &sub);
		buf_putc(out, (char)sub.n);
		buf_put_str(out, buf_str(&sub));
	} else if (f->type == PB_double) {
		for (int i = 0; i < 8; i++)
			buf_putc(out, (char)(i == 6 ? rng_u64(rng) : 0));
	} else if (f->type >= PB_string && f->type <= PB_word) {
		struct str s = texts[rng_u64(rng) % ARRAY_SIZE(texts)];

		buf_putc(out, (char)s.n);
		buf_put_str(out, s);
	} else {
		buf_putc(out, (char)(rng_u64(rng) & 0x7f));
	}
}

static void grow(struct rng *rng, const struct pb_desc *d, unsigned depth,
		 struct buf *out)
{
	size_t n = d->n > 0 ? rng_u64(rng) % 6 : 0;

	for (size_t i = 0; i < n && out->n < 60; i++) {
		const struct pb_field *f = &d->fields[rng_u64(rng) % d->n];
		unsigned wire =
		    f->type == PB_double ? 1
		    : f->type == PB_message || f->type == PB_time ||
			    (f->type >= PB_string && f->type <= PB_word)
			? 2
			: 0;
		uint32_t tag = f->number << 3 | wire;

		for (; tag >= 0x80; tag >>= 7)
			buf_putc(out, (char)(tag | 0x80));
		buf_putc(out, (char)tag);
		grow_field(rng, f, depth, out);
	}
}

static void test_garbage_is_answered(void **state)
{
	struct pb_world *w = *state;
	struct rng rng;
	size_t descs = 0;

	test_rng(&rng);
	while (pb_desc_at(descs) != NULL)
		descs++;
	for (int i = 0; i < ROUNDS; i++) {
		_cleanup_(buf_done) struct buf in = BUF_INIT(0);
		const struct pb_desc *d = pb_desc_at(rng_u64(&rng) % descs);

		if (i % 4 == 0)
			for (size_t n = rng_u64(&rng) % BYTES; n > 0; n--)
				buf_putc(&in, (char)rng_u64(&rng));
		else
			grow(&rng, d, 0, &in);
		for (size_t k = i % 3; k > 0 && in.n > 0; k--)
			in.p[rng_u64(&rng) % in.n] = (char)rng_u64(&rng);
		read_and_write(w, d, buf_str(&in));
		assert_true(arena_bytes(&w->a) <=
			    65536 + in.n * MEMORY_PER_BYTE * 2);
		arena_reset(&w->a);
	}
	/* it does not refuse everything, or the test would say nothing */
	assert_true(read_ok > ROUNDS / 20);
}

static void test_garbage_in_envelopes(void **state _unused_)
{
	struct rng rng;
	char bytes[BYTES];

	test_rng(&rng);
	for (int i = 0; i < ROUNDS; i++) {
		struct str in = str_of(bytes, rng_u64(&rng) % BYTES);
		_cleanup_(buf_done) struct buf out = BUF_INIT(0);
		struct envelope e;

		for (size_t k = 0; k < in.n; k++)
			bytes[k] =
			    (char)(rng_u64(&rng) % 7 == 0 ? rng_u64(&rng) : 0);
		while (envelope_next(&in, BYTES, &e) == 1) {
			assert_true(e.data.p + e.data.n <=
				    bytes + sizeof(bytes));
			(void)gzip_unpack(e.data, 1000, &out);
			assert_true(out.n <= 1000);
			buf_clear(&out);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PB_TEST(test_garbage_is_answered),
		cmocka_unit_test(test_garbage_in_envelopes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
