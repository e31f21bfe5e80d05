/*
 * The writer of the log. See seglog.h.
 *
 * One group at a time: records are written, then flushed, then told, and only
 * then the next group is begun. So a crash leaves at most one group that was
 * not flushed, and each record can say how far everything before it was.
 */
#include "cluster/seglog/seglog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cluster/seglog/fault.h"
#include "cluster/seglog/record.h"
#include "cluster/seglog/seglog_impl.h"
#include "rt/file.h"
#include "rt/log.h"
#include "util/clock.h"

void seglog_die(const char *why)
{
	log_error("the raft log cannot be written: %s; stopping", why);
	abort();
}

static void die_of(const struct seglog *l, const char *what, int e)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	buf_printf(&why, "cannot %s %s/%s at byte %zu: %s", what, l->c.dir,
		   l->cur.name, l->cur.at, strerror(e));
	buf_putc(&why, '\0');
	seglog_die(why.p);
}

/* --- files --- */

static void write_staged(struct seglog *l)
{
	int r = seg_stage_write(&l->stage, l->cur.fd);

	if (r < 0)
		die_of(l, "write", -r);
	CHECK(l->stage.base + l->stage.written == l->cur.at);
}

static void flush_file(struct seglog *l)
{
	while (fdatasync(l->cur.fd) < 0)
		if (errno != EINTR)
			die_of(l, "flush", errno);
	seglog_fault_flush();
}

static void flush(struct seglog *l)
{
	write_staged(l);
	if (!l->c.durable || l->flushed == l->cur.at)
		return;
	flush_file(l);
	l->flushed = l->cur.at;
}

/* What need not be flushed is the system's to write when it likes. */
static int begin_segment(struct seglog *l)
{
	return seg_stage_begin(&l->stage, l->cur.fd, l->cur.at, l->c.durable);
}

/* --- records --- */

static void put_bytes(struct seglog *l, const void *p, size_t n)
{
	const char *from = p;

	while (n > 0) {
		size_t took = seg_stage_put(&l->stage, from, n);

		from += took;
		n -= took;
		l->cur.at += took;
		if (n > 0)
			write_staged(l);
	}
}

static void add_record(struct seglog *l, struct rec *r)
{
	static const char zeros[REC_ALIGN];
	size_t size = rec_size(r->data.n);
	char head[REC_HEAD_BYTES];

	CHECK(l->cur.at + size <= UINT32_MAX);
	CHECK(l->flushed <= l->cur.at); /* no record stands for what comes */
	r->flushed = (uint32_t)l->flushed;
	rec_head_put(r, l->cur.salt, head);
	put_bytes(l, head, sizeof(head));
	put_bytes(l, r->data.p, r->data.n);
	put_bytes(l, zeros, size - REC_HEAD_BYTES - r->data.n);
}

/*
 * The last record says that all before it is flushed, and is flushed before
 * anything is written to the next segment, which must be there by then: a log
 * that ends with it goes on.
 */
static void go_on_in_next(struct seglog *l)
{
	struct rec end = { .kind = REC_END };
	int r;

	flush(l);
	seglog_await_next(l);
	add_record(l, &end);
	flush(l);
	seglog_next(l);
	r = begin_segment(l);
	if (r < 0)
		die_of(l, "begin", -r);
	l->flushed = l->c.durable ? SEG_HEAD_BYTES : 0;
}

/* A record that is larger than a segment has one of its own, which grows. */
static void put_record(struct seglog *l, struct rec *r)
{
	if (l->cur.at > SEG_HEAD_BYTES &&
	    l->cur.at + rec_size(r->data.n) + rec_size(0) > l->c.segment_bytes)
		go_on_in_next(l);
	add_record(l, r);
	if (rec_is_entry(r))
		l->cur.last_index = MAX(l->cur.last_index, r->index);
}

static void put_op(struct seglog *l, const struct seglog_op *op)
{
	struct rec cut = { .kind = REC_TRUNCATE, .index = op->index };

	if (op->n == 0)
		put_record(l, &cut);
	for (size_t i = 0; i < op->n; i++) {
		const struct segment_entry *e = &op->entry[i];
		struct rec r = { .kind = e->type,
				 .index = op->index + i,
				 .term = e->term,
				 .data = e->data };

		CHECK(rec_is_entry(&r) && r.kind > 0);
		put_record(l, &r);
	}
}

/* --- the thread --- */

static void move_all(struct list *from, struct list *to)
{
	LIST_FOREACH_SAFE (it, from) {
		list_remove(it);
		list_push_back(to, it);
	}
}

