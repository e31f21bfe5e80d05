#include "cluster/seglog/scan.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cluster/log_file.h"
#include "cluster/seglog/record.h"
#include "util/le.h"

/* --- files --- */

static void add_file(struct seglog_scan *s, const char *name)
{
	struct str number = str_from(name);
	struct seg_file f = { 0 };

	if (!str_starts(number, STR(SEG_PREFIX)) || number.n >= SEG_NAME_MAX ||
	    !str_parse_u64(str_skip(number, strlen(SEG_PREFIX)), &f.number))
		return;
	if (s->all_n == s->all_cap) {
		s->all_cap = MAX(16, 2 * s->all_cap);
		s->all = xrealloc(s->all, s->all_cap * sizeof(*s->all));
	}
	memcpy(f.name, name, number.n + 1);
	s->all[s->all_n++] = f;
	s->highest_number = MAX(s->highest_number, f.number);
}

static int compare_files(const void *pa, const void *pb)
{
	const struct seg_file *a = pa, *b = pb;

	return a->number < b->number ? -1 : a->number > b->number;
}

static int list_files(struct seglog_scan *s, struct buf *why)
{
	DIR *dir = opendir(s->dir);
	struct dirent *d;
	int r;

	if (dir == NULL && errno == ENOENT)
		return 0;
	for (errno = 0; dir != NULL && (d = readdir(dir)) != NULL; errno = 0)
		add_file(s, d->d_name);
	r = -errno;
	if (dir != NULL)
		(void)closedir(dir);
	if (r < 0)
		buf_printf(why, "cannot read the folder %s: %s", s->dir,
			   strerror(-r));
	if (s->all_n > 0)
		qsort(s->all, s->all_n, sizeof(*s->all), compare_files);
	return r;
}

/* Old ones go one by one: those without a gap up to the last are the log. */
static void find_chain(struct seglog_scan *s)
{
	size_t i = s->all_n;

	if (i == 0)
		return;
	while (i > 0 &&
	       (i == s->all_n || s->all[i - 1].number + 1 == s->all[i].number))
		i--;
	s->old = s->all;
	s->old_n = i;
	s->files = s->all + i;
	s->n = s->all_n - i;
}

/* --- records --- */

_printf_(2, 3) static bool damaged(struct seglog_scan *s, const char *fmt, ...)
{
	va_list ap;

	if (s->damage.n > 0)
		return false;
	va_start(ap, fmt);
	buf_vprintf(&s->damage, fmt, ap);
	va_end(ap);
	return false;
}

static void note_cut(struct seglog_scan *s, const struct seg_file *f, size_t at,
		     uint64_t index)
{
	if (s->cuts_n == s->cuts_cap) {
		s->cuts_cap = MAX(16, 2 * s->cuts_cap);
		s->cuts = xrealloc(s->cuts, s->cuts_cap * sizeof(*s->cuts));
	}
	s->cuts[s->cuts_n++] = (struct seg_cut){ f->number, at, index };
	if (s->next == 0 || index >= s->next)
		return;
	s->next = index;
	s->first = MIN(s->first, index);
}

static bool note_entry(struct seglog_scan *s, struct seg_file *f, size_t at,
		       uint64_t index)
{
	/* they are counted from 1, and another one can follow each */
	if (index == 0 || index == UINT64_MAX)
		return damaged(
		    s, "%s has entry %" PRIu64 " at byte %zu, which cannot be",
		    f->name, index, at);
	if (s->next == 0)
		s->first = s->next = index;
	if (index != s->next)
		return damaged(s,
			       "%s has entry %" PRIu64
			       " at byte %zu, where entry %" PRIu64
			       " should be",
			       f->name, index, at, s->next);
	s->next++;
	f->last_index = MAX(f->last_index, index);
	return true;
}

/* Up to the first record that is not whole. */
static void walk(struct seglog_scan *s, struct seg_file *f, struct str bytes)
{
	struct rec r;

	f->end = SEG_HEAD_BYTES;
	while (!f->is_ended && rec_parse(bytes, f->end, f->salt, &r)) {
		if (r.kind == REC_TRUNCATE)
			note_cut(s, f, f->end, r.index);
		else if (r.kind == REC_END)
			f->is_ended = true;
		else if (!note_entry(s, f, f->end, r.index))
			return;
		f->end += rec_size(r.data.n);
	}
}

/* What stands behind the end of the log. */
static void note_end(struct seg_file *f, struct str bytes)
{
	size_t n = bytes.n;

	while (n > f->end && bytes.p[n - 1] == 0)
		n--;
	f->used = n;
	f->is_torn = (n >= f->end + REC_HEAD_BYTES &&
		      get_le32(bytes.p + f->end + REC_SALT_AT) == f->salt) ||
		     rec_says_flushed(bytes, f->end, f->salt, 0);
}

static bool read_head(struct seg_file *f, struct str bytes)
{
	struct seg_head h;

	f->size = bytes.n;
	if (!seg_head_parse(bytes, &h) || h.number != f->number)
		return false;
	f->salt = h.salt;
	return true;
}

