/*
 * The event loop over libuv. Everything but the work function of loop_work
 * runs on the one thread that calls loop_run. No outside input is read here.
 *
 * libuv frees a handle only in a later turn, after its close callback; until
 * then the memory stays, marked as removed. That is what makes it safe to
 * remove a descriptor or timer from inside any callback, its own too.
 */
#include "rt/loop.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <uv.h>

#include "util/clock.h"
#include "util/list.h"

struct loop {
	uv_loop_t uv;
	uv_prepare_t prepare; /* runs last before libuv sleeps */
	uv_check_t check;     /* runs after the descriptors */
	uv_idle_t idle;       /* active while `soon` has timers */
	struct list fds;      /* struct loop_fd not removed yet */
	struct list timers;   /* struct loop_timer not removed yet */
	struct list soon;     /* timers armed with 0 */
	size_t closing;       /* handles libuv has not let go yet */
	size_t working;       /* struct work under way */
	loop_fn *turn_end;
	void *turn_end_ctx;
	uint64_t woke_ns;   /* the last sleep ended; 0: it is not over yet */
	uint64_t worked_ns; /* clock_thread_ns before the last sleep */
	struct hist turns, work;
	uint64_t turn;
};

struct loop_fd {
	uv_poll_t poll;
	struct loop *loop;
	struct list node;
	int fd;
	int events; /* LOOP_ flags asked for */
	bool removed;
	loop_fd_fn *fn;
	void *ctx;
};

struct loop_timer {
	uv_timer_t timer;
	struct loop *loop;
	struct list node;
	struct list soon;
	loop_fn *fn;
	void *ctx;
};

struct work {
	uv_work_t req;
	struct loop *loop;
	loop_fn *work;
	loop_fn *done;
	void *ctx;
};

/* --- descriptors --- */

static int to_uv(int events)
{
	return ((events & LOOP_READ) != 0 ? UV_READABLE : 0) |
	       ((events & LOOP_WRITE) != 0 ? UV_WRITABLE : 0);
}

static int from_uv(int events)
{
	return ((events & UV_READABLE) != 0 ? LOOP_READ : 0) |
	       ((events & UV_WRITABLE) != 0 ? LOOP_WRITE : 0);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct loop_fd *f = container_of(h, struct loop_fd, poll);

	if (status == 0) {
		f->fn(f->ctx, f->fd, from_uv(events));
		return;
	}
	/*
	 * An error condition on the descriptor, after which libuv watches it
	 * no more. The owner learns what it is by reading or writing; if it
	 * keeps the descriptor, the watch goes on.
	 */
	f->fn(f->ctx, f->fd, f->events);
	if (!f->removed)
		CHECK(uv_poll_start(&f->poll, to_uv(f->events), on_poll) == 0);
}

struct loop_fd *loop_fd_add(struct loop *l, int fd, int events, loop_fd_fn *fn,
			    void *ctx)
{
	struct loop_fd *f = xmalloc(sizeof(*f));

	*f = (struct loop_fd){
		.loop = l, .fd = fd, .events = events, .fn = fn, .ctx = ctx
	};
	CHECK(uv_poll_init(&l->uv, &f->poll, fd) == 0);
	CHECK(uv_poll_start(&f->poll, to_uv(events), on_poll) == 0);
	list_push_back(&l->fds, &f->node);
	return f;
}

void loop_fd_watch(struct loop_fd *f, int events)
{
	CHECK(!f->removed);
	if (events == f->events)
		return;
	f->events = events;
	CHECK(uv_poll_start(&f->poll, to_uv(events), on_poll) == 0);
}

/*
 * libuv has no word for it. It has put the descriptor into its epoll when it
 * calls for it, and touches it there only when it is watched for something
 * else, or no more.
 */
void loop_fd_alone(const struct loop_fd *f)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLEXCLUSIVE,
				 .data.fd = f->fd };
	int epoll_fd = uv_backend_fd(&f->loop->uv);

	CHECK(!f->removed && f->events == LOOP_READ);
	CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_DEL, f->fd, NULL) == 0);
	CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, f->fd, &e) == 0);
}

