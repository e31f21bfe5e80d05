#include "util/heap.h"

#include "lib/testlib.h"

#define NODES 300

static bool node_after(const struct heap_node *a, const struct heap_node *b)
{
	return a->key > b->key || (a->key == b->key && a->tie > b->tie);
}

/* Parents are not after their children, and each node knows its place. */
static void heap_check(const struct heap *h)
{
	for (size_t pos = 1; pos <= h->n; pos++) {
		assert_int_equal(h->nodes[pos - 1]->pos, pos);
		if (pos > 1)
			assert_false(node_after(h->nodes[pos / 2 - 1],
						h->nodes[pos - 1]));
	}
}

static void test_empty(void **state _unused_)
{
	struct heap h = { 0 };
	struct heap_node n = { .key = 1 };

	assert_null(heap_min(&h));
	heap_remove(&h, &n); /* not in it */
	assert_int_equal(h.n, 0);
	heap_done(&h);
	heap_done(&h);
}

static void test_ties_decide_equal_keys(void **state _unused_)
{
	static const uint64_t ties[] = { 5, 1, 4, UINT64_MAX, 0, 3 };
	static const uint64_t sorted[] = { 0, 1, 3, 4, 5, UINT64_MAX };
	struct heap_node nodes[ARRAY_SIZE(ties)] = { 0 };
	struct heap h = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(ties); i++) {
		nodes[i].key = 7;
		nodes[i].tie = ties[i];
		heap_insert(&h, &nodes[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sorted); i++) {
		struct heap_node *min = heap_min(&h);

		assert_true(min->tie == sorted[i]);
		heap_remove(&h, min);
		assert_int_equal(min->pos, 0);
	}
	assert_null(heap_min(&h));
	heap_done(&h);
}

static void note_key(void *ctx, struct heap_node *n)
{
	*(uint64_t *)ctx |= UINT64_C(1) << n->key;
}

static void test_each_upto_visits_those_and_no_other(void **state _unused_)
{
	struct heap_node nodes[60] = { 0 };
	struct heap h = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		nodes[i].key = (i * 37) % 60;
		heap_insert(&h, &nodes[i]);
	}
	for (uint64_t key = 0; key < 60; key++) {
		uint64_t seen = 0;

		heap_each_upto(&h, key, note_key, &seen);
		assert_true(seen == (UINT64_C(2) << key) - 1);
	}
	heap_check(&h);
	heap_done(&h);
}

static void test_upto_names_the_first_and_keeps_all(void **state _unused_)
{
	struct heap_node nodes[6] = { 0 }, *ret[6];
	struct heap h = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		nodes[i].key = (i * 5) % 6; /* 0 5 4 3 2 1 */
		heap_insert(&h, &nodes[i]);
	}
	assert_int_equal(heap_upto(&h, 3, ret, ARRAY_SIZE(ret)), 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(ret[i]->key, i);
	assert_int_equal(heap_upto(&h, 3, ret, 2), 2);
	assert_int_equal(ret[1]->key, 1);
	assert_int_equal(h.n, ARRAY_SIZE(nodes));
	heap_check(&h);
	heap_done(&h);
	assert_int_equal(heap_upto(&h, 3, ret, 2), 0);
}

static void test_update_moves_both_ways(void **state _unused_)
{
	struct heap_node a = { .key = 10 }, b = { .key = 20 }, c = { 0 };
	struct heap h = { 0 };

	heap_insert(&h, &a);
	heap_insert(&h, &b);
	heap_update(&h, &c, 15); /* was not in it */
	assert_int_equal(h.n, 3);
	assert_ptr_equal(heap_min(&h), &a);
	heap_update(&h, &a, 30);
	assert_ptr_equal(heap_min(&h), &c);
	heap_update(&h, &b, 1);
	assert_ptr_equal(heap_min(&h), &b);
	heap_update(&h, &b, 1); /* same key again */
	assert_ptr_equal(heap_min(&h), &b);
	heap_done(&h);
}

/* Checks the minimum by looking at every node. */
static void check_min(const struct heap *h, const struct heap_node *nodes)
{
	const struct heap_node *min = NULL;
	size_t n = 0;

	for (size_t i = 0; i < NODES; i++) {
		if (nodes[i].pos == 0)
			continue;
		n++;
		if (min == NULL || node_after(min, &nodes[i]))
			min = &nodes[i];
	}
	assert_int_equal(h->n, n);
	assert_ptr_equal(heap_min(h), min);
}

static void test_random_operations(void **state _unused_)
{
	struct heap_node nodes[NODES] = { 0 };
	struct heap h = { 0 };
	uint64_t last = 0;
	struct rng r;

	test_rng(&r);
	for (size_t i = 0; i < NODES; i++)
		nodes[i].tie = i; /* no two nodes are equal */
	for (int i = 0; i < 20000; i++) {
		struct heap_node *n = &nodes[rng_below(&r, NODES)];
		uint64_t key = rng_below(&r, 100);

		switch (rng_below(&r, 4)) {
		case 0:
			heap_remove(&h, n);
			assert_int_equal(n->pos, 0);
			break;
		case 1:
			if (n->pos == 0) {
				n->key = key;
				heap_insert(&h, n);
			}
			break;
		default:
			heap_update(&h, n, key);
			break;
		}
		check_min(&h, nodes);
		if (i % 100 == 0)
			heap_check(&h);
	}
	heap_check(&h);
	for (; heap_min(&h) != NULL; heap_remove(&h, heap_min(&h))) {
		assert_true(heap_min(&h)->key >= last);
		last = heap_min(&h)->key;
	}
	heap_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_ties_decide_equal_keys),
		cmocka_unit_test(test_upto_names_the_first_and_keeps_all),
		cmocka_unit_test(test_each_upto_visits_those_and_no_other),
		cmocka_unit_test(test_update_moves_both_ways),
		cmocka_unit_test(test_random_operations),
	};

	return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
