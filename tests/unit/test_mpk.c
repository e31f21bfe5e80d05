/* msgpack bytes: what is written, what is read back, what is refused. */
#include "proto/mpk.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "lib/testlib.h"
#include "proto/mpk_cursor.h"

static const struct mpk_node *parse(struct str in)
{
	return mpk_parse(mpk_reader_get(), in);
}

static const struct mpk_node *parse_buf(const struct buf *b)
{
	const struct mpk_node *v = parse(buf_str(b));

	assert_non_null(v);
	return v;
}

static void test_numbers(void **state _unused_)
{
	static const uint64_t numbers[] = {
		0,         1,          127,        128,        255,
		256,       65535,      65536,      UINT32_MAX, 1ULL << 32,
		INT64_MAX, 1ULL << 63, UINT64_MAX, 1000000007, NS_PER_S * 9
	};
	static const int64_t negative[] = { -1,     -32,       -33,
					    -128,   -129,      -32768,
					    -32769, INT32_MIN, INT64_MIN };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		buf_clear(&b);
		mpk_u64(&b, numbers[i]);
		assert_int_equal(mpk_type_of(parse_buf(&b)), MPK_UINT);
		assert_true(mpk_get_u64(parse_buf(&b)) == numbers[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(negative); i++) {
		buf_clear(&b);
		mpk_i64(&b, negative[i]);
		assert_int_equal(mpk_type_of(parse_buf(&b)), MPK_INT);
		assert_true(mpk_get_i64(parse_buf(&b)) == negative[i]);
	}
	buf_clear(&b);
	mpk_i64(&b, 5); /* not negative: the same bytes as a u64 */
	assert_int_equal(mpk_type_of(parse_buf(&b)), MPK_UINT);
	assert_int_equal(mpk_get_i64(parse_buf(&b)), 5);
}

static void test_scalars(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	const struct mpk_node *v;

	mpk_array(&b, 4);
	mpk_bool(&b, true);
	mpk_bool(&b, false);
	mpk_f64(&b, -0.125);
	mpk_f64(&b, INFINITY);
	v = parse_buf(&b);
	assert_int_equal(mpk_count(v), 4);
	assert_true(mpk_get_bool(mpk_item(v, 0)));
	assert_false(mpk_get_bool(mpk_item(v, 1)));
	assert_true(mpk_get_f64(mpk_item(v, 2)) == -0.125);
	assert_true(isinf(mpk_get_f64(mpk_item(v, 3))));

	assert_int_equal(mpk_type_of(parse(STR("\xc0"))), MPK_NIL);
	assert_int_equal(mpk_type_of(parse(STR("\xca\x3f\x80\x00\x00"))),
			 MPK_FLOAT);
	assert_int_equal(mpk_type_of(parse(STR("\xd4\x05z"))), MPK_OTHER);
}

static void test_texts(void **state _unused_)
{
	static const size_t sizes[] = { 0, 1, 31, 32, 255, 256, 65535, 65536 };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	char *text = xmalloc(65536);

	memset(text, 'x', 65536);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct str s = str_of(text, sizes[i]);

		buf_clear(&b);
		mpk_str(&b, s);
		assert_true(str_eq(mpk_get_str(parse_buf(&b)), s));
		buf_clear(&b);
		mpk_bin(&b, s);
		assert_true(str_eq(mpk_get_str(parse_buf(&b)), s));
		assert_non_null(mpk_get_str(parse_buf(&b)).p);
	}
	free(text);
}

static void test_map(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	const struct mpk_node *v;

	mpk_map(&b, 2);
	mpk_u64(&b, 1);
	mpk_str(&b, STR("a"));
	mpk_u64(&b, 2);
	mpk_map(&b, 0);
	v = parse_buf(&b);
	assert_int_equal(mpk_type_of(v), MPK_MAP);
	assert_int_equal(mpk_count(v), 2);
	assert_int_equal(mpk_get_u64(mpk_key(v, 1)), 2);
	assert_str_is(mpk_get_str(mpk_value(v, 0)), "a");
	assert_int_equal(mpk_count(mpk_value(v, 1)), 0);
}

static void test_open_array(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	const struct mpk_node *v;
	size_t at = mpk_array_open(&b);

	for (uint64_t i = 0; i < 1000; i++)
		mpk_u64(&b, i);
	mpk_array_close(&b, at, 1000);
	v = parse_buf(&b);
	assert_int_equal(mpk_count(v), 1000);
	assert_int_equal(mpk_get_u64(mpk_item(v, 999)), 999);
}

