/*
 * A raft log that was damaged between two lives of a node. Whatever happens to
 * its files: either every entry that was acknowledged is there again, or the
 * start is refused with a sentence that names the file and what to do. Never
 * does the library crash, and never is anything lost in silence.
 */
#include "node_world.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "cluster/entry.h"
#include "cluster/logcheck.h"
#include "cluster/mark.h"

#define ENTRIES 40
#define RECOVER "corvo recover"

#define LONG 250 /* entries: several segments and snapshots */

/* Logs that were written and left alone: short, and long. */
static char dirs[2][64];
static const char *original; /* one of them */
static char copy[64];
static char root[] = "/tmp/corvo-log-XXXXXX"; /* of all of them */

/* --- files --- */

static const char *path_in(const char *dir, const char *name)
{
	static char path[512];

	(void)snprintf(path, sizeof(path), "%s/raft/%s", dir, name);
	return path;
}

static void read_file(const char *dir, const char *name, struct buf *ret)
{
	buf_clear(ret);
	assert_int_equal(file_read(path_in(dir, name), 1u << 30, ret), 0);
}

static void write_file(const char *dir, const char *name, struct str bytes)
{
	int fd = open(path_in(dir, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes.p, bytes.n), (ssize_t)bytes.n);
	assert_int_equal(close(fd), 0);
}

struct names {
	char name[32][128];
	size_t n;
};

static void list_names(const char *dir, struct names *ret)
{
	DIR *d = opendir(path_in(dir, ""));

	ret->n = 0;
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		if (e->d_name[0] != '.') {
			assert_true(ret->n < ARRAY_SIZE(ret->name));
			(void)snprintf(ret->name[ret->n++],
				       sizeof(ret->name[0]), "%.100s",
				       e->d_name);
		}
	(void)closedir(d);
}

/* A fresh copy of what was written. */
static const char *fresh(void)
{
	struct buf b = BUF_INIT(0);
	struct names names;

	(void)snprintf(copy, sizeof(copy), "%s/copy", root);
	assert_int_equal(dir_remove(copy), 0);
	assert_int_equal(dir_make(path_in(copy, "")), 0);
	list_names(original, &names);
	for (size_t i = 0; i < names.n; i++) {
		read_file(original, names.name[i], &b);
		write_file(copy, names.name[i], buf_str(&b));
	}
	buf_done(&b);
	return copy;
}

/* A log that ends with a crash, written once for all tests. */
static void use_log(bool is_long)
{
	struct run w = { .append = is_long ? LONG : ENTRIES, .die = true };
	char *dir = dirs[is_long];

	w.snapshot = is_long ? 24 * 1024 : 0;
	original = dir;
	if (dir[0] != '\0')
		return;
	(void)snprintf(dir, sizeof(dirs[0]), "%s/%s", root,
		       is_long ? "long" : "short");
	assert_int_equal(dir_make(dir), 0);
	run_child(&w, dir);
}

static int set_up(void **state _unused_)
{
	/* these are the library's files; test_ownlog has ours */
	assert_int_equal(setenv("CORVO_RAFT_STORE", "uv", 1), 0);
	return mkdtemp(root) != NULL ? 0 : -1;
}

static int tear_down(void **state _unused_)
{
	return dir_remove(root);
}

static void flip(struct buf *b, size_t byte, unsigned bit)
{
	assert_true(byte < b->n);
	b->p[byte] = (char)(b->p[byte] ^ 1 << bit);
}

/* Where the batches of a segment begin; the last is the end of the last. */
static size_t batches(const struct buf *b, size_t *at, size_t max)
{
	size_t n = 0, pos = 8;

	for (;;) {
		uint32_t len;

		assert_true(n < max);
		at[n++] = pos;
		if (pos + 32 > b->n || b->p[pos + 8] == 0)
			return n - 1;
		memcpy(&len, b->p + pos + 28, sizeof(len));
		pos += 32 + len;
	}
}

/* --- what a start makes of it --- */

