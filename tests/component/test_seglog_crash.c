/*
 * Our own log after a crash, a power failure, or a disk that changes a bit.
 * What was flushed is there, what is there is what was written, and what
 * follows is not mixed up with what was lost.
 */
#include "seglog_flush.h"
#include "seglog_world.h"

#define SECTOR 512

/* A log of several segments that were used before, ending in the middle of
 * one. */
static struct world *world_used(const char *name, size_t entries)
{
	struct world *w = world_new(name);

	w->data_max = 1000;
	while (w->next < 150) {
		push(w, 20);
		settle(w);
		seglog_cut(w->log, w->next - 1);
	}
	push(w, 40);
	settle(w);
	w->data_max = 150;
	for (size_t i = 0; i < entries; i++) {
		push(w, 1);
		settle(w); /* a group of its own */
	}
	return w;
}

/* Where the log ends in that segment, and what its last record says. */
static size_t end_of(const struct buf *b, size_t *ret_flushed)
{
	size_t at = SEG_HEAD_BYTES;
	struct seg_head h;
	struct rec r;

	assert_true(seg_head_parse(buf_str(b), &h));
	*ret_flushed = at;
	for (; rec_parse(buf_str(b), at, h.salt, &r); at += rec_size(r.data.n))
		*ret_flushed = r.flushed;
	return at;
}

static size_t whole_entries(struct str bytes)
{
	size_t at = SEG_HEAD_BYTES, n = 0;
	struct seg_head h;
	struct rec r;

	if (!seg_head_parse(bytes, &h))
		return 0;
	for (; rec_parse(bytes, at, h.salt, &r); at += rec_size(r.data.n))
		n += rec_is_entry(&r);
	return n;
}

/* --- cut off --- */

static void cut_at_every_byte_of_the_last_segment(void **state _unused_)
{
	_cleanup_(buf_done) struct buf damage = BUF_INIT(0);
	struct world *w = world_used("cut", 12);
	struct image im = { 0 };
	struct file *last;
	char path[512];
	uint64_t before;
	size_t n, flushed;

	world_close(w);
	image_read(&im, w->dir);
	last = image_last(&im);
	n = end_of(&last->bytes, &flushed);
	before = w->next - whole_entries(buf_str(&last->bytes));
	(void)snprintf(path, sizeof(path), "%s/%s", image_write(&im),
		       last->name);
	do {
		struct str left = str_of(last->bytes.p, n);
		uint64_t next;

		assert_int_equal(truncate(path, (off_t)n), 0);
		next = look(w, image_dir(), &damage);
		assert_string_equal(damage.p, "");
		assert_int_equal(next, before + whole_entries(left));
	} while (n-- > 0);
	image_done(&im);
	world_free(w);
}

/* And it goes on from there. */
static void a_cut_log_goes_on(void **state _unused_)
{
	_cleanup_(buf_done) struct buf damage = BUF_INIT(0);
	struct world *w = world_used("cut_on", 20);
	struct image im = { 0 };
	struct file *last;
	size_t full, flushed;

	for (int i = 0; i < 40; i++) {
		world_close(w);
		image_read(&im, w->dir);
		last = image_last(&im);
		full = end_of(&last->bytes, &flushed);
		last->bytes.n = i == 0 ? 0 : rng_below(&w->rng, full + 1);
		w->next = look(w, image_write(&im), &damage);
		move_image(w);
		world_open(w);
		w->term++;
		push(w, 3); /* others than those that were cut off */
		settle(w);
		assert_log_is(w, w->dir, w->next);
		image_done(&im);
	}
	world_close(w);
	assert_log_is(w, w->dir, w->next);
	world_free(w);
}

/* --- a bit --- */

static void assert_names(const struct buf *damage, const char *name,
			 size_t byte, unsigned bit)
{
	if (strstr(damage->p, name) == NULL)
		fail_msg("byte %zu bit %u of %s: it says \"%s\"", byte, bit,
			 name, damage->p);
}

static void set_byte(const char *name, size_t byte, int value)
{
	char path[512], c = (char)value;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", image_dir(), name);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &c, 1, (off_t)byte), 1);
	assert_int_equal(close(fd), 0);
}

