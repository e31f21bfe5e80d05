/*
 * The folder of the log but for what is in the segments: their names, the two
 * files with term and vote, and the snapshots.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/logcheck_impl.h"
#include "cluster/ownlog.h"
#include "util/crc32.h"
#include "util/le.h"

#define FORMAT         1
#define WORD           8
#define METADATA_WORDS 4 /* format, version, term, vote */
#define META_WORDS     4 /* format, checksum, index, length of the members */
#define MEMBERS_MAX    (1u << 20)
#define META_SUFFIX    ".meta"
#define NAME_NUMBERS   3
#define METADATA_FILES 2

static const char *const metadata_names[METADATA_FILES] = { "metadata1",
							    "metadata2" };

struct snapshot_name {
	char meta[LOG_NAME_MAX];
	uint64_t number[NAME_NUMBERS]; /* term, index, time */
};

struct listing {
	struct log_check *c;
	struct snapshot_name newest;
	bool has_snapshot;
	size_t cap; /* of c->segments */
};

void log_damage(struct log_check *c, const char *fmt, ...)
{
	va_list ap;

	if (c->damages++ > 0)
		return;
	va_start(ap, fmt);
	buf_vprintf(&c->damage, fmt, ap);
	va_end(ap);
}

static uint64_t word(struct str s, size_t n)
{
	return get_le64(s.p + n * WORD);
}

/* --- names --- */

/* prefix, n numbers with '-' between them, suffix. */
static bool parse_name(const char *name, const char *prefix, unsigned n,
		       const char *suffix, uint64_t *ret)
{
	struct str s = str_from(name), digits;

	if (!str_starts(s, str_from(prefix)))
		return false;
	s = str_skip(s, strlen(prefix));
	if (s.n < strlen(suffix) ||
	    !str_is(str_skip(s, s.n - strlen(suffix)), suffix))
		return false;
	s.n -= strlen(suffix);
	for (unsigned i = 0; i < n; i++) {
		bool more = str_split(s, '-', &digits, &s);

		if (more != (i + 1 < n) || !str_parse_u64(digits, &ret[i]))
			return false;
	}
	return true;
}

static void add_segment(struct listing *l, const char *name, bool is_open,
			uint64_t first, uint64_t last)
{
	struct log_check *c = l->c;
	struct log_segment *s;

	if (c->segments_n == l->cap) {
		l->cap = l->cap == 0 ? 16 : 2 * l->cap;
		c->segments =
		    xrealloc(c->segments, l->cap * sizeof(*c->segments));
	}
	s = &c->segments[c->segments_n++];
	*s = (struct log_segment){ .is_open = is_open,
				   .first = first,
				   .last = last };
	memcpy(s->name, name, strlen(name) + 1); /* add_name saw that it fits */
}

static bool is_newer(const uint64_t *a, const uint64_t *b)
{
	for (unsigned i = 0; i < NAME_NUMBERS; i++)
		if (a[i] != b[i])
			return a[i] > b[i];
	return false;
}

/* The file beside its .meta file is written last: without it there is none. */
static bool has_content(struct listing *l, const char *meta)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct stat st;

	buf_printf(&path, "%s/%.*s", l->c->dir,
		   (int)(strlen(meta) - strlen(META_SUFFIX)), meta);
	buf_putc(&path, '\0');
	return stat(path.p, &st) == 0 && st.st_size > 0;
}

static void add_name(struct listing *l, const char *name)
{
	uint64_t n[NAME_NUMBERS];

	if (strlen(name) >= LOG_NAME_MAX)
		return; /* none of the library's */
	if (parse_name(name, "", 2, "", n)) {
		add_segment(l, name, false, n[0], n[1]);
	} else if (parse_name(name, "open-", 1, "", n)) {
		add_segment(l, name, true, n[0], n[0]);
	} else if (parse_name(name, "snapshot-", 3, META_SUFFIX, n) &&
		   has_content(l, name) &&
		   (!l->has_snapshot || is_newer(n, l->newest.number))) {
		l->has_snapshot = true;
		memcpy(l->newest.number, n, sizeof(n));
		memcpy(l->newest.meta, name, strlen(name) + 1);
	}
}

/* Closed ones by their index, then open ones by their number. */
static int compare_segments(const void *pa, const void *pb)
{
	const struct log_segment *a = pa, *b = pb;

	if (a->is_open != b->is_open)
		return a->is_open ? 1 : -1;
	return a->first < b->first ? -1 : a->first > b->first;
}

