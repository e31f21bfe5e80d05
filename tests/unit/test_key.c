/*
 * Keys: their bytes, and that byte order is the order the store needs.
 */
#include "lib/testlib.h"

#include "store/key.h"
#include "util/id.h"

static void assert_key(const struct key *k, const void *bytes, size_t n)
{
	assert_int_equal(k->n, n);
	assert_memory_equal(k->p, bytes, n);
}

#define SPACE       0x01020304
#define SPACE_BYTES "\1\2\3\4"

#define ASSERT_KEY(k, lit) assert_key(k, lit, sizeof(lit) - 1)

static void test_layout_of_the_cluster(void **state)
{
	struct key k;

	(void)state;
	key_member(&k, 258);
	ASSERT_KEY(&k, "mb|\0\0\0\0\0\0\1\2");
	key_cluster(&k);
	ASSERT_KEY(&k, "cluster|");
	key_settings(&k);
	ASSERT_KEY(&k, "settings|");
}

static void test_layout(void **state)
{
	struct key k;

	(void)state;
	key_job(&k, STR("job_1"));
	ASSERT_KEY(&k, "j|job_1");
	key_live(&k, STR("job_1"));
	ASSERT_KEY(&k, "jl|job_1");
	key_error(&k, STR("job_1"), 258);
	ASSERT_KEY(&k, "je|job_1\0\0\0\1\2");
	key_pending(&k, SPACE, STR("q"), 2, 0x0102030405060708);
	ASSERT_KEY(&k, "p|" SPACE_BYTES "q\0\2\1\2\3\4\5\6\7\10");
	key_active(&k, SPACE, STR("q"), STR("job_1"));
	ASSERT_KEY(&k, "a|" SPACE_BYTES "q\0job_1");
	key_scheduled(&k, SPACE, STR("q"), 1, STR("j"));
	ASSERT_KEY(&k, "s|" SPACE_BYTES "q\0\0\0\0\0\0\0\0\1j");
	key_retrying(&k, SPACE, STR("q"), 1, STR("j"));
	ASSERT_KEY(&k, "r|" SPACE_BYTES "q\0\0\0\0\0\0\0\0\1j");
	key_expiry(&k, 256, STR("j"));
	ASSERT_KEY(&k, "x|\0\0\0\0\0\0\1\0j");
	key_batch(&k, STR("batch_1"));
	ASSERT_KEY(&k, "b|batch_1");
	key_batch_payload(&k, STR("batch_1"));
	ASSERT_KEY(&k, "bp|batch_1");
	key_batch_end(&k, 256, STR("b"));
	ASSERT_KEY(&k, "bt|\0\0\0\0\0\0\1\0b");
	key_batch_open(&k, 256, STR("b"));
	ASSERT_KEY(&k, "bo|\0\0\0\0\0\0\1\0b");
	key_queue(&k, SPACE, STR("q"));
	ASSERT_KEY(&k, "qc|" SPACE_BYTES "q");
	key_counts(&k, SPACE, STR("q"));
	ASSERT_KEY(&k, "qs|" SPACE_BYTES "q");
	key_worker(&k, SPACE, STR("w1"));
	ASSERT_KEY(&k, "wk|" SPACE_BYTES "w1");
	key_held(&k, SPACE, STR("q"), STR("j"));
	ASSERT_KEY(&k, "h|" SPACE_BYTES "q\0j");
	key_blocked(&k, SPACE, STR("q"), STR("j"));
	ASSERT_KEY(&k, "bl|" SPACE_BYTES "q\0j");
	key_ended(&k, SPACE, STR("q"), 1, STR("j"));
	ASSERT_KEY(&k, "t|" SPACE_BYTES "q\0\0\0\0\0\0\0\0\1j");
	key_unique(&k, SPACE, STR("q"), STR("key"));
	ASSERT_KEY(&k, "u|" SPACE_BYTES "q\0key");
	key_idempotency(&k, SPACE, STR("key"));
	ASSERT_KEY(&k, "ik|" SPACE_BYTES "key");
	key_idempotency_end(&k, 256, SPACE, STR("key"));
	ASSERT_KEY(&k, "ie|\0\0\0\0\0\0\1\0" SPACE_BYTES "key");
	key_schedule(&k, SPACE, STR("sch_1"));
	ASSERT_KEY(&k, "sc|" SPACE_BYTES "sch_1");
	key_group_pending(&k, SPACE, STR("q"), STR("g"), 1, 2);
	ASSERT_KEY(&k, "group-jobs|" SPACE_BYTES "q\0g\0\1\0\0\0\0\0\0\0\2");
	key_lane(&k, SPACE, STR("q"), STR("g"));
	ASSERT_KEY(&k, "group-turn|" SPACE_BYTES "q\0g");
	key_limiter(&k, SPACE, STR("q"));
	ASSERT_KEY(&k, "rl|" SPACE_BYTES "q");
	key_event(&k, UINT64_MAX);
	ASSERT_KEY(&k, "ev|\xff\xff\xff\xff\xff\xff\xff\xff");
	key_meta(&k);
	ASSERT_KEY(&k, "m|");
	key_format(&k);
	ASSERT_KEY(&k, "format|");
	key_prefix(&k, "qc|");
	ASSERT_KEY(&k, "qc|");
	key_prefix_queue(&k, "s|", SPACE, STR("q"));
	ASSERT_KEY(&k, "s|" SPACE_BYTES "q\0");
	key_prefix_space(&k, "sc|", SPACE);
	ASSERT_KEY(&k, "sc|" SPACE_BYTES);
	key_prefix_id(&k, "d|", STR("job_1"));
	ASSERT_KEY(&k, "d|job_1\0");
}

