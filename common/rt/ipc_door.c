/*
 * See rt/ipc_door.h. A peer of ours speaks first and at once: mostly its words
 * are there already when it is let in. So whoever has not said anything after
 * a moment, while another one waits, is let go; if it is one of ours that was
 * slow, it comes again. Those who stand in line behind one that was let go have
 * less time: they could speak while they waited.
 */
#include "rt/ipc_door.h"

#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/ipc_fd.h"
#include "util/clock.h"

#define PATH_BYTES  (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)
#define FIRST_NS    (20 * NS_PER_MS) /* to say something */
#define NEXT_NS     (2 * NS_PER_MS)  /* the same, of who stood in line */
#define LOOK_MAX_NS (200 * NS_PER_MS)

static void on_look(void *ctx)
{
	struct ipc_door *d = ctx;

	if (d->look_ns == 0)
		return;
	if (ipc_door_is_wanted(d)) {
		d->hurries = true;
		d->on_silent(d->ctx);
		return;
	}
	d->look_ns = MIN(d->look_ns * 2, LOOK_MAX_NS);
	loop_timer_arm(d->timer, d->look_ns);
}

void ipc_door_init(struct ipc_door *d, struct loop *l, loop_fn *on_silent,
		   void *ctx)
{
	d->fd = -1;
	d->timer = loop_timer_add(l, on_look, d);
	d->on_silent = on_silent;
	d->ctx = ctx;
}

void ipc_door_done(struct ipc_door *d)
{
	loop_timer_remove(d->timer);
	if (d->fd >= 0)
		(void)close(d->fd);
}

void ipc_door_open(struct ipc_door *d, const char *path)
{
	d->fd = ipc_fd_find_listener(path);
}

bool ipc_door_is_wanted(const struct ipc_door *d)
{
	struct pollfd p = { .fd = d->fd, .events = POLLIN };

	return d->fd >= 0 && poll(&p, 1, 0) == 1;
}

void ipc_door_await(struct ipc_door *d)
{
	if (d->fd < 0)
		return;
	d->hurries = d->hurries && ipc_door_is_wanted(d);
	d->look_ns = d->hurries ? NEXT_NS : FIRST_NS;
	loop_timer_arm(d->timer, d->look_ns);
}

void ipc_door_heard(struct ipc_door *d)
{
	d->look_ns = 0;
}

int ipc_door_url(const char *path, struct buf *ret, struct buf *why)
{
	if (strlen(path) > PATH_BYTES) {
		buf_printf(why,
			   "%s: the path of a socket has at most %zu bytes; "
			   "give a shorter --run-dir",
			   path, PATH_BYTES);
		return -ERR_INTERNAL_ERROR;
	}
	buf_printf(ret, "ipc://%s", path);
	buf_putc(ret, '\0');
	return 0;
}
