/*
 * The memory of a node, over trees of /proc and /sys that are made up.
 */
#include "rt/memory_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "rt/file.h"

#define MIB      (1ULL << 20)
#define NO_LIMIT UINT64_MAX

static char root[64];

static int set_up(void **state _unused_)
{
	(void)snprintf(root, sizeof(root), "/tmp/corvo-test-XXXXXX");
	return mkdtemp(root) != NULL ? 0 : -1;
}

static int tear_down(void **state _unused_)
{
	return dir_remove(root);
}

static void put(const char *name, const char *text)
{
	char path[256], *slash;

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	slash = strrchr(path, '/');
	*slash = '\0';
	assert_int_equal(dir_make(path), 0);
	*slash = '/';
	assert_int_equal(file_write(path, str_from(text)), 0);
}

static void machine_with_4_gib(void)
{
	put("proc/meminfo",
	    "MemTotal:        4194304 kB\nMemFree:         1 kB\n");
}

static void assert_found(uint64_t address_space, uint64_t bytes,
			 const char *from)
{
	struct memory_limit m;

	memory_limit_find(root, address_space, &m);
	assert_int_equal(m.bytes, bytes);
	assert_string_equal(m.from, from);
}

static void test_without_groups_it_is_the_machine(void **state _unused_)
{
	machine_with_4_gib();
	assert_found(NO_LIMIT, 4096 * MIB, "the machine");
}

static void test_address_space_is_a_limit(void **state _unused_)
{
	machine_with_4_gib();
	assert_found(768 * MIB, 768 * MIB, "RLIMIT_AS");
	assert_found(8192 * MIB, 4096 * MIB, "the machine");
}

/* A container sees its own group as the root of the tree. */
static void test_container_of_version_2(void **state _unused_)
{
	machine_with_4_gib();
	put("proc/self/cgroup", "0::/\n");
	put("sys/fs/cgroup/memory.max", "536870912\n");
	put("sys/fs/cgroup/memory.high", "max\n");
	assert_found(NO_LIMIT, 512 * MIB, "the control group /");
}

static void test_the_smallest_along_the_path(void **state _unused_)
{
	machine_with_4_gib();
	put("proc/self/cgroup", "0::/corvo.slice/corvo.service\n");
	put("sys/fs/cgroup/corvo.slice/corvo.service/memory.max",
	    "1073741824\n");
	put("sys/fs/cgroup/corvo.slice/corvo.service/memory.high", "max\n");
	put("sys/fs/cgroup/corvo.slice/memory.max", "805306368\n");
	put("sys/fs/cgroup/other.slice/memory.max", "1048576\n");
	assert_found(NO_LIMIT, 768 * MIB, "the control group /corvo.slice");
}

/* Above memory.high a process is slowed to a crawl: it is a limit. */
static void test_high_counts(void **state _unused_)
{
	machine_with_4_gib();
	put("proc/self/cgroup", "0::/a\n");
	put("sys/fs/cgroup/a/memory.max", "1073741824\n");
	put("sys/fs/cgroup/a/memory.high", "268435456\n");
	assert_found(NO_LIMIT, 256 * MIB, "the control group /a");
}

static void test_version_1(void **state _unused_)
{
	machine_with_4_gib();
	put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a/b\n"
				"3:cpuset:/c\n0::/\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes",
	    "9223372036854771712\n");
	put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "805306368\n");
	put("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
	assert_found(NO_LIMIT, 768 * MIB, "the control group /a/b");
}

/* The path is the machine's, but what is mounted begins at the container. */
static void test_path_that_is_not_mounted(void **state _unused_)
{
	machine_with_4_gib();
	put("proc/self/cgroup", "4:memory:/docker/0123\n0::/\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
	assert_found(NO_LIMIT, 512 * MIB, "the control group /");
}

/* Version 2 beside version 1. */
static void test_unified(void **state _unused_)
{
	machine_with_4_gib();
	put("proc/self/cgroup", "1:cpu:/\n0::/x\n");
	put("sys/fs/cgroup/unified/x/memory.max", "268435456\n");
	assert_found(NO_LIMIT, 256 * MIB, "the control group /x");
}

static void test_what_cannot_be_read_is_no_limit(void **state _unused_)
{
	static const char *const groups[] = {
		"",        "0",      "0:",      "0::",
		"0::x\n",  "\n\n\n", ":::::\n", "4:memory\n0::/a/b/c\n",
		"0::/a\n",
	};

	machine_with_4_gib();
	put("sys/fs/cgroup/memory.max", "max\n");
	put("sys/fs/cgroup/a/memory.max", "-5\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "");
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		put("proc/self/cgroup", groups[i]);
		assert_found(NO_LIMIT, 4096 * MIB, "the machine");
	}
	put("proc/meminfo", "MemTotal: lots\n");
	assert_found(NO_LIMIT, 0, "");
	put("proc/meminfo", "MemTotal: 99999999999999999999 kB\n");
	assert_found(NO_LIMIT, 0, "");
}

/* This machine's own files. */
static void test_here(void **state _unused_)
{
	struct memory_limit m;

	memory_limit_read(&m);
	assert_true(m.bytes > 64 * MIB);
	assert_true(m.from[0] != '\0');
}

#define LIMIT_TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIMIT_TEST(test_without_groups_it_is_the_machine),
		LIMIT_TEST(test_address_space_is_a_limit),
		LIMIT_TEST(test_container_of_version_2),
		LIMIT_TEST(test_the_smallest_along_the_path),
		LIMIT_TEST(test_high_counts),
		LIMIT_TEST(test_version_1),
		LIMIT_TEST(test_path_that_is_not_mounted),
		LIMIT_TEST(test_unified),
		LIMIT_TEST(test_what_cannot_be_read_is_no_limit),
		cmocka_unit_test(test_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
