/*
 * See front/door.h.
 */
#include "front/door.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/conn.h"
#include "front/server.h"

#define EVENTS_MAX 256 /* taken from the kernel at a time */

static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE_BYTES (sizeof(PREFACE) - 1)

struct door {
	const struct door_ops *ops;
	void *ctx;
	int epoll_fd;
	struct loop_fd *poll;
};

enum verdict { WAIT, LEFT, IS_H1, IS_H2 };

/* What has come stays in the socket. */
static enum verdict look(const struct conn *c)
{
	char b[PREFACE_BYTES];
	ssize_t n = recv(c->fd, b, sizeof(b), MSG_PEEK | MSG_DONTWAIT);

	if (n == 0)
		return LEFT;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? WAIT : LEFT;
	if (memcmp(b, PREFACE, (size_t)n) != 0)
		return IS_H1;
	return (size_t)n < PREFACE_BYTES ? WAIT : IS_H2;
}

static void leave(struct door *d, const struct conn *c)
{
	(void)epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
}

static void decide(struct door *d, struct conn *c, enum verdict v)
{
	switch (v) {
	case WAIT:
		break;
	case LEFT:
		door_close(c);
		break;
	case IS_H1:
		d->ops->is_h1(d->ctx, c);
		break;
	case IS_H2:
		d->ops->is_h2(d->ctx, c);
		break;
	}
}

static void on_events(void *ctx, _unused_ int fd, _unused_ int events)
{
	struct door *d = ctx;
	struct epoll_event e[EVENTS_MAX];
	int n = epoll_wait(d->epoll_fd, e, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		struct conn *c = e[i].data.ptr;
		enum verdict v = look(c);

		/* with nothing more to come, what there is has to do */
		if (v == WAIT && (e[i].events & (EPOLLRDHUP | EPOLLHUP)) != 0)
			v = IS_H1;
		if (v != WAIT)
			leave(d, c);
		decide(d, c, v);
	}
}

void door_add(struct door *d, struct conn *c)
{
	/* edges: the bytes that have been looked at are still there */
	struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET,
				 .data.ptr = c };
	enum verdict v = look(c);

	if (v == WAIT && epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, c->fd, &e) < 0)
		v = LEFT; /* no memory for it */
	decide(d, c, v);
}

bool door_is_silent(const struct conn *c)
{
	return look(c) == WAIT;
}

void door_close(struct conn *c)
{
	struct door *d = server_door(c->server);

	(void)close(c->fd); /* no epoll knows it any more */
	d->ops->closed(d->ctx, c);
}

struct door *door_new(struct loop *l, const struct door_ops *ops, void *ctx)
{
	struct door *d = xcalloc(1, sizeof(*d));

	d->ops = ops;
	d->ctx = ctx;
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll_fd < 0) {
		free(d);
		return NULL;
	}
	d->poll = loop_fd_add(l, d->epoll_fd, LOOP_READ, on_events, d);
	return d;
}

void door_free(struct door *d)
{
	if (d == NULL)
		return;
	loop_fd_remove(d->poll);
	(void)close(d->epoll_fd);
	free(d);
}
