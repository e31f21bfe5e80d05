/* The codec over every message of the table, and over broken bytes. */
#include "proto/msg.h"

#include "lib/testlib.h"
#include "msg_fill.h"
#include "proto/mpk.h"
#include "proto/msg_near.h"

static void test_round_trip(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(buf_done) struct buf again = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	const struct msg_desc *d;
	struct rng rng;

	test_rng(&rng);
	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		for (unsigned round = 0; round < 20; round++) {
			void *m = arena_alloc(&a, d->size);
			void *back = arena_alloc(&a, d->size);

			msg_fill(d, &rng, 1 + round / 10, &a, m);
			buf_clear(&b);
			msg_encode(d, m, &b);
			assert_int_equal(msg_decode(d, buf_str(&b), &a, back),
					 0);
			msg_assert_equal(d, m, back);
			buf_clear(&again);
			msg_encode(d, back, &again);
			assert_true(str_eq(buf_str(&b), buf_str(&again)));
		}
		arena_reset(&a);
	}
}

static void test_truncation(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	const struct msg_desc *d;
	struct rng rng;

	test_rng(&rng);
	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		void *m = arena_alloc(&a, d->size);

		msg_fill(d, &rng, 1, &a, m);
		buf_clear(&b);
		msg_encode(d, m, &b);
		for (size_t n = 0; n < b.n; n++) {
			/* Its own memory, so that a read past the end shows. */
			char *part = xmalloc(n + 1);

			memcpy(part, b.p, n);
			assert_int_equal(msg_decode(d, str_of(part, n), &a, m),
					 -ERR_BAD_MESSAGE);
			free(part);
		}
		buf_putc(&b, 0x01);
		assert_int_equal(msg_decode(d, buf_str(&b), &a, m),
				 -ERR_BAD_MESSAGE);
		arena_reset(&a);
	}
}

static void test_byte_flips(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(buf_done) struct buf again = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	const struct msg_desc *d;
	struct rng rng;

	test_rng(&rng);
	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		void *m = arena_alloc(&a, d->size);

		msg_fill(d, &rng, 2, &a, m);
		buf_clear(&b);
		msg_encode(d, m, &b);
		for (int round = 0; round < 500; round++) {
			size_t at = rng_below(&rng, b.n);
			char was = b.p[at];

			b.p[at] = (char)rng_u64(&rng);
			/* What is accepted must be whole. */
			if (msg_decode(d, buf_str(&b), &a, m) == 0) {
				buf_clear(&again);
				msg_encode(d, m, &again);
			}
			b.p[at] = was;
		}
		arena_reset(&a);
	}
}

static void test_unknown_tags_are_skipped(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct m_job_ref m;

	mpk_map(&b, 3);
	mpk_u64(&b, 40);
	mpk_array(&b, 1);
	mpk_str(&b, STR("from the future"));
	mpk_u64(&b, 1);
	mpk_str(&b, STR("job_1"));
	mpk_u64(&b, 63);
	mpk_bool(&b, true);
	assert_int_equal(msg_decode(&msg_job_ref, buf_str(&b), &a, &m), 0);
	assert_true(MSG_HAS(&m, job_ref, job_id));
	assert_str_is(m.job_id, "job_1");
}

static void test_tags_given_twice(void **state _unused_)
{
	static const uint64_t tags[] = { 1, 40 };
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct m_job_ref m;

	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);

		mpk_map(&b, 2);
		for (int twice = 0; twice < 2; twice++) {
			mpk_u64(&b, tags[i]);
			mpk_str(&b, STR("x"));
		}
		assert_int_equal(msg_decode(&msg_job_ref, buf_str(&b), &a, &m),
				 -ERR_BAD_MESSAGE);
	}
}