static void assert_all_there(const char *dir, int entries)
{
	struct run r = { 0 };

	run_node(&r, dir);
	assert_int_equal(r.applied, entries);
	assert_false(r.bad);
}

static void assert_damaged(const char *dir, const char *words)
{
	struct run r = { 0 };

	assert_refused(&r, dir, ERR_CONFLICT, words);
	r = (struct run){ 0 };
	assert_refused(&r, dir, ERR_CONFLICT, RECOVER);
}

/* --- open segments --- */

static void a_flipped_bit_in_an_acknowledged_entry(void **state _unused_)
{
	struct buf b = BUF_INIT(0);
	size_t at[ENTRIES + 1], n;
	struct rng rng;

	test_rng(&rng);
	use_log(false);
	read_file(original, "open-1", &b);
	n = batches(&b, at, ARRAY_SIZE(at));
	assert_int_equal(n, ENTRIES);
	/* The last one is like a write that was not finished. */
	for (size_t i = 0; i + 1 < n; i++) {
		size_t byte = at[i] + rng_below(&rng, at[i + 1] - at[i]);
		unsigned bit = (unsigned)rng_below(&rng, 8);

		print_message("batch %zu byte %zu bit %u\n", i, byte, bit);
		fresh();
		flip(&b, byte, bit);
		write_file(copy, "open-1", buf_str(&b));
		assert_damaged(copy, "open-1");
		flip(&b, byte, bit);
	}
	buf_done(&b);
}

static void the_last_entry_with_a_mark_that_knows_it(void **state _unused_)
{
	struct mark m = { .acked = ENTRIES + 1 };
	struct log_check c;
	struct buf b = BUF_INIT(0);
	size_t at[ENTRIES + 1], n;
	int fd;

	use_log(false);
	assert_int_equal(log_check(&c, path_in(original, ""), NULL, NULL, &b),
			 0);
	assert_int_equal(c.next, ENTRIES + 2);
	m.history = c.history;
	log_check_done(&c);
	read_file(original, "open-1", &b);
	n = batches(&b, at, ARRAY_SIZE(at));
	flip(&b, at[n - 1] + 40, 3);

	fresh();
	write_file(copy, "open-1", buf_str(&b));
	assert_all_there(copy, ENTRIES - 1); /* nobody can know */

	fresh();
	write_file(copy, "open-1", buf_str(&b));
	fd = mark_open(path_in(copy, ""));
	assert_true(fd >= 0);
	assert_int_equal(mark_write(fd, &m), 0);
	(void)close(fd);
	assert_damaged(copy, "were acknowledged");
	buf_done(&b);
}

static void a_write_that_was_not_finished(void **state _unused_)
{
	struct buf b = BUF_INIT(0);
	size_t at[ENTRIES + 1], n, from, upto;
	struct rng rng;

	test_rng(&rng);
	use_log(false);
	for (int round = 0; round < 4; round++) {
		read_file(original, "open-1", &b);
		n = batches(&b, at, ARRAY_SIZE(at));
		from = at[n - 1];
		upto = at[n];
		/* any part of it may have reached the disk */
		for (size_t i = from; i < upto; i++)
			if (round == 0 || rng_below(&rng, 2) == 0)
				b.p[i] = 0;
		b.p[upto - 9] = (char)(b.p[upto - 9] + 1);
		fresh();
		write_file(copy, "open-1", buf_str(&b));
		assert_all_there(copy, ENTRIES - 1);
		/* what was dropped is gone for good: entries follow */
		run_child(&(struct run){ .append = 3, .die = true }, copy);
		assert_all_there(copy, ENTRIES + 2);
	}
	buf_done(&b);
}

