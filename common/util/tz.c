/*
 * TZif files and what follows from them. See tz.h.
 */
#include "util/tz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/civil.h"
#include "util/tz_rule.h"

#define DIR_DEFAULT "/usr/share/zoneinfo"
#define NAME_MAX_N  64          /* bytes of a name */
#define FILE_MAX_N  (64u << 10) /* bytes of a file; real ones have 4000 */
#define ZONES_MAX   1024        /* in a cache; there are about 600 */
#define TYPES_MAX   256
#define HEADER_N    44

struct tz {
	int32_t first; /* offset before the first change */
	size_t n;
	int64_t *at;      /* changes, ascending */
	int32_t *offsets; /* from then on */
	bool has_rule;    /* holds after the last change */
	struct tz_rule rule;
	/* the file it is from */
	struct timespec mtime;
	ino_t ino;
};

/* --- reading a file's bytes --- */

struct reader {
	const unsigned char *p, *end;
};

static size_t left(const struct reader *r)
{
	return (size_t)(r->end - r->p);
}

static uint32_t get_u32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

static int64_t get_time(const unsigned char *p, size_t size)
{
	if (size == 4)
		return (int32_t)get_u32(p);
	return (int64_t)((uint64_t)get_u32(p) << 32 | get_u32(p + 4));
}

/* The counts of a header, and what its block takes. */
struct head {
	unsigned version;
	size_t isut, isstd, leap, times, types, chars;
};

static bool take_head(struct reader *r, struct head *h)
{
	const unsigned char *p = r->p;

	if (left(r) < HEADER_N || memcmp(p, "TZif", 4) != 0)
		return false;
	h->version = p[4] == 0 ? 1 : p[4] - '0';
	h->isut = get_u32(p + 20);
	h->isstd = get_u32(p + 24);
	h->leap = get_u32(p + 28);
	h->times = get_u32(p + 32);
	h->types = get_u32(p + 36);
	h->chars = get_u32(p + 40);
	r->p += HEADER_N;
	return h->isut <= FILE_MAX_N && h->isstd <= FILE_MAX_N &&
	       h->leap <= FILE_MAX_N && h->times <= FILE_MAX_N &&
	       h->types <= TYPES_MAX && h->types > 0 && h->chars <= FILE_MAX_N;
}

static size_t block_size(const struct head *h, size_t time_size)
{
	return h->times * (time_size + 1) + h->types * 6 + h->chars +
	       h->leap * (time_size + 4) + h->isstd + h->isut;
}

/* Clocks that count leap seconds ("right/...") are not ours. */
static bool take_block(struct reader *r, const struct head *h, size_t size,
		       struct tz *z)
{
	const unsigned char *kinds = r->p + h->times * size;
	const unsigned char *types = kinds + h->times;

	if (left(r) < block_size(h, size) || h->leap != 0)
		return false;
	z->n = h->times;
	z->at = xcalloc(z->n + 1, sizeof(*z->at));
	z->offsets = xcalloc(z->n + 1, sizeof(*z->offsets));
	for (size_t i = 0; i < h->types; i++) {
		int64_t offset = get_time(types + i * 6, 4);

		if (offset > TZ_OFFSET_MAX || offset < -TZ_OFFSET_MAX)
			return false;
	}
	z->first = (int32_t)get_u32(types);
	for (size_t i = 0; i < z->n; i++) {
		z->at[i] = get_time(r->p + i * size, size);
		if (kinds[i] >= h->types || (i > 0 && z->at[i] <= z->at[i - 1]))
			return false;
		z->offsets[i] = (int32_t)get_u32(types + (size_t)kinds[i] * 6);
	}
	r->p += block_size(h, size);
	return true;
}

/* "\nCET-1CEST,M3.5.0,M10.5.0/3\n"; an empty one says nothing. */
static bool take_footer(struct reader *r, struct tz *z)
{
	struct str text = str_of(r->p, left(r)), rule, rest;

	if (text.n < 2 || text.p[0] != '\n' ||
	    !str_split(str_skip(text, 1), '\n', &rule, &rest))
		return false;
	z->has_rule = rule.n > 0;
	return rule.n == 0 || tz_rule_parse(rule, &z->rule);
}

static bool parse(struct reader *r, struct tz *z)
{
	struct head h;

	if (!take_head(r, &h))
		return false;
	if (h.version < 2)
		return take_block(r, &h, 4, z);
	if (left(r) < block_size(&h, 4))
		return false;
	r->p += block_size(&h, 4);
	return take_head(r, &h) && take_block(r, &h, 8, z) && take_footer(r, z);
}

struct tz *tz_parse(struct str bytes)
{
	const unsigned char *p = (const unsigned char *)bytes.p;
	struct reader r = { p, p + bytes.n };
	struct tz *z = xcalloc(1, sizeof(*z));

	if (bytes.n <= FILE_MAX_N && parse(&r, z))
		return z;
	tz_free(z);
	return NULL;
}

void tz_free(struct tz *z)
{
	if (z == NULL)
		return;
	free(z->at);
	free(z->offsets);
	free(z);
}

/* --- finding a zone --- */

