/*
 * Long texts are read and written in steps: whoever takes turns is asked often
 * enough, whatever a text is made of. And a text is the same wherever a piece
 * of it ends.
 */
#include "lib/testlib.h"
#include "util/base64.h"
#include "util/json.h"
#include "util/nano.h"
#include "util/sha256.h"
#include "util/turn.h"

#define LONG      ((size_t)1 << 20)
#define PER_LOOK  ((size_t)64 << 10) /* bytes, at most, without a look */
#define DEPTH     16
#define ROUNDS    4000
#define PARTS_MAX 8

static unsigned looks;
static bool over, gives_up;

static void look(_unused_ void *ctx)
{
	looks++;
	over = gives_up;
}

static void begin(void)
{
	looks = 0;
	over = gives_up = false;
	turn_take_by(look, &over, NULL);
	turn_open();
}

static void end(void)
{
	turn_close();
	turn_take_by(NULL, NULL, NULL);
	gives_up = false;
}

/* It took so many bytes since begin. */
static void assert_steps(size_t bytes)
{
	if (looks < bytes / PER_LOOK)
		fail_msg("%u looks at %zu bytes", looks, bytes);
	looks = 0;
}

/* `open`, then a part again and again, then `close`. */
static struct buf text_of(const char *open, const char *part, const char *close)
{
	struct buf b = BUF_INIT(0);

	buf_puts(&b, open);
	while (b.n < LONG)
		buf_puts(&b, part);
	buf_puts(&b, close);
	return b;
}

static const struct {
	const char *open, *part, *close;
} texts[] = {
	{ "\"", "plain text ", "\"" },
	{ "\"", "\\n", "\"" },
	{ "\"", "\\\"", "\"" },
	{ "\"", "\\ud83d\\ude00", "\"" },
	{ "\"", "\xc3\xa4", "\"" },
	{ "\"", "\xf0\x9f\x98\x80", "\"" },
	{ "\"", "x\xe2\x82\xac\\t", "\"" },
	{ "", "1234567890", "" },
	{ "0.", "1", "" },
	{ "1e", "1", "" },
	{ "[", "          ", "]" },
	{ "", "\n", "1" },
	{ "[1", ",1", "]" },
	{ "[1", ",\"\"", "]" },
	{ "[1", ",[]", "]" },
};

static void test_every_kind_is_read_in_steps(void **state _unused_)
{
	struct json_error err;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct buf b =
		    text_of(texts[i].open, texts[i].part, texts[i].close);
		struct arena a = ARENA_INIT;
		struct json v;

		begin();
		assert_true(json_validate(buf_str(&b), DEPTH, &err));
		assert_steps(b.n);
		v = json_root(buf_str(&b));
		if (json_type_of(v) == JSON_STRING) {
			(void)json_string(v, &a);
			/* one without escapes is no work */
			if (memchr(b.p, '\\', b.n) != NULL)
				assert_steps(b.n);
			assert_true(str_is_utf8(buf_str(&b)));
			assert_steps(b.n);
		}
		end();
		arena_done(&a);
		buf_done(&b);
	}
}

/* As a member of an object, behind which there is one that is looked for. */
static void test_every_kind_is_passed_over_in_steps(void **state _unused_)
{
	struct buf b = BUF_INIT(0);
	struct arena a = ARENA_INIT;
	struct json v;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct buf t =
		    text_of(texts[i].open, texts[i].part, texts[i].close);

		buf_clear(&b);
		buf_printf(&b, "{\"a\":");
		buf_put_str(&b, buf_str(&t));
		buf_puts(&b, ",\"b\":1}");
		begin();
		assert_true(json_member(json_root(buf_str(&b)), "b", &a, &v));
		assert_steps(t.n);
		end();
		assert_str_is(v.raw, "1");
		buf_done(&t);
	}
	arena_done(&a);
	buf_done(&b);
}

static void test_what_nobody_waits_for_is_not_read_on(void **state _unused_)
{
	struct json_error err;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct buf b =
		    text_of(texts[i].open, texts[i].part, texts[i].close);
		bool is_one = b.p[0] != '"' && (b.p[0] != '[' || b.p[1] == ' ');

		begin();
		gives_up = true;
		/* a number, or space, is read to its end all the same */
		assert_true(is_one || !json_validate(buf_str(&b), DEPTH, &err));
		assert_true(is_one || looks < LONG / PER_LOOK);
		end();
		buf_done(&b);
	}
}

static void test_writing_is_done_in_steps(void **state _unused_)
{
	static const char *const parts[] = { "plain", "\"",       "\n",
					     "\x01",  "\xc3\xa4", "a\\" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct buf b = text_of("", parts[i], ""), out = BUF_INIT(0);
		struct json_writer w = JSON_WRITER(&out);
		struct arena a = ARENA_INIT;
		struct json_error err;

		begin();
		jw_str(&w, buf_str(&b));
		assert_steps(b.n);
		end();
		assert_true(json_validate(buf_str(&out), DEPTH, &err));
		assert_true(str_eq(json_string(json_root(buf_str(&out)), &a),
				   buf_str(&b)));
		arena_done(&a);
		buf_done(&out);
		buf_done(&b);
	}
}

