/*
 * Files and directories. Errors come back as -errno: the caller knows the
 * path and what it wanted, and makes the sentence.
 */
#include "rt/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "proto/err.h"

#define OUR_GROUPS_MAX   1024 /* of us that are looked at */
#define FILE_CHUNK_BYTES 4096
#define DIR_MODE         0750
#define FILE_MODE        0640
#define DIR_REMOVE_FDS   16

static ssize_t read_retry(int fd, void *p, size_t n)
{
	ssize_t r;

	do
		r = read(fd, p, n);
	while (r < 0 && errno == EINTR);
	return r;
}

static int read_all(int fd, size_t max, struct buf *b)
{
	size_t total = 0;

	for (;;) {
		char *p = buf_reserve(b, FILE_CHUNK_BYTES);
		ssize_t n;

		if (p == NULL)
			return -EFBIG;
		n = read_retry(fd, p, FILE_CHUNK_BYTES);
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		total += (size_t)n;
		if (total > max)
			return -EFBIG;
		b->n += (size_t)n;
	}
}

int file_read(const char *path, size_t max, struct buf *ret)
{
	size_t before = ret->n;
	int fd, r;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = read_all(fd, max, ret);
	if (r < 0)
		ret->n = before;
	(void)close(fd);
	return r;
}

bool file_is_stream(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
	       !S_ISDIR(st.st_mode);
}

/* A pipe nobody has opened for writing yet is not at its end for poll. */
static int read_stream(int fd, size_t max, int silence_ms, struct buf *b)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t before = b->n;

	for (;;) {
		char *room = buf_reserve(b, FILE_CHUNK_BYTES);
		int r = poll(&p, 1, silence_ms);
		ssize_t n = 0;

		if (r == 0)
			return -ETIMEDOUT;
		if (r > 0)
			n = read(fd, room, FILE_CHUNK_BYTES);
		if (r < 0 || n < 0) {
			if (errno == EINTR || errno == EAGAIN)
				continue;
			return -errno;
		}
		if (n == 0)
			return 0;
		b->n += (size_t)n;
		if (b->n - before > max)
			return -EFBIG;
	}
}

int file_read_stream(const char *path, size_t max, int silence_ms,
		     struct buf *ret)
{
	size_t before = ret->n;
	int fd, r;

	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = read_stream(fd, max, silence_ms, ret);
	if (r < 0)
		ret->n = before;
	(void)close(fd);
	return r;
}

static int dir_make_one(const char *path)
{
	struct stat st;

	if (mkdir(path, DIR_MODE) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int dir_make(const char *path)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct stat st;
	char *p;

	/* Parents may be unreadable or read-only as long as it exists. */
	if (stat(path, &st) == 0)
		return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;

	buf_puts(&b, path);
	buf_putc(&b, '\0');
	for (p = b.p + 1; *p != '\0'; p++) {
		int r;

		if (*p != '/')
			continue;
		*p = '\0';
		r = dir_make_one(b.p);
		*p = '/';
		if (r < 0)
			return r;
	}
	return dir_make_one(path);
}

int dir_sync(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd) < 0)
		r = -errno;
	(void)close(fd);
	return r;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path) < 0 && errno != ENOENT ? -errno : 0;
}

int dir_remove(const char *path)
{
	int r;

	r = nftw(path, remove_one, DIR_REMOVE_FDS, FTW_DEPTH | FTW_PHYS);
	if (r == -1)
		return errno == ENOENT ? 0 : -errno;
	return r;
}

static int holder_pid(int fd)
{
	char text[32];
	uint64_t pid;
	ssize_t n = pread(fd, text, sizeof(text), 0);

	if (n <= 0 || !str_parse_u64(str_trim(str_of(text, (size_t)n)), &pid))
		return 0;
	return pid <= INT32_MAX ? (int)pid : 0;
}

/* --- what only we may change --- */

static bool is_trusted(uid_t owner)
{
	return owner == geteuid() || owner == 0;
}

static bool is_our_group(gid_t group)
{
	gid_t groups[OUR_GROUPS_MAX];
	int n = getgroups(OUR_GROUPS_MAX, groups);

	if (group == getegid())
		return true;
	for (int i = 0; i < n; i++)
		if (groups[i] == group)
			return true;
	return false;
}

static bool others_write(const struct stat *st)
{
	return (st->st_mode & S_IWOTH) != 0 ||
	       ((st->st_mode & S_IWGRP) != 0 && !is_our_group(st->st_gid));
}