static void test_take_space(void **state)
{
	struct str rest = STR(SPACE_BYTES "name"), shorter = STR("\1\2\3");
	uint32_t space;

	(void)state;
	assert_true(key_take_space(&rest, &space));
	assert_int_equal(space, SPACE);
	assert_str_is(rest, "name");
	assert_false(key_take_space(&shorter, &space));
}

/* The longest names there may be fit, and an id that names its shard. */
static void test_longest(void **state)
{
	char name[LIMIT_QUEUE_NAME_BYTES], id[LIMIT_JOB_ID_BYTES];
	char group[LIMIT_GROUP_BYTES];
	struct key k;

	(void)state;
	memset(name, 'q', sizeof(name));
	memset(id, 'j', sizeof(id));
	memset(group, 'g', sizeof(group));
	key_scheduled(&k, SPACE, str_of(name, sizeof(name)), UINT64_MAX,
		      str_of(id, sizeof(id)));
	assert_int_equal(k.n, 2 + 4 + sizeof(name) + 1 + 8 + sizeof(id));
	key_group_pending(&k, SPACE, str_of(name, sizeof(name)),
			  str_of(group, sizeof(group)), 2, UINT64_MAX);
	assert_int_equal(k.n, 11 + 4 + sizeof(name) + 1 + sizeof(group) + 10);
	key_worker(&k, SPACE, str_of(name, LIMIT_WORKER_ID_BYTES));
	assert_int_equal(k.n, 3 + 4 + LIMIT_WORKER_ID_BYTES);
	assert_true(ID_LEN_MAX <= LIMIT_JOB_ID_BYTES);
}

static void test_prefix_end(void **state)
{
	static const struct {
		const char *from;
		size_t from_n;
		const char *end;
		size_t end_n;
	} rows[] = {
		{ "s|q\0", 4, "s|q\1", 4 },   { "x|", 2, "x}", 2 },
		{ "a\xff", 2, "b", 1 },       { "a\xff\xff", 3, "b", 1 },
		{ "\xfe\xff", 2, "\xff", 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct key k = { .n = rows[i].from_n }, end;

		memcpy(k.p, rows[i].from, k.n);
		key_prefix_end(&k, &end);
		assert_key(&end, rows[i].end, rows[i].end_n);
	}
}

static void test_numbers(void **state)
{
	struct rng r;
	char a[8], b[8];

	(void)state;
	test_rng(&r);
	for (int i = 0; i < 1000; i++) {
		uint64_t x = rng_u64(&r) >> rng_below(&r, 64);
		uint64_t y = rng_u64(&r) >> rng_below(&r, 64);

		put_be64(a, x);
		put_be64(b, y);
		assert_true(get_be64(a) == x);
		assert_int_equal(memcmp(a, b, 8) < 0, x < y);
		put_be32(a, (uint32_t)x);
		assert_int_equal(get_be32(a), (uint32_t)x);
	}
}

static int cmp_pending(struct str q1, uint8_t p1, uint64_t s1, struct str q2,
		       uint8_t p2, uint64_t s2)
{
	struct key a, b;

	key_pending(&a, SPACE_DEFAULT, q1, p1, s1);
	key_pending(&b, SPACE_DEFAULT, q2, p2, s2);
	return str_cmp(key_str(&a), key_str(&b));
}

/* Priority before place, and a queue's keys stay apart from "queue2". */
static void test_order(void **state)
{
	(void)state;
	assert_int_equal(cmp_pending(STR("q"), 0, 300, STR("q"), 1, 2), -1);
	assert_int_equal(cmp_pending(STR("q"), 1, 2, STR("q"), 1, 300), -1);
	assert_int_equal(cmp_pending(STR("q"), 1, 2, STR("q"), 1, 2), 0);
	assert_int_equal(cmp_pending(STR("q"), 2, UINT64_MAX, STR("q2"), 0, 0),
			 -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_layout_of_the_cluster),
		cmocka_unit_test(test_take_space),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_prefix_end),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
