/*
 * The golden files of each release: a log makes the same store, byte for byte,
 * and what an older release left behind is read as it was meant.
 */
#include <dirent.h>

#include "component/fsm_fixture.h"
#include "golden.h"

#define REMAKE "; if that is meant: cmake --build BUILD --target golden"

/* Of every kind in key.h but dr|, which takes a thousand dependents. */
static const char *const kinds[] = {
	"j|",          "jl|",         "je|",     "p|",  "a|",       "s|",
	"r|",          "x|",          "h|",      "bl|", "t|",       "d|",
	"u|",          "ik|",         "ie|",     "b|",  "bp|",      "bt|",
	"bo|",         "bk|",         "bi|",     "bc|", "l|",       "sc|",
	"group-jobs|", "group-turn|", "rl|",     "qc|", "qs|",      "wk|",
	"ev|",         "m|",          "format|", "mb|", "cluster|", "settings|",
};

static char root[256];

static const char *folder(const char *version)
{
	static char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", root, version);
	return path;
}

static void read_lines(const char *version, const char *name,
		       struct golden_lines *ret)
{
	if (!golden_read(folder(version), name, ret))
		fail_msg("cannot read %s/%s", folder(version), name);
}

static void assert_same(const struct golden_lines *got,
			const struct golden_lines *expected, const char *what)
{
	for (size_t i = 0; i < MAX(got->n, expected->n); i++) {
		struct str a = i < got->n ? got->lines[i] : STR("nothing");
		struct str b =
		    i < expected->n ? expected->lines[i] : STR("nothing");

		if (!str_eq(a, b))
			fail_msg("%s, line %zu:\ngot      %.*s\nexpected %.*s\n"
				 "%s",
				 what, i + 1, STR_ARG(a), STR_ARG(b), REMAKE);
	}
}

/* Consistent in itself and with what is made of it in memory. */
static void assert_sound(struct golden *g)
{
	struct fx_side side = { .kv = g->kv, .f = g->f };

	fx_check_side(&side);
}

static uint32_t format_of_log(const struct golden_lines *log)
{
	struct arena a = ARENA_INIT;
	uint64_t format = 0;

	assert_true(log->n > 0);
	for (size_t i = 0; i < log->n; i++) {
		uint64_t n = entry_format(golden_unescape(log->lines[i], &a));

		assert_true(n > 0);
		assert_true(i == 0 || n == format);
		format = n;
	}
	arena_done(&a);
	return (uint32_t)format;
}

/* --- the version being made --- */

static void test_the_files_are_of_the_present_program(void **state)
{
	struct golden_lines log = { 0 }, expected = { 0 };
	struct golden g;

	(void)state;
	golden_init(&g, kv_mem_new());
	golden_script(&g, &log);
	assert_sound(&g);
	read_lines("next", "log", &expected);
	assert_same(&log, &expected, "next/log");
	assert_int_equal(format_of_log(&log), STORED_FORMAT);
	golden_done(&g);
	golden_lines_done(&log);
	golden_lines_done(&expected);
}

static void test_the_log_has_every_operation(void **state)
{
	struct golden_lines log = { 0 };
	const struct call_info *info;
	bool seen[256] = { false };
	struct arena a = ARENA_INIT;

	(void)state;
	read_lines("next", "log", &log);
	for (size_t i = 0; i < log.n; i++) {
		struct entry e;

		assert_int_equal(
		    entry_decode(golden_unescape(log.lines[i], &a), &a, &e), 0);
		for (size_t k = 0; k < e.n; k++)
			seen[e.items[k].op & 255] = true;
	}
	for (size_t i = 0; (info = op_at(i)) != NULL; i++)
		if (!seen[info->id])
			fail_msg("tests/golden/script.c does not %s",
				 info->name);
	arena_done(&a);
	golden_lines_done(&log);
}

