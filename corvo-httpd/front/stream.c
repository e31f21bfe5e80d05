/*
 * See front/stream.h. The front takes bytes as fast as the client does; when
 * there are none it waits to be woken. A connection of HTTP/1 is suspended
 * then, and nobody looks at the socket, so it is watched here, and what clients
 * send meanwhile is never read.
 */
#include "front/stream.h"

#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/answer.h"
#include "front/conn.h"
#include "front/memory.h"
#include "front/server.h"
#include "proto/err.h"
#include "rt/log.h"
#include "util/clock.h"

#define EVENTS_MAX 256 /* taken from the kernel at a time */
#define SWEEP_NS   NS_PER_S
#define SWEEP_TURN 256 /* streams that a sweep looks at in a turn */
/* What the kernel keeps for a client that does not read, about twice that. */
#define SOCKET_BYTES (128 << 10)
#define KEEP_BYTES   (4u << 10) /* memory an idle stream may keep */
/* Who takes nothing for so long is closed while memory is short. */
#define SHORT_STALL_NS (2 * NS_PER_S)

struct streams {
	struct list all;
	size_t n;
	int epoll_fd;
	struct loop_fd *poll;
	struct loop_timer *timer;
	bool armed;
	struct list *sweep; /* the next one to be looked at; NULL: none is */
};

struct stream {
	struct list node;
	struct exchange *x;
	const struct stream_kind *kind;
	const struct stream_ops *ops; /* NULL: on_closed has run */
	void *ctx;
	struct buf out;
	size_t taken;       /* of out */
	uint64_t wrote_ns;  /* last bytes came in */
	uint64_t active_ns; /* the client took some, or there came the first */
	int unsent;         /* bytes the kernel had for it at the last look */
	bool idle;          /* all is taken; the connection is suspended */
	bool watched;
	bool ending; /* nothing is written any more */
	bool broken; /* to be closed at once */
};

static struct streams *streams_of(const struct stream *s)
{
	return server_streams(s->x->server);
}

/* --- frames --- */

void stream_frame(struct buf *out, uint64_t id, const char *event,
		  struct str data)
{
	size_t at;

	if (id != 0)
		buf_printf(out, "id: %llu\n", (unsigned long long)id);
	buf_printf(out, "event: %s\ndata: ", event);
	at = out->n;
	buf_put_str(out, data);
	for (; at < out->n; at++)
		if (out->p[at] == '\n' || out->p[at] == '\r')
			out->p[at] = ' ';
	buf_puts(out, "\n\n");
}

static void error_frame(struct buf *out, int err)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(8192);

	answer_error_body(&body, err, STR_NULL, answer_retry_after(err));
	stream_frame(out, 0, "error", str_trim(buf_str(&body)));
}

static void explain_error(_unused_ void *ctx, struct buf *out, int err)
{
	error_frame(out, err);
}

/* Behind the empty line that ends a frame of events. */
static size_t event_end(const char *p, size_t at, size_t n)
{
	while (at < n && (p[at - 1] != '\n' || at < 2 || p[at - 2] != '\n'))
		at++;
	return at;
}

const struct stream_kind stream_events = {
	.content_type = "text/event-stream",
	.keepalive = { ":keepalive\n\n", 12 },
	.frame_end = event_end,
	.explain = explain_error,
};

void stream_end_error(struct stream *s, int err)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	error_frame(&b, err);
	stream_write(s, buf_str(&b));
	stream_end(s);
}

/* --- ends --- */

static void wake(struct stream *s)
{
	s->active_ns = clock_mono_ns();
	if (!s->idle)
		return;
	s->idle = false;
	exchange_wake(s->x);
}

static void tell_closed(struct stream *s)
{
	const struct stream_ops *ops = s->ops;

	s->ops = NULL;
	if (ops != NULL)
		ops->on_closed(s->ctx);
}

static void unwatch(struct stream *s)
{
	if (!s->watched)
		return;
	s->watched = false;
	(void)epoll_ctl(streams_of(s)->epoll_fd, EPOLL_CTL_DEL, s->x->conn->fd,
			NULL);
}

