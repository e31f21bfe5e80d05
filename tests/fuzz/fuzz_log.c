/*
 * The log on disk, as a crash, a bad disk or a strange file may leave it: both
 * kinds of segments, the heads of entries, and manifests of snapshots.
 * Checksums are mostly made right, as else nothing behind them would be looked
 * at.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cluster/entry.h"
#include "cluster/manifest.h"
#include "cluster/seglog/record.h"
#include "cluster/seglog/scan.h"
#include "cluster/segment.h"
#include "fuzz.h"
#include "rt/file.h"
#include "util/crc32.h"
#include "util/crc32c.h"
#include "util/le.h"

#define SALT  5u
#define FILES 3

/* --- our own segments --- */

/* Gives each record that has our salt the checksum it should have. */
static void mend_records(struct buf *b)
{
	size_t at = SEG_HEAD_BYTES;

	while (at + REC_HEAD_BYTES <= b->n &&
	       get_le32(b->p + at + REC_SALT_AT) == SALT) {
		size_t size = rec_size(get_le32(b->p + at + 8));

		if (size > b->n - at)
			return;
		(void)put_le32(b->p + at,
			       crc32c_add(0, str_of(b->p + at + 4, size - 4)));
		at += size;
	}
}

/* A segment whose head is good, and the bytes behind it. */
static void put_segment(struct buf *b, uint64_t number, struct str in)
{
	const struct seg_head head = { .number = number, .salt = SALT };

	CHECK(buf_reserve(b, SEG_HEAD_BYTES) != NULL);
	memset(b->p, 0, SEG_HEAD_BYTES);
	seg_head_put(&head, b->p);
	b->n = SEG_HEAD_BYTES;
	buf_put_str(b, in);
}

static void records(struct str in, bool mend)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct seg_head head;
	struct rec r;

	(void)seg_head_parse(in, &head);
	put_segment(&b, 1, in);
	if (mend)
		mend_records(&b);
	CHECK(seg_head_parse(buf_str(&b), &head) && head.salt == SALT);
	for (size_t at = SEG_HEAD_BYTES; at < b.n; at += REC_ALIGN) {
		if (rec_parse(buf_str(&b), at, SALT, &r))
			CHECK(r.data.p + r.data.n <= b.p + b.n);
		(void)rec_says_flushed(buf_str(&b), at, SALT, at);
	}
}

static bool count_entry(void *ctx, const struct segment_entry *e)
{
	struct entry_head head;
	struct str bytes;

	if (entry_unwrap(e->data, &head, &bytes))
		CHECK(bytes.n <= e->data.n);
	++*(uint64_t *)ctx;
	return true;
}

static const char *folder(void)
{
	static char dir[64];

	if (*dir == '\0') {
		(void)snprintf(dir, sizeof(dir), "/tmp/corvo-fuzz-XXXXXX");
		CHECK(mkdtemp(dir) != NULL);
	} else {
		CHECK(dir_remove(dir) == 0 && mkdir(dir, 0700) == 0);
	}
	return dir;
}

static void write_file(const char *dir, unsigned i, struct str in, bool mend)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	char path[128];
	FILE *f;

	put_segment(&b, i + 1, in);
	if (mend)
		mend_records(&b);
	(void)snprintf(path, sizeof(path), "%s/" SEG_PREFIX "%016x", dir,
		       i + 1);
	f = fopen(path, "w");
	CHECK(f != NULL && fwrite(b.p, 1, b.n, f) == b.n && fclose(f) == 0);
}

/* Several files in a folder. */
static void whole(struct str in, bool mend)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	const char *dir = folder(), *at = NULL;
	struct seglog_scan s = { 0 };
	uint64_t n = 0;

	for (unsigned i = 0; i < FILES && in.n > 0; i++) {
		struct str one =
		    str_of(in.p, MIN(in.n, fuzz_choice(&in, 256) * (size_t)8));

		one = str_of(in.p, MIN(in.n, one.n));
		in = str_skip(in, one.n);
		write_file(dir, i, one, mend);
	}
	if (seglog_scan(&s, dir, &why) == 0) {
		CHECK(s.first <= s.next);
		if (seglog_each(&s, count_entry, &n, &at, &why) == 0)
			CHECK(n == s.next - s.first);
		else
			CHECK(why.n > 0);
	} else {
		CHECK(why.n > 0);
	}
	seglog_scan_done(&s);
}

