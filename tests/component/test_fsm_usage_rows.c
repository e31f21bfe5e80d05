/*
 * Sums over very many rows of usage.
 */
#include "fsm_fixture.h"
#include "store/key.h"

#define HOUR (3600 * NS_PER_S)

/* Rows that have units, of as many hours. */
static void put_rows(struct kv *kv, size_t n)
{
	struct m_usage_row row = { 0 };
	struct m_usage_sum sum = { 0 };
	struct kv_batch *batch = kv_batch_new(kv);
	struct buf value = BUF_INIT(0);
	struct key k;

	MSG_SET(&sum, usage_sum, count, 1);
	MSG_SET(&sum, usage_sum, units, STR("{\"pages\":2,\"walks\":3}"));
	MSG_SET(&row, usage_row, queue, STR("q"));
	MSG_SET(&row, usage_row, sum, &sum);
	msg_encode(&msg_usage_row, &row, &value);
	for (size_t i = 0; i < n; i++) {
		key_usage(&k, i * HOUR, SPACE_DEFAULT, 0, 7);
		kv_batch_put(batch, key_str(&k), buf_str(&value));
	}
	assert_int_equal(kv_write(kv, batch), 0);
	kv_batch_free(batch);
	buf_done(&value);
}

static void test_an_answer_takes_no_memory_for_rows(void **state _unused_)
{
	struct kv *kv = kv_mem_new();
	struct arena a = ARENA_INIT;
	struct m_usage_ask ask = { 0 };
	struct m_usage_reply r;
	struct buf why = BUF_INIT(0);
	struct str by = STR("queue");

	put_rows(kv, 5000);
	MSG_SET(&ask, usage_ask, to, UINT64_MAX / 2);
	MSG_SET_LIST(&ask, usage_ask, group_by, &by, 1);
	assert_int_equal(record_usage(kv, &ask, &a, &r, &why), 0);
	assert_int_equal(r.groups_n, 1);
	assert_str_is(r.groups[0].sum->units,
		      "{\"pages\":10000,\"walks\":15000}");
	assert_str_is(r.totals->units, "{\"pages\":10000,\"walks\":15000}");
	assert_in_range(arena_bytes(&a), 1, 16 << 10);
	arena_done(&a);
	buf_done(&why);
	kv_close(kv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_answer_takes_no_memory_for_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
