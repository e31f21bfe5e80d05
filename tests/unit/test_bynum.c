#include "util/bynum.h"

#include "lib/testlib.h"

#define NODES 1000
#define NUMS  60

/* How many nodes the table has for the number; each is one of ours. */
static size_t count(const struct bynum *b, uint64_t num)
{
	const struct bynum_node *n = bynum_first(b, num);
	size_t found = 0;

	for (; n != NULL; n = bynum_next(n), found++)
		assert_int_equal(n->num, num);
	return found;
}

static void test_empty(void **state _unused_)
{
	struct bynum b = { 0 };
	struct bynum_node n = { .num = 1 };

	assert_null(bynum_first(&b, 1));
	bynum_remove(&b, &n); /* not in it */
	assert_int_equal(b.n, 0);
	bynum_done(&b);
	bynum_done(&b);
}

static void test_numbers_may_be_shared(void **state _unused_)
{
	struct bynum_node n[4] = {
		{ .num = 0 }, { .num = UINT64_MAX }, { .num = 0 }, { .num = 7 }
	};
	struct bynum b = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(n); i++)
		bynum_add(&b, &n[i]);
	assert_int_equal(count(&b, 0), 2);
	assert_ptr_equal(bynum_first(&b, UINT64_MAX), &n[1]);
	assert_ptr_equal(bynum_first(&b, 7), &n[3]);
	assert_null(bynum_first(&b, 8));
	bynum_remove(&b, &n[0]);
	assert_ptr_equal(bynum_first(&b, 0), &n[2]);
	assert_null(bynum_next(&n[2]));
	bynum_done(&b);
}

static void test_random_changes(void **state _unused_)
{
	static struct bynum_node nodes[NODES];
	size_t in[NUMS] = { 0 }, total = 0;
	struct bynum b = { 0 };
	struct rng r;

	test_rng(&r);
	for (size_t i = 0; i < NODES; i++)
		nodes[i].num = rng_below(&r, NUMS);
	for (int step = 0; step < 20000; step++) {
		struct bynum_node *n = &nodes[rng_below(&r, NODES)];

		if (n->at == NULL) {
			bynum_add(&b, n);
			in[n->num]++;
			total++;
		} else {
			bynum_remove(&b, n);
			in[n->num]--;
			total--;
		}
		assert_int_equal(b.n, total);
		assert_int_equal(count(&b, n->num), in[n->num]);
	}
	for (uint64_t i = 0; i < NUMS; i++)
		assert_int_equal(count(&b, i), in[i]);
	bynum_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_numbers_may_be_shared),
		cmocka_unit_test(test_random_changes),
	};

	return cmocka_run_group_tests_name("bynum", tests, NULL, NULL);
}
