/*
 * Connections, streams and messages. See load_h2.h; the only file of load that
 * knows nghttp2.
 */
#include "load_h2.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load_modes.h"
#include "util/clock.h"

#define EVENTS_MAX   64
#define READ_BYTES   (256u << 10)
#define WRITE_BYTES  (64u << 10)
#define WINDOW_BYTES (8 << 20)
#define HEAD_BYTES   5 /* of the envelope of a message */

struct h2_link {
	struct h2_load *h;
	int fd;
	nghttp2_session *session;
	struct buf out; /* the socket has not taken it */
	size_t sent;    /* of out */
	bool blocked;
	bool dirty; /* it has something to send */
};

static void want(ssize_t r, const char *what)
{
	if (r < 0)
		die("%s: %s", what, nghttp2_strerror((int)r));
}

/* --- messages --- */

struct buf *h2_message_begin(struct h2_call *c, size_t *start)
{
	static const char head[HEAD_BYTES];

	if (c->taken == c->out.n) {
		buf_clear(&c->out);
		c->taken = 0;
	}
	*start = c->out.n;
	buf_append(&c->out, head, sizeof(head));
	return &c->out;
}

void h2_message_end(struct h2_call *c, size_t start)
{
	size_t n = c->out.n - start - HEAD_BYTES;
	char *p = c->out.p + start + 1;

	for (int i = 0; i < 4; i++)
		p[i] = (char)(n >> (24 - 8 * i));
	if (c->deferred) {
		c->deferred = false;
		want(nghttp2_session_resume_data(c->link->session, c->id),
		     "a stream cannot go on");
	}
	c->link->dirty = true;
}

static ssize_t on_read(_unused_ nghttp2_session *session, _unused_ int32_t id,
		       uint8_t *to, size_t max, _unused_ uint32_t *flags,
		       nghttp2_data_source *source, _unused_ void *ctx)
{
	struct h2_call *c = source->ptr;
	size_t n = MIN(c->out.n - c->taken, max);

	if (n == 0) {
		c->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	memcpy(to, c->out.p + c->taken, n);
	c->taken += n;
	return (ssize_t)n;
}

/* What of it is complete is handed on; returns how many bytes that were. */
static size_t hand_on(struct h2_call *c, const char *p, size_t n)
{
	size_t at = 0;

	while (n - at >= HEAD_BYTES) {
		const uint8_t *b = (const uint8_t *)p + at;
		size_t length = (size_t)b[1] << 24 | (size_t)b[2] << 16 |
				(size_t)b[3] << 8 | b[4];

		if (b[0] != 0)
			die("a message is packed, which nobody asked for");
		if (n - at < HEAD_BYTES + length)
			break;
		c->on_message(c, str_of(p + at + HEAD_BYTES, length));
		at += HEAD_BYTES + length;
	}
	return at;
}

static int on_data(nghttp2_session *session, _unused_ uint8_t flags, int32_t id,
		   const uint8_t *data, size_t n, _unused_ void *ctx)
{
	struct h2_call *c = nghttp2_session_get_stream_user_data(session, id);
	const char *p = (const char *)data;
	size_t took;

	if (c->in.n == 0) { /* mostly: nothing is copied then */
		took = hand_on(c, p, n);
		buf_append(&c->in, p + took, n - took);
		return 0;
	}
	buf_append(&c->in, p, n);
	took = hand_on(c, c->in.p, c->in.n);
	memmove(c->in.p, c->in.p + took, c->in.n - took);
	c->in.n -= took;
	return 0;
}

/* --- heads --- */

static int on_header(_unused_ nghttp2_session *session,
		     _unused_ const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_n, const uint8_t *value, size_t value_n,
		     _unused_ uint8_t flags, _unused_ void *ctx)
{
	struct str key = str_of(name, name_n), v = str_of(value, value_n);

	if ((str_is(key, ":status") && !str_is(v, "200")) ||
	    (str_is(key, "grpc-status") && !str_is(v, "0")) ||
	    str_is(key, "grpc-message"))
		die("%.*s: %.*s", STR_ARG(key), STR_ARG(v));
	return 0;
}

static int on_close(_unused_ nghttp2_session *session, int32_t id,
		    uint32_t code, _unused_ void *ctx)
{
	die("stream %d was closed by the server: %s", id,
	    nghttp2_http2_strerror(code));
}

static int on_frame(_unused_ nghttp2_session *session,
		    const nghttp2_frame *frame, _unused_ void *ctx)
{
	if (frame->hd.type == NGHTTP2_GOAWAY)
		die("the server says goodbye: %s",
		    nghttp2_http2_strerror(frame->goaway.error_code));
	return 0;
}

#define NV(key, text)                                                          \
	{                                                                      \
		.name = (uint8_t *)(uintptr_t)(key),                           \
		.value = (uint8_t *)(uintptr_t)(text), .namelen = strlen(key), \
		.valuelen = strlen(text)                                       \
	}

struct h2_call *h2_open(struct h2_load *l, const char *path, message_fn *fn,
			void *ctx)
{
	struct h2_call *c = xcalloc(1, sizeof(*c));
	const nghttp2_nv head[] = {
		NV(":method", "POST"),
		NV(":scheme", "http"),
		NV(":authority", "localhost"),
		NV(":path", path),
		NV("te", "trailers"),
		NV("content-type", "application/grpc+proto"),
	};
	nghttp2_data_provider body = { .source.ptr = c,
				       .read_callback = on_read };

	c->h = l;
	c->number = l->calls_n;
	c->link = l->links[c->number % l->links_n];
	c->on_message = fn;
	c->ctx = ctx;
	c->id = nghttp2_submit_request(c->link->session, NULL, head,
				       ARRAY_SIZE(head), &body, c);
	want(c->id, "a stream cannot be opened");
	c->link->dirty = true;
	if (l->calls_n == l->calls_cap) {
		l->calls_cap = MAX(64u, l->calls_cap * 2);
		l->calls =
		    xrealloc(l->calls, l->calls_cap * sizeof(l->calls[0]));
	}
	l->calls[l->calls_n++] = c;
	return c;
}

/* --- connections --- */

static void watch(struct h2_link *k, int op, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = k };

	if (epoll_ctl(k->h->epoll_fd, op, k->fd, &e) < 0)
		die("epoll: %s", strerror(errno));
}