static void tell(struct seglog *l)
{
	uint64_t one = 1;

	CHECK(write(l->event_fd, &one, sizeof(one)) == sizeof(one) ||
	      errno == EAGAIN);
}

/* Takes all that waits; false: nothing will come any more. */
static bool take_group(struct seglog *l, struct list *ret)
{
	pthread_mutex_lock(&l->lock);
	while (list_empty(&l->queue) && !l->stop)
		pthread_cond_wait(&l->more, &l->lock);
	move_all(&l->queue, ret);
	l->is_writing = !list_empty(ret);
	pthread_mutex_unlock(&l->lock);
	return !list_empty(ret);
}

static void *writer_main(void *ctx)
{
	struct seglog *l = ctx;
	struct list ops;

	list_init(&ops);
	while (take_group(l, &ops)) {
		uint64_t began = clock_mono_ns();

		LIST_FOREACH (it, &ops)
			put_op(l, list_entry(it, struct seglog_op, node));
		flush(l);
		pthread_mutex_lock(&l->lock);
		hist_add(&l->flush_time, &hist_short, clock_mono_ns() - began);
		move_all(&ops, &l->done);
		l->is_writing = false;
		if (list_empty(&l->queue))
			pthread_cond_broadcast(&l->quiet);
		pthread_mutex_unlock(&l->lock);
		tell(l);
	}
	flush_file(l); /* also what need not have been */
	return NULL;
}

struct seglog_op *seglog_op_new(uint64_t index, size_t n)
{
	struct seglog_op *op =
	    xcalloc(1, sizeof(*op) + n * sizeof(op->entry[0]));

	op->index = index;
	op->n = n;
	return op;
}

void seglog_push(struct seglog *l, struct seglog_op *op)
{
	pthread_mutex_lock(&l->lock);
	CHECK(!l->stop);
	list_push_back(&l->queue, &op->node);
	pthread_mutex_unlock(&l->lock);
	pthread_cond_signal(&l->more);
}

void seglog_wait(struct seglog *l)
{
	pthread_mutex_lock(&l->lock);
	while (l->is_writing || !list_empty(&l->queue))
		pthread_cond_wait(&l->quiet, &l->lock);
	pthread_mutex_unlock(&l->lock);
}

int seglog_fd(const struct seglog *l)
{
	return l->event_fd;
}

void seglog_take(struct seglog *l, struct list *ret)
{
	uint64_t n;

	CHECK(read(l->event_fd, &n, sizeof(n)) == sizeof(n) || errno == EAGAIN);
	pthread_mutex_lock(&l->lock);
	move_all(&l->done, ret);
	pthread_mutex_unlock(&l->lock);
}

void seglog_flush_time(struct seglog *l, struct hist *ret)
{
	pthread_mutex_lock(&l->lock);
	*ret = l->flush_time;
	pthread_mutex_unlock(&l->lock);
}

void seglog_cut(struct seglog *l, uint64_t index)
{
	pthread_mutex_lock(&l->lock);
	l->cut = MAX(l->cut, index);
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->lock);
}

/* --- open and close --- */

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
		r = begin_segment(l);
		if (r < 0)
			(void)open_failed(l, r, "read", l->cur.name, why);
	}
	l->number = l->cur.number;
	l->flushed = l->c.durable ? l->cur.at : 0;
	return r;
}

static void begin(struct seglog *l)
{
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->more, NULL);
	pthread_cond_init(&l->work, NULL);
	pthread_cond_init(&l->quiet, NULL);
	l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(l->event_fd >= 0);
	seglog_keeper_begin(l);
	CHECK(pthread_create(&l->writer, NULL, writer_main, l) == 0);
}

static void forget(struct seglog *l)
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

int seglog_open(const struct seglog_config *c, const struct seglog_scan *s,
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
		forget(l);
		return r;
	}
	begin(l);
	*ret = l;
	return 0;
}

void seglog_stop(struct seglog *l)
{
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_cond_signal(&l->more);
	pthread_mutex_unlock(&l->lock);
	CHECK(pthread_join(l->writer, NULL) == 0);
	seglog_keeper_end(l);
}

void seglog_free(struct seglog *l)
{
	if (l == NULL)
		return;
	CHECK(l->stop && list_empty(&l->done));
	(void)close(l->event_fd);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->more);
	pthread_cond_destroy(&l->work);
	pthread_cond_destroy(&l->quiet);
	forget(l);
}
