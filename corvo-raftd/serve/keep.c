/*
 * See keep.h. A checkpoint appears and disappears under its name in one
 * rename, so what has the name is whole; the rest of the work is done under
 * names that the next start removes.
 */
#include "serve/keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/file.h"
#include "rt/log.h"
#include "util/clock.h"
#include "util/crc32.h"
#include "util/list.h"

#define PREFIX    "snapshot-"
#define OLD_NAME  "snapshot" /* of the first versions */
#define FILES_MAX 100000

/* A file, and what tells it from another of its name. */
struct sum {
	struct keep_file file;
	dev_t dev;
	ino_t ino;
	bool known;
};

struct keep_point {
	struct list node;
	uint64_t index;
	char *path;
	uint64_t bytes; /* of its files */
	/* under the lock */
	unsigned readers;
	uint64_t read_ns;     /* when the last one closed it; 0: never */
	uint64_t followed_ns; /* when there was a newer one; 0: there is none */
	/* of the thread that sums, until all is known */
	struct sum *sums;
	size_t n;
	size_t next; /* to be summed */
	uint64_t at; /* in it */
	uint32_t crc;
	bool known;
	struct keep_file *files; /* when all is known */
};

struct keep {
	char *dir;
	pthread_mutex_t lock;
	struct list points; /* by index */
};

static void path_of(const char *dir, const char *name, struct buf *ret)
{
	buf_clear(ret);
	buf_printf(ret, "%s/%s", dir, name);
	buf_putc(ret, '\0');
}

static int failed(int e, const char *what, const char *path, struct buf *why)
{
	buf_printf(why, "cannot %s %s: %s", what, path, strerror(-e));
	return e == -ENOSPC ? -ERR_STORAGE_FULL : -ERR_INTERNAL_ERROR;
}

static void remove_path(const char *path)
{
	int e = dir_remove(path);

	if (e < 0)
		log_warn("cannot remove %s: %s", path, strerror(-e));
}

/* --- points --- */

static struct keep_point *point_new(struct keep *k, uint64_t index)
{
	struct keep_point *p = xcalloc(1, sizeof(*p));
	struct buf path = BUF_INIT(0);

	buf_printf(&path, "%s/" PREFIX "%" PRIu64, k->dir, index);
	p->index = index;
	p->path = xstrndup(path.p, path.n);
	buf_done(&path);
	return p;
}

static void point_free(struct keep_point *p)
{
	free(p->path);
	free(p->sums);
	free(p->files);
	free(p);
}

/* What cannot be read is told by whoever reads it. */
static void measure(struct keep_point *p)
{
	DIR *dir = opendir(p->path);
	struct stat st;

	for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;)
		if (d->d_name[0] != '.' &&
		    fstatat(dirfd(dir), d->d_name, &st, 0) == 0)
			p->bytes += (uint64_t)st.st_size;
	if (dir != NULL)
		(void)closedir(dir);
}

static struct keep_point *point_of(struct list *it)
{
	return list_entry(it, struct keep_point, node);
}

static void point_insert(struct keep *k, struct keep_point *p)
{
	struct list *at = &k->points;

	while (at->prev != &k->points && point_of(at->prev)->index > p->index)
		at = at->prev;
	list_insert_before(at, &p->node);
}

static struct keep_point *point_find(struct keep *k, uint64_t index)
{
	LIST_FOREACH (it, &k->points)
		if (point_of(it)->index == index)
			return point_of(it);
	return NULL;
}

/* It is off the list: nobody can open it any more. */
static void point_remove(struct keep_point *p)
{
	_cleanup_(buf_done) struct buf old = BUF_INIT(0);

	buf_printf(&old, "%s.old", p->path);
	buf_putc(&old, '\0');
	if (rename(p->path, old.p) < 0)
		log_warn("cannot rename %s: %s", p->path, strerror(errno));
	else
		remove_path(old.p);
	point_free(p);
}

/* --- what is there --- */

static bool parse_name(const char *name, uint64_t *ret)
{
	struct str s = str_from(name);

	return str_starts(s, STR(PREFIX)) &&
	       str_parse_u64(str_skip(s, strlen(PREFIX)), ret);
}