static void test_full_buffer(void **state _unused_)
{
	for (size_t max = 1; max < 24; max++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(max);
		size_t at = mpk_array_open(&b);

		mpk_u64(&b, UINT64_MAX);
		mpk_str(&b, STR("0123456789"));
		mpk_array_close(&b, at, 2);
		assert_true(b.full);
		assert_true(b.n <= max);
	}
}

static void test_refused(void **state _unused_)
{
	static const struct str bad[] = {
		STR(""),                     /* nothing */
		STR("\xc1"),                 /* never used */
		STR("\x01\x01"),             /* two values */
		STR("\x91"),                 /* item missing */
		STR("\x81\x01"),             /* value missing */
		STR("\xa5xxxx"),             /* text too short */
		STR("\xcf\x01\x02"),         /* number too short */
		STR("\xdd\xff\xff\xff\xff"), /* 2^32 - 1 items of nothing */
		STR("\xdf\x10\x00\x00\x00\x01"),
		STR("\xc9\xff\xff\xff\xff\x01"), /* length wraps to 0 */
		STR("\xdb\xff\xff\xff\xffx"),
		STR("\xc6\x00\x00\x00"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (parse(bad[i]) != NULL)
			fail_msg("case %zu was accepted", i);
}

/* Arrays in arrays, each of which claims all that is left of the input. */
static void test_claims_are_bounded(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	char zeros[1024] = { 0 };

	for (size_t i = 0; i < 30; i++) {
		static const unsigned char head[] = { 0xdd, 0x00, 0x40, 0, 0 };

		buf_append(&b, head, sizeof(head));
	}
	for (size_t i = 0; i < 4096; i++)
		buf_append(&b, zeros, sizeof(zeros));
	assert_null(parse(buf_str(&b)));
}

static void test_depth(void **state _unused_)
{
	char nested[64];

	memset(nested, 0x91, sizeof(nested));
	nested[31] = 0x01;
	assert_non_null(parse(str_of(nested, 32)));
	nested[31] = (char)0x91;
	nested[40] = 0x01;
	assert_null(parse(str_of(nested, 41)));
}

static void test_random_bytes(void **state _unused_)
{
	struct rng rng;
	char bytes[64];

	test_rng(&rng);
	for (int i = 0; i < 200000; i++) {
		size_t n = 1 + rng_below(&rng, sizeof(bytes));

		for (size_t j = 0; j < n; j++)
			bytes[j] = (char)rng_u64(&rng);
		(void)parse(str_of(bytes, n));
	}
}

/* --- the cursor reads what the tree has --- */

static void assert_same(struct mpk_cursor *c, const struct mpk_node *v)
{
	struct mpk_value got;

	assert_true(mpk_take(c, &got));
	assert_int_equal(got.type, mpk_type_of(v));
	switch (got.type) {
	case MPK_BOOL:
		assert_int_equal(got.boolean, mpk_get_bool(v));
		break;
	case MPK_UINT:
		assert_true(got.u64 == mpk_get_u64(v));
		break;
	case MPK_INT:
		assert_true(got.i64 == mpk_get_i64(v));
		break;
	case MPK_FLOAT: { /* bit by bit: NaN is not equal to itself */
		double f = mpk_get_f64(v);

		assert_memory_equal(&got.f64, &f, sizeof(f));
		break;
	}
	case MPK_STR:
		assert_true(str_eq(str_of(got.p, got.n), mpk_get_str(v)));
		break;
	case MPK_ARRAY:
	case MPK_MAP:
		assert_int_equal(got.n, mpk_count(v));
		for (uint32_t i = 0; i < got.n; i++) {
			bool map = got.type == MPK_MAP;

			if (map)
				assert_same(c, mpk_key(v, i));
			assert_same(c, map ? mpk_value(v, i) : mpk_item(v, i));
		}
		mpk_leave(c);
		break;
	case MPK_NIL:
	case MPK_OTHER:
		break;
	}
}

/* Both take it, with the same values, or both refuse it. */
static bool both_take(struct str in)
{
	const struct mpk_node *v = parse(in);
	struct mpk_cursor c;

	mpk_cursor_init(&c, in);
	if (v == NULL) {
		assert_true(!mpk_skip(&c) || c.p != c.end);
		return false;
	}
	assert_same(&c, v);
	assert_ptr_equal(c.p, c.end);
	assert_int_equal(c.depth, 0);
	mpk_cursor_init(&c, in);
	assert_true(mpk_skip(&c) && c.p == c.end);
	return true;
}

static void put_random(struct rng *rng, struct buf *b, unsigned depth)
{
	static const char text[70000];
	static const size_t lengths[] = {
		0, 1, 31, 32, 255, 256, 65535, 65536
	};
	uint64_t kind = rng_below(rng, depth > 0 ? 9 : 7);
	uint32_t n;

	switch (kind) {
	case 0:
		mpk_bool(b, rng_below(rng, 2) == 0);
		break;
	case 1:
		mpk_u64(b, rng_u64(rng) >> rng_below(rng, 64));
		break;
	case 2:
		mpk_i64(b, -(int64_t)(rng_u64(rng) >> 1 >> rng_below(rng, 63)));
		break;
	case 3:
		mpk_f64(b, (double)rng_u64(rng) / 3);
		break;
	case 4:
		buf_putc(b, (char)0xc0);
		break;
	case 5:
	case 6:
		n = (uint32_t)lengths[rng_below(rng, ARRAY_SIZE(lengths))];
		(kind == 5 ? mpk_str : mpk_bin)(b, str_of(text, n));
		break;
	default:
		n = (uint32_t)rng_below(rng, 20);
		(kind == 7 ? mpk_array : mpk_map)(b, n);
		for (n *= kind == 7 ? 1 : 2; n > 0; n--)
			put_random(rng, b, depth - 1);
	}
}

static void test_cursor_and_tree_agree(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct rng rng;
	unsigned taken = 0, refused = 0;

	test_rng(&rng);
	for (int i = 0; i < 300; i++) {
		buf_clear(&b);
		put_random(&rng, &b, 3);
		assert_true(both_take(buf_str(&b)));
		for (int k = 0; k < 20; k++) { /* and with a byte changed */
			size_t at = rng_below(&rng, MIN(b.n, (size_t)64));

			b.p[at] = (char)rng_u64(&rng);
			*(both_take(buf_str(&b)) ? &taken : &refused) += 1;
		}
	}
	assert_true(taken > 100 && refused > 100);
}

/* Every head there is, with nothing, too little and enough behind it. */
static void test_cursor_and_tree_agree_on_heads(void **state _unused_)
{
	static const size_t lengths[] = { 1, 2, 3, 4, 5, 9, 10, 18, 40, 300 };
	char bytes[300] = { 0 };

	for (unsigned head = 0; head < 256; head++) {
		bytes[0] = (char)head;
		for (unsigned second = 0; second < 4; second++) {
			bytes[1] = (char)second;
			for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
				(void)both_take(str_of(bytes, lengths[i]));
		}
	}
}

static void test_cursor_depth(void **state _unused_)
{
	char bytes[MPK_DEPTH + 2];

	memset(bytes, 0x91, sizeof(bytes));
	bytes[MPK_DEPTH] = 0x01;
	assert_true(both_take(str_of(bytes, MPK_DEPTH + 1)));
	bytes[MPK_DEPTH] = (char)0x91;
	bytes[MPK_DEPTH + 1] = 0x01;
	assert_false(both_take(str_of(bytes, MPK_DEPTH + 2)));
}

static void *parse_once(void *arg _unused_)
{
	return (void *)parse(STR("\x93\x01\x02\x03"));
}

/* Each thread has a reader, and it goes with the thread (leak checker). */
static void test_threads(void **state _unused_)
{
	const struct mpk_node *mine = parse(STR("\x91\x07"));

	for (int i = 0; i < 4; i++) {
		pthread_t t;
		void *theirs;

		assert_int_equal(pthread_create(&t, NULL, parse_once, NULL), 0);
		assert_int_equal(pthread_join(t, &theirs), 0);
		assert_non_null(theirs);
	}
	assert_int_equal(mpk_get_u64(mpk_item(mine, 0)), 7);
	assert_ptr_equal(mpk_reader_get(), mpk_reader_get());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_scalars),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_open_array),
		cmocka_unit_test(test_full_buffer),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_claims_are_bounded),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_random_bytes),
		cmocka_unit_test(test_cursor_and_tree_agree),
		cmocka_unit_test(test_cursor_and_tree_agree_on_heads),
		cmocka_unit_test(test_cursor_depth),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("mpk", tests, NULL, NULL);
}
