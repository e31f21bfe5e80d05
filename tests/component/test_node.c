/*
 * The raft node over crashes: a child process appends entries and dies without
 * warning; the next start must give back every one of them, in order.
 */
#include "node_world.h"

#define LENGTHS 96 /* entries of 1 to so many bytes */

static void every_length_survives_a_crash(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run write = { .append = LENGTHS, .die = true };
	struct run read = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	run_child(&write, dir);
	run_node(&read, dir);
	assert_int_equal(read.applied, LENGTHS);
	assert_false(read.bad);
	dir_remove(dir);
}

static void a_clean_stop_keeps_everything_too(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run write = { .append = LENGTHS };
	struct run read = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	run_child(&write, dir);
	run_node(&read, dir);
	assert_int_equal(read.applied, LENGTHS);
	assert_false(read.bad);
	dir_remove(dir);
}

static void another_name_is_refused(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run first = { .append = 1 };
	struct run second = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	run_child(&first, dir);
	setenv("CORVO_NODE_ID", "other", 1);
	assert_refused(&second, dir, ERR_CONFLICT, "belongs to node node-1");
	unsetenv("CORVO_NODE_ID");
	dir_remove(dir);
}

/* Every text there is copied to its own memory: a byte too much is seen. */
static void a_damaged_name_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"node-1",
		"node-1 ",
		"node-1 7",
		"node-1 7\nx",
		"node-1 seven\n",
		" 7\n",
		"node-1 7\n\n",
		"node-1 7 \n",
	};
	char dir[] = "/tmp/corvo-node-XXXXXX", path[64], large[8192];
	struct run r = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/node", dir);
	memset(large, 'x', sizeof(large));
	for (size_t i = 0; i <= ARRAY_SIZE(texts) + 1; i++) {
		struct str s = str_of(large, sizeof(large));

		if (i < ARRAY_SIZE(texts))
			s = str_from(texts[i]);
		else if (i == ARRAY_SIZE(texts))
			s.n = 4096; /* as much as is read */
		assert_int_equal(file_write(path, s), 0);
		assert_refused(&r, dir, ERR_CONFLICT, "/node is damaged");
	}
	dir_remove(dir);
}

static void a_name_that_cannot_be_read_is_not_written_over(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX", path[64];
	struct run r = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/node", dir);
	assert_int_equal(dir_make(path), 0);
	assert_refused(&r, dir, ERR_INTERNAL_ERROR, "cannot read ");
	dir_remove(dir);
}

static void an_empty_directory_without_bootstrap_is_refused(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run r = { .no_bootstrap = true };

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_refused(&r, dir, ERR_CONFLICT, "start with --join=host:port");
	dir_remove(dir);
}

static void a_node_that_exists_starts_without_bootstrap(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run first = { .append = 1 };
	struct run second = { .no_bootstrap = true };

	(void)state;
	assert_non_null(mkdtemp(dir));
	run_child(&first, dir);
	run_child(&second, dir);
	dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_survives_a_crash),
		cmocka_unit_test(a_clean_stop_keeps_everything_too),
		cmocka_unit_test(another_name_is_refused),
		cmocka_unit_test(a_damaged_name_is_refused),
		cmocka_unit_test(
		    a_name_that_cannot_be_read_is_not_written_over),
		cmocka_unit_test(
		    an_empty_directory_without_bootstrap_is_refused),
		cmocka_unit_test(a_node_that_exists_starts_without_bootstrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
