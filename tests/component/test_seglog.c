/*
 * Our own log as it is meant to work: what goes in comes out, in files that are
 * used again.
 */
#include "seglog_world.h"

#include "cluster/seglog/pool.h"
#include "util/crc32c.h"

static size_t count_files(const char *dir, const char *prefix)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += str_starts(str_from(e->d_name), str_from(prefix));
	(void)closedir(d);
	return n;
}

/* --- format --- */

static void the_format_never_changes(void **state _unused_)
{
	static const char head[SEG_HEAD_USED] =
	    "corvolog\x01\0\0\0\x44\x33\x22\x11\x07\0\0\0\0\0\0\0\0\0\0";
	struct rec r = { .kind = SEGMENT_COMMAND,
			 .flushed = 0x1000,
			 .index = 5,
			 .term = 3,
			 .data = STR("abc") };
	char page[SEG_HEAD_BYTES] = "", rec[REC_HEAD_BYTES + 8] = "";
	struct seg_head h = { .number = 7, .salt = 0x11223344 };
	struct rec back;

	seg_head_put(&h, page);
	assert_memory_equal(page, head, SEG_HEAD_USED - 4);
	assert_true(seg_head_parse(str_of(page, sizeof(page)), &h));
	assert_int_equal(h.number, 7);
	assert_int_equal(h.salt, 0x11223344);

	rec_head_put(&r, h.salt, rec);
	memcpy(rec + REC_HEAD_BYTES, "abc", 3);
	assert_memory_equal(rec + 4,
			    "\x44\x33\x22\x11\x03\0\0\0\0\x10\0\0\x05\0\0\0\0"
			    "\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0abc\0",
			    sizeof(rec) - 4);
	assert_int_equal(crc32c_add(0, str_of(rec + 4, sizeof(rec) - 4)),
			 (unsigned char)rec[0] | (unsigned char)rec[1] << 8 |
			     (unsigned char)rec[2] << 16 |
			     (uint32_t)(unsigned char)rec[3] << 24);
	/* it may not be flushed up to behind itself */
	assert_false(rec_parse(str_of(rec, sizeof(rec)), 0, h.salt, &back));
}

/* --- in and out --- */

static void what_goes_in_comes_out(void **state _unused_)
{
	struct world *w = world_new("in_out");

	assert_log_is(w, w->dir, 1);
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < 20; i++)
			push(w, 1 + rng_below(&w->rng, 5));
		settle(w);
		assert_log_is(w, w->dir, w->next);
		world_close(w);
		assert_log_is(w, w->dir, w->next);
		world_open(w);
		assert_log_is(w, w->dir, w->next);
	}
	assert_true(count_files(w->dir, SEG_PREFIX) > 3);
	world_free(w);
}

static void set_times(const struct world *w, const char *name,
		      const struct timespec *to, struct timespec *ret)
{
	char path[512];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	if (to != NULL)
		assert_return_code(utimensat(AT_FDCWD, path,
					     (struct timespec[]){ *to, *to },
					     0),
				   errno);
	assert_return_code(stat(path, &st), errno);
	*ret = st.st_mtim;
}

/* A flush that failed leaves in memory, as if written, what the disk has not:
 * it can be read, and no flush writes it again. */
static void what_is_read_at_a_start_is_written_again(void **state _unused_)
{
	struct world *w = world_new("again");
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct timespec long_ago = { .tv_sec = 1000 }, at;
	struct seglog_scan s = { 0 };

	push(w, 5);
	settle(w);
	world_close(w);
	assert_int_equal(seglog_scan(&s, w->dir, &why), 0);
	set_times(w, s.files[s.n - 1].name, &long_ago, &at);
	assert_int_equal(at.tv_sec, long_ago.tv_sec);
	world_open(w);
	set_times(w, s.files[s.n - 1].name, NULL, &at);
	assert_true(at.tv_sec > long_ago.tv_sec);
	assert_log_is(w, w->dir, w->next);
	seglog_scan_done(&s);
	world_free(w);
}

static void more_than_goes_to_the_file_at_once(void **state _unused_)
{
	struct world *w = world_new("many");

	w->data_max = 40;
	push(w, 2000);
	settle(w);
	assert_log_is(w, w->dir, w->next);
	world_free(w);
}

static void an_entry_larger_than_a_segment(void **state _unused_)
{
	struct world *w = world_new("large");

	for (int i = 0; i < 4; i++) {
		w->data_max = 100;
		push(w, 3);
		w->data_max = 8 * SEGMENT_BYTES;
		push(w, 2);
	}
	settle(w);
	assert_log_is(w, w->dir, w->next);
	assert_goes_on(w, 1);
	world_free(w);
}

static void entries_that_were_taken_back(void **state _unused_)
{
	struct world *w = world_new("truncate");

	for (int round = 0; round < 60; round++) {
		uint64_t back = rng_below(&w->rng, MIN(w->next, 90u));

		push(w, 1 + rng_below(&w->rng, 40));
		push_truncate(w, w->next - back);
		if (rng_below(&w->rng, 2) == 0)
			push_truncate(w, w->next - MIN(w->next - 1, 2u));
		push(w, 1 + rng_below(&w->rng, 4));
		settle(w);
		assert_log_is(w, w->dir, w->next);
		if (round % 10 == 9) {
			world_close(w);
			world_open(w);
			assert_log_is(w, w->dir, w->next);
		}
	}
	world_free(w);
}

