/*
 * See front/acceptor.h.
 */
#include "front/acceptor.h"

#include <errno.h>
#include <stdlib.h>

#include "rt/netaddr.h"
#include "util/clock.h"

#define PER_TURN   8 /* of a socket, so that others have a turn */
#define PAUSE_NS   (100 * NS_PER_MS) /* nothing was to be had */
#define AT_THE_END 4096 /* of a socket, which the kernel keeps at most */

struct source {
	struct acceptor *owner;
	int fd;
	bool check_host;
	enum listen_part part;
	struct loop_fd *watch; /* NULL: it is not watched */
	bool alone;            /* other processes sleep on meanwhile */
};

struct acceptor {
	struct loop *loop;
	const struct acceptor_ops *ops;
	void *ctx;
	struct source sources[LIMIT_LISTENERS];
	size_t n;
	struct loop_timer *timer; /* to try again */
	bool paused, stopped;
};

static void unwatch(struct acceptor *a)
{
	for (size_t i = 0; i < a->n; i++) {
		loop_fd_remove(a->sources[i].watch);
		a->sources[i].watch = NULL;
		a->sources[i].alone = false;
	}
}

static void pause_all(struct acceptor *a)
{
	a->paused = true;
	unwatch(a);
	loop_timer_arm(a->timer, PAUSE_NS);
}

static bool is_out_of_room(int e)
{
	return e == EMFILE || e == ENFILE || e == ENOBUFS || e == ENOMEM;
}

static void accept_some(struct source *s, int max)
{
	struct acceptor *a = s->owner;

	for (int i = 0; i < max; i++) {
		struct sockaddr_storage sa = { 0 };
		socklen_t len = sizeof(sa);
		int c;

		if (!a->ops->has_room(a->ctx)) {
			pause_all(a);
			return;
		}
		c = accept4(s->fd, (struct sockaddr *)&sa, &len,
			    SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (c < 0) {
			if (is_out_of_room(errno))
				pause_all(a);
			return; /* what is left shows again */
		}
		a->ops->take(a->ctx, c, (struct sockaddr *)&sa, s->check_host,
			     s->part);
	}
}

static void on_ready(void *ctx, _unused_ int fd, _unused_ int events)
{
	struct source *s = ctx;

	if (!s->alone)
		loop_fd_alone(s->watch);
	s->alone = true;
	accept_some(s, PER_TURN);
}

static void watch(struct acceptor *a)
{
	for (size_t i = 0; i < a->n; i++) {
		struct source *s = &a->sources[i];

		s->watch = loop_fd_add(a->loop, s->fd, LOOP_READ, on_ready, s);
	}
}

static void on_timer(void *ctx)
{
	struct acceptor *a = ctx;

	acceptor_resume(a);
	if (a->paused)
		loop_timer_arm(a->timer, PAUSE_NS);
}

static bool is_unix(int fd)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t n = sizeof(sa);

	return getsockname(fd, (struct sockaddr *)&sa, &n) == 0 &&
	       sa.ss_family == AF_UNIX;
}

struct acceptor *acceptor_new(struct loop *l, const struct settings *set,
			      const struct listeners *ls,
			      const struct acceptor_ops *ops, void *ctx)
{
	struct acceptor *a = xcalloc(1, sizeof(*a));

	a->loop = l;
	a->ops = ops;
	a->ctx = ctx;
	a->timer = loop_timer_add(l, on_timer, a);
	a->n = ls->n;
	for (size_t i = 0; i < ls->n; i++)
		a->sources[i] = (struct source){
			.owner = a,
			.fd = ls->fd[i],
			.check_host = netaddr_fd_is_local(ls->fd[i]) > 0 &&
				      !is_unix(ls->fd[i]),
			.part = listen_part(set, i),
		};
	watch(a);
	return a;
}

void acceptor_resume(struct acceptor *a)
{
	if (!a->paused || a->stopped || !a->ops->has_room(a->ctx))
		return;
	a->paused = false;
	loop_timer_disarm(a->timer);
	watch(a);
}

void acceptor_stop(struct acceptor *a)
{
	a->stopped = true;
	loop_timer_disarm(a->timer);
	unwatch(a);
}

void acceptor_finish(struct acceptor *a)
{
	for (size_t i = 0; !a->stopped && i < a->n; i++)
		accept_some(&a->sources[i], AT_THE_END);
	acceptor_stop(a);
}

bool acceptor_is_stopped(const struct acceptor *a)
{
	return a->stopped;
}

void acceptor_free(struct acceptor *a)
{
	if (a == NULL)
		return;
	acceptor_stop(a);
	loop_timer_remove(a->timer);
	free(a);
}