static bool ends_with(struct str s, struct str end)
{
	return s.n >= end.n && str_eq(str_skip(s, s.n - end.n), end);
}

static bool is_left(const char *name)
{
	struct str s = str_from(name);

	return str_starts(s, STR(OLD_NAME)) &&
	       (ends_with(s, STR(".new")) || ends_with(s, STR(".old")));
}

static void take_stock(struct keep *k)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	DIR *dir = opendir(k->dir);
	uint64_t index;

	if (dir == NULL)
		return; /* keep_make says why, should it matter */
	for (struct dirent *d; (d = readdir(dir)) != NULL;) {
		path_of(k->dir, d->d_name, &path);
		if (parse_name(d->d_name, &index))
			point_insert(k, point_new(k, index));
		else if (is_left(d->d_name))
			remove_path(path.p);
	}
	(void)closedir(dir);
}

static void remove_old_name(struct keep *k)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	path_of(k->dir, OLD_NAME, &path);
	remove_path(path.p);
}

struct keep *keep_new(const char *data_dir)
{
	struct keep *k = xcalloc(1, sizeof(*k));
	struct buf dir = BUF_INIT(0);

	buf_printf(&dir, "%s/checkpoints", data_dir);
	k->dir = xstrndup(dir.p, dir.n);
	buf_done(&dir);
	CHECK(pthread_mutex_init(&k->lock, NULL) == 0);
	list_init(&k->points);
	take_stock(k);
	if (!list_empty(&k->points))
		remove_old_name(k);
	keep_sweep(k, clock_mono_ns());
	LIST_FOREACH (it, &k->points)
		measure(point_of(it));
	return k;
}

void keep_free(struct keep *k)
{
	if (k == NULL)
		return;
	LIST_FOREACH_SAFE (it, &k->points) {
		CHECK(point_of(it)->readers == 0);
		point_free(point_of(it));
	}
	pthread_mutex_destroy(&k->lock);
	free(k->dir);
	free(k);
}

bool keep_find(const char *data_dir, struct buf *ret_path)
{
	_cleanup_(buf_done) struct buf name = BUF_INIT(0);
	uint64_t index, newest = 0;
	DIR *dir;

	buf_puts(&name, "checkpoints/" OLD_NAME);
	buf_putc(&name, '\0');
	path_of(data_dir, "checkpoints", ret_path);
	dir = opendir(ret_path->p);
	for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
		if (!parse_name(d->d_name, &index) || index < newest)
			continue;
		newest = index;
		path_of("checkpoints", d->d_name, &name);
	}
	if (dir != NULL)
		(void)closedir(dir);
	path_of(data_dir, name.p, ret_path);
	return access(ret_path->p, F_OK) == 0;
}

/* --- making and removing --- */

static bool is_read(const struct keep_point *p, uint64_t now_ns)
{
	return p->readers > 0 ||
	       (p->read_ns != 0 && now_ns < p->read_ns + KEEP_NS);
}

static bool may_go(struct keep *k, const struct keep_point *p, uint64_t now_ns)
{
	bool is_newest = k->points.prev == &p->node;
	bool is_next = p->node.next == k->points.prev;

	if (is_newest || is_read(p, now_ns))
		return false;
	return !is_next || p->followed_ns == 0 ||
	       now_ns - p->followed_ns >= KEEP_NS;
}

void keep_sweep(struct keep *k, uint64_t now_ns)
{
	struct list gone;

	list_init(&gone);
	pthread_mutex_lock(&k->lock);
	LIST_FOREACH_SAFE (it, &k->points)
		if (may_go(k, point_of(it), now_ns)) {
			list_remove(it);
			list_push_back(&gone, it);
		}
	pthread_mutex_unlock(&k->lock);
	LIST_FOREACH_SAFE (it, &gone)
		point_remove(point_of(it));
}

size_t keep_count(struct keep *k)
{
	size_t n = 0;

	pthread_mutex_lock(&k->lock);
	LIST_FOREACH (it, &k->points)
		n++;
	pthread_mutex_unlock(&k->lock);
	return n;
}