/* False: the socket is full. */
static bool send_out(struct h2_link *k)
{
	while (k->sent < k->out.n) {
		ssize_t n = send(k->fd, k->out.p + k->sent, k->out.n - k->sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0)
			die("send: %s", strerror(errno));
		k->sent += (size_t)n;
	}
	buf_clear(&k->out);
	k->sent = 0;
	return true;
}

/* False: the library has nothing more. */
static bool gather(struct h2_link *k)
{
	while (k->out.n < WRITE_BYTES) {
		const uint8_t *p;
		ssize_t n = nghttp2_session_mem_send(k->session, &p);

		want(n, "sending");
		if (n == 0)
			return false;
		buf_append(&k->out, p, (size_t)n);
	}
	return true;
}

static void flush(struct h2_link *k)
{
	bool more = true, is_full = false;

	while (!is_full && (more || k->out.n > 0)) {
		more = gather(k);
		is_full = !send_out(k);
	}
	k->dirty = false; /* a full one is told when there is room */
	if (is_full != k->blocked)
		watch(k, EPOLL_CTL_MOD, EPOLLIN | (is_full ? EPOLLOUT : 0));
	k->blocked = is_full;
}

static void receive(struct h2_link *k)
{
	static uint8_t b[READ_BYTES];
	ssize_t n = recv(k->fd, b, sizeof(b), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		die("a connection was closed by the server%s%s",
		    n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
	want(nghttp2_session_mem_recv(k->session, b, (size_t)n), "receiving");
	k->dirty = true; /* windows */
}

static void start(struct h2_link *k, const nghttp2_session_callbacks *cb)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES },
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
	};

	want(nghttp2_session_client_new(&k->session, cb, k), "session");
	want(nghttp2_submit_settings(k->session, NGHTTP2_FLAG_NONE, settings,
				     ARRAY_SIZE(settings)),
	     "settings");
	want(nghttp2_session_set_local_window_size(
		 k->session, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES),
	     "window");
}

void h2_load_init(struct h2_load *l, struct client *cl, unsigned links)
{
	nghttp2_session_callbacks *cb;

	*l = (struct h2_load){ .links_n = links };
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0)
		die("epoll: %s", strerror(errno));
	if (!client_connect(cl, links))
		die("%.*s", STR_ARG(buf_str(&cl->why)));
	want(nghttp2_session_callbacks_new(&cb), "callbacks");
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	l->links = xcalloc(links, sizeof(l->links[0]));
	for (unsigned i = 0; i < links; i++) {
		struct h2_link *k = xcalloc(1, sizeof(*k));

		k->h = l;
		k->fd = cl->conns[i]->fd;
		start(k, cb);
		watch(k, EPOLL_CTL_ADD, EPOLLIN);
		l->links[i] = k;
	}
	nghttp2_session_callbacks_del(cb);
}

void h2_load_done(struct h2_load *l)
{
	for (unsigned i = 0; i < l->links_n; i++) {
		nghttp2_session_del(l->links[i]->session);
		buf_done(&l->links[i]->out);
		free(l->links[i]);
	}
	for (unsigned i = 0; i < l->calls_n; i++) {
		buf_done(&l->calls[i]->in);
		buf_done(&l->calls[i]->out);
		free(l->calls[i]);
	}
	free(l->links);
	free(l->calls);
	(void)close(l->epoll_fd);
}

/* --- the loop --- */

static void turn(struct h2_load *l, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	int n;

	for (unsigned i = 0; i < l->links_n; i++)
		if (l->links[i]->dirty)
			flush(l->links[i]);
	n = epoll_wait(l->epoll_fd, events, EVENTS_MAX, timeout_ms);
	if (n < 0 && errno != EINTR)
		die("epoll: %s", strerror(errno));
	for (int i = 0; i < n && !l->stop; i++) {
		struct h2_link *k = events[i].data.ptr;

		if (events[i].events & EPOLLOUT)
			k->dirty = true;
		if (events[i].events & ~(uint32_t)EPOLLOUT)
			receive(k);
	}
}

void h2_run(struct h2_load *l, uint64_t until_ns)
{
	l->stop = false;
	while (!l->stop) {
		uint64_t now_ns = clock_mono_ns();

		if (until_ns != 0 && now_ns >= until_ns)
			return;
		turn(l, until_ns == 0
			    ? -1
			    : (int)MIN((until_ns - now_ns) / NS_PER_MS + 1,
				       UINT64_C(1000)));
	}
}
