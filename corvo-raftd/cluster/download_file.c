#include "cluster/download_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/file.h"
#include "rt/log.h"
#include "rt/room.h"
#include "util/crc32.h"

#define READ_BYTES (1u << 20)
#define FILE_MODE  0640
#define TABLE_END  ".sst" /* of files that are never written again */

void incoming_path(const struct settings *s, const char *name, struct buf *ret)
{
	buf_clear(ret);
	buf_printf(ret, "%s/incoming%s%s", s->data_dir,
		   name[0] != '\0' ? "/" : "", name);
	buf_putc(ret, '\0');
}

void incoming_folder(const struct settings *s, uint64_t index, struct buf *ret)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "%" PRIu64, index);
	incoming_path(s, name, ret);
}

static void file_path(const struct incoming *in, const char *name,
		      struct buf *ret)
{
	incoming_folder(in->settings, in->index, ret);
	ret->n--; /* its NUL */
	buf_printf(ret, "/%s", name);
	buf_putc(ret, '\0');
}

bool incoming_name_ok(struct str name)
{
	if (name.n == 0 || name.n >= INCOMING_NAME_MAX || name.p[0] == '.')
		return false;
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];

		if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
		      (c >= 'a' && c <= 'z') || c == '.' || c == '-' ||
		      c == '_'))
			return false;
	}
	return true;
}

static int failed(int e, const char *what, const char *path, struct buf *why)
{
	buf_printf(why, "cannot %s %s: %s", what, path, strerror(-e));
	return e == -ENOSPC ? -ERR_STORAGE_FULL : -ERR_INTERNAL_ERROR;
}

static int compare_name(const void *name, const void *file)
{
	const struct incoming_file *f = file;

	return strcmp(name, f->name);
}

struct incoming_file *incoming_find(struct incoming_file *files, size_t n,
				    const char *name)
{
	return n == 0 ? NULL
		      : bsearch(name, files, n, sizeof(*files), compare_name);
}

static bool is_table(const char *name)
{
	size_t n = strlen(name), end = strlen(TABLE_END);

	return n > end && strcmp(name + n - end, TABLE_END) == 0;
}

/* --- bytes --- */

static int write_all(int fd, uint64_t at, struct str s)
{
	while (s.n > 0) {
		ssize_t n = pwrite(fd, s.p, s.n, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += (uint64_t)n;
		s = str_skip(s, (size_t)n);
	}
	return 0;
}

static int add_bytes(struct incoming_file *f, const char *path,
		     struct str bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, FILE_MODE);
	int e;

	if (fd < 0)
		return -errno;
	e = write_all(fd, f->have, bytes);
	if (e == 0)
		file_pass_on(fd);
	if (e == 0 && f->have + bytes.n == f->size && fsync(fd) < 0)
		e = -errno;
	if (close(fd) < 0 && e == 0)
		e = -errno;
	return e;
}

/* --- what is there --- */

/* The checksum of a file's first `size` bytes. 0 or -errno; -ECANCELED. */
static int sum_file(struct incoming *in, int fd, uint64_t size, uint32_t *ret)
{
	char *bytes = xmalloc(READ_BYTES);
	uint64_t at = 0;
	int e = 0;

	*ret = 0;
	while (e == 0 && at < size) {
		size_t n = (size_t)MIN(size - at, (uint64_t)READ_BYTES);
		ssize_t r = pread(fd, bytes, n, (off_t)at);

		if (r > 0) {
			*ret = crc32_add(*ret, str_of(bytes, (size_t)r));
			at += (uint64_t)r;
		} else if (r == 0) {
			e = -EIO;
		} else if (errno != EINTR) {
			e = -errno;
		}
		if (atomic_load(&in->stop))
			e = -ECANCELED;
	}
	free(bytes);
	return e;
}

/* Flushed, since nobody knows who wrote it and when. */
static int look_at(struct incoming *in, const char *path, uint64_t *size,
		   uint32_t *sum, bool *is_link)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int e = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		e = -errno;
	else if (!S_ISREG(st.st_mode))
		e = -EINVAL;
	if (e == 0) {
		*size = (uint64_t)st.st_size;
		*is_link = st.st_nlink > 1;
		e = sum_file(in, fd, *size, sum);
	}
	if (e == 0 && fsync(fd) < 0)
		e = -errno;
	(void)close(fd);
	return e;
}

/* The snapshot before has the same, which was seen to be so. */
static bool is_known(struct incoming *in, const struct incoming_file *f)
{
	const struct incoming_file *b =
	    incoming_find(in->before, in->before_n, f->name);

	return b != NULL && b->done && b->size == f->size && b->crc == f->crc;
}

/* Takes the same table out of another folder. */
static bool borrow(struct incoming *in, struct incoming_file *f,
		   const char *folder, bool is_sure)
{
	_cleanup_(buf_done) struct buf from = BUF_INIT(0);
	_cleanup_(buf_done) struct buf to = BUF_INIT(0);
	struct stat st;
	uint64_t size;
	uint32_t sum;
	bool is_link;

	buf_printf(&from, "%s/%s", folder, f->name);
	buf_putc(&from, '\0');
	if (stat(from.p, &st) < 0 || (uint64_t)st.st_size != f->size ||
	    (!is_sure && (look_at(in, from.p, &size, &sum, &is_link) < 0 ||
			  size != f->size || sum != f->crc)))
		return false;
	file_path(in, f->name, &to);
	if (link(from.p, to.p) < 0)
		return false;
	f->have = f->size;
	f->sum = f->crc;
	f->done = true;
	return true;
}