static void test_the_store_has_every_kind_of_record(void **state)
{
	struct golden_lines store = { 0 };

	(void)state;
	read_lines("next", "store", &store);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		bool found = false;

		for (size_t k = 0; k < store.n && !found; k++)
			found = str_starts(store.lines[k], str_from(kinds[i]));
		if (!found)
			fail_msg("there is no %s in next/store", kinds[i]);
	}
	golden_lines_done(&store);
}

/* At one go, and with a restart in the middle. */
static void test_the_log_makes_the_store(void **state)
{
	struct golden_lines log = { 0 }, store = { 0 }, half = { 0 };
	struct golden_lines got = { 0 };
	struct golden g;

	(void)state;
	read_lines("next", "log", &log);
	read_lines("next", "store", &store);
	read_lines("next", "half", &half);
	golden_init(&g, kv_mem_new());
	golden_replay(&g, &log, 0, log.n / 2);
	golden_dump(g.kv, &got);
	assert_same(&got, &half, "next/half");
	golden_lines_done(&got);
	golden_replay(&g, &log, log.n / 2, log.n);
	golden_dump(g.kv, &got);
	assert_same(&got, &store, "next/store");
	golden_lines_done(&got);
	golden_done(&g);
	golden_init(&g, golden_store(&half));
	assert_int_equal(g.index, log.n / 2);
	golden_replay(&g, &log, g.index, log.n);
	golden_dump(g.kv, &got);
	assert_same(&got, &store, "next/store");
	golden_done(&g);
	golden_lines_done(&got);
	golden_lines_done(&log);
	golden_lines_done(&store);
	golden_lines_done(&half);
}

/* --- released ones --- */

static size_t each_release(void (*fn)(const char *version))
{
	DIR *d = opendir(root);
	struct dirent *e;
	size_t n = 0;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		fn(e->d_name);
		n++;
	}
	(void)closedir(d);
	return n;
}

static void check_store(const char *version)
{
	static const char *const names[] = { "store", "half" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct golden_lines dump = { 0 };
		struct golden g;

		read_lines(version, names[i], &dump);
		golden_init(&g, golden_store(&dump));
		assert_sound(&g);
		golden_done(&g);
		golden_lines_done(&dump);
	}
}

static void test_released_stores_are_upgraded(void **state)
{
	(void)state;
	assert_true(each_release(check_store) > 0);
}

/* How it differs is written down, in next/from-VERSION. */
static void check_from(const char *version)
{
	struct golden_lines got = { 0 }, expected = { 0 };
	char name[300];

	(void)snprintf(name, sizeof(name), "from-%s", version);
	assert_true(golden_from(folder(version), &got));
	read_lines("next", name, &expected);
	assert_same(&got, &expected, name);
	golden_lines_done(&got);
	golden_lines_done(&expected);
}

static void test_released_logs_do_what_they_did(void **state)
{
	(void)state;
	assert_true(each_release(check_from) > 0);
}

static void check_format(const char *version)
{
	struct golden_lines log = { 0 };

	read_lines(version, "log", &log);
	if (format_of_log(&log) >= STORED_FORMAT)
		fail_msg("format %u is that of %s and frozen: raise "
			 "STORED_FORMAT",
			 format_of_log(&log), version);
	golden_lines_done(&log);
}

static void test_the_format_is_newer_than_released_ones(void **state)
{
	(void)state;
	assert_true(each_release(check_format) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_files_are_of_the_present_program),
		cmocka_unit_test(test_the_log_has_every_operation),
		cmocka_unit_test(test_the_store_has_every_kind_of_record),
		cmocka_unit_test(test_the_log_makes_the_store),
		cmocka_unit_test(test_released_stores_are_upgraded),
		cmocka_unit_test(test_released_logs_do_what_they_did),
		cmocka_unit_test(test_the_format_is_newer_than_released_ones),
	};
	const char *source = getenv("CORVO_SOURCE_DIR");

	if (source == NULL) {
		fprintf(stderr, "CORVO_SOURCE_DIR is not set\n");
		return 2;
	}
	(void)snprintf(root, sizeof(root), "%s/tests/golden", source);
	return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
