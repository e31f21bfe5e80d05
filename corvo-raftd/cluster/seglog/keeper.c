/*
 * The second thread of the log: it has the next segment ready before it is
 * needed, and makes spares of those that were cut off.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cluster/seglog/seglog_impl.h"
#include "rt/log.h"
#include "util/clock.h"

#define RETRY_S 1 /* after there was no room for the next segment */

/* --- segments that are full --- */

static struct seg_closed *first_closed(struct seglog *l)
{
	return list_empty(&l->closed)
		   ? NULL
		   : list_entry(l->closed.next, struct seg_closed, node);
}

static struct seg_closed *find_unflushed(struct seglog *l)
{
	LIST_FOREACH (it, &l->closed) {
		struct seg_closed *c = list_entry(it, struct seg_closed, node);

		if (c->fd >= 0)
			return c;
	}
	return NULL;
}

/* What was not flushed while it was written is now. */
static void finish(struct seglog *l, struct seg_closed *c)
{
	int fd = c->fd, e = 0;

	pthread_mutex_unlock(&l->lock);
	if (!l->c.durable && fdatasync(fd) < 0)
		e = errno;
	(void)close(fd);
	if (e != 0) {
		_cleanup_(buf_done) struct buf why = BUF_INIT(0);

		buf_printf(&why, "cannot flush %s/%s: %s", l->c.dir, c->name,
			   strerror(e));
		buf_putc(&why, '\0');
		seglog_die(why.p);
	}
	pthread_mutex_lock(&l->lock);
	c->fd = -1;
}

/* In order: what is left has no gap. A file that stays is only a file. */
static void put_away(struct seglog *l, struct seg_closed *c)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	list_remove(&c->node);
	pthread_mutex_unlock(&l->lock);
	if (seg_pool_give(&l->pool, c->name, &why) < 0)
		log_warn("an old segment of the raft log stays: %.*s",
			 STR_ARG(buf_str(&why)));
	free(c);
	pthread_mutex_lock(&l->lock);
}

/* --- the next one --- */

/* False: not now. */
static bool prepare(struct seglog *l)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	uint64_t number = l->number + 1;
	struct seg_open next;
	int r;

	pthread_mutex_unlock(&l->lock);
	r = seg_pool_take(&l->pool, number, false, &next, &why);
	buf_putc(&why, '\0');
	pthread_mutex_lock(&l->lock);
	if (r == 0) {
		l->next = next;
		pthread_cond_signal(&l->more);
		return true;
	}
	if (l->is_waited_for)
		seglog_die(why.p);
	log_warn("the next segment of the raft log is not ready: %s; trying "
		 "again in %d s",
		 why.p, RETRY_S);
	return false;
}

static void wait_for_retry(struct seglog *l)
{
	uint64_t at_ns = clock_mono_ns() + RETRY_S * NS_PER_S;
	struct timespec until = { .tv_sec = (time_t)(at_ns / NS_PER_S),
				  .tv_nsec = (long)(at_ns % NS_PER_S) };

	if (!l->is_waited_for && !l->stop_keeper)
		(void)pthread_cond_clockwait(&l->work, &l->lock,
					     CLOCK_MONOTONIC, &until);
}

/* One thing that is to be done; false: there is nothing. */
static bool step(struct seglog *l)
{
	struct seg_closed *c = find_unflushed(l);

	if (c != NULL) {
		finish(l, c);
		return true;
	}
	c = first_closed(l);
	if (c != NULL && c->last_index <= l->cut) {
		put_away(l, c);
		return true;
	}
	if (l->stop_keeper || l->next.fd >= 0)
		return false;
	if (!prepare(l))
		wait_for_retry(l);
	return true;
}

static void *keeper_main(void *ctx)
{
	struct seglog *l = ctx;

	pthread_mutex_lock(&l->lock);
	for (;;) {
		if (step(l))
			continue;
		if (l->stop_keeper)
			break;
		pthread_cond_wait(&l->work, &l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

void seglog_keeper_begin(struct seglog *l)
{
	CHECK(pthread_create(&l->keeper, NULL, keeper_main, l) == 0);
}

void seglog_keeper_end(struct seglog *l)
{
	pthread_mutex_lock(&l->lock);
	l->stop_keeper = true;
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->lock);
	CHECK(pthread_join(l->keeper, NULL) == 0);
	if (l->next.fd >= 0)
		(void)close(l->next.fd);
}

/* --- of the writer --- */

void seglog_await_next(struct seglog *l)
{
	pthread_mutex_lock(&l->lock);
	l->is_waited_for = true;
	pthread_cond_signal(&l->work);
	while (l->next.fd < 0)
		pthread_cond_wait(&l->more, &l->lock);
	l->is_waited_for = false;
	pthread_mutex_unlock(&l->lock);
}

void seglog_next(struct seglog *l)
{
	struct seg_closed *c = xcalloc(1, sizeof(*c));

	memcpy(c->name, l->cur.name, sizeof(c->name));
	c->last_index = l->cur.last_index;
	c->fd = l->cur.fd;
	pthread_mutex_lock(&l->lock);
	list_push_back(&l->closed, &c->node);
	/* without a gap, or those before it are taken for old ones */
	CHECK(l->next.fd >= 0 && l->next.number == l->number + 1);
	l->cur = l->next;
	l->number = l->cur.number;
	l->next.fd = -1;
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->lock);
}