static void test_bytes_are_worked_on_in_steps(void **state _unused_)
{
	struct buf b = text_of("", "0123456789", ""), out = BUF_INIT(0);
	struct buf back = BUF_INIT(0);
	unsigned char digest[SHA256_BYTES];
	struct sha256 s;
	uint64_t n;

	begin();
	sha256_init(&s);
	sha256_add(&s, buf_str(&b));
	sha256_end(&s, digest);
	assert_steps(b.n);
	base64_write(&out, buf_str(&b), true);
	assert_steps(b.n);
	assert_true(base64_read(&back, buf_str(&out)));
	assert_steps(out.n);
	assert_true(str_eq(buf_str(&back), buf_str(&b)));
	b.p[b.n - 1] = 'x';
	assert_true(str_has(buf_str(&b), STR("8x")));
	assert_steps(b.n);
	b.p[b.n - 1] = '9';
	b.p[1] = '.';
	assert_true(nano_parse(buf_str(&b), &n));
	assert_steps(b.n);
	gives_up = true;
	assert_false(base64_read(&back, buf_str(&out)));
	assert_int_equal(back.n, b.n);
	b.p[b.n - 1] = 'x';
	assert_false(str_has(buf_str(&b), STR("8x")));
	end();
	buf_done(&back);
	buf_done(&out);
	buf_done(&b);
}

/* --- where pieces end --- */

static const char *const parts[] = {
	"a",
	"\\n",
	"\\u00e4",
	"\\ud83d\\ude00",
	"\xc3\xa4",
	"\xe2\x82\xac",
	"\xf0\x9f\x98\x80",
	"\\\\",
	"\xc3",
	"\x80",
	"\xe2\x82",
	"\xf0\x9f\x98",
	"\\x",
	"\\ud83d",
	"\x01",
	"\xed\xa0\x80",
};

static void put_parts(struct rng *r, struct buf *to)
{
	/* mostly those that are right */
	size_t n = rng_below(r, 2) == 0 ? 8 : ARRAY_SIZE(parts);
	size_t left = 1 + rng_below(r, PARTS_MAX);

	while (left-- > 0)
		buf_puts(to, parts[rng_below(r, n)]);
}

static void test_a_text_is_the_same_wherever_a_piece_ends(void **state _unused_)
{
	struct buf part = BUF_INIT(0), a = BUF_INIT(0), b = BUF_INIT(0);
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < ROUNDS; i++) {
		struct arena arena = ARENA_INIT;
		size_t pad = (1 + rng_below(&r, 2)) * TURN_PIECE_BYTES -
			     rng_below(&r, 40);
		struct json_error x, y;
		struct str s, t;
		bool ok;

		buf_clear(&part);
		put_parts(&r, &part);
		buf_clear(&a);
		buf_printf(&a, "\"%.*s\"", STR_ARG(buf_str(&part)));
		buf_clear(&b);
		buf_putc(&b, '"');
		for (size_t k = 0; k < pad; k++)
			buf_putc(&b, 'p');
		buf_printf(&b, "%.*s\"", STR_ARG(buf_str(&part)));
		ok = json_validate(buf_str(&a), DEPTH, &x);
		assert_int_equal(json_validate(buf_str(&b), DEPTH, &y), ok);
		if (!ok) {
			assert_int_equal(y.pos, x.pos + pad);
			assert_string_equal(y.text, x.text);
			continue;
		}
		s = json_string(json_root(buf_str(&a)), &arena);
		t = json_string(json_root(buf_str(&b)), &arena);
		assert_true(str_eq(str_skip(t, pad), s));
		arena_done(&arena);
	}
	buf_done(&part);
	buf_done(&a);
	buf_done(&b);
}

static void test_a_part_is_found_wherever_a_piece_ends(void **state _unused_)
{
	struct buf b = BUF_INIT(0);

	for (size_t i = 0; i < (size_t)3 * TURN_PIECE_BYTES; i++)
		buf_putc(&b, '.');
	for (size_t i = 0; i + 4 <= b.n; i++) {
		memcpy(b.p + i, "part", 4);
		assert_true(str_has(buf_str(&b), STR("part")));
		assert_true(str_has(str_of(b.p, i + 4), STR("part")));
		assert_false(str_has(str_of(b.p, i + 3), STR("part")));
		assert_false(
		    str_has(str_skip(buf_str(&b), i + 1), STR("part")));
		memcpy(b.p + i, "....", 4);
	}
	assert_false(str_has(STR_NULL, STR("part")));
	buf_done(&b);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_kind_is_read_in_steps),
		cmocka_unit_test(test_every_kind_is_passed_over_in_steps),
		cmocka_unit_test(test_what_nobody_waits_for_is_not_read_on),
		cmocka_unit_test(test_writing_is_done_in_steps),
		cmocka_unit_test(test_bytes_are_worked_on_in_steps),
		cmocka_unit_test(test_a_text_is_the_same_wherever_a_piece_ends),
		cmocka_unit_test(test_a_part_is_found_wherever_a_piece_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