/* Segments of letters, digits, '_', '+' and '-': no way out of the folder. */
static bool is_name(struct str name)
{
	char before = '/';

	if (name.n > NAME_MAX_N)
		return false;
	for (size_t i = 0; i < name.n; before = name.p[i++]) {
		char c = name.p[i];
		bool word = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
			    (c >= '0' && c <= '9') || c == '_' || c == '+' ||
			    c == '-';

		if (!word && (c != '/' || before == '/'))
			return false;
	}
	return before != '/';
}

static int open_zone(struct str name)
{
	const char *dir = getenv("TZDIR");
	struct buf path = BUF_INIT(0);
	int fd;

	buf_printf(&path, "%s/%.*s",
		   dir != NULL && dir[0] == '/' ? dir : DIR_DEFAULT,
		   STR_ARG(name));
	buf_putc(&path, '\0');
	fd = open(path.p, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	buf_done(&path);
	return fd;
}

/* False with errno set, or 0 when the file is too long. */
static bool read_all(int fd, struct buf *ret)
{
	for (;;) {
		char *p = buf_reserve(ret, 4096);
		ssize_t n;

		errno = 0;
		if (p == NULL)
			return false;
		n = read(fd, p, 4096);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		ret->n += (size_t)n;
	}
}

static bool is_same_file(const struct tz *z, const struct stat *st)
{
	return z->ino == st->st_ino && z->mtime.tv_sec == st->st_mtim.tv_sec &&
	       z->mtime.tv_nsec == st->st_mtim.tv_nsec;
}

static struct tz *read_zone(int fd, const struct stat *st, struct buf *why,
			    struct str name)
{
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(FILE_MAX_N + 4096);
	struct tz *z = NULL;

	if (read_all(fd, &bytes))
		z = tz_parse(buf_str(&bytes));
	if (z == NULL) {
		buf_printf(why, "the file of time zone \"%.*s\" is unreadable",
			   STR_ARG(name));
		return NULL;
	}
	z->mtime = st->st_mtim;
	z->ino = st->st_ino;
	return z;
}

void tz_cache_done(struct tz_cache *c)
{
	struct str key;
	size_t pos = 0;
	void *v;

	while (hmap_next(&c->zones, &pos, &key, &v))
		tz_free(v);
	hmap_done(&c->zones);
}

const struct tz *tz_find(struct tz_cache *c, struct str name, struct buf *why)
{
	static const struct tz utc;
	struct stat st;
	struct tz *z;
	int fd;

	if (name.n == 0 || str_is(name, "UTC"))
		return &utc;
	fd = is_name(name) ? open_zone(name) : -1;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		buf_printf(why,
			   "\"%.*s\" is no time zone this node knows; names "
			   "are those of the IANA database",
			   STR_ARG(name));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	z = hmap_get(&c->zones, name);
	if (z == NULL || !is_same_file(z, &st)) {
		z = read_zone(fd, &st, why, name);
		if (z != NULL && c->zones.n >= ZONES_MAX)
			tz_cache_done(c);
		if (z != NULL)
			tz_free(hmap_put(&c->zones, name, z));
	}
	close(fd);
	return z;
}

/* --- offsets and changes --- */

/* How many changes are at or before that moment. */
static size_t changes_until(const struct tz *z, int64_t at)
{
	size_t lo = 0, hi = z->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (z->at[mid] <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int32_t tz_offset(const struct tz *z, int64_t at)
{
	size_t i = changes_until(z, at);

	if (i == z->n && z->has_rule)
		return tz_rule_offset(&z->rule, at);
	return i == 0 ? z->first : z->offsets[i - 1];
}

bool tz_next_change(const struct tz *z, int64_t after, int64_t *ret)
{
	size_t i = changes_until(z, after);

	if (i == z->n)
		return z->has_rule && tz_rule_next(&z->rule, after, ret);
	*ret = z->at[i];
	return true;
}

/*
 * Walks the stretches of one offset each around the wall time: it comes once
 * in every stretch that holds wall - offset, and in a gap in none of them.
 */
void tz_from_wall(const struct tz *z, int64_t wall, struct tz_local *ret)
{
	int64_t from = wall - 2 * TZ_OFFSET_MAX;
	int64_t end = wall + TZ_OFFSET_MAX;
	size_t found = 0;

	*ret = (struct tz_local){ .kind = TZ_GAP };
	while (from <= end) {
		int32_t offset = tz_offset(z, from), after;
		int64_t at = wall - offset, change;

		if (!tz_next_change(z, from, &change))
			change = INT64_MAX;
		if (at >= from && at < change && found++ == 0) {
			ret->kind = TZ_UNIQUE;
			ret->first = ret->second = at;
		} else if (at >= from && at < change) {
			ret->kind = TZ_FOLD;
			ret->second = at;
		}
		if (change > end)
			break;
		after = tz_offset(z, change);
		if (change + offset <= wall && wall < change + after &&
		    found == 0) {
			ret->first = change;
			ret->second = at;
			ret->end = change + after;
		} else if (change + after <= wall && wall < change + offset) {
			ret->end = change + offset;
		}
		from = change;
	}
}
