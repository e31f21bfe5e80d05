/*
 * The thread that writes the log, and what others ask of it. See seglog.h.
 *
 * One group at a time: records are written, then flushed, then told, and only
 * then the next group is begun. So a crash leaves at most one group that was
 * not flushed, and each record can say how far everything before it was.
 */
#include "cluster/seglog/seglog.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cluster/seglog/seglog_impl.h"
#include "util/clock.h"

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
			seglog_put(l, list_entry(it, struct seglog_op, node));
		seglog_flush(l);
		pthread_mutex_lock(&l->lock);
		hist_add(&l->flush_time, &hist_short, clock_mono_ns() - began);
		move_all(&ops, &l->done);
		l->is_writing = false;
		if (list_empty(&l->queue))
			pthread_cond_broadcast(&l->quiet);
		pthread_mutex_unlock(&l->lock);
		tell(l);
	}
	seglog_flush_file(l); /* also what need not have been */
	return NULL;
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

int seglog_open(const struct seglog_config *c, const struct seglog_scan *s,
		struct seglog **ret, struct buf *why)
{
	int r = seglog_resume(c, s, ret, why);

	if (r == 0)
		begin(*ret);
	return r;
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
	seglog_forget(l);
}