static int borrow_from_earlier(struct incoming *in, struct incoming_file *f)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	DIR *dir;
	uint64_t index;

	incoming_path(in->settings, "", &path);
	dir = opendir(path.p);
	if (dir == NULL)
		return -errno;
	for (struct dirent *d; !f->done && (d = readdir(dir)) != NULL;)
		if (str_parse_u64(str_from(d->d_name), &index) &&
		    index != in->index) {
			incoming_folder(in->settings, index, &path);
			(void)borrow(in, f, path.p, false);
		}
	(void)closedir(dir);
	return 0;
}

static int make_empty(struct incoming_file *f, const char *path,
		      struct buf *why)
{
	int e = add_bytes(f, path, STR_NULL);

	f->done = e == 0;
	return e < 0 ? failed(e, "write", path, why) : 0;
}

static int look_at_file(struct incoming *in, struct incoming_file *f,
			struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf folder = BUF_INIT(0);
	bool is_link = false;
	int e;

	file_path(in, f->name, &path);
	e = look_at(in, path.p, &f->have, &f->sum, &is_link);
	if (e == 0 && f->have == f->size && f->sum == f->crc) {
		f->done = true;
		return 0;
	}
	if (e == 0 && f->have < f->size && !is_link)
		return 0; /* the rest of it has to come */
	f->have = 0;
	f->sum = 0;
	if (e == -ECANCELED)
		return 0;
	e = dir_remove(path.p);
	if (e < 0)
		return failed(e, "remove", path.p, why);
	if (f->size == 0)
		return make_empty(f, path.p, why);
	if (!is_table(f->name))
		return 0;
	if (is_known(in, f)) {
		incoming_folder(in->settings, in->before_index, &folder);
		(void)borrow(in, f, folder.p, true);
		return 0;
	}
	buf_printf(&folder, "%s/rocks", in->settings->data_dir);
	buf_putc(&folder, '\0');
	if (!borrow(in, f, folder.p, false))
		(void)borrow_from_earlier(in, f);
	return 0;
}

/* --- what is not needed --- */

/* Removes what is in the folder, but for the names that are to stay. */
static void remove_others(struct incoming *in, const char *folder,
			  const char *stays)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	DIR *dir = opendir(folder);

	for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
		if (str_is(str_from(d->d_name), ".") ||
		    str_is(str_from(d->d_name), "..") ||
		    (stays != NULL
			 ? strcmp(stays, d->d_name) == 0
			 : incoming_find(in->files, in->n, d->d_name) != NULL))
			continue;
		buf_clear(&path);
		buf_printf(&path, "%s/%s", folder, d->d_name);
		buf_putc(&path, '\0');
		if (dir_remove(path.p) < 0)
			log_warn("cannot remove %s", path.p);
	}
	if (dir != NULL)
		(void)closedir(dir);
}

static void clean(struct incoming *in)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	char name[32];

	incoming_folder(in->settings, in->index, &path);
	remove_others(in, path.p, NULL);
	(void)snprintf(name, sizeof(name), "%" PRIu64, in->index);
	incoming_path(in->settings, "", &path);
	remove_others(in, path.p, name);
}

static int look_for_room(struct incoming *in, struct buf *why)
{
	uint64_t need = 0, least = room_needed(in->settings, ROOM_OK), free_n;

	for (size_t i = 0; i < in->n; i++)
		need += in->files[i].size - in->files[i].have;
	if (need == 0 || dir_free_bytes(in->settings->data_dir, &free_n) < 0 ||
	    (free_n >= need && free_n - need >= least))
		return 0;
	buf_printf(why,
		   "the snapshot needs %" PRIu64 " bytes more in %s, %" PRIu64
		   " must stay free, and %" PRIu64 " are: free some space",
		   need, in->settings->data_dir, least, free_n);
	return -ERR_STORAGE_FULL;
}

int incoming_prepare(struct incoming *in, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int e;

	incoming_folder(in->settings, in->index, &path);
	e = dir_make(path.p);
	if (e < 0)
		return failed(e, "make", path.p, why);
	e = 0;
	for (size_t i = 0; e == 0 && i < in->n; i++)
		if (!in->files[i].done)
			e = look_at_file(in, &in->files[i], why);
	if (e == 0 && atomic_load(&in->stop)) {
		buf_puts(why, "it was stopped");
		return -ERR_SHUTTING_DOWN;
	}
	if (e < 0)
		return e;
	clean(in);
	return look_for_room(in, why);
}

/* --- what comes --- */

/* It begins anew: nobody can tell which of its bytes are wrong. */
static int is_wrong(struct incoming_file *f, const char *path, struct buf *why)
{
	f->have = 0;
	f->sum = 0;
	(void)unlink(path);
	buf_printf(why,
		   "the file %s of the snapshot does not match its "
		   "checksum",
		   f->name);
	return -ERR_BAD_MESSAGE;
}

int incoming_write(struct incoming *in, struct incoming_file *f,
		   struct str bytes, uint32_t crc, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int e;

	CHECK(!f->done && bytes.n <= f->size - f->have);
	file_path(in, f->name, &path);
	if (crc32_add(0, bytes) != crc)
		return is_wrong(f, path.p, why);
	e = add_bytes(f, path.p, bytes);
	if (e < 0)
		return failed(e, "write", path.p, why);
	f->sum = crc32_add(f->sum, bytes);
	f->have += bytes.n;
	if (f->have < f->size)
		return 0;
	if (f->sum != f->crc)
		return is_wrong(f, path.p, why);
	f->done = true;
	return 0;
}

int incoming_end(struct incoming *in, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int e;

	incoming_folder(in->settings, in->index, &path);
	e = dir_sync(path.p);
	if (e == 0) {
		incoming_path(in->settings, "", &path);
		e = dir_sync(path.p);
	}
	if (e == 0)
		e = dir_sync(in->settings->data_dir);
	return e < 0 ? failed(e, "flush", path.p, why) : 0;
}