/* The crash of the library that this is about is one of these. */
static void a_segment_that_was_cut_short(void **state _unused_)
{
	static const size_t left[] = { 0, 1, 7, 8, 15, 16, 24 };
	struct buf b = BUF_INIT(0);
	size_t at[ENTRIES + 1], n;
	struct rng rng;

	test_rng(&rng);
	use_log(false);
	read_file(original, "open-1", &b);
	n = batches(&b, at, ARRAY_SIZE(at));
	for (size_t i = 0; i < n; i++) {
		size_t inside = 1 + rng_below(&rng, at[i + 1] - at[i] - 1);

		fresh();
		write_file(copy, "open-1", str_of(b.p, at[i] + inside));
		assert_damaged(copy, "open-1 ends after");
	}
	for (size_t i = 0; i < ARRAY_SIZE(left); i++) { /* all but zeros */
		fresh();
		write_file(copy, "open-1", str_of(b.p, at[n] + left[i]));
		assert_all_there(copy, ENTRIES);
	}
	for (size_t size = 1; size < 8; size++) { /* not even a format */
		fresh();
		write_file(copy, "open-1", str_of(b.p, size));
		assert_damaged(copy, "open-1 ends after");
	}
	buf_done(&b);
}

static void a_segment_that_goes_on_elsewhere(void **state _unused_)
{
	struct buf b = BUF_INIT(0);
	size_t at[ENTRIES + 1], n;

	use_log(false);
	read_file(original, "open-1", &b);
	n = batches(&b, at, ARRAY_SIZE(at));

	fresh(); /* cut between two entries: only indexes can tell */
	write_file(copy, "open-1", str_of(b.p, at[5]));
	memmove(b.p + 8, b.p + at[6], at[n] - at[6]);
	write_file(copy, "open-2", str_of(b.p, at[n] - at[6] + 8));
	assert_damaged(copy, "open-2 has entry 8 where entry 7 should be");

	fresh(); /* the first is not finished, the second has entries */
	read_file(original, "open-1", &b);
	flip(&b, at[n - 1] + 40, 1);
	write_file(copy, "open-1", buf_str(&b));
	read_file(original, "open-1", &b);
	write_file(copy, "open-2", buf_str(&b));
	assert_damaged(copy, "open-2");
	buf_done(&b);
}

static void another_format(void **state _unused_)
{
	struct buf b = BUF_INIT(0);

	use_log(false);
	fresh();
	read_file(original, "open-1", &b);
	b.p[0] = 2;
	write_file(copy, "open-1", buf_str(&b));
	assert_damaged(copy, "open-1 is not a segment that libraft 0.15 wrote");
	buf_done(&b);
}

/* --- the other files --- */

static void any_byte_of_a_closed_segment(void **state _unused_)
{
	char closed[64];
	struct buf b = BUF_INIT(0);
	struct names names;
	struct rng rng;
	int seen = 0;

	test_rng(&rng);
	use_log(false);
	fresh();
	assert_all_there(copy, ENTRIES); /* which closes it */
	(void)snprintf(closed, sizeof(closed), "%s/closed", root);
	assert_int_equal(rename(copy, closed), 0);
	original = closed;
	list_names(original, &names);
	for (size_t i = 0; i < names.n; i++) {
		if (names.name[i][0] != '0')
			continue;
		read_file(original, names.name[i], &b);
		for (int round = 0; round < 12; round++) {
			size_t byte = rng_below(&rng, b.n);

			print_message("%s byte %zu\n", names.name[i], byte);
			fresh();
			flip(&b, byte, (unsigned)rng_below(&rng, 8));
			write_file(copy, names.name[i], buf_str(&b));
			assert_damaged(copy, names.name[i]);
			read_file(original, names.name[i], &b);
		}
		fresh();
		write_file(copy, names.name[i],
			   str_of(b.p, rng_below(&rng, b.n)));
		assert_damaged(copy, names.name[i]);
		seen++;
	}
	assert_true(seen >= 2);
	assert_int_equal(dir_remove(closed), 0);
	buf_done(&b);
}

/* As that of a node that joined: it was sent its first entry like all others.
 */
