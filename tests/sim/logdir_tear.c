/*
 * What a crash does to a log: see logdir.h.
 *
 * The writes of a group are noted, each with what was there before and with how
 * many flushes came before it. The machine fails between two of these: what was
 * written before is there, what was to be written later is not, and of what was
 * written between them any sector may have got to the disk.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/seglog/record.h"
#include "cluster/seglog/seglog_impl.h"
#include "logdir.h"

#define SECTOR         512 /* what a disk writes whole or not at all */
#define BLOCK          ((size_t)4096)
#define FLIP_PERCENT   10
#define PREFIX_PERCENT 30

struct logdir_write {
	uint64_t number;
	size_t at, n; /* whole blocks */
	unsigned epoch;
	char *before;
};

/* --- what is written meanwhile --- */

ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at);
int __wrap_fdatasync(int fd);
int __wrap_fsync(int fd);

static struct logdir *torn; /* whose group is to be torn */

static bool is_torn(int fd)
{
	return torn != NULL && fd == torn->log->cur.fd;
}

static void note_write(struct logdir *f, size_t n, size_t at)
{
	const struct seg_open *cur = &f->log->cur;
	struct logdir_write *w;
	ssize_t got;

	CHECK(n % BLOCK == 0 && at % BLOCK == 0);
	if (f->writes_n == f->writes_room) {
		f->writes_room = MAX(2 * f->writes_room, (size_t)16);
		f->writes =
		    xrealloc(f->writes, f->writes_room * sizeof(*f->writes));
	}
	w = &f->writes[f->writes_n++];
	*w = (struct logdir_write){ .number = cur->number,
				    .at = at,
				    .n = n,
				    .epoch = f->epoch,
				    .before = aligned_alloc(BLOCK, n) };
	CHECK(w->before != NULL);
	got = pread(cur->fd, w->before, n, (off_t)at);
	CHECK(got >= 0);
	/* a segment that grows */
	memset(w->before + got, 0, n - (size_t)got);
}

ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at)
{
	if (is_torn(fd))
		note_write(torn, n, (size_t)at);
	return __real_pwrite(fd, p, n, at);
}

/* The world says what is flushed, and when. */
int __wrap_fdatasync(int fd)
{
	if (is_torn(fd))
		torn->epoch++;
	return 0;
}

int __wrap_fsync(int fd)
{
	(void)fd;
	return 0;
}

void logdir_begin_tear(struct logdir *f)
{
	CHECK(torn == NULL && f->writes_n == 0);
	f->group = f->n;
	f->epoch = 0;
	torn = f;
}

/* --- sectors --- */