static void test_wrong_kinds(void **state _unused_)
{
	/* {tag: value}, for the message beside it */
	static const struct {
		const struct msg_desc *d;
		struct str bytes;
	} cases[] = {
		{ &msg_job_ref, STR("\x81\x01\x05") },      /* str: number */
		{ &msg_job_ref, STR("\x81\x01\xc0") },      /* str: nil */
		{ &msg_job_ref, STR("\x81\xa1j\xa1x") },    /* tag: text */
		{ &msg_job_ref, STR("\x81\xcc\x80\xa1x") }, /* tag > 127 */
		{ &msg_job_ref, STR("\x81\xff\xa1x") },     /* tag -1 */
		{ &msg_job_ref, STR("\x91\x01") },          /* no map */
		{ &msg_job_ref, STR("\xc0") },              /* no map */
		{ &msg_fail, STR("\x81\x05\x01") },         /* bool: number */
		{ &msg_fail, STR("\x81\x04\xff") },         /* dur: negative */
		{ &msg_fail, STR("\x81\x04\xa1s") },        /* dur: text */
		{ &msg_enqueue, STR("\x81\x09\x01") },      /* f64: number */
		{ &msg_enqueue, STR("\x81\x04\x09") },      /* no such value */
		{ &msg_enqueue, STR("\x81\x05\xcf\0\0\0\1\0\0\0\0") },
		{ &msg_fetch, STR("\x81\x01\xa1q") },        /* strs: str */
		{ &msg_fetch, STR("\x81\x01\x91\x01") },     /* strs: number */
		{ &msg_ack_batch, STR("\x81\x01\x80") },     /* msgs: map */
		{ &msg_ack_batch, STR("\x81\x01\x91\x01") }, /* item: number */
		{ &msg_ack_batch, STR("\x81\x01\x91\x81\x01\x01") },
	};
	_cleanup_(arena_done) struct arena a = ARENA_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		void *m = arena_alloc(&a, cases[i].d->size);

		if (msg_decode(cases[i].d, cases[i].bytes, &a, m) !=
		    -ERR_BAD_MESSAGE)
			fail_msg("case %zu was accepted", i);
	}
}

static void test_absent_is_zero(void **state _unused_)
{
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct m_enqueue m, zero = { 0 };

	memset(&m, 0xff, sizeof(m));
	assert_int_equal(msg_decode(&msg_enqueue, STR("\x80"), &a, &m), 0);
	assert_memory_equal(&m, &zero, sizeof(m));
}

static void test_enums(void **state _unused_)
{
	uint32_t v;

	assert_string_equal(enum_text(&enum_priority, PRIORITY_HIGH), "high");
	assert_null(enum_text(&enum_priority, 3));
	assert_true(enum_parse(&enum_priority, STR("critical"), &v));
	assert_int_equal(v, PRIORITY_CRITICAL);
	assert_false(enum_parse(&enum_priority, STR("urgent"), &v));
	assert_true(enum_parse(&enum_job_state, STR("retrying"), &v));
	assert_int_equal(v, JOB_RETRYING);
	assert_false(enum_parse(&enum_job_state, STR("asleep"), &v));
	assert_false(enum_parse(&enum_job_state, STR(""), &v));
}

/* A request with a member that has got a value since. */
struct m_later {
	uint64_t has;
	uint32_t number;
	struct str word;
	struct str *words;
	size_t words_n;
};

static void test_values_have_a_level(void **state _unused_)
{
	static const struct enum_value values[] = { { 0, "old", 1 },
						    { 1, "late", 2 },
						    { 2, "later", 3 } };
	static const struct enum_desc e = {
		.name = "later", .values = values, .n = 3, .inner = 9
	};
	static const struct field_desc fields[] = {
		{ .kind = K_enum,
		  .offset = offsetof(struct m_later, number),
		  .values = &e },
		{ .kind = K_str,
		  .offset = offsetof(struct m_later, word),
		  .values = &e },
		{ .kind = K_strs,
		  .offset = offsetof(struct m_later, words),
		  .count_offset = offsetof(struct m_later, words_n),
		  .values = &e },
	};
	static const struct msg_desc d = { .size = sizeof(struct m_later),
					   .fields = fields,
					   .n = 3 };
	struct str words[] = { STR("old"), STR("later") };
	struct m_later m = { .has = 1, .number = 1 };

	assert_int_equal(msg_needs_level(&d, &m), 2);
	m.number = 9;
	assert_int_equal(msg_needs_level(&d, &m), 1);
	m.number = 0;
	assert_int_equal(msg_needs_level(&d, &m), 1);
	m.has |= 2;
	m.word = STR("late");
	assert_int_equal(msg_needs_level(&d, &m), 2);
	m.word = STR("no such word");
	assert_int_equal(msg_needs_level(&d, &m), 1);
	m.has |= 4;
	m.words = words;
	m.words_n = 1;
	assert_int_equal(msg_needs_level(&d, &m), 1);
	m.words_n = 2;
	assert_int_equal(msg_needs_level(&d, &m), 3);
}

