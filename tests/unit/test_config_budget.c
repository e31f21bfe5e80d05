/*
 * Which settings are shares of the node's memory, and when.
 */
#include "rt/config.h"

#include <stdlib.h>

#include "lib/testlib.h"
#include "proto/err.h"

#define MIB (1ULL << 20)

static int set_up(void **state _unused_)
{
	for (unsigned i = 0; i < SETTING_MAX; i++)
		(void)unsetenv(setting_info((enum setting_id)i)->env);
	return 0;
}

static void load(struct settings *s, int argc, char *const argv[])
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (settings_load(argc, argv, s, &why) != 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
}

#define LOAD(s, ...)                                    \
	do {                                            \
		char *const argv_[] = { __VA_ARGS__ };  \
		load(s, (int)ARRAY_SIZE(argv_), argv_); \
	} while (0)

static void test_much_memory_changes_no_default(void **state _unused_)
{
	struct budget all[BUDGET_MAX];
	struct settings s;

	LOAD(&s, "--memory-limit=64GiB");
	assert_int_equal(s.rocksdb_cache, 64 * MIB);
	settings_budgets(&s, all);
	for (size_t i = 0; i < BUDGET_MAX; i++)
		assert_int_equal(s.source[all[i].id], SRC_DEFAULT);
	settings_done(&s);
	/* exactly enough */
	LOAD(&s, "--memory-limit=2GiB");
	for (size_t i = 0; i < BUDGET_MAX; i++)
		assert_int_equal(s.source[all[i].id], SRC_DEFAULT);
	settings_done(&s);
}

static void test_little_memory_makes_shares(void **state _unused_)
{
	struct settings s;

	LOAD(&s, "--memory-limit=512MiB");
	assert_int_equal(s.memory.bytes, 512 * MIB);
	assert_string_equal(s.memory.from, "the setting memory_limit");
	assert_int_equal(s.raft_max_pending_bytes, 96 * MIB);
	assert_int_equal(s.snapshot_bytes, 32 * MIB);
	assert_int_equal(s.rocksdb_cache, 32 * MIB);
	assert_int_equal(s.rocksdb_write_buffer, 8 * MIB);
	assert_int_equal(s.view_cache, 8 * MIB);
	assert_int_equal(s.http_max_memory, 64 * MIB);
	assert_int_equal(s.source[SETTING_rocksdb_cache], SRC_MEMORY);
	assert_string_equal(s.text[SETTING_rocksdb_cache], "32MiB");
	assert_string_equal(setting_source_name(SRC_MEMORY), "memory");
	settings_done(&s);
}

static void test_what_was_set_stays(void **state _unused_)
{
	struct settings s;

	(void)setenv("CORVO_SNAPSHOT_BYTES", "200MiB", 1);
	LOAD(&s, "--memory-limit=512MiB", "--rocksdb-cache=64MiB");
	assert_int_equal(s.rocksdb_cache, 64 * MIB);
	assert_int_equal(s.source[SETTING_rocksdb_cache], SRC_FLAG);
	assert_int_equal(s.snapshot_bytes, 200 * MIB);
	assert_int_equal(s.source[SETTING_snapshot_bytes], SRC_ENV);
	assert_int_equal(s.source[SETTING_view_cache], SRC_MEMORY);
	settings_done(&s);
}

/* Half of it is for budgets, from where the least of each fits; and what is
 * derived always passes the rules for settings. */
static void test_budgets_fit_from_128_mib_on(void **state _unused_)
{
	for (uint64_t mib = 1; mib <= 1100; mib += mib < 20 ? 1 : 37) {
		struct budget all[BUDGET_MAX];
		struct settings s;
		uint64_t total = 0;
		char flag[64];

		(void)snprintf(flag, sizeof(flag), "--memory-limit=%lluMiB",
			       (unsigned long long)mib);
		LOAD(&s, flag);
		settings_budgets(&s, all);
		for (size_t i = 0; i < BUDGET_MAX; i++)
			total += all[i].bytes * all[i].copies;
		if (mib >= 128)
			assert_true(total <= mib * MIB / 2 + 8 * MIB);
		settings_done(&s);
	}
}

static void test_memory_limit_without_a_unit_is_refused(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	char *const argv[] = { "--memory-limit=512" };
	struct settings s;

	assert_int_equal(settings_load(1, argv, &s, &why),
			 -ERR_VALIDATION_ERROR);
	assert_str_is(buf_str(&why), "flag --memory-limit: \"512\" does not "
				     "work; it takes 0, or 1MiB and more");
}

/* Nothing was set: a reload must not take shares for changes. */
static void test_a_reload_finds_the_same_shares(void **state _unused_)
{
	_cleanup_(buf_done) struct buf kept = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	char *const argv[] = { "--memory-limit=300MiB" };
	struct settings s;

	load(&s, 1, argv);
	assert_int_equal(settings_reload(1, argv, &s, &kept, &why), 0);
	assert_int_equal(kept.n, 0);
	assert_int_equal(s.rocksdb_cache, 18 * MIB);
	settings_done(&s);
}

#define BUDGET_TEST(fn) cmocka_unit_test_setup(fn, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BUDGET_TEST(test_much_memory_changes_no_default),
		BUDGET_TEST(test_little_memory_makes_shares),
		BUDGET_TEST(test_what_was_set_stays),
		BUDGET_TEST(test_budgets_fit_from_128_mib_on),
		BUDGET_TEST(test_memory_limit_without_a_unit_is_refused),
		BUDGET_TEST(test_a_reload_finds_the_same_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