static void a_joined_nodes_log_begins_in_an_open_segment(void **state _unused_)
{
	static const char first[] = "0000000000000001-0000000000000001";
	_cleanup_(buf_done) struct buf a = BUF_INIT(0), b = BUF_INIT(0);

	use_log(false);
	read_file(fresh(), first, &a);
	read_file(copy, "open-1", &b);
	buf_append(&a, b.p + 8, b.n - 8);
	write_file(copy, "open-1", buf_str(&a));
	assert_int_equal(unlink(path_in(copy, first)), 0);
	assert_all_there(copy, ENTRIES);
}

static void missing_files(void **state _unused_)
{
	struct names names;

	use_log(true);
	list_names(original, &names);
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.name[i];
		struct run r = { .store_index = LONG + 1 };
		struct buf why = BUF_INIT(0);
		int e;

		fresh();
		assert_int_equal(unlink(path_in(copy, name)), 0);
		e = try_node(&r, copy, &why);
		print_message("without %s: %d %.*s\n", name, e,
			      STR_ARG(buf_str(&why)));
		if (e != 0) {
			buf_putc(&why, '\0');
			assert_int_equal(e, -ERR_CONFLICT);
			assert_non_null(strstr(why.p, RECOVER));
		} else { /* nothing that was needed */
			assert_int_equal(r.index, LONG + 1);
			assert_false(r.bad);
		}
		buf_done(&why);
	}
}

static void term_and_vote(void **state _unused_)
{
	struct buf b = BUF_INIT(0);

	use_log(false);
	fresh();
	assert_int_equal(unlink(path_in(copy, "metadata1")), 0);
	assert_damaged(copy, "metadata1 and metadata2 say term 0");

	fresh();
	read_file(original, "metadata1", &b);
	write_file(copy, "metadata1", str_of(b.p, 10));
	assert_damaged(copy, "say term 0");

	fresh();
	write_file(copy, "metadata2", buf_str(&b));
	assert_damaged(copy, "both have version");

	fresh();
	b.p[0] = 7;
	write_file(copy, "metadata1", buf_str(&b));
	assert_damaged(copy, "metadata1 is not what libraft writes");
	buf_done(&b);
}

static void damaged_snapshots(void **state _unused_)
{
	struct buf b = BUF_INIT(0);
	struct names names;
	struct rng rng;
	int seen = 0;

	test_rng(&rng);
	use_log(true);
	list_names(original, &names);
	/* the newest is the one that counts */
	for (size_t i = 0; i < names.n; i++)
		if (strncmp(names.name[i], "snapshot-", 9) == 0)
			seen++;
	assert_true(seen >= 2);
	for (size_t i = 0; i < names.n; i++) {
		struct run r = { .store_index = LONG + 1 };
		struct buf why = BUF_INIT(0);

		if (strncmp(names.name[i], "snapshot-", 9) != 0)
			continue;
		fresh();
		read_file(original, names.name[i], &b);
		flip(&b, rng_below(&rng, 20), 6);
		write_file(copy, names.name[i], buf_str(&b));
		if (try_node(&r, copy, &why) != 0) {
			buf_putc(&why, '\0');
			assert_non_null(strstr(why.p, names.name[i]));
			seen = 0;
		}
		buf_done(&why);
	}
	assert_int_equal(seen, 0); /* one was refused */
	buf_done(&b);
}

/* --- anything at all --- */

static void damage_something(struct rng *rng, const struct names *names,
			     struct buf *b)
{
	const char *name = names->name[rng_below(rng, names->n)];
	size_t from, n;

