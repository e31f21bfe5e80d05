#include "util/arena.h"

#include "lib/testlib.h"

static void test_alignment_and_no_overlap(void **state _unused_)
{
	enum { COUNT = 2000 };
	static unsigned char *at[COUNT];
	static size_t len[COUNT];
	struct arena a = ARENA_INIT;
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < COUNT; i++) {
		/* Mostly small, some larger than a block. */
		len[i] = rng_below(&r, i % 50 ? 100 : 20000);
		at[i] = arena_alloc(&a, len[i]);
		assert_non_null(at[i]);
		assert_int_equal((uintptr_t)at[i] % 16, 0);
		memset(at[i], i & 0xff, len[i]);
	}
	for (int i = 0; i < COUNT; i++)
		for (size_t j = 0; j < len[i]; j++)
			assert_int_equal(at[i][j], i & 0xff);
	arena_done(&a);
	assert_null(a.head);
}

static void test_zalloc(void **state _unused_)
{
	static const size_t sizes[] = { 0, 1, 15, 16, 17, 4000, 4096, 100000 };
	struct arena a = ARENA_INIT;

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			unsigned char *p = arena_zalloc(&a, sizes[i]);

			for (size_t j = 0; j < sizes[i]; j++)
				assert_int_equal(p[j], 0);
			memset(p, 0xff, sizes[i]);
		}
		arena_reset(&a); /* the second round gets used memory */
	}
	arena_done(&a);
}

static void test_copies(void **state _unused_)
{
	struct arena a = ARENA_INIT;
	char text[] = "hello";
	struct str copy = arena_copy(&a, str_from(text));
	char *cstr = arena_cstr(&a, str_of(text, 4));

	memset(text, 'x', 5);
	assert_str_is(copy, "hello");
	assert_string_equal(cstr, "hell");
	assert_string_equal(arena_cstr(&a, STR_NULL), "");
	assert_null(arena_copy(&a, STR_NULL).p);
	assert_non_null(arena_copy(&a, STR("")).p);
	assert_int_equal(arena_copy(&a, STR("")).n, 0);
	assert_true(str_eq(arena_copy(&a, STR("a\0b")), STR("a\0b")));
	arena_done(&a);
}

static void test_printf(void **state _unused_)
{
	/* Around the size that is printed without a second pass. */
	static const int lens[] = { 0, 1, 254, 255, 256, 257, 10000 };
	struct arena a = ARENA_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		struct str s = arena_printf(&a, "%*s%d", lens[i], "", 7);

		assert_int_equal(s.n, (size_t)lens[i] + 1);
		assert_int_equal(s.p[s.n - 1], '7');
		assert_int_equal(s.p[s.n], '\0');
	}
	arena_done(&a);
}

static void test_reset_keeps_one_block(void **state _unused_)
{
	struct arena a = ARENA_INIT;
	struct arena_block *kept;
	void *first;

	arena_reset(&a); /* nothing there yet */
	arena_alloc(&a, 1000000);
	for (int i = 0; i < 1000; i++)
		arena_alloc(&a, 100);
	arena_reset(&a);
	kept = a.head;
	assert_non_null(kept);
	assert_int_equal(a.used, 0);

	first = arena_alloc(&a, 100);
	assert_ptr_equal(a.head, kept);
	arena_reset(&a);
	assert_ptr_equal(arena_alloc(&a, 100), first);
	arena_done(&a);
	arena_done(&a);
}

static void test_reset_keeps_as_much_as_it_may(void **state _unused_)
{
	struct arena a = { .keep = 100000 };
	void *large;
	size_t bytes;

	for (int i = 0; i < 100; i++)
		arena_alloc(&a, 100);
	large = arena_alloc(&a, 50000);
	arena_alloc(&a, 200000); /* more than it may keep */
	bytes = arena_bytes(&a);
	arena_reset(&a);
	assert_in_range(arena_bytes(&a), 50000, 110000);

	assert_ptr_equal(arena_alloc(&a, 40000), large);
	for (int i = 0; i < 100; i++)
		arena_alloc(&a, 100);
	assert_true(arena_bytes(&a) < bytes - 200000 + 10000);
	arena_reset(&a);
	arena_trim(&a);
	assert_true(arena_bytes(&a) < 10000);
	arena_done(&a);
	assert_int_equal(arena_bytes(&a), 0);
}

static void test_block_size(void **state _unused_)
{
	struct arena a = { .block_size = 65536 };
	struct arena_block *head;

	arena_alloc(&a, 1);
	head = a.head;
	for (int i = 0; i < 30; i++)
		arena_alloc(&a, 1000);
	assert_ptr_equal(a.head, head); /* all in the first block */
	arena_done(&a);
	assert_int_equal(a.block_size, 65536);

	a.block_size = 1; /* too small to mean anything: still works */
	memset(arena_alloc(&a, 100), 1, 100);
	memset(arena_alloc(&a, 1), 1, 1);
	arena_done(&a);
}

static void test_bytes_are_those_of_all_blocks(void **state _unused_)
{
	struct arena a = ARENA_INIT;
	size_t one;

	assert_int_equal(arena_bytes(&a), 0);
	(void)arena_alloc(&a, 1);
	one = arena_bytes(&a);
	assert_true(one >= 4000 && one <= 4096);
	(void)arena_alloc(&a, 100000);
	assert_true(arena_bytes(&a) >= one + 100000);
	arena_reset(&a);
	assert_int_equal(arena_bytes(&a), one);
	arena_done(&a);
	assert_int_equal(arena_bytes(&a), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alignment_and_no_overlap),
		cmocka_unit_test(test_zalloc),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_printf),
		cmocka_unit_test(test_reset_keeps_one_block),
		cmocka_unit_test(test_reset_keeps_as_much_as_it_may),
		cmocka_unit_test(test_block_size),
		cmocka_unit_test(test_bytes_are_those_of_all_blocks),
	};

	return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
