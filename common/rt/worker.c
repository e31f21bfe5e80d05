/*
 * See worker.h. Tasks wait in one list for the thread and, when it is done
 * with them, in another for the loop.
 */
#include "rt/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/giveway.h"
#include "util/list.h"

/* One piece of work: less than a view may be late. */
#define GIVE_WAY_NS (250 * NS_PER_MS)

struct task {
	struct list node;
	loop_fn *work;
	loop_fn *done;
	void *ctx;
};

struct worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct list todo; /* under lock */
	struct list finished;
	bool stop;
	int nice;
	int wake_fd;
	struct loop_fd *wake;
};

static struct task *take(struct worker *w)
{
	struct task *t = NULL;

	pthread_mutex_lock(&w->lock);
	while (list_empty(&w->todo) && !w->stop)
		pthread_cond_wait(&w->more, &w->lock);
	if (!list_empty(&w->todo)) {
		t = list_entry(w->todo.next, struct task, node);
		list_remove(&t->node);
	}
	pthread_mutex_unlock(&w->lock);
	return t;
}

static void *worker_main(void *ctx)
{
	struct worker *w = ctx;
	struct task *t;
	uint64_t one = 1;

	/* only a matter of speed: without the right to it we go on */
	(void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), w->nice);
	while ((t = take(w)) != NULL) {
		give_way_for(w->nice > 0 ? GIVE_WAY_NS : 0);
		t->work(t->ctx);
		pthread_mutex_lock(&w->lock);
		list_push_back(&w->finished, &t->node);
		pthread_mutex_unlock(&w->lock);
		CHECK(write(w->wake_fd, &one, sizeof(one)) == sizeof(one));
	}
	return NULL;
}

static void on_wake(void *ctx, int fd, int events)
{
	struct worker *w = ctx;
	struct list batch;
	uint64_t n;

	(void)events;
	CHECK(read(fd, &n, sizeof(n)) == sizeof(n) || errno == EAGAIN);
	list_init(&batch);
	pthread_mutex_lock(&w->lock);
	LIST_FOREACH_SAFE (it, &w->finished) {
		list_remove(it);
		list_push_back(&batch, it);
	}
	pthread_mutex_unlock(&w->lock);
	LIST_FOREACH_SAFE (it, &batch) {
		struct task *t = list_entry(it, struct task, node);

		t->done(t->ctx);
		free(t);
	}
}

struct worker *worker_new(struct loop *l, const char *name, int nice)
{
	struct worker *w = xcalloc(1, sizeof(*w));

	w->nice = nice;
	list_init(&w->todo);
	list_init(&w->finished);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(w->wake_fd >= 0);
	w->wake = loop_fd_add(l, w->wake_fd, LOOP_READ, on_wake, w);
	CHECK(strlen(name) <= WORKER_NAME_BYTES);
	CHECK(pthread_create(&w->thread, NULL, worker_main, w) == 0);
	CHECK(pthread_setname_np(w->thread, name) == 0);
	return w;
}

void worker_run(struct worker *w, loop_fn *work, loop_fn *done, void *ctx)
{
	struct task *t = xcalloc(1, sizeof(*t));

	CHECK(!w->stop);
	t->work = work;
	t->done = done;
	t->ctx = ctx;
	pthread_mutex_lock(&w->lock);
	list_push_back(&w->todo, &t->node);
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
}

bool worker_is_ending(const struct worker *w)
{
	return w->stop; /* which only this thread sets */
}

void worker_free(struct worker *w)
{
	if (w == NULL)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	on_wake(w, w->wake_fd, LOOP_READ);
	loop_fd_remove(w->wake);
	close(w->wake_fd);
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