uint64_t keep_bytes(struct keep *k, uint64_t index)
{
	struct keep_point *p;
	uint64_t n;

	pthread_mutex_lock(&k->lock);
	p = point_find(k, index);
	n = p != NULL ? p->bytes : 0;
	pthread_mutex_unlock(&k->lock);
	return n;
}

uint64_t keep_read_from(struct keep *k, uint64_t now_ns)
{
	uint64_t index = 0;

	pthread_mutex_lock(&k->lock);
	LIST_FOREACH (it, &k->points)
		if (index == 0 && is_read(point_of(it), now_ns))
			index = point_of(it)->index;
	pthread_mutex_unlock(&k->lock);
	return index;
}

/* True: there is none of that index any more, and there can be a new one. */
static bool make_way(struct keep *k, uint64_t index)
{
	struct keep_point *p;
	bool is_held;

	pthread_mutex_lock(&k->lock);
	p = point_find(k, index);
	is_held = p != NULL && p->readers > 0;
	if (p != NULL && !is_held)
		list_remove(&p->node);
	pthread_mutex_unlock(&k->lock);
	if (p != NULL && !is_held)
		point_remove(p);
	return !is_held;
}

static void add(struct keep *k, struct keep_point *p)
{
	uint64_t now_ns = clock_mono_ns();

	measure(p);
	pthread_mutex_lock(&k->lock);
	if (!list_empty(&k->points))
		point_of(k->points.prev)->followed_ns = now_ns;
	point_insert(k, p);
	pthread_mutex_unlock(&k->lock);
	remove_old_name(k);
	keep_sweep(k, now_ns);
}

int keep_make(struct keep *k, struct kv *kv, uint64_t index, struct buf *why)
{
	_cleanup_(buf_done) struct buf next = BUF_INIT(0);
	struct keep_point *p;
	int e;

	if (!make_way(k, index))
		return 0; /* it was flushed when that one was made */
	p = point_new(k, index);
	buf_printf(&next, "%s.new", p->path);
	buf_putc(&next, '\0');
	e = dir_remove(next.p);
	if (e < 0)
		e = failed(e, "remove", next.p, why);
	else
		e = kv_checkpoint(kv, next.p, why);
	if (e == 0 && rename(next.p, p->path) < 0)
		e = failed(-errno, "rename", next.p, why);
	if (e == 0)
		add(k, p);
	else
		point_free(p);
	return e;
}

/* --- readers --- */

struct keep_point *keep_open(struct keep *k, uint64_t index)
{
	struct keep_point *p;

	pthread_mutex_lock(&k->lock);
	p = point_find(k, index);
	if (p != NULL && access(p->path, F_OK) < 0) { /* removed by hand */
		if (p->readers == 0) {
			list_remove(&p->node);
			point_free(p);
		}
		p = NULL;
	}
	if (p != NULL)
		p->readers++;
	pthread_mutex_unlock(&k->lock);
	return p;
}

void keep_close(struct keep *k, struct keep_point *p)
{
	uint64_t now_ns = clock_mono_ns();

	pthread_mutex_lock(&k->lock);
	CHECK(p->readers > 0);
	p->readers--;
	p->read_ns = now_ns;
	pthread_mutex_unlock(&k->lock);
}

/* --- checksums --- */

static int list_files(struct keep_point *p, struct buf *why)
{
	DIR *dir = opendir(p->path);
	struct stat st;
	size_t cap = 0;
	int e = dir == NULL ? -errno : 0;

	p->n = 0;
	for (struct dirent *d; e == 0 && (d = readdir(dir)) != NULL;) {
		struct sum *s;

		if (d->d_name[0] == '.')
			continue;
		if (strlen(d->d_name) >= KEEP_NAME_MAX || p->n >= FILES_MAX)
			e = -ENAMETOOLONG;
		else if (fstatat(dirfd(dir), d->d_name, &st, 0) < 0)
			e = -errno;
		if (e < 0)
			break;
		if (p->n == cap) {
			cap = cap == 0 ? 64 : 2 * cap;
			p->sums = xrealloc(p->sums, cap * sizeof(*p->sums));
		}
		s = &p->sums[p->n++];
		*s = (struct sum){ .dev = st.st_dev, .ino = st.st_ino };
		s->file.size = (uint64_t)st.st_size;
		memcpy(s->file.name, d->d_name, strlen(d->d_name) + 1);
	}
	if (dir != NULL)
		(void)closedir(dir);
	if (e == 0)
		return 0;
	free(p->sums); /* the next call begins anew */
	p->sums = NULL;
	return failed(e, "read the folder", p->path, why);
}