/* What comes after a segment that has not ended: nothing that was flushed. */
static int judge_rest(struct seglog_scan *s, const struct seg_file *last,
		      struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	for (size_t i = 0; i < s->rest_n && s->damage.n == 0; i++) {
		struct seg_file *f = &s->rest[i];
		int r = log_file_read(s->dir, f->name, &b, why);

		if (r < 0)
			return r;
		if (read_head(f, buf_str(&b)) &&
		    rec_says_flushed(buf_str(&b), SEG_HEAD_BYTES, f->salt, 0))
			(void)damaged(s,
				      "%s cannot be read at byte %zu, but "
				      "there is more of the log in %s",
				      last->name, last->end, f->name);
	}
	return 0;
}

/*
 * The first segment always has a head; the next one has since before the one
 * before it ended. One that is cut off before its first record is the end of
 * the log, as when it is cut off anywhere behind it.
 */
static int judge_head(struct seglog_scan *s, struct seg_file *f, bool is_last)
{
	if (f->size >= SEG_HEAD_BYTES || !is_last || s->n == 0)
		(void)damaged(s,
			      "%s has a head, its first %d bytes, that does "
			      "not match its checksum",
			      f->name, SEG_HEAD_USED);
	s->rest = f;
	s->rest_n = is_last;
	return 0;
}

static int read_chain(struct seglog_scan *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct seg_file *f = s->files;
	size_t n = s->n;
	int r;

	for (s->n = 0; s->n < n && s->damage.n == 0; f++) {
		r = log_file_read(s->dir, f->name, &b, why);
		if (r < 0)
			return r;
		if (!read_head(f, buf_str(&b)))
			return judge_head(s, f, s->n + 1 == n);
		s->n++;
		walk(s, f, buf_str(&b));
		if (f->is_ended)
			continue;
		note_end(f, buf_str(&b));
		s->rest = f + 1;
		s->rest_n = n - s->n;
		if (s->damage.n == 0 &&
		    rec_says_flushed(buf_str(&b), f->end, f->salt, f->end))
			(void)damaged(s,
				      "%s cannot be read at byte %zu, which "
				      "was flushed",
				      f->name, f->end);
		return judge_rest(s, f, why);
	}
	if (n > 0 && s->damage.n == 0)
		(void)damaged(s,
			      "%s is the last segment, but the log goes on "
			      "after it",
			      f[-1].name);
	return 0;
}

int seglog_scan(struct seglog_scan *s, const char *dir, struct buf *why)
{
	int r;

	*s = (struct seglog_scan){ .dir = dir };
	r = list_files(s, why);
	if (r < 0)
		return r;
	find_chain(s);
	return read_chain(s, why);
}

void seglog_scan_done(struct seglog_scan *s)
{
	free(s->all);
	free(s->cuts);
	buf_done(&s->damage);
	*s = (struct seglog_scan){ 0 };
}

/* --- entries --- */

struct each {
	const struct seglog_scan *s;
	segment_fn *fn;
	void *ctx;
	/* least[i]: of the indexes of the cuts from i on */
	uint64_t *least;
	size_t cut; /* the next one after the record */
	bool stopped;
};

static void find_least(struct each *e)
{
	const struct seglog_scan *s = e->s;
	uint64_t least = UINT64_MAX;

	e->least = xcalloc(s->cuts_n + 1, sizeof(*e->least));
	e->least[s->cuts_n] = least;
	for (size_t i = s->cuts_n; i > 0; i--) {
		least = MIN(least, s->cuts[i - 1].index);
		e->least[i - 1] = least;
	}
}

static void give(struct each *e, const struct rec *r)
{
	struct segment_entry entry = { r->index, r->term, r->kind, r->data };

	if (r->kind == REC_TRUNCATE)
		e->cut++;
	else if (rec_is_entry(r) && r->index < e->least[e->cut] &&
		 r->index < e->s->next)
		e->stopped = !e->fn(e->ctx, &entry);
}

static void give_file(struct each *e, const struct seg_file *f,
		      struct str bytes)
{
	struct rec r;

	for (size_t at = SEG_HEAD_BYTES; at < f->end && !e->stopped;
	     at += rec_size(r.data.n)) {
		/* it was read a moment ago */
		CHECK(rec_parse(bytes, at, f->salt, &r));
		give(e, &r);
	}
}

int seglog_each(const struct seglog_scan *s, segment_fn *fn, void *ctx,
		const char **at, struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct each e = { .s = s, .fn = fn, .ctx = ctx };
	int r = 0;

	find_least(&e);
	for (size_t i = 0; i < s->n && r == 0 && !e.stopped; i++) {
		r = log_file_read(s->dir, s->files[i].name, &b, why);
		*at = s->files[i].name;
		if (r == 0)
			give_file(&e, &s->files[i], buf_str(&b));
	}
	free(e.least);
	return r;
}
