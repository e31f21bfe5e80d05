/*
 * Time zones: real files of the system, files made here, and nonsense.
 */
#include "lib/testlib.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/civil.h"
#include "util/tz.h"
#include "util/tz_rule.h"

static int64_t at(unsigned y, unsigned m, unsigned d, unsigned h, unsigned min)
{
	return (int64_t)(civil_days(y, m, d) * S_PER_DAY + h * S_PER_HOUR +
			 min * S_PER_MIN);
}

static const struct tz *zone(struct tz_cache *c, const char *name)
{
	struct buf why = BUF_INIT(0);
	const struct tz *z = tz_find(c, str_from(name), &why);

	if (z == NULL)
		fail_msg("%s: %.*s", name, STR_ARG(buf_str(&why)));
	buf_done(&why);
	return z;
}

static void test_offsets(void **state)
{
	struct tz_cache c = { 0 };
	const struct tz *z;

	(void)state;
	assert_int_equal(tz_offset(zone(&c, ""), at(2026, 7, 1, 0, 0)), 0);
	assert_int_equal(tz_offset(zone(&c, "UTC"), at(2026, 7, 1, 0, 0)), 0);
	z = zone(&c, "Europe/Berlin");
	assert_int_equal(tz_offset(z, at(2026, 1, 1, 0, 0)), 3600);
	assert_int_equal(tz_offset(z, at(2026, 3, 29, 0, 59)), 3600);
	assert_int_equal(tz_offset(z, at(2026, 3, 29, 1, 0)), 7200);
	assert_int_equal(tz_offset(z, at(2026, 10, 25, 0, 59)), 7200);
	assert_int_equal(tz_offset(z, at(2026, 10, 25, 1, 0)), 3600);
	/* far behind the table: the footer */
	assert_int_equal(tz_offset(z, at(2190, 7, 1, 0, 0)), 7200);
	assert_int_equal(tz_offset(z, at(2190, 1, 1, 0, 0)), 3600);
	z = zone(&c, "America/New_York");
	assert_int_equal(tz_offset(z, at(2026, 7, 1, 0, 0)), -4 * 3600);
	z = zone(&c, "Asia/Kolkata");
	assert_int_equal(tz_offset(z, at(2026, 7, 1, 0, 0)), 19800);
	/* summer time is the standard one there, winter the exception */
	z = zone(&c, "Europe/Dublin");
	assert_int_equal(tz_offset(z, at(2060, 7, 1, 0, 0)), 3600);
	assert_int_equal(tz_offset(z, at(2060, 1, 1, 0, 0)), 0);
	/* the southern half */
	z = zone(&c, "Pacific/Auckland");
	assert_int_equal(tz_offset(z, at(2070, 1, 1, 0, 0)), 13 * 3600);
	assert_int_equal(tz_offset(z, at(2070, 7, 1, 0, 0)), 12 * 3600);
	tz_cache_done(&c);
}

static void test_wall_times(void **state)
{
	struct tz_cache c = { 0 };
	const struct tz *z = zone(&c, "Europe/Berlin");
	struct tz_local l;

	(void)state;
	tz_from_wall(z, at(2026, 7, 1, 12, 0), &l);
	assert_int_equal(l.kind, TZ_UNIQUE);
	assert_int_equal(l.first, at(2026, 7, 1, 10, 0));
	tz_from_wall(z, at(2026, 3, 29, 2, 30), &l);
	assert_int_equal(l.kind, TZ_GAP);
	assert_int_equal(l.first, at(2026, 3, 29, 1, 0));
	assert_int_equal(l.second, at(2026, 3, 29, 1, 30));
	assert_int_equal(l.end, at(2026, 3, 29, 3, 0));
	tz_from_wall(z, at(2026, 3, 29, 3, 0), &l);
	assert_int_equal(l.kind, TZ_UNIQUE);
	tz_from_wall(z, at(2026, 10, 25, 2, 30), &l);
	assert_int_equal(l.kind, TZ_FOLD);
	assert_int_equal(l.first, at(2026, 10, 25, 0, 30));
	assert_int_equal(l.second, at(2026, 10, 25, 1, 30));
	assert_int_equal(l.end, at(2026, 10, 25, 3, 0));
	/* half an hour */
	z = zone(&c, "Australia/Lord_Howe");
	tz_from_wall(z, at(2026, 10, 4, 2, 15), &l);
	assert_int_equal(l.kind, TZ_GAP);
	assert_int_equal(l.end, at(2026, 10, 4, 2, 30));
	/* a whole day: Samoa had no 30 December 2011 */
	z = zone(&c, "Pacific/Apia");
	tz_from_wall(z, at(2011, 12, 30, 12, 0), &l);
	assert_int_equal(l.kind, TZ_GAP);
	assert_int_equal(l.end, at(2011, 12, 31, 0, 0));
	assert_int_equal(l.first, at(2011, 12, 30, 10, 0));
	tz_cache_done(&c);
}

static void test_names(void **state)
{
	static const char *const bad[] = {
		"Europe/Nowhere",
		"../../../etc/passwd",
		"/etc/passwd",
		"Europe/../UTC",
		"Europe",
		"Europe/",
		"Europe//Berlin",
		".",
		"tzdata.zi",
		"Europe/Berlin\n",
		"zone.tab",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		"AAAAAAAAAA",
	};
	struct tz_cache c = { 0 };
	struct buf why = BUF_INIT(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		buf_clear(&why);
		assert_null(tz_find(&c, str_from(bad[i]), &why));
		assert_true(why.n > 0);
	}
	assert_null(tz_find(&c, str_of("UTC\0", 4), &why));
	assert_int_equal(c.zones.n, 0);
	tz_cache_done(&c);
	buf_done(&why);
}