/* Below its level an op goes without it, also in messages inside. */
static void test_what_may_be_lacked_is_left_out(void **state _unused_)
{
	struct m_enqueue jobs[2] = { 0 };
	struct m_enqueue_batch m = { 0 };

	MSG_SET(&jobs[0], enqueue, expire_after, NS_PER_S);
	MSG_SET(&jobs[1], enqueue, expire_after, NS_PER_S);
	MSG_SET(&jobs[1], enqueue, as_numbers, DUR_EXPIRE_AFTER);
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, 2);
	assert_int_equal(msg_needs_level(&msg_enqueue_batch, &m), 2);
	assert_false(msg_lower(&msg_enqueue_batch, &m, 2));
	assert_true(MSG_HAS(&jobs[1], enqueue, as_numbers));
	assert_true(msg_lower(&msg_enqueue_batch, &m, 1));
	assert_false(MSG_HAS(&jobs[1], enqueue, as_numbers));
	assert_true(MSG_HAS(&jobs[1], enqueue, expire_after));
	assert_int_equal(msg_needs_level(&msg_enqueue_batch, &m), 1);
	assert_false(msg_lower(&msg_enqueue_batch, &m, 1));
	/* all else is refused there */
	MSG_SET(&jobs[0], enqueue, expected_cost, 1);
	assert_false(msg_lower(&msg_enqueue_batch, &m, 1));
	assert_int_equal(msg_needs_level(&msg_enqueue_batch, &m), 2);
}

/* What is shown as given has a place for that. */
static void test_bits_of_durations_have_a_member(void **state _unused_)
{
	const struct msg_desc *d;

	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		const struct field_desc *numbers = msg_numbers(d);

		assert_true(numbers == NULL || numbers->kind == K_u32);
		for (size_t k = 0; k < d->n; k++)
			if (d->fields[k].kind == K_dur && d->fields[k].max != 0)
				assert_non_null(numbers);
	}
}

#define SLIP_BYTES 32

/* The k-th slip in a word; false: there are not so many. */
static bool slip(struct str word, size_t k, char ret[SLIP_BYTES], size_t *n)
{
	static const char letters[] = { 'a', 'z', '_' };
	size_t at = k / 8, keep = 0;

	if (at > word.n)
		return false;
	memcpy(ret, word.p, at);
	*n = at;
	if (k % 8 < 6) /* put in, or in the place of what is there */
		ret[(*n)++] = letters[k % 8 / 2];
	if (k % 8 < 6)
		keep = k % 2;
	else if (k % 8 == 6) /* left out */
		keep = 1;
	if (k % 8 == 7 && at + 1 < word.n) { /* exchanged with the next */
		ret[(*n)++] = word.p[at + 1];
		ret[(*n)++] = word.p[at];
		keep = 2;
	}
	word = str_skip(word, MIN(at + keep, word.n));
	memcpy(ret + *n, word.p, word.n);
	*n += word.n;
	return true;
}

/* Also where letters come and go with it. */
static void test_all_slips_are_found(void **state _unused_)
{
	static const struct str word = { "max_retries", 11 };
	char one[SLIP_BYTES], two[SLIP_BYTES];
	size_t n, m;

	for (size_t i = 0; slip(word, i, one, &n); i++) {
		assert_true(name_slips(str_of(one, n), word) <= 1);
		/* one behind it, as one in it is a third */
		for (size_t k = i + 24; slip(str_of(one, n), k, two, &m); k++)
			assert_true(name_slips(str_of(two, m), word) <= 2);
	}
	assert_true(name_slips(STR("max_replies"), word) == 2);
	assert_true(name_slips(STR("max_applies"), word) == NAME_FAR);
	assert_true(name_slips(STR("seirter_xam"), word) == NAME_FAR);
}

/* A new one must say what it came with. */
static void test_all_values_have_one(void **state _unused_)
{
	const struct msg_desc *d;

	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		for (size_t k = 0; k < d->n; k++) {
			const struct enum_desc *e = d->fields[k].values;

			for (size_t v = 0; e != NULL && v < e->n; v++) {
				assert_in_range(e->values[v].level, 1,
						FEATURE_LEVEL);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_truncation),
		cmocka_unit_test(test_byte_flips),
		cmocka_unit_test(test_unknown_tags_are_skipped),
		cmocka_unit_test(test_tags_given_twice),
		cmocka_unit_test(test_wrong_kinds),
		cmocka_unit_test(test_absent_is_zero),
		cmocka_unit_test(test_enums),
		cmocka_unit_test(test_values_have_a_level),
		cmocka_unit_test(test_all_values_have_one),
		cmocka_unit_test(test_all_slips_are_found),
		cmocka_unit_test(test_what_may_be_lacked_is_left_out),
		cmocka_unit_test(test_bits_of_durations_have_a_member),
	};

	return cmocka_run_group_tests_name("msg", tests, NULL, NULL);
}
