#include "cluster/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "rt/file.h"
#include "util/crc32.h"

#define PLACE_BYTES 512 /* what a disk writes whole or not at all */
#define PLACES      2
#define FILE_MODE   0600
#define FORMAT_HEAD "corvo acked %" SCNu64 " history %n"
#define FORMAT_TAIL " crc %08" PRIx32 "\n"

static void path_of(const char *dir, struct buf *ret)
{
	buf_printf(ret, "%s/" MARK_NAME, dir);
	buf_putc(ret, '\0');
}

static void mark_put(struct buf *b, const struct mark *m)
{
	size_t begin = b->n;

	buf_printf(b, "corvo acked %" PRIu64 " history ", m->acked);
	history_put(b, &m->history);
	buf_printf(b, FORMAT_TAIL, crc32_add(0, str_skip(buf_str(b), begin)));
	CHECK(b->n - begin < PLACE_BYTES);
	while (b->n - begin < PLACE_BYTES)
		buf_putc(b, '\0');
}

/* One place. It is good when we would have written just that. */
static bool mark_parse(struct str s, struct mark *ret)
{
	_cleanup_(buf_done) struct buf again = BUF_INIT(0);
	char text[PLACE_BYTES + 1] = "";
	struct str history, rest;
	int end = 0;

	memcpy(text, s.p, s.n);
	if (sscanf(text, FORMAT_HEAD, &ret->acked, &end) != 1 || end == 0)
		return false;
	(void)str_split(str_from(text + end), ' ', &history, &rest);
	if (!history_parse(history, &ret->history))
		return false;
	mark_put(&again, ret);
	return str_eq(buf_str(&again), s);
}

int mark_read(const char *dir, struct mark *ret)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(0);
	struct mark m;
	unsigned place = 0;
	int r;

	*ret = (struct mark){ 0 };
	path_of(dir, &path);
	r = file_read(path.p, PLACES * PLACE_BYTES, &bytes);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (struct str s = buf_str(&bytes); s.n >= PLACE_BYTES;
	     s = str_skip(s, PLACE_BYTES)) {
		place++;
		if (!mark_parse(str_of(s.p, PLACE_BYTES), &m) ||
		    m.acked <= ret->acked)
			continue;
		*ret = m;
		ret->turn = place; /* the place after this one */
	}
	return 0;
}

int mark_open(const char *dir)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int fd;

	path_of(dir, &path);
	fd = open(path.p, O_WRONLY | O_CREAT | O_CLOEXEC, FILE_MODE);
	return fd < 0 ? -errno : fd;
}

int mark_write(int fd, const struct mark *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	off_t at = (off_t)(m->turn % PLACES) * PLACE_BYTES;
	ssize_t n;

	mark_put(&b, m);
	n = pwrite(fd, b.p, b.n, at);
	if (n != (ssize_t)b.n)
		return n < 0 ? -errno : -EIO;
	return fdatasync(fd) < 0 ? -errno : 0;
}