/* --- the library's --- */

/* Of a batch with one entry. */
static void mend_batch(struct buf *b)
{
	const size_t head_n = 8 + 16;
	char *head;

	if (b->n < 16 + head_n)
		return;
	head = b->p + 8;
	(void)put_le32(head + 4, crc32_add(0, str_of(head + 8 + head_n,
						     b->n - 16 - head_n)));
	(void)put_le32(head, crc32_add(0, str_of(head + 8, head_n)));
}

static void library(struct str in, bool mend)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct segment_walk w = { .next = 1 };
	uint64_t n = 0;

	buf_put_str(&b, in);
	if (mend)
		mend_batch(&b);
	w.bytes = buf_str(&b);
	(void)segment_walk(&w, count_entry, &n);
	CHECK(w.end <= b.n && w.next == 1 + n);
	(void)segment_committed_after(buf_str(&b), in.n / 2, NULL);
}

/* --- a line of text --- */

static void manifest(struct str in)
{
	_cleanup_(buf_done) struct buf once = BUF_INIT(0);
	_cleanup_(buf_done) struct buf twice = BUF_INIT(0);
	struct manifest m, again;

	if (!manifest_parse(in, &m))
		return;
	manifest_put(&once, &m);
	CHECK(once.n == MANIFEST_BYTES);
	CHECK(manifest_parse(buf_str(&once), &again));
	manifest_put(&twice, &again);
	CHECK(str_eq(buf_str(&once), buf_str(&twice)));
}

void fuzz_one(struct str in)
{
	unsigned how = fuzz_choice(&in, 5);
	bool mend = fuzz_choice(&in, 8) > 0;
	struct entry_head head;
	struct str bytes;

	if (how == 0)
		records(in, mend);
	else if (how == 1)
		whole(in, mend);
	else if (how == 2)
		library(in, mend);
	else if (how == 3)
		manifest(in);
	else if (entry_unwrap(in, &head, &bytes))
		CHECK(bytes.n <= in.n);
}

/* --- examples --- */

static void put_record(struct rng *rng, struct buf *b, uint64_t index)
{
	char data[16], head[REC_HEAD_BYTES];
	struct rec r = { .kind = 1, .index = index, .term = 1 };

	if (rng_below(rng, 4) == 0)
		r.kind = rng_below(rng, 2) == 0 ? REC_TRUNCATE : REC_END;
	memset(data, 'x', sizeof(data));
	r.data = str_of(data, r.kind == 1 ? sizeof(data) : 0);
	rec_head_put(&r, SALT, head);
	buf_append(b, head, sizeof(head));
	buf_put_str(b, r.data);
}

static void put_manifest(struct buf *out)
{
	const struct manifest m = { .index = 7,
				    .applied = 6,
				    .origin = { .id = 3 } };

	manifest_put(out, &m);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	unsigned how = (unsigned)rng_below(rng, 5);
	const struct entry_head head = { .index = 1, .id = 3 };
	char wrapped[ENTRY_HEAD_BYTES + 8];
	const struct segment_entry e = { .index = 1,
					 .term = 1,
					 .type = SEGMENT_COMMAND,
					 .data =
					     str_of(wrapped, sizeof(wrapped)) };

	buf_putc(out, (char)how);
	buf_putc(out, 1);
	entry_wrap(&head, STR("12345678"), wrapped);
	if (how == 1)
		buf_putc(out, 14);
	if (how <= 1)
		for (uint64_t i = 1; i < 5; i++)
			put_record(rng, out, i);
	else if (how == 2)
		segment_put(out, &e);
	else if (how == 3)
		put_manifest(out);
	else
		buf_append(out, wrapped, sizeof(wrapped));
}
