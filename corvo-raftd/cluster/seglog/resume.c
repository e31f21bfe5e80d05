/*
 * A log that was scanned, made ready to go on: what is there is put on the
 * disk, and what a crash left behind its end is taken away.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cluster/seglog/seglog_impl.h"
#include "rt/file.h"
#include "rt/log.h"

static int open_failed(struct seglog *l, int e, const char *what,
		       const char *name, struct buf *why)
{
	buf_printf(why, "cannot %s %s/%s: %s", what, l->c.dir, name,
		   strerror(-e));
	return e;
}

static int open_file(struct seglog *l, const char *name, int *ret_fd)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	buf_printf(&path, "%s/%s", l->c.dir, name);
	buf_putc(&path, '\0');
	*ret_fd = open(path.p, O_RDWR | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

/*
 * Read is not flushed: it may be in memory only, of a process that died. A
 * flush that failed leaves it there, and the next one says that there is
 * nothing to do; so the last segment, to which it was written, is written once
 * more. And behind the end may stand records of the group that was not
 * finished, whole ones, too: they must not follow what will be written before
 * them.
 */
static int settle(struct seglog *l, const struct seg_file *f, bool is_last,
		  struct buf *why)
{
	int fd;
	int r = open_file(l, f->name, &fd);

	if (r < 0)
		return open_failed(l, r, "open", f->name, why);
	if (is_last && f->is_torn)
		log_warn("the last write to %s/%s was not finished: what "
			 "follows byte %zu was not acknowledged and is dropped",
			 l->c.dir, f->name, f->end);
	if (is_last)
		r = seg_again(fd, 0, f->end);
	if (r == 0 && is_last)
		r = seg_zeros(fd, f->end, f->used);
	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	if (r == 0 && is_last) {
		l->cur = (struct seg_open){ .number = f->number,
					    .salt = f->salt,
					    .fd = fd,
					    .at = f->end,
					    .last_index = f->last_index };
		memcpy(l->cur.name, f->name, sizeof(l->cur.name));
		return 0;
	}
	(void)close(fd);
	return r < 0 ? open_failed(l, r, "flush", f->name, why) : 0;
}

static void note_closed(struct seglog *l, const struct seg_file *f)
{
	struct seg_closed *c = xcalloc(1, sizeof(*c));

	memcpy(c->name, f->name, sizeof(c->name));
	c->last_index = f->last_index;
	c->fd = -1;
	list_push_back(&l->closed, &c->node);
}

/* Finds, or makes, the segment to go on with. */
static int go_on(struct seglog *l, const struct seglog_scan *s, struct buf *why)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->old_n; i++)
		r = seg_pool_give(&l->pool, s->old[i].name, why);
	for (size_t i = 0; r == 0 && i < s->rest_n; i++)
		r = seg_pool_give(&l->pool, s->rest[i].name, why);
	for (size_t i = 0; r == 0 && i < s->n; i++) {
		const struct seg_file *f = &s->files[i];
		bool is_last = i + 1 == s->n && !f->is_ended;

		r = settle(l, f, is_last, why);
		if (r == 0 && !is_last)
			note_closed(l, f);
	}
	if (r == 0 && l->cur.fd < 0)
		r = seg_pool_take(&l->pool, s->highest_number + 1 - s->rest_n,
				  true, &l->cur, why);
	if (r == 0) {
		r = seglog_begin_segment(l);
		if (r < 0)
			(void)open_failed(l, r, "read", l->cur.name, why);
	}
	l->number = l->cur.number;
	l->flushed = l->c.durable ? l->cur.at : 0;
	l->entry = s->next;
	return r;
}

void seglog_forget(struct seglog *l)
{
	LIST_FOREACH_SAFE (it, &l->closed) {
		list_remove(it);
		free(list_entry(it, struct seg_closed, node));
	}
	if (l->cur.fd >= 0)
		(void)close(l->cur.fd);
	seg_stage_done(&l->stage);
	free(l);
}

int seglog_resume(const struct seglog_config *c, const struct seglog_scan *s,
		  struct seglog **ret, struct buf *why)
{
	struct seglog *l = xcalloc(1, sizeof(*l));
	int r;

	CHECK(s->damage.n == 0);
	l->c = *c;
	l->cur.fd = l->next.fd = -1;
	seg_stage_init(&l->stage);
	l->pool = (struct seg_pool){ .dir = c->dir,
				     .bytes = c->segment_bytes,
				     .max = MIN(c->spares, SEG_SPARES_MAX) };
	list_init(&l->queue);
	list_init(&l->done);
	list_init(&l->closed);
	r = dir_make(c->dir);
	if (r < 0)
		(void)open_failed(l, r, "make", "", why);
	if (r == 0)
		r = seg_pool_init(&l->pool, why);
	if (r == 0)
		r = go_on(l, s, why);
	if (r < 0) {
		seglog_forget(l);
		return r;
	}
	*ret = l;
	return 0;
}