static int open_segment(const struct logdir *f, uint64_t number)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int fd;

	logdir_path(f, number, &path);
	fd = open(path.p, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void note_change(struct logdir *f, uint64_t number, size_t at)
{
	for (size_t i = f->group; i < f->n; i++) {
		struct logdir_rec *r = f->recs[i];

		if (r->number == number && at >= r->at && at < r->at + r->size)
			r->is_broken = true;
	}
}

/* The bytes there, at most a sector, are these now. */
static void put_bytes(struct logdir *f, uint64_t number, int fd, size_t at,
		      const char *p, size_t n)
{
	char now[SECTOR] = { 0 };

	CHECK(n <= SECTOR && pread(fd, now, n, (off_t)at) >= 0);
	if (memcmp(now, p, n) == 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (now[i] != p[i])
			note_change(f, number, at + i);
	CHECK(__real_pwrite(fd, p, n, (off_t)at) == (ssize_t)n);
}

static void take_back(struct logdir *f, const struct logdir_write *w)
{
	int fd = open_segment(f, w->number);

	for (size_t i = 0; i < w->n; i += SECTOR)
		put_bytes(f, w->number, fd, w->at + i, w->before + i, SECTOR);
	(void)close(fd);
}

/* Which sectors are lost, of those that could be. */
struct loss {
	struct sim *sim;
	bool is_prefix; /* those from some one on */
	unsigned percent;
	size_t kept; /* of a prefix, those before it */
};

static struct loss any_loss(struct sim *s, size_t sectors)
{
	static const unsigned percent[] = { 0, 10, 50, 90, 100 };
	struct loss l = { .sim = s };

	l.is_prefix = sim_chance(s, PREFIX_PERCENT);
	if (l.is_prefix)
		l.kept = sim_below(s, sectors + 1);
	else
		l.percent = percent[sim_below(s, ARRAY_SIZE(percent))];
	return l;
}

static bool is_lost(struct loss *l)
{
	if (!l->is_prefix)
		return sim_chance(l->sim, l->percent);
	return l->kept == 0 || l->kept-- == 0;
}

/* A block that is written again with more behind it: what was there before both
 * writes is in the first. */
static size_t begin_of(const struct logdir *f, size_t i)
{
	const struct logdir_write *w = &f->writes[i];
	size_t at = w->at;

	while (i-- > 0 && f->writes[i].epoch == w->epoch)
		if (f->writes[i].number == w->number)
			at = MAX(at, f->writes[i].at + f->writes[i].n);
	return MIN(at, w->at + w->n);
}

static size_t count_sectors(const struct logdir *f, unsigned epoch)
{
	size_t n = 0;

	for (size_t i = 0; i < f->writes_n; i++)
		if (f->writes[i].epoch == epoch)
			n += f->writes[i].at + f->writes[i].n - begin_of(f, i);
	return n / SECTOR;
}

static void lose_sectors(struct logdir *f, unsigned epoch)
{
	struct loss l = any_loss(f->sim, count_sectors(f, epoch));

	for (size_t i = 0; i < f->writes_n; i++) {
		const struct logdir_write *w = &f->writes[i];
		int fd;

		if (w->epoch != epoch)
			continue;
		fd = open_segment(f, w->number);
		for (size_t at = begin_of(f, i); at < w->at + w->n;
		     at += SECTOR)
			if (is_lost(&l))
				put_bytes(f, w->number, fd, at,
					  w->before + (at - w->at), SECTOR);
		(void)close(fd);
	}
}

/* A bit of what was not flushed. */
static void flip_one(struct logdir *f, unsigned epoch)
{
	size_t i = f->group + sim_below(f->sim, f->n - f->group);
	const struct logdir_rec *r = f->recs[i];
	size_t at = r->at + sim_below(f->sim, r->size);
	int fd;
	char c;

	if (r->epoch != epoch || r->is_broken)
		return;
	fd = open_segment(f, r->number);
	CHECK(pread(fd, &c, 1, (off_t)at) == 1);
	c = (char)(c ^ 1 << sim_below(f->sim, 8));
	put_bytes(f, r->number, fd, at, &c, 1);
	(void)close(fd);
}

static void forget_broken(struct logdir *f)
{
	size_t i = f->group;

	while (i < f->n && !f->recs[i]->is_broken)
		i++;
	f->has_rest |= i < f->n;
	logdir_forget_from(f, i);
}

void logdir_tear(struct logdir *f)
{
	unsigned epoch =
	    f->epoch > 0 ? (unsigned)sim_below(f->sim, f->epoch) : 0;

	CHECK(torn == f);
	torn = NULL;
	CHECK(f->n >= f->group); /* nothing was put away meanwhile */
	logdir_close(f);
	for (size_t i = f->writes_n; i > 0; i--)
		if (f->writes[i - 1].epoch > epoch)
			take_back(f, &f->writes[i - 1]);
	lose_sectors(f, epoch);
	if (f->n > f->group && sim_chance(f->sim, FLIP_PERCENT))
		flip_one(f, epoch);
	forget_broken(f);
	sim_note(f->sim, "torn", f->node, epoch, f->epoch, f->n - f->group, 0);
	while (f->writes_n > 0)
		free(f->writes[--f->writes_n].before);
}

/* --- without flushes --- */

/* Of the first record, what is in its first sector is lost for certain. */
static void lose_rec(struct logdir *f, size_t i, struct loss *l, size_t from)
{
	static const char zeros[SECTOR];
	const struct logdir_rec *r = f->recs[i];
	int fd = open_segment(f, r->number);
	bool is_first = i == from;

	for (size_t at = r->at; at < r->at + r->size; is_first = false) {
		size_t end = (at / SECTOR + 1) * SECTOR;

		if (is_first || is_lost(l))
			put_bytes(f, r->number, fd, at, zeros, end - at);
		at = end;
	}
	(void)close(fd);
}

void logdir_lose(struct logdir *f, uint64_t index)
{
	const struct logdir_rec *r = logdir_at(f, index);
	struct loss l;
	size_t from = f->n;

	CHECK(f->log == NULL);
	if (r == NULL)
		return;
	while (f->recs[from - 1] != r)
		from--;
	f->group = --from;
	l = any_loss(f->sim, f->n - from);
	for (size_t i = from; i < f->n; i++)
		lose_rec(f, i, &l, from);
	forget_broken(f);
	CHECK(f->n == from);
}
