#include "cluster/node_mark.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "rt/log.h"
#include "util/clock.h"

#define EVERY_NS NS_PER_S

/* One write on a pool thread; outlives the node if need be. */
struct mark_write {
	struct node_mark *m; /* NULL: it is gone */
	struct mark mark;
	int fd;
	int err;
};

static void say_failed(struct node_mark *m, int err)
{
	if (!m->failed)
		log_warn("cannot write the mark of what was acknowledged: %s; "
			 "a damaged end of the log may go unnoticed",
			 strerror(-err));
	m->failed = true;
}

void node_mark_init(struct node_mark *m, const char *dir,
		    const struct mark *last, const struct history *h)
{
	*m = (struct node_mark){ .last = *last };
	if (!history_eq(&last->history, h))
		m->last.acked = 0; /* it is about another log */
	m->last.history = *h;
	m->fd = mark_open(dir);
	if (m->fd < 0)
		say_failed(m, m->fd);
}

static void write_work(void *ctx)
{
	struct mark_write *w = ctx;

	w->err = mark_write(w->fd, &w->mark);
}

static void write_done(void *ctx)
{
	struct mark_write *w = ctx;

	if (w->m != NULL) {
		w->m->running = NULL;
		if (w->err < 0)
			say_failed(w->m, w->err);
		else
			w->m->failed = false;
	}
	(void)close(w->fd);
	free(w);
}

void node_mark_look(struct node_mark *m, struct loop *l, uint64_t committed)
{
	uint64_t now = clock_mono_ns();
	struct mark_write *w;
	int fd;

	if (m->fd < 0 || m->running != NULL || committed <= m->last.acked ||
	    now - m->written_ns < EVERY_NS)
		return;
	fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return;
	m->written_ns = now;
	m->last.acked = committed;
	w = xcalloc(1, sizeof(*w));
	*w = (struct mark_write){ .m = m, .mark = m->last, .fd = fd };
	m->last.turn++;
	m->running = w;
	loop_work(l, write_work, write_done, w);
}

void node_mark_done(struct node_mark *m)
{
	if (m->running != NULL)
		m->running->m = NULL;
	if (m->fd >= 0)
		(void)close(m->fd);
}