	read_file(copy, name, b);
	n = rng_below(rng, 4) > 0 ? 4096 : b->n; /* where something is */
	from = b->n > 0 ? rng_below(rng, MIN(b->n, n)) : 0;
	switch (rng_below(rng, 5)) {
	case 0:
		print_message("cut %s at %zu\n", name, from);
		write_file(copy, name, str_of(b->p, from));
		return;
	case 1:
		print_message("remove %s\n", name);
		(void)unlink(path_in(copy, name));
		return;
	case 2:
		n = MIN(b->n - from, (size_t)512);
		print_message("zero %s at %zu for %zu\n", name, from, n);
		memset(b->p + from, 0, n);
		break;
	case 3:
		n = MIN(b->n - from, (size_t)40);
		print_message("noise %s at %zu for %zu\n", name, from, n);
		for (size_t i = from; i < from + n; i++)
			b->p[i] = (char)rng_u64(rng);
		break;
	default:
		print_message("flip %s at %zu\n", name, from);
		if (b->n > 0)
			flip(b, from, (unsigned)rng_below(rng, 8));
	}
	write_file(copy, name, buf_str(b));
}

static void nothing_is_lost_in_silence(void **state _unused_)
{
	struct buf b = BUF_INIT(0);
	struct names names;
	int accepted = 0;
	struct rng rng;

	test_rng(&rng);
	use_log(true);
	list_names(original, &names);
	for (int round = 0; round < 60; round++) {
		struct run r = { .store_index = LONG - 3 };
		struct buf why = BUF_INIT(0);
		int e;

		fresh();
		damage_something(&rng, &names, &b);
		e = try_node(&r, copy, &why);
		buf_putc(&why, '\0');
		if (e == 0) {
			/* the last was never confirmed by anything after it */
			assert_true(r.index >= LONG);
			assert_false(r.bad);
			accepted++;
		} else {
			assert_int_equal(e, -ERR_CONFLICT);
			assert_non_null(strstr(why.p, RECOVER));
		}
		buf_done(&why);
	}
	print_message("%d of 60 accepted\n", accepted);
	assert_in_range(accepted, 1, 59);
	buf_done(&b);
}

/* --- entries of the first versions --- */

static void an_entry_with_a_length_only(void **state _unused_)
{
	const char raw[] = "\5\0\0\0hello\0\0\0\0\0\0";
	struct entry_head h;
	struct str bytes;

	assert_true(entry_unwrap(str_of(raw, 16), &h, &bytes));
	assert_str_is(bytes, "hello");
	assert_int_equal(h.index, 0);
	assert_true(history_is_none(&h.history));
	assert_false(entry_unwrap(str_of(raw, 8), &h, &bytes));
	assert_false(entry_unwrap(str_of(raw, 3), &h, &bytes));
}

static void an_entry_comes_back_as_it_was(void **state _unused_)
{
	struct entry_head h = { .index = 70, .committed = 66, .id = 9 }, got;
	struct str bytes;
	char raw[64];

	history_make(&h.history);
	assert_int_equal(entry_wrapped_len(6), 48);
	entry_wrap(&h, STR("abcdef"), raw);
	assert_true(entry_unwrap(str_of(raw, 48), &got, &bytes));
	assert_str_is(bytes, "abcdef");
	assert_int_equal(got.index, 70);
	assert_int_equal(got.committed, 66);
	assert_int_equal(got.id, 9);
	assert_true(history_eq(&got.history, &h.history));
	assert_false(entry_unwrap(str_of(raw, 40), &got, &bytes));
	assert_false(entry_unwrap(str_of(raw, 39), &got, &bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flipped_bit_in_an_acknowledged_entry),
		cmocka_unit_test(the_last_entry_with_a_mark_that_knows_it),
		cmocka_unit_test(a_write_that_was_not_finished),
		cmocka_unit_test(a_segment_that_was_cut_short),
		cmocka_unit_test(a_segment_that_goes_on_elsewhere),
		cmocka_unit_test(another_format),
		cmocka_unit_test(any_byte_of_a_closed_segment),
		cmocka_unit_test(a_joined_nodes_log_begins_in_an_open_segment),
		cmocka_unit_test(missing_files),
		cmocka_unit_test(term_and_vote),
		cmocka_unit_test(damaged_snapshots),
		cmocka_unit_test(nothing_is_lost_in_silence),
		cmocka_unit_test(an_entry_with_a_length_only),
		cmocka_unit_test(an_entry_comes_back_as_it_was),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