static bool is_same(const struct sum *a, const struct sum *b)
{
	return b->known && a->dev == b->dev && a->ino == b->ino &&
	       a->file.size == b->file.size &&
	       strcmp(a->file.name, b->file.name) == 0;
}

/* Another checkpoint has a link to the same file, and knows its checksum. */
static void borrow(struct keep *k, struct keep_point *p, struct sum *s)
{
	LIST_FOREACH (it, &k->points) {
		const struct keep_point *other = point_of(it);

		for (size_t i = 0; other != p && other->known && i < other->n;
		     i++)
			if (is_same(s, &other->sums[i])) {
				s->file.crc = other->sums[i].file.crc;
				s->known = true;
				return;
			}
	}
}

static int list_and_borrow(struct keep *k, struct keep_point *p,
			   struct buf *why)
{
	int e = list_files(p, why);

	if (e < 0)
		return e;
	pthread_mutex_lock(&k->lock);
	for (size_t i = 0; i < p->n; i++)
		borrow(k, p, &p->sums[i]);
	pthread_mutex_unlock(&k->lock);
	return 0;
}

int keep_read(const struct keep_point *p, const struct keep_file *f,
	      uint64_t at, size_t n, char *ret)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int fd, e;

	path_of(p->path, f->name, &path);
	fd = open(path.p, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	e = file_read_at(fd, at, n, ret); /* -EIO: shorter than it was */
	(void)close(fd);
	return e;
}

static int sum_part(struct keep_point *p, struct sum *s, struct buf *why)
{
	size_t n = (size_t)MIN(s->file.size - p->at, (uint64_t)KEEP_SUM_BYTES);
	char *bytes = xmalloc(n + 1);
	int e = keep_read(p, &s->file, p->at, n, bytes);

	if (e == 0) {
		p->crc = crc32_add(p->crc, str_of(bytes, n));
		p->at += n;
	}
	free(bytes);
	if (e < 0) {
		buf_printf(why, "cannot read %s/%s: %s", p->path, s->file.name,
			   strerror(-e));
		return -ERR_STORAGE_ERROR;
	}
	if (p->at < s->file.size)
		return 0;
	s->file.crc = p->crc;
	s->known = true;
	p->crc = 0;
	p->at = 0;
	return 0;
}

static void all_known(struct keep *k, struct keep_point *p)
{
	p->files = xcalloc(p->n + 1, sizeof(*p->files));
	for (size_t i = 0; i < p->n; i++)
		p->files[i] = p->sums[i].file;
	pthread_mutex_lock(&k->lock);
	p->known = true;
	pthread_mutex_unlock(&k->lock);
}

int keep_sum(struct keep *k, struct keep_point *p, struct buf *why)
{
	int e = 0;

	if (p->known)
		return 0;
	if (p->sums == NULL)
		e = list_and_borrow(k, p, why);
	while (e == 0 && p->next < p->n && p->sums[p->next].known)
		p->next++;
	if (e < 0)
		return e;
	if (p->next < p->n) {
		e = sum_part(p, &p->sums[p->next], why);
		return e < 0 ? e : 1;
	}
	all_known(k, p);
	return 0;
}

const struct keep_file *keep_files(struct keep *k, const struct keep_point *p,
				   size_t *ret_n)
{
	bool known;

	pthread_mutex_lock(&k->lock);
	known = p->known;
	pthread_mutex_unlock(&k->lock);
	*ret_n = known ? p->n : 0;
	return known ? p->files : NULL;
}