static void on_fd_closed(uv_handle_t *h)
{
	struct loop_fd *f = container_of((uv_poll_t *)h, struct loop_fd, poll);

	f->loop->closing--;
	free(f);
}

void loop_fd_remove(struct loop_fd *f)
{
	if (f == NULL)
		return;
	CHECK(!f->removed);
	f->removed = true;
	list_remove(&f->node);
	f->loop->closing++;
	uv_close((uv_handle_t *)&f->poll, on_fd_closed);
}

/* --- timers --- */

static void on_timer(uv_timer_t *h)
{
	struct loop_timer *t = container_of(h, struct loop_timer, timer);

	t->fn(t->ctx);
}

static void on_idle(uv_idle_t *h)
{
	struct loop *l = container_of(h, struct loop, idle);
	struct list due;

	/* What is armed with 0 from now on is for the next turn. */
	list_init(&due);
	while (!list_empty(&l->soon)) {
		struct list *n = l->soon.next;

		list_remove(n);
		list_push_back(&due, n);
	}
	while (!list_empty(&due)) {
		struct list *n = due.next;
		struct loop_timer *t = list_entry(n, struct loop_timer, soon);

		list_remove(n);
		t->fn(t->ctx);
	}
	if (list_empty(&l->soon))
		(void)uv_idle_stop(&l->idle);
}

struct loop_timer *loop_timer_add(struct loop *l, loop_fn *fn, void *ctx)
{
	struct loop_timer *t = xmalloc(sizeof(*t));

	*t = (struct loop_timer){ .loop = l, .fn = fn, .ctx = ctx };
	list_init(&t->soon);
	CHECK(uv_timer_init(&l->uv, &t->timer) == 0);
	list_push_back(&l->timers, &t->node);
	return t;
}

/*
 * libuv counts whole milliseconds of the monotonic clock. The moment is
 * rounded up to the next one, so that a timer is never early.
 */
void loop_timer_arm(struct loop_timer *t, uint64_t after_ns)
{
	struct loop *l = t->loop;
	uint64_t now_ns, at_ms, uv_ms;

	loop_timer_disarm(t);
	if (after_ns == 0) {
		/*
		 * Not a libuv timer of 0: one that arms itself again would
		 * keep libuv in its timers for ever.
		 */
		list_push_back(&l->soon, &t->soon);
		CHECK(uv_idle_start(&l->idle, on_idle) == 0);
		return;
	}
	now_ns = clock_mono_ns();
	if (after_ns > UINT64_MAX / 2 - now_ns)
		after_ns = UINT64_MAX / 2 - now_ns;
	at_ms = (now_ns + after_ns + NS_PER_MS - 1) / NS_PER_MS;
	uv_update_time(&l->uv);
	uv_ms = uv_now(&l->uv);
	CHECK(uv_timer_start(&t->timer, on_timer,
			     at_ms > uv_ms ? at_ms - uv_ms : 1, 0) == 0);
}

void loop_timer_disarm(struct loop_timer *t)
{
	list_remove(&t->soon);
	(void)uv_timer_stop(&t->timer);
}

static void on_timer_closed(uv_handle_t *h)
{
	struct loop_timer *t =
	    container_of((uv_timer_t *)h, struct loop_timer, timer);

	t->loop->closing--;
	free(t);
}

void loop_timer_remove(struct loop_timer *t)
{
	if (t == NULL)
		return;
	loop_timer_disarm(t);
	list_remove(&t->node);
	t->loop->closing++;
	uv_close((uv_handle_t *)&t->timer, on_timer_closed);
}

/* --- work --- */

static void on_work(uv_work_t *req)
{
	struct work *w = container_of(req, struct work, req);

	w->work(w->ctx);
}

static void on_work_done(uv_work_t *req, int status)
{
	struct work *w = container_of(req, struct work, req);

	CHECK(status == 0); /* nobody cancels work */
	w->loop->working--;
	w->done(w->ctx);
	free(w);
}

void loop_work(struct loop *l, loop_fn *work, loop_fn *done, void *ctx)
{
	struct work *w = xmalloc(sizeof(*w));

	*w = (struct work){ .loop = l, .work = work, .done = done, .ctx = ctx };
	l->working++;
	CHECK(uv_queue_work(&l->uv, &w->req, on_work, on_work_done) == 0);
}