static int list_files(struct listing *l, struct buf *why)
{
	struct log_check *c = l->c;
	DIR *dir = opendir(c->dir);
	int r = dir != NULL || errno == ENOENT ? 0 : -errno;

	while (dir != NULL) {
		struct dirent *d;

		errno = 0;
		d = readdir(dir);
		if (d == NULL) {
			r = -errno;
			break;
		}
		add_name(l, d->d_name);
	}
	if (dir != NULL)
		(void)closedir(dir);
	if (r < 0)
		buf_printf(why, "cannot read the folder %s: %s", c->dir,
			   strerror(-r));
	if (c->segments_n > 0)
		qsort(c->segments, c->segments_n, sizeof(*c->segments),
		      compare_segments);
	return r;
}

/* --- term and vote --- */

/* Of one file: its version, 0 when there is none or its write was not
 * finished. */
static int read_metadata(struct log_check *c, const char *name,
			 uint64_t *version, uint64_t *term, struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	int r = log_file_read(c->dir, name, &b, &text);

	*version = *term = 0;
	if (r == -ENOENT || (r == 0 && b.n < METADATA_WORDS * WORD))
		return 0;
	if (r < 0) {
		buf_put_str(why, buf_str(&text));
		return r;
	}
	*version = word(buf_str(&b), 1);
	*term = word(buf_str(&b), 2);
	if (word(buf_str(&b), 0) != FORMAT || *version == 0)
		log_damage(c, "%s is not what libraft writes", name);
	return 0;
}

static int read_term(struct log_check *c, struct buf *why)
{
	uint64_t version[METADATA_FILES], term[METADATA_FILES];

	for (unsigned i = 0; i < METADATA_FILES; i++) {
		int r = read_metadata(c, metadata_names[i], &version[i],
				      &term[i], why);

		if (r < 0)
			return r;
	}
	if (version[0] != 0 && version[0] == version[1])
		log_damage(c,
			   "metadata1 and metadata2 both have version %" PRIu64,
			   version[0]);
	c->term = term[version[1] > version[0]];
	return 0;
}

/* --- snapshots --- */

static bool is_meta_good(struct str s)
{
	uint32_t crc;

	if (s.n < META_WORDS * WORD || word(s, 0) != FORMAT ||
	    word(s, 3) == 0 || word(s, 3) > MEMBERS_MAX ||
	    word(s, 3) > s.n - META_WORDS * WORD)
		return false;
	crc = crc32_add(0, str_of(s.p + 2 * WORD, 2 * WORD));
	crc = crc32_add(crc, str_of(s.p + META_WORDS * WORD, word(s, 3)));
	return crc == word(s, 1);
}

static int read_snapshot(struct log_check *c, const struct snapshot_name *name,
			 struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	char content[LOG_NAME_MAX];
	int r = log_file_read(c->dir, name->meta, &b, why);

	if (r < 0)
		return r;
	if (!is_meta_good(buf_str(&b))) {
		log_damage(c, "%s does not match its checksum", name->meta);
		return 0;
	}
	(void)snprintf(content, sizeof(content), "%.*s",
		       (int)(strlen(name->meta) - strlen(META_SUFFIX)),
		       name->meta);
	r = log_file_read(c->dir, content, &b, why);
	if (r < 0)
		return r;
	if (!manifest_parse(buf_str(&b), &c->snapshot) ||
	    c->snapshot.index != name->number[1]) {
		log_damage(c, "%s is not a snapshot of Corvo's", content);
		c->snapshot = (struct manifest){ 0 };
		return 0;
	}
	c->snapshot_term = name->number[0];
	c->history = c->snapshot.origin.history;
	return 0;
}

static void forget_file(const struct log_check *c, const char *name)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	buf_printf(&path, "%s/%s", c->dir, name);
	buf_putc(&path, '\0');
	(void)unlink(path.p);
}

void log_check_forget(struct log_check *c)
{
	CHECK(c->is_new);
	for (unsigned i = 0; i < METADATA_FILES; i++)
		forget_file(c, metadata_names[i]);
	for (size_t i = 0; i < c->segments_n; i++)
		forget_file(c, c->segments[i].name);
	ownlog_forget(c->dir);
}

int log_dir_read(struct log_check *c, struct buf *why)
{
	struct listing l = { .c = c };
	int r = list_files(&l, why);

	if (r == 0)
		r = read_term(c, why);
	if (r == 0 && l.has_snapshot)
		r = read_snapshot(c, &l.newest, why);
	return r;
}