/* What the flip of one bit does: damage that names the file, or nothing that
 * anybody could notice, or the end of the log at the last group. */
static void flip_one(struct world *w, struct image *im, size_t file,
		     size_t byte, size_t end, uint64_t last_group)
{
	_cleanup_(buf_done) struct buf damage = BUF_INIT(0);
	struct file *f = &im->file[file];
	bool is_last = file + 1 == im->n;
	unsigned bit = (unsigned)rng_below(&w->rng, 8);
	uint64_t next;

	set_byte(f->name, byte, f->bytes.p[byte] ^ 1 << bit);
	next = look(w, image_dir(), &damage);
	set_byte(f->name, byte, f->bytes.p[byte]);
	if (byte >= end || (byte >= SEG_HEAD_USED && byte < SEG_HEAD_BYTES)) {
		assert_string_equal(damage.p, ""); /* nobody reads it */
		assert_int_equal(next, w->next);
	} else if (damage.n <= 1) {
		assert_true(is_last);
		assert_true(next >= last_group && next < w->next);
	} else {
		assert_names(&damage, f->name, byte, bit);
	}
}

static void a_bit_that_is_flipped_anywhere(void **state _unused_)
{
	struct world *w = world_used("flip", 12);
	uint64_t last_group = w->next;
	struct image im = { 0 };

	push(w, 3);
	world_close(w);
	image_read(&im, w->dir);
	assert_true(im.n >= 2);
	(void)image_write(&im);
	for (size_t i = 0; i < im.n; i++) {
		size_t flushed, end = end_of(&im.file[i].bytes, &flushed);
		size_t step = i + 1 == im.n ? 1 : 97;

		for (size_t byte = 0; byte < SEG_HEAD_USED; byte++)
			flip_one(w, &im, i, byte, end, last_group);
		for (size_t byte = SEG_HEAD_USED;
		     byte < MIN(end + 200, im.file[i].bytes.n);
		     byte += byte < SEG_HEAD_BYTES ? 61 : step)
			flip_one(w, &im, i, byte, end, last_group);
	}
	image_done(&im);
	world_free(w);
}

/* --- lost and reordered writes --- */

/* The writer is at an entry, and what is pushed now will be its next group. */
static uint64_t begin_group(struct world *w)
{
	unsigned before = flushes;

	hold_flushes(true);
	push(w, 1);
	wait_for_flush(before);
	return w->next - 1;
}

static void push_some(struct world *w)
{
	size_t n = 1 + rng_below(&w->rng, 3);

	for (size_t i = 0; i < n; i++)
		push(w, 1 + rng_below(&w->rng, 10));
}

static void end_group(struct world *w)
{
	hold_flushes(false);
	world_close(w);
}

/* Where the last group of the last segment begins: after that entry, or, when
 * it is in the segment before, at once. */
static size_t group_start(const struct buf *b, uint64_t entry)
{
	size_t at = SEG_HEAD_BYTES;
	struct seg_head h;
	struct rec r;

	assert_true(seg_head_parse(buf_str(b), &h));
	while (rec_parse(buf_str(b), at, h.salt, &r)) {
		at += rec_size(r.data.n);
		if (rec_is_entry(&r) && r.index == entry)
			return at;
	}
	return SEG_HEAD_BYTES;
}

/*
 * The power fails before the group after that entry, the last one in `b`, is
 * flushed. `a` is what was there before: of sectors that are lost, that is
 * there still. odds 0: all of them are, else one in so many.
 */
static void lose(struct world *w, const struct image *a, struct image *b,
		 uint64_t entry, unsigned odds)
{
	struct file *last = image_last(b);
	_cleanup_(buf_done) struct buf old = BUF_INIT(0);
	size_t start = group_start(&last->bytes, entry);

	buf_append(&old, last->bytes.p, start);
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->file[i].name, last->name) == 0)
			buf_put_str(
			    &old, str_skip(buf_str(&a->file[i].bytes), start));
	while (old.n < last->bytes.n)
		buf_putc(&old, '\0');
	for (size_t at = 0; at < last->bytes.n; at += SECTOR)
		if (odds == 0 || rng_below(&w->rng, odds) == 0)
			memcpy(last->bytes.p + at, old.p + at,
			       MIN((size_t)SECTOR, last->bytes.n - at));
}