/* --- the loop --- */

static void turn_end(struct loop *l)
{
	if (l->turn_end != NULL)
		l->turn_end(l->turn_end_ctx);
}

/*
 * libuv's order in a turn is timers, idle, prepare, sleep and descriptors,
 * check, closed handles. So this runs after every kind of callback and before
 * the sleep, whose length is computed afterwards.
 */
static void on_prepare(uv_prepare_t *h)
{
	struct loop *l = container_of(h, struct loop, prepare);
	uint64_t worked_ns;

	turn_end(l);
	worked_ns = clock_thread_ns();
	if (l->woke_ns != 0) {
		hist_add(&l->turns, &hist_short, uv_hrtime() - l->woke_ns);
		hist_add(&l->work, &hist_short, worked_ns - l->worked_ns);
	}
	l->worked_ns = worked_ns;
	l->woke_ns = 0;
	l->turn++;
}

/* What descriptors brought leaves before timers of 0 do more work. */
static void on_check(uv_check_t *h)
{
	struct loop *l = container_of(h, struct loop, check);

	/* libuv looks at the clock when it has slept, and not again */
	l->woke_ns = uv_now(&l->uv) * NS_PER_MS;
	turn_end(l);
}

struct loop *loop_new(void)
{
	struct loop *l = xcalloc(1, sizeof(*l));

	list_init(&l->fds);
	list_init(&l->timers);
	list_init(&l->soon);
	CHECK(uv_loop_init(&l->uv) == 0);
	CHECK(uv_idle_init(&l->uv, &l->idle) == 0);
	CHECK(uv_prepare_init(&l->uv, &l->prepare) == 0);
	CHECK(uv_prepare_start(&l->prepare, on_prepare) == 0);
	CHECK(uv_check_init(&l->uv, &l->check) == 0);
	CHECK(uv_check_start(&l->check, on_check) == 0);
	return l;
}

static void on_own_closed(uv_handle_t *h)
{
	struct loop *l = h->data;

	l->closing--;
}

static void close_own(struct loop *l, uv_handle_t *h)
{
	h->data = l;
	l->closing++;
	uv_close(h, on_own_closed);
}

void loop_free(struct loop *l)
{
	if (l == NULL)
		return;
	l->turn_end = NULL;
	while (!list_empty(&l->fds))
		loop_fd_remove(list_entry(l->fds.next, struct loop_fd, node));
	while (!list_empty(&l->timers))
		loop_timer_remove(
		    list_entry(l->timers.next, struct loop_timer, node));
	/* Work cannot be called back; its `done` runs here. */
	while (l->working > 0)
		(void)uv_run(&l->uv, UV_RUN_ONCE);
	close_own(l, (uv_handle_t *)&l->idle);
	close_own(l, (uv_handle_t *)&l->prepare);
	close_own(l, (uv_handle_t *)&l->check);
	while (l->closing > 0)
		(void)uv_run(&l->uv, UV_RUN_NOWAIT);
	/* Who put handles of its own on loop_uv() has closed them by now. */
	CHECK(uv_loop_close(&l->uv) == 0);
	free(l);
}

void loop_run(struct loop *l)
{
	(void)uv_run(&l->uv, UV_RUN_DEFAULT);
	/* A stop ends the turn before its prepare; what gathered still goes. */
	turn_end(l);
}

void loop_stop(struct loop *l)
{
	uv_stop(&l->uv);
}

void loop_on_turn_end(struct loop *l, loop_fn *fn, void *ctx)
{
	l->turn_end = fn;
	l->turn_end_ctx = ctx;
}

void loop_turns(const struct loop *l, struct hist *ret)
{
	*ret = l->turns;
}

void loop_turns_work(const struct loop *l, struct hist *ret)
{
	*ret = l->work;
}

uint64_t loop_turn(const struct loop *l)
{
	return l->turn;
}

struct uv_loop_s *loop_uv(struct loop *l)
{
	return &l->uv;
}
