/* Texts of a list, each once. */
#include "util/unique.h"

#include <stdio.h>

#include "lib/testlib.h"
#include "util/arena.h"
#include "util/hmap.h"
#include "util/rng.h"

static void test_first_of_equal_ones_stays(void **state _unused_)
{
	struct str list[] = { STR("b"), STR("a"),  STR("b"), STR(""),
			      STR("a"), STR("ab"), STR("") };
	static const char *const want[] = { "b", "a", "", "ab" };

	assert_int_equal(unique_texts(list, ARRAY_SIZE(list)),
			 ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_true(str_is(list[i], want[i]));
	assert_int_equal(unique_texts(list, 1), 1);
	assert_int_equal(unique_texts(NULL, 0), 0);
}

static void test_the_first_that_was_there_before(void **state _unused_)
{
	const struct str list[] = { STR("b"),  STR("a"), STR(""),
				    STR("ab"), STR("a"), STR("") };

	assert_ptr_equal(unique_twin(list, ARRAY_SIZE(list)), &list[4]);
	assert_null(unique_twin(list, 4));
	assert_null(unique_twin(NULL, 0));
}

/* The same as with a map of copies, for long lists with few or many equals. */
static void test_as_a_map_has_it(void **state _unused_)
{
	struct rng rng;

	rng_seed(&rng, 11);
	for (size_t n = 10; n <= 10000; n *= 10) {
		struct arena a = ARENA_INIT;
		struct str *list = arena_alloc(&a, n * sizeof(*list));
		struct hmap seen = { 0 };
		const struct str *twin = NULL;
		size_t want = 0;

		for (size_t i = 0; i < n; i++) {
			char text[32];
			int len = snprintf(text, sizeof(text), "id-%u",
					   (unsigned)(rng_u64(&rng) % n));

			list[i] = arena_copy(&a, str_of(text, (size_t)len));
			want += hmap_put(&seen, list[i], &a) == NULL;
			if (twin == NULL && want <= i)
				twin = &list[i];
		}
		assert_ptr_equal(unique_twin(list, n), twin);
		assert_int_equal(unique_texts(list, n), want);
		for (size_t i = 0; i < want; i++)
			assert_ptr_equal(hmap_remove(&seen, list[i]), &a);
		hmap_done(&seen);
		arena_done(&a);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_of_equal_ones_stays),
		cmocka_unit_test(test_the_first_that_was_there_before),
		cmocka_unit_test(test_as_a_map_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