/* The library notices it at its next send, or when it asks for more. */
static void break_off(struct stream *s)
{
	unwatch(s);
	s->broken = true;
	s->ending = true;
	s->x->front->cut(s->x);
	wake(s);
}

/* Drops what was not taken, but for the rest of a frame of which some was. */
static void drop_unsent(struct stream *s)
{
	struct buf *b = &s->out;
	size_t at = s->taken;

	if (at == 0 || at == b->n) {
		b->n = at;
		return;
	}
	b->n = s->kind->frame_end != NULL ? s->kind->frame_end(b->p, at, b->n)
					  : at;
}

static bool is_memory_short(const struct stream *s)
{
	return memory_is_short(server_memory(s->x->server));
}

/* One that ends already holds hardly anything. */
static uint64_t stall_ns(const struct stream *s)
{
	return is_memory_short(s) && !s->ending ? SHORT_STALL_NS
						: STREAM_STALL_NS;
}

/*
 * It is told why, should it read on, and nobody has to care for it any more;
 * if it does not even take that it is closed.
 */
static void drop_slow(struct stream *s)
{
	if (s->ending) {
		break_off(s);
		return;
	}
	log_info("closing a stream whose client takes nothing for %llu s",
		 (unsigned long long)(stall_ns(s) / NS_PER_S));
	drop_unsent(s);
	buf_fit(&s->out, KEEP_BYTES);
	if (s->kind->explain != NULL)
		s->kind->explain(s->ctx, &s->out, ERR_SLOW_READER);
	exchange_count(s->x);
	s->ending = true;
	s->active_ns = clock_mono_ns();
	tell_closed(s);
}

/* --- time --- */

static void arm(struct streams *all)
{
	if (all->armed || list_empty(&all->all))
		return;
	all->armed = true;
	loop_timer_arm(all->timer, SWEEP_NS);
}

/* It may take the bytes the kernel has while the library waits for room. A
 * socket that several streams share tells nothing of one. */
static void look_at_socket(struct stream *s, uint64_t now_ns)
{
	int n;

	if (s->x->front->duplex)
		return;
	if (ioctl(s->x->conn->fd, SIOCOUTQ, &n) == 0 && n != s->unsent) {
		s->unsent = n;
		s->active_ns = now_ns;
	}
}

static void sweep_one(struct stream *s, uint64_t now_ns)
{
	if (s->broken)
		return;
	if (!s->idle)
		look_at_socket(s, now_ns);
	if (!s->idle && now_ns - s->active_ns >= stall_ns(s))
		drop_slow(s);
	else if (s->idle && now_ns - s->wrote_ns >= STREAM_KEEPALIVE_NS)
		stream_write(s, s->kind->keepalive);
}

static void on_sweep(void *ctx)
{
	struct streams *all = ctx;
	uint64_t now_ns = clock_mono_ns();

	all->armed = false;
	if (all->sweep == NULL)
		all->sweep = all->all.next;
	for (int i = 0; i < SWEEP_TURN && all->sweep != &all->all; i++) {
		struct stream *s = list_entry(all->sweep, struct stream, node);

		all->sweep = s->node.next;
		sweep_one(s, now_ns);
	}
	if (all->sweep == &all->all) {
		all->sweep = NULL;
		arm(all);
		return;
	}
	all->armed = true;
	loop_timer_arm(all->timer, 0);
}

/* --- clients that left --- */

static void on_events(void *ctx, _unused_ int fd, _unused_ int events)
{
	struct streams *all = ctx;
	struct epoll_event e[EVENTS_MAX];
	int n = epoll_wait(all->epoll_fd, e, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++)
		break_off(e[i].data.ptr);
}

static void watch(struct streams *all, struct stream *s)
{
	struct epoll_event e = { .events = EPOLLRDHUP, .data.ptr = s };

	if (s->x->front->notices)
		return;
	if (epoll_ctl(all->epoll_fd, EPOLL_CTL_ADD, s->x->conn->fd, &e) < 0)
		/* Still served; that it left shows at the next keepalive. */
		log_warn("cannot watch the connection of a stream: %m");
	else
		s->watched = true;
}

/* --- for sources --- */

/* Only a matter of memory: the kernel's own choice is larger. One connection
 * of HTTP/2 has many streams, and its client's windows bound them. */