/* O_PATH: a look at it, for which no right to read is needed. */
static int look_at(const char *path, int flags, struct stat *ret)
{
	int fd = open(path, O_PATH | O_CLOEXEC | flags);
	int r;

	if (fd < 0)
		return -errno;
	r = fstat(fd, ret) < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

static int check_dir(const char *path, const char *kind, struct buf *why)
{
	const char *what = "";
	struct stat st;
	int r = look_at(path, O_NOFOLLOW, &st);

	if (r == 0 && S_ISLNK(st.st_mode) && is_trusted(st.st_uid))
		r = look_at(path, O_DIRECTORY, &st);
	else if (r == 0 && S_ISLNK(st.st_mode))
		what = "symbolic link in the place of the ";
	if (r < 0) {
		buf_printf(why, "cannot look at the %s directory %s: %s", kind,
			   path, strerror(-r));
	} else if (!is_trusted(st.st_uid)) {
		buf_printf(why,
			   "the %s%s directory %s belongs to user %u, and we "
			   "are user %u: give it to us (chown), start the node "
			   "as that user, or choose another with --%s-dir",
			   what, kind, path, st.st_uid, geteuid(), kind);
	} else if (others_write(&st)) {
		buf_printf(why,
			   "other users may write in the %s directory %s "
			   "(mode %04o, group %u) and change what the node "
			   "keeps there: take that right away (chmod go-w), or "
			   "choose another with --%s-dir",
			   kind, path, st.st_mode & 07777, st.st_gid, kind);
	} else {
		return 0;
	}
	return -ERR_VALIDATION_ERROR;
}

int dir_take(const char *path, const char *kind, struct buf *why)
{
	int r = dir_make(path);

	if (r == 0 && access(path, W_OK | X_OK) < 0)
		r = -errno;
	if (r == 0)
		return check_dir(path, kind, why);
	buf_printf(why,
		   "cannot write in the directory %s: %s; give this user the "
		   "right to, or choose another with --%s-dir",
		   path, strerror(-r), kind);
	return -ERR_VALIDATION_ERROR;
}

/* --- locks --- */

static bool is_lock_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       is_trusted(st.st_uid) && st.st_nlink == 1 && !others_write(&st);
}

const char *file_lock_error(int err)
{
	if (err == -ELOOP)
		return "it is a symbolic link; remove it";
	if (err == -EPERM)
		return "it belongs to another user, has another name, or "
		       "others may write to it; remove it";
	return strerror(-err);
}

int file_lock(const char *path, int *ret_holder)
{
	char text[32];
	int fd, n, r;

	/* O_NONBLOCK: something else may stand there, a pipe for example. */
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		  0640);
	if (fd < 0)
		return -errno;
	if (!is_lock_file(fd)) {
		(void)close(fd);
		return -EPERM;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		r = -errno;
		if (r == -EWOULDBLOCK)
			*ret_holder = holder_pid(fd);
		(void)close(fd);
		return r;
	}
	/*
	 * Always as long, so that it is written in place. On a disk that is
	 * full all the same the lock is worth more than our name in it.
	 */
	n = snprintf(text, sizeof(text), "%-10d\n", (int)getpid());
	if (pwrite(fd, text, (size_t)n, 0) != n)
		(void)!ftruncate(fd, 0);
	return fd;
}

int dir_space(const char *path, uint64_t *ret_free, uint64_t *ret_used)
{
	struct statvfs v;

	if (statvfs(path, &v) < 0)
		return -errno;
	*ret_free = (uint64_t)v.f_bavail * v.f_frsize;
	*ret_used = (uint64_t)(v.f_blocks - v.f_bfree) * v.f_frsize;
	return 0;
}

int dir_free_bytes(const char *path, uint64_t *ret)
{
	uint64_t used;

	return dir_space(path, ret, &used);
}

static int write_all(int fd, struct str s)
{
	while (s.n > 0) {
		ssize_t n = write(fd, s.p, s.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		s = str_skip(s, (size_t)n);
	}
	return fsync(fd) < 0 ? -errno : 0;
}

void file_pass_on(int fd)
{
	(void)sync_file_range(
	    fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE);
}

int file_read_at(int fd, uint64_t at, size_t n, char *ret)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = pread(fd, ret + got, n - got, (off_t)(at + got));

		if (r > 0)
			got += (size_t)r;
		else if (r == 0)
			return -EIO;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* A name is on the disk when its directory is. */
static int dir_sync_of(const char *path)
{
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	const char *slash = strrchr(path, '/');

	if (slash == NULL)
		buf_putc(&dir, '.');
	else
		buf_append(&dir, path, (size_t)(slash - path) + 1);
	buf_putc(&dir, '\0');
	return dir_sync(dir.p);
}

int file_write(const char *path, struct str content)
{
	_cleanup_(buf_done) struct buf tmp = BUF_INIT(0);
	int fd, r;

	buf_printf(&tmp, "%s.new", path);
	buf_putc(&tmp, '\0');
	fd = open(tmp.p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
	if (fd < 0)
		return -errno;
	r = write_all(fd, content);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(tmp.p, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(tmp.p);
		return r;
	}
	return dir_sync_of(path);
}

/* Takes the descriptor of a directory. */
static int add_bytes(int fd, bool with_folders, uint64_t *ret)
{
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;

	if (dir == NULL)
		return -errno;
	for (struct dirent *d; (d = readdir(dir)) != NULL;) {
		if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) <
		    0)
			continue;
		if (S_ISREG(st.st_mode))
			*ret += (uint64_t)st.st_size;
		else if (S_ISDIR(st.st_mode) && with_folders &&
			 d->d_name[0] != '.')
			(void)add_bytes(openat(dirfd(dir), d->d_name,
					       O_RDONLY | O_DIRECTORY |
						   O_NOFOLLOW | O_CLOEXEC),
					false, ret);
	}
	(void)closedir(dir);
	return 0;
}

int dir_bytes(const char *path, uint64_t *ret)
{
	*ret = 0;
	return add_bytes(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), true,
			 ret);
}
