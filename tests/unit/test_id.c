#include "util/id.h"

#include "lib/testlib.h"

#define T0 (1770804000123ULL * NS_PER_MS)

static struct str make(struct id_gen *g, uint64_t wall_ns, char *ret)
{
	size_t n = id_make(g, "job_", wall_ns, ret);

	assert_int_equal(n, 30);
	assert_int_equal(ret[n], '\0');
	assert_true(id_is_valid(str_of(ret, n), "job_"));
	return str_of(ret, n);
}

/* Forward, standing still and going back: always a later id. */
static void test_strictly_increasing(void **state _unused_)
{
	char a[ID_LEN_MAX], b[ID_LEN_MAX];
	char *last = a, *next = b, *swap;
	struct id_gen g = { 0 };
	uint64_t now = T0;
	struct rng r;

	test_rng(&r);
	make(&g, now, last);
	for (int i = 0; i < 20000; i++) {
		switch (rng_below(&r, 20)) {
		case 0:
			now += rng_below(&r, 5 * NS_PER_MS);
			break;
		case 1:
			now -= rng_below(&r, 5 * NS_PER_MS);
			break;
		default:
			break;
		}
		make(&g, now, next);
		assert_true(strcmp(last, next) < 0);
		swap = last;
		last = next;
		next = swap;
	}
}

static void test_tail_carries(void **state _unused_)
{
	struct id_gen g = { .last_ms = T0 / NS_PER_MS };
	char id[ID_LEN_MAX];

	memset(g.tail + 5, 0xff, 5);
	make(&g, T0, id);
	assert_string_equal(id + 14, "0000000100000000");

	/* All bits set: the count goes on in the next millisecond. */
	memset(g.tail, 0xff, sizeof(g.tail));
	make(&g, T0, id);
	assert_string_equal(id + 14, "0000000000000000");
	assert_int_equal(g.last_ms, T0 / NS_PER_MS + 1);
}

static void test_new_millisecond_is_random(void **state _unused_)
{
	char a[ID_LEN_MAX], b[ID_LEN_MAX];
	struct id_gen g = { 0 }, h = { 0 };

	make(&g, T0, a);
	make(&h, T0, b);
	assert_memory_equal(a, b, 14);           /* the same time */
	assert_string_not_equal(a + 14, b + 14); /* never the same tail */
}

static void test_derive(void **state _unused_)
{
	static const struct {
		uint64_t ms, index;
		uint32_t ordinal;
		const char *ulid;
	} cases[] = {
		{ 0, 0, 0, "00000000000000000000000000" },
		{ 1, 0, 0, "00000000010000000000000000" },
		{ 0, 0, 1, "00000000000000000000000001" },
		{ 0, 0, UINT32_MAX, "00000000000000000003ZZZZZZ" },
		{ 0, 1, 0, "00000000000000000004000000" },
		{ 0, (1ULL << 48) - 1, UINT32_MAX,
		  "0000000000ZZZZZZZZZZZZZZZZ" },
		/* the time of the example in the ULID specification */
		{ 1469918176385ULL, 0, 0, "01ARYZ6S410000000000000000" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char id[ID_LEN_MAX];
		size_t n = id_derive("b_", cases[i].ms * NS_PER_MS + 999,
				     cases[i].index, cases[i].ordinal, id);

		assert_int_equal(n, 28);
		assert_memory_equal(id, "b_", 2);
		assert_string_equal(id + 2, cases[i].ulid);
		assert_true(id_is_valid(str_of(id, n), "b_"));
	}
}

/* Ids of one time sort by log position, then by place in the entry. */
static void test_derive_sorts(void **state _unused_)
{
	char last[ID_LEN_MAX], id[ID_LEN_MAX];

	id_derive("job_", T0, 0, 0, last);
	for (uint64_t index = 0; index < 50; index++) {
		for (uint32_t ordinal = 0; ordinal < 50; ordinal++) {
			if (index + ordinal == 0)
				continue;
			id_derive("job_", T0, index, ordinal, id);
			assert_true(strcmp(last, id) < 0);
			memcpy(last, id, sizeof(id));
		}
	}
}

static void test_prefixes(void **state _unused_)
{
	char id[ID_LEN_MAX];

	assert_int_equal(id_derive("", T0, 1, 1, id), ULID_LEN);
	assert_true(id_is_valid(str_from(id), ""));
	assert_int_equal(id_derive("thirteenchar_", T0, 1, 1, id), 39);
	assert_true(id_is_valid(str_from(id), "thirteenchar_"));
}

static void test_valid(void **state _unused_)
{
	static const char *const good[] = {
		"job_00000000000000000000000000",
		"job_7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
		"job_01HX7Y2K3MABCDEFGHJKMNPQRS",
		"s00_job_01HX7Y2K3MABCDEFGHJKMNPQRS",
		"s99_job_01HX7Y2K3MABCDEFGHJKMNPQRS",
	};
	static const char *const bad[] = {
		"",
		"job_",
		"job_8ZZZZZZZZZZZZZZZZZZZZZZZZZ",  /* more than 128 bits */
		"job_0000000000000000000000000",   /* 25 digits */
		"job_000000000000000000000000000", /* 27 */
		"job_0000000000000000000000000I",
		"job_0000000000000000000000000L",
		"job_0000000000000000000000000O",
		"job_0000000000000000000000000U",
		"job_0000000000000000000000000a", /* one spelling only */
		"job_0000000000000000000000000 ",
		"job_0000000000000000000000000-",
		"job_\xc3ZZZZZZZZZZZZZZZZZZZZZZZZZ",
		"job00000000000000000000000000",
		"Job_00000000000000000000000000",
		"wrk_00000000000000000000000000",
		"s03_",
		"s3_job_00000000000000000000000000",
		"s003_job_00000000000000000000000000",
		"S03_job_00000000000000000000000000",
		"s0a_job_00000000000000000000000000",
		"s03-job_00000000000000000000000000",
		"s03_s04_job_00000000000000000000000000",
		"job_s03_00000000000000000000000000",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(id_is_valid(str_from(good[i]), "job_"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(id_is_valid(str_from(bad[i]), "job_"));
	assert_false(
	    id_is_valid(STR("job_0000000000000000000000000\0"), "job_"));
	assert_false(id_is_valid(STR_NULL, "job_"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strictly_increasing),
		cmocka_unit_test(test_tail_carries),
		cmocka_unit_test(test_new_millisecond_is_random),
		cmocka_unit_test(test_derive),
		cmocka_unit_test(test_derive_sorts),
		cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_valid),
	};

	return cmocka_run_group_tests_name("id", tests, NULL, NULL);
}
