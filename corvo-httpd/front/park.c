/*
 * Long-polling fetches. See front/park.h.
 */
#include "front/park.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "front/conn.h"
#include "front/server.h"
#include "rt/log.h"
#include "util/clock.h"

#define WATCH_AFTER_NS (50 * NS_PER_MS)
#define EVENTS_MAX     256 /* taken from the kernel at a time */

struct park {
	struct list fresh; /* not watched yet, oldest first */
	struct list watched;
	int epoll_fd;
	struct loop_fd *poll;
	struct loop_timer *timer;
	bool armed;
};

static struct park *park_of(const struct exchange *x)
{
	return server_park(x->server);
}

static void arm(struct park *p, uint64_t after_ns)
{
	p->armed = true;
	loop_timer_arm(p->timer, after_ns);
}

static void watch(struct park *p, struct exchange *x)
{
	struct epoll_event e = { .events = EPOLLRDHUP, .data.ptr = x };

	list_remove(&x->node);
	list_push_back(&p->watched, &x->node);
	if (x->front->notices)
		return;
	if (epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, x->conn->fd, &e) < 0) {
		/* Still served; only a lost client goes unnoticed. */
		log_warn("cannot watch a waiting connection: %m");
		return;
	}
	x->watched = true;
}

static void on_timer(void *ctx)
{
	struct park *p = ctx;
	uint64_t now_ns = clock_mono_ns();

	p->armed = false;
	LIST_FOREACH_SAFE (it, &p->fresh) {
		struct exchange *x = list_entry(it, struct exchange, node);
		uint64_t age_ns = now_ns - x->parked_ns;

		if (age_ns < WATCH_AFTER_NS) {
			arm(p, WATCH_AFTER_NS - age_ns);
			return;
		}
		watch(p, x);
	}
}

/* The client is gone: no job may be handed to it. */
static void on_gone(struct exchange *x)
{
	park_remove(x);
	exchange_left(x);
}

static void on_events(void *ctx, _unused_ int fd, _unused_ int events)
{
	struct park *p = ctx;
	struct epoll_event e[EVENTS_MAX];
	int n = epoll_wait(p->epoll_fd, e, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++)
		on_gone(e[i].data.ptr);
}

struct park *park_new(struct loop *l)
{
	struct park *p = xcalloc(1, sizeof(*p));

	list_init(&p->fresh);
	list_init(&p->watched);
	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll_fd < 0) {
		free(p);
		return NULL;
	}
	p->poll = loop_fd_add(l, p->epoll_fd, LOOP_READ, on_events, p);
	p->timer = loop_timer_add(l, on_timer, p);
	return p;
}

void park_free(struct park *p)
{
	if (p == NULL)
		return;
	CHECK(list_empty(&p->fresh) && list_empty(&p->watched));
	loop_fd_remove(p->poll);
	loop_timer_remove(p->timer);
	(void)close(p->epoll_fd);
	free(p);
}

void park_add(struct exchange *x)
{
	struct park *p = park_of(x);

	x->parked_ns = clock_mono_ns();
	list_push_back(&p->fresh, &x->node);
	if (!p->armed)
		arm(p, WATCH_AFTER_NS);
}

void park_remove(struct exchange *x)
{
	struct park *p;

	if (x->parked_ns == 0)
		return;
	p = park_of(x);
	x->parked_ns = 0;
	list_remove(&x->node);
	if (!x->watched)
		return;
	x->watched = false;
	(void)epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, x->conn->fd, NULL);
}

static void end_list(struct list *l)
{
	while (!list_empty(l)) {
		struct exchange *x = list_entry(l->next, struct exchange, node);

		park_remove(x);
		server_end_parked(x);
	}
}

void park_end_all(struct park *p)
{
	end_list(&p->fresh);
	end_list(&p->watched);
}
