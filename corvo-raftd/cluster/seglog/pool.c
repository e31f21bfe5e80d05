#include "cluster/seglog/pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/seglog/record.h"
#include "rt/file.h"
#include "util/rng.h"

#define SPARE_PREFIX "spare-"
#define NEW_NAME     SPARE_PREFIX "new"
#define FILE_MODE    0640
#define FILL_BYTES   (256u << 10)
/* Zeros that are not on the disk yet: what a flush of the log may have to wait
 * for. */
#define FILL_FLUSH_BYTES (2u << 20)

static int failed(struct buf *why, int e, const char *what,
		  const struct seg_pool *p, const char *name)
{
	buf_printf(why, "cannot %s %s/%s: %s", what, p->dir, name,
		   strerror(-e));
	return e;
}

static void path_of(const struct seg_pool *p, const char *name, struct buf *ret)
{
	buf_printf(ret, "%s/%s", p->dir, name);
	buf_putc(ret, '\0');
}

static int rename_in(const struct seg_pool *p, const char *from, const char *to)
{
	_cleanup_(buf_done) struct buf a = BUF_INIT(0), b = BUF_INIT(0);

	path_of(p, from, &a);
	path_of(p, to, &b);
	return rename(a.p, b.p) < 0 ? -errno : 0;
}

static int unlink_in(const struct seg_pool *p, const char *name)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	path_of(p, name, &path);
	return unlink(path.p) < 0 && errno != ENOENT ? -errno : 0;
}

static bool has_full_size(const struct seg_pool *p, const char *name)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct stat st;

	path_of(p, name, &path);
	return stat(path.p, &st) == 0 && st.st_size == (off_t)p->bytes;
}

/* --- spares --- */

static bool is_wanted(const struct seg_pool *p, const char *name)
{
	return p->n < p->max && strlen(name) < SEG_NAME_MAX &&
	       strcmp(name, NEW_NAME) != 0 && has_full_size(p, name);
}

static void keep(struct seg_pool *p, const char *name)
{
	memcpy(p->spare[p->n++], name, strlen(name) + 1);
}

int seg_pool_init(struct seg_pool *p, struct buf *why)
{
	DIR *dir = opendir(p->dir);
	struct dirent *d;
	int r = 0;

	CHECK(p->max <= SEG_SPARES_MAX);
	if (dir == NULL)
		return failed(why, -errno, "read", p, "");
	while (r == 0 && (d = readdir(dir)) != NULL) {
		if (!str_starts(str_from(d->d_name), STR(SPARE_PREFIX)))
			continue;
		if (is_wanted(p, d->d_name))
			keep(p, d->d_name);
		else
			r = unlink_in(p, d->d_name);
	}
	(void)closedir(dir);
	return r < 0 ? failed(why, r, "remove a file in", p, "") : 0;
}

/* After a crash, segments behind the end of the log are spares, and their
 * numbers are given again. */
static bool is_kept(const struct seg_pool *p, const char *spare)
{
	for (unsigned i = 0; i < p->n; i++)
		if (strcmp(p->spare[i], spare) == 0)
			return true;
	return false;
}

int seg_pool_give(struct seg_pool *p, const char *name, struct buf *why)
{
	char spare[SEG_NAME_MAX];
	int r;

	(void)snprintf(spare, sizeof(spare), SPARE_PREFIX "%s",
		       name + strlen(SEG_PREFIX));
	if (!is_wanted(p, name) || is_kept(p, spare)) {
		r = unlink_in(p, name);
		return r < 0 ? failed(why, r, "remove", p, name) : 0;
	}
	r = rename_in(p, name, spare);
	if (r < 0)
		return failed(why, r, "rename", p, name);
	keep(p, spare);
	return 0;
}

/* --- a segment to write to --- */

int seg_zeros(int fd, size_t from, size_t to)
{
	char *zeros = xcalloc(1, FILL_BYTES);
	size_t flushed = from;
	int r = 0;

	while (from < to && r == 0) {
		ssize_t n =
		    pwrite(fd, zeros, MIN(FILL_BYTES, to - from), (off_t)from);

		if (n < 0 && errno != EINTR)
			r = -errno;
		from += n > 0 ? (size_t)n : 0;
		if (r < 0 || from - flushed < FILL_FLUSH_BYTES)
			continue;
		if (fdatasync(fd) < 0)
			r = -errno;
		flushed = from;
	}
	free(zeros);
	return r;
}

int seg_again(int fd, size_t from, size_t to)
{
	char *bytes = xmalloc(FILL_BYTES);
	int r = 0;

	while (from < to && r == 0) {
		size_t n = MIN(FILL_BYTES, to - from);
		ssize_t wrote;

		r = file_read_at(fd, from, n, bytes);
		if (r < 0)
			break;
		wrote = pwrite(fd, bytes, n, (off_t)from);
		if (wrote != (ssize_t)n)
			r = wrote < 0 ? -errno : -EIO;
		from += n;
	}
	free(bytes);
	return r;
}

static int make_new(struct seg_pool *p, bool quick, int *ret_fd)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int r;

	path_of(p, NEW_NAME, &path);
	*ret_fd =
	    open(path.p, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
	if (*ret_fd < 0)
		return -errno;
	/* the room first: what is missing is told before anything is written */
	r = -posix_fallocate(*ret_fd, 0, (off_t)p->bytes);
	return r == 0 && !quick ? seg_zeros(*ret_fd, 0, p->bytes) : r;
}

/* Its name is on the disk before its head is changed: under the old one it
 * would be a damaged segment of the log. */
static int open_spare(struct seg_pool *p, const char *name, int *ret_fd)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	path_of(p, name, &path);
	*ret_fd = open(path.p, O_RDWR | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : dir_sync(p->dir);
}

static int write_head(struct seg_open *s)
{
	struct seg_head h = { .number = s->number };
	char bytes[SEG_HEAD_USED];
	ssize_t n;

	while (h.salt == 0)
		rng_system(&h.salt, sizeof(h.salt));
	seg_head_put(&h, bytes);
	n = pwrite(s->fd, bytes, sizeof(bytes), 0);
	if (n != (ssize_t)sizeof(bytes))
		return n < 0 ? -errno : -EIO;
	s->salt = h.salt;
	return fsync(s->fd) < 0 ? -errno : 0;
}

int seg_pool_take(struct seg_pool *p, uint64_t number, bool quick,
		  struct seg_open *ret, struct buf *why)
{
	char name[SEG_NAME_MAX] = NEW_NAME;
	int r;

	*ret = (struct seg_open){ .number = number,
				  .fd = -1,
				  .at = SEG_HEAD_BYTES };
	(void)snprintf(ret->name, sizeof(ret->name), SEG_PREFIX "%016" PRIu64,
		       number);
	if (p->n > 0) {
		memcpy(name, p->spare[--p->n], SEG_NAME_MAX);
		r = open_spare(p, name, &ret->fd);
	} else {
		r = make_new(p, quick, &ret->fd);
	}
	if (r == 0)
		r = write_head(ret);
	if (r == 0)
		r = rename_in(p, name, ret->name);
	if (r == 0)
		r = dir_sync(p->dir);
	if (r == 0)
		return 0;
	if (ret->fd >= 0)
		(void)close(ret->fd);
	(void)unlink_in(p, name);
	return failed(why, r, "make", p, ret->name);
}