static void a_log_that_is_not_flushed(void **state _unused_)
{
	struct world *w = world_new("loose");

	world_close(w);
	w->c.durable = false;
	world_open(w);
	for (int i = 0; i < 200; i++)
		push(w, 3);
	settle(w);
	assert_log_is(w, w->dir, w->next);
	world_close(w);
	w->c.durable = true;
	world_open(w);
	push(w, 3);
	settle(w);
	assert_log_is(w, w->dir, w->next);
	world_free(w);
}

/* --- files are used again --- */

/* The entries that are left, the first of them at most `cut` + 1. */
static void assert_cut(const struct world *w, uint64_t cut)
{
	struct buf why = BUF_INIT(0);
	struct seglog_scan s;
	int r;

	/* files may be put away while they are read */
	while ((r = seglog_scan(&s, w->dir, &why)) == -ENOENT)
		seglog_scan_done(&s);
	assert_int_equal(r, 0);
	assert_int_equal(s.damage.n, 0);
	assert_true(s.first <= cut + 1);
	assert_int_equal(s.next, w->next);
	seglog_scan_done(&s);
	buf_done(&why);
}

static void old_segments_are_used_again(void **state _unused_)
{
	struct world *w = world_new("recycle");
	size_t most = 0;

	w->data_max = 700;
	while (w->next < 3000) {
		uint64_t cut = w->next - 1;

		push(w, 50);
		settle(w);
		seglog_cut(w->log, cut);
		assert_cut(w, cut);
		most = MAX(most, count_files(w->dir, ""));
		if (rng_below(&w->rng, 10) == 0) {
			world_close(w);
			assert_cut(w, cut);
			world_open(w);
		}
	}
	/* ".", "..", those of 50 entries, the next, spares, one on its way */
	assert_true(most <= 2 + 3 + 1 + 2 + 1 + 3);
	world_close(w);
	assert_true(count_files(w->dir, "spare-") <= 2);
	assert_cut(w, w->next - 51);
	world_free(w);
}

/* --- damage --- */

static void assert_damage(const struct world *w, const struct image *im,
			  const char *words)
{
	_cleanup_(buf_done) struct buf damage = BUF_INIT(0);

	(void)look(w, image_write(im), &damage);
	if (strstr(damage.p, words) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", damage.p, words);
}

/* A number is given twice where a crash left segments behind the end of the
 * log: what is spare of the first is not counted for the second, too. */
static void spares_of_the_same_number(void **state _unused_)
{
	struct world *w = world_new("same_number");
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct seg_pool p = { .dir = w->dir, .bytes = 1 << 16, .max = 4 };
	struct seg_open five, six;

	world_close(w);
	assert_int_equal(seg_pool_take(&p, 105, true, &five, &why), 0);
	(void)close(five.fd);
	assert_int_equal(seg_pool_give(&p, five.name, &why), 0);
	p.n = 0; /* the one that is used next is another */
	assert_int_equal(seg_pool_take(&p, 105, true, &five, &why), 0);
	(void)close(five.fd);
	assert_int_equal(seg_pool_init(&p, &why), 0);
	assert_int_equal(p.n, 1);
	assert_int_equal(seg_pool_give(&p, five.name, &why), 0);
	for (uint64_t number = 106; number < 109; number++) {
		assert_int_equal(seg_pool_take(&p, number, true, &six, &why),
				 0);
		(void)close(six.fd);
	}
	assert_int_equal(why.n, 0);
	world_free(w);
}

static void segments_that_are_missing_or_strange(void **state _unused_)
{
	struct world *w = world_new("missing");
	struct image im = { 0 };
	struct file last;

	w->data_max = 700;
	push(w, 200);
	world_close(w);
	image_read(&im, w->dir);
	assert_true(im.n >= 4);

	last = *image_last(&im);
	im.n--;
	assert_damage(w, &im, im.file[im.n - 1].name);
	im.n++;

	/* one in the place of another */
	im.file[im.n - 1].bytes = im.file[1].bytes;
	assert_damage(w, &im, last.name);
	im.file[im.n - 1] = last;
	assert_log_is(w, image_write(&im), w->next);
	image_done(&im);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_format_never_changes),
		cmocka_unit_test(what_goes_in_comes_out),
		cmocka_unit_test(what_is_read_at_a_start_is_written_again),
		cmocka_unit_test(more_than_goes_to_the_file_at_once),
		cmocka_unit_test(an_entry_larger_than_a_segment),
		cmocka_unit_test(entries_that_were_taken_back),
		cmocka_unit_test(a_log_that_is_not_flushed),
		cmocka_unit_test(old_segments_are_used_again),
		cmocka_unit_test(spares_of_the_same_number),
		cmocka_unit_test(segments_that_are_missing_or_strange),
	};

	return cmocka_run_group_tests(tests, world_set_up, world_tear_down);
}