static void bound_socket(const struct exchange *x)
{
	int bytes = SOCKET_BYTES;

	if (!x->front->duplex)
		(void)setsockopt(x->conn->fd, SOL_SOCKET, SO_SNDBUF, &bytes,
				 sizeof(bytes));
}

struct stream *stream_begin(struct exchange *x, const struct stream_kind *kind,
			    const struct stream_ops *ops, void *ctx)
{
	struct stream *s = xcalloc(1, sizeof(*s));
	struct streams *all = server_streams(x->server);

	s->x = x;
	s->kind = kind;
	s->ops = ops;
	s->ctx = ctx;
	s->wrote_ns = s->active_ns = clock_mono_ns();
	s->ending = server_is_draining(x->server);
	list_push_back(&all->all, &s->node);
	all->n++;
	arm(all);
	watch(all, s);
	bound_socket(x);
	x->stream = s;
	x->content_type = kind->content_type;
	return s;
}

size_t stream_room(const struct stream *s)
{
	size_t max = is_memory_short(s) ? KEEP_BYTES : STREAM_BUFFER_BYTES;
	size_t n = s->out.n - s->taken;

	return s->ending || n >= max ? 0 : max - n;
}

void stream_write(struct stream *s, struct str frames)
{
	if (s->ending || frames.n == 0)
		return;
	buf_put_str(&s->out, frames);
	exchange_count(s->x);
	s->wrote_ns = clock_mono_ns();
	if (s->idle)
		wake(s);
}

void stream_end(struct stream *s)
{
	s->ending = true;
	if (s->idle)
		wake(s);
}

/* --- for the server --- */

static void forget_taken(struct stream *s)
{
	s->taken = 0;
	buf_shrink(&s->out, KEEP_BYTES);
	exchange_count(s->x);
}

size_t stream_bytes(const struct stream *s)
{
	return s->out.cap;
}

ssize_t stream_take(struct stream *s, char *to, size_t max)
{
	size_t n;

	if (s->broken)
		return STREAM_BROKEN;
	s->active_ns = clock_mono_ns();
	if (s->taken == s->out.n) {
		forget_taken(s);
		if (!s->ending)
			s->ops->on_room(s->ctx);
	}
	n = MIN(s->out.n - s->taken, max);
	if (n == 0) {
		s->idle = !s->ending;
		return s->ending ? STREAM_OVER : STREAM_NOTHING;
	}
	memcpy(to, s->out.p + s->taken, n);
	s->taken += n;
	return (ssize_t)n;
}

void stream_free(struct stream *s)
{
	struct streams *all = streams_of(s);

	unwatch(s);
	tell_closed(s);
	if (all->sweep == &s->node)
		all->sweep = s->node.next;
	list_remove(&s->node);
	all->n--;
	buf_done(&s->out);
	free(s);
}

struct streams *streams_new(struct loop *l)
{
	struct streams *all = xcalloc(1, sizeof(*all));

	list_init(&all->all);
	all->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (all->epoll_fd < 0) {
		free(all);
		return NULL;
	}
	all->poll = loop_fd_add(l, all->epoll_fd, LOOP_READ, on_events, all);
	all->timer = loop_timer_add(l, on_sweep, all);
	return all;
}

void streams_free(struct streams *all)
{
	if (all == NULL)
		return;
	CHECK(all->n == 0);
	loop_fd_remove(all->poll);
	loop_timer_remove(all->timer);
	(void)close(all->epoll_fd);
	free(all);
}

size_t streams_count(const struct streams *all)
{
	return all->n;
}

void streams_end_all(struct streams *all)
{
	LIST_FOREACH (it, &all->all) {
		struct stream *s = list_entry(it, struct stream, node);

		if (!s->ending && s->ops->on_stop != NULL) {
			s->ops->on_stop(s->ctx);
			continue;
		}
		if (!s->ending)
			drop_unsent(s);
		stream_end(s);
	}
}

void streams_cut_all(struct streams *all)
{
	LIST_FOREACH (it, &all->all) {
		struct stream *s = list_entry(it, struct stream, node);

		if (!s->broken)
			break_off(s);
	}
}