/* What is left for certain. */
static uint64_t flushed_of(struct world *w, const struct image *a,
			   uint64_t entry)
{
	_cleanup_(buf_done) struct buf damage = BUF_INIT(0);
	struct image b = { 0 };
	uint64_t next;

	image_read(&b, w->dir);
	lose(w, a, &b, entry, 0);
	next = look(w, image_write(&b), &damage);
	assert_string_equal(damage.p, "");
	image_done(&b);
	return next;
}

/* One life after the other, each ending so, each writing other entries. */
static void lost_and_reordered_writes(void **state _unused_)
{
	_cleanup_(buf_done) struct buf damage = BUF_INIT(0);
	struct world *w = world_used("lost", 5);

	for (int round = 0; round < 150; round++) {
		struct image a = { 0 }, b = { 0 };
		uint64_t entry, flushed, next;

		image_read(&a, w->dir);
		entry = begin_group(w);
		push_some(w);
		end_group(w);
		flushed = flushed_of(w, &a, entry);
		assert_true(flushed > entry);
		image_read(&b, w->dir);
		lose(w, &a, &b, entry, 1 + (unsigned)rng_below(&w->rng, 8));
		next = look(w, image_write(&b), &damage);
		assert_string_equal(damage.p, "");
		assert_true(next >= flushed && next <= w->next);
		move_image(w);
		w->next = next;
		w->term++;
		world_open(w);
		assert_log_is(w, w->dir, next);
		image_done(&a);
		image_done(&b);
	}
	world_free(w);
}

/* The old entries may be there again; else they are forgotten. */
static void take_back(struct world *w, struct want *old, uint64_t from,
		      uint64_t n)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct seglog_scan s;
	bool are_there;

	assert_int_equal(seglog_scan(&s, image_dir(), &why), 0);
	assert_int_equal(s.damage.n, 0);
	are_there = s.cuts_n == 0;
	if (are_there)
		assert_int_equal(s.next, from + n);
	for (uint64_t i = 0; i < n; i++) {
		struct want *now = &w->want[from - 1 + i];

		free(are_there ? now->data : old[i].data);
		if (are_there)
			*now = old[i];
	}
	seglog_scan_done(&s);
}

/* Entries are taken back, others come, the power fails: either the old ones are
 * there, or some of the new ones, and never both. */
static void truncation_and_a_crash(void **state _unused_)
{
	_cleanup_(buf_done) struct buf damage = BUF_INIT(0);
	struct want old[10];

	for (int round = 0; round < 40; round++) {
		struct world *w = world_new("crash");
		uint64_t n = 1 + rng_below(&w->rng, 10), entry, from, next;
		struct image a = { 0 }, b = { 0 };

		push(w, 12);
		settle(w);
		image_read(&a, w->dir);
		entry = begin_group(w);
		from = w->next - n;
		memcpy(old, &w->want[from - 1], n * sizeof(old[0]));
		memset(&w->want[from - 1], 0, n * sizeof(old[0]));
		push_truncate(w, from);
		push_some(w);
		end_group(w);
		image_read(&b, w->dir);
		lose(w, &a, &b, entry, 1 + (unsigned)rng_below(&w->rng, 3));
		(void)image_write(&b);
		take_back(w, old, from, n);
		next = look(w, image_dir(), &damage);
		assert_string_equal(damage.p, "");
		assert_true(next >= from);
		image_done(&a);
		image_done(&b);
		assert_int_equal(dir_remove(w->dir), 0);
		world_free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_at_every_byte_of_the_last_segment),
		cmocka_unit_test(a_cut_log_goes_on),
		cmocka_unit_test(a_bit_that_is_flipped_anywhere),
		cmocka_unit_test(lost_and_reordered_writes),
		cmocka_unit_test(truncation_and_a_crash),
	};

	return cmocka_run_group_tests(tests, world_set_up, world_tear_down);
}