/* $TZDIR, and a file that is replaced while the process runs. */
static void test_file_is_read_again(void **state)
{
	static const char v1[] = "TZif\0";
	char dir[] = "/tmp/corvo_tz_XXXXXX", path[64];
	unsigned char file[44 + 6 + 1] = { 0 };
	struct tz_cache c = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/Mine", dir);
	assert_int_equal(setenv("TZDIR", dir, 1), 0);
	memcpy(file, v1, sizeof(v1));
	file[39] = 1; /* types */
	file[43] = 1; /* characters of names */
	for (unsigned hours = 1; hours <= 2; hours++) {
		FILE *f;

		(void)unlink(path);
		file[46] = (unsigned char)(hours * 3600 >> 8);
		file[47] = (unsigned char)(hours * 3600);
		f = fopen(path, "w");
		assert_non_null(f);
		assert_int_equal(fwrite(file, sizeof(file), 1, f), 1);
		assert_int_equal(fclose(f), 0);
		/* another file, also when it gets the inode of the first */
		assert_int_equal(utimensat(AT_FDCWD, path,
					   (struct timespec[2]){ { hours, 0 },
								 { hours, 0 } },
					   0),
				 0);
		assert_int_equal(tz_offset(zone(&c, "Mine"), 0), hours * 3600);
	}
	assert_int_equal(c.zones.n, 1);
	(void)unlink(path);
	(void)rmdir(dir);
	assert_int_equal(unsetenv("TZDIR"), 0);
	tz_cache_done(&c);
}

static void test_rules(void **state)
{
	static const char *const bad[] = {
		"",
		"A",
		"CET",
		"CET-25",
		"CET-1CEST",
		"CET-1CEST,",
		"CET-1CEST,M3.5.0",
		"CET-1CEST,M3.5.0,M13.5.0",
		"CET-1CEST,M3.6.0,M10.5.0",
		"CET-1CEST,M3.5.7,M10.5.0",
		"CET-1CEST,J0,J365",
		"CET-1CEST,M3.5.0,M10.5.0x",
		"<CET-1",
		"CET-1CEST,M3.5.0/168,M10.5.0",
		"CET-999999999999999999999999",
	};
	struct tz_rule r;
	int64_t next;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (tz_rule_parse(str_from(bad[i]), &r))
			fail_msg("\"%s\" was taken for a rule", bad[i]);
	assert_true(tz_rule_parse(STR("<+0330>-3:30"), &r));
	assert_int_equal(tz_rule_offset(&r, at(2026, 1, 1, 0, 0)), 12600);
	assert_false(tz_rule_next(&r, at(2026, 1, 1, 0, 0), &next));
	/* days of the year, with and without 29 February */
	assert_true(tz_rule_parse(STR("AAA0BBB,J60/0,300/0"), &r));
	assert_true(tz_rule_next(&r, at(2024, 1, 1, 0, 0), &next));
	assert_int_equal(next, at(2024, 3, 1, 0, 0));
	assert_true(tz_rule_next(&r, next, &next));
	assert_int_equal(next, at(2024, 10, 26, 23, 0));
	/* all the year */
	assert_true(tz_rule_parse(STR("XXX3EDT4,0/0,J365/23"), &r));
	assert_int_equal(tz_rule_offset(&r, at(2026, 1, 1, 4, 0)), -4 * 3600);
	assert_int_equal(tz_rule_offset(&r, at(2026, 7, 1, 0, 0)), -4 * 3600);
	/* before midnight of the day before */
	assert_true(tz_rule_parse(STR("<-02>2<-01>,M3.5.0/-1,M10.5.0/0"), &r));
	assert_int_equal(tz_rule_offset(&r, at(2026, 3, 29, 0, 59)), -7200);
	assert_int_equal(tz_rule_offset(&r, at(2026, 3, 29, 1, 0)), -3600);
}

/* --- nonsense --- */

static void use(const struct tz *z)
{
	static const int64_t times[] = { 0,          172800,     1000000000,
					 2147483647, 4000000000, 9000000000 };
	struct tz_local l;
	int64_t next;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		int32_t o = tz_offset(z, times[i]);

		assert_true(o >= -TZ_OFFSET_MAX && o <= TZ_OFFSET_MAX);
		if (tz_next_change(z, times[i], &next))
			assert_true(next > times[i]);
		tz_from_wall(z, times[i], &l);
	}
}

static size_t read_file(const char *path, char *ret, size_t max)
{
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(ret, 1, max, f);
	assert_int_equal(fclose(f), 0);
	return n;
}

/* A good file with a few bytes changed, or cut short. */
static void test_damaged_files(void **state)
{
	char good[8192], bad[8192];
	size_t n =
	    read_file("/usr/share/zoneinfo/Europe/Berlin", good, sizeof(good));
	unsigned taken = 0;
	struct rng r;

	(void)state;
	test_rng(&r);
	for (int i = 0; i < 20000; i++) {
		size_t len = i % 3 == 0 ? rng_u64(&r) % (n + 1) : n;
		/* mostly where the counts and the footer are */
		size_t span = i % 2 ? n : 100;
		struct tz *z;

		memcpy(bad, good, n);
		for (unsigned k = 0; k < 1 + rng_u64(&r) % 4; k++) {
			size_t pos = rng_u64(&r) % span;

			bad[i % 4 == 1 ? n - 1 - pos : pos] = (char)rng_u64(&r);
		}
		z = tz_parse(str_of(bad, len));
		if (z == NULL)
			continue;
		taken++;
		use(z);
		tz_free(z);
	}
	print_message("%u of 20000 were readable\n", taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_wall_times),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_file_is_read_again),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_damaged_files),
	};

	return cmocka_run_group_tests_name("tz", tests, NULL, NULL);
}
