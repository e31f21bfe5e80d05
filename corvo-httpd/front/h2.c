/*
 * Connections of HTTP/2: reading, writing, their ends. See front/h2.h.
 *
 * The library neither reads nor writes. Bytes that came are given to it, which
 * calls back for heads and bodies; at the end of the turn it is asked what
 * there is to send. Nothing is closed inside of its calls.
 */
#include "front/h2.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/exchange.h"
#include "front/h2_parts.h"
#include "front/late.h"
#include "front/server.h"
#include "front/slow.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "util/clock.h"

#define EVENTS_MAX    256 /* taken from the kernel at a time */
#define READ_BYTES    (64u << 10)
#define TURN_BYTES    (256u << 10) /* of a connection, so that others go on */
#define WINDOW_BYTES  (1 << 20)    /* of a connection, all bodies together */
#define QUEUED_MAX    64  /* frames that wait, before nothing more is read */
#define ACKS_MAX      128 /* that wait because the client does not read */
#define CONTINUED_MAX 8   /* frames of one head */
#define CLOSING_NS    (2 * NS_PER_S)

const char *h2_reason_name(enum h2_reason r)
{
	static const char *const names[H2_REASONS] = {
		[H2_PROTOCOL] = "protocol", [H2_FRAMES] = "frames",
		[H2_RESETS] = "resets",     [H2_HEAD] = "head",
		[H2_SLOW] = "slow",
	};

	return names[r];
}

size_t h2s_count(const struct h2s *all)
{
	return all->n;
}

uint64_t h2s_ended(const struct h2s *all, enum h2_reason r)
{
	return all->ended[r];
}

void h2_mark(struct h2 *h)
{
	if (list_empty(&h->dirty))
		list_push_back(&h->owner->dirty, &h->dirty);
}

void h2_end_by(struct h2 *h, enum h2_reason why, uint32_t code)
{
	if (h->closing_ns != 0)
		return;
	h->owner->ended[why]++;
	h->closing_ns = clock_mono_ns();
	(void)nghttp2_session_terminate_session(h->session, code);
	h2_mark(h);
}

void h2_goodbye(struct h2 *h)
{
	if (h->closing_ns != 0)
		return;
	h->closing_ns = clock_mono_ns();
	(void)nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR);
	h2_mark(h);
}

/* --- the end --- */

/*
 * The last frames say why; bytes that came meanwhile would have the kernel take
 * them back, so that the client is given a moment to read them.
 */
static void close_socket(const struct h2 *h)
{
	int fd = h->conn->fd;

	if (h->is_gone) {
		(void)close(fd);
		return;
	}
	(void)epoll_ctl(h->owner->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	(void)shutdown(fd, SHUT_WR);
	late_close(server_late(h->owner->server), fd);
}

static void count_rest(struct h2 *h)
{
	memory_hold(server_memory(h->owner->server), &h->held, h->rest.cap);
}

static void destroy(struct h2 *h)
{
	struct conn *c = h->conn;

	h2_streams_left(h);
	CHECK(h->streams_n == 0 && list_empty(&h->streams));
	nghttp2_session_del(h->session);
	buf_done(&h->rest);
	count_rest(h);
	list_remove(&h->node);
	list_remove(&h->dirty);
	h->owner->n--;
	close_socket(h);
	c->h2 = NULL;
	server_closed(h->owner->server, c);
	free(h);
}

/* Nothing can be read or sent any more; it is closed at the end of the turn. */
static void is_gone(struct h2 *h)
{
	if (h->is_gone)
		return;
	h->is_gone = true;
	(void)epoll_ctl(h->owner->epoll_fd, EPOLL_CTL_DEL, h->conn->fd, NULL);
	h2_mark(h);
}

void h2_cut(struct h2 *h)
{
	h->owner->ended[H2_SLOW] += !h->is_gone && h->closing_ns == 0;
	is_gone(h);
}

static bool is_over(struct h2 *h)
{
	return h->is_gone ||
	       (h->rest.n == 0 && nghttp2_session_want_read(h->session) == 0 &&
		nghttp2_session_want_write(h->session) == 0);
}

/* --- writing --- */

static void watch(struct h2 *h, uint32_t events)
{
	struct epoll_event e = { .events = events | EPOLLRDHUP, .data.ptr = h };

	if (epoll_ctl(h->owner->epoll_fd, EPOLL_CTL_MOD, h->conn->fd, &e) < 0)
		is_gone(h);
}

/* Answers that are in the hands of the kernel. */
static void end_done(struct h2 *h)
{
	while (!list_empty(&h->done))
		h2_stream_end(list_entry(h->done.next, struct h2_stream, node),
			      true);
}

/* How many bytes the socket took; less than n: it is full, or gone. */
static size_t send_bytes(struct h2 *h, const char *p, size_t n)
{
	ssize_t took = send(h->conn->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (took >= 0) {
		h->sent_n += (size_t)took;
		return (size_t)took;
	}
	if (errno != EAGAIN && errno != EINTR)
		is_gone(h);
	return 0;
}

static void block(struct h2 *h, const char *p, size_t n)
{
	if (h->is_gone)
		return;
	buf_append(&h->rest, p, n);
	count_rest(h);
	h->blocked_ns = clock_mono_ns();
	watch(h, EPOLLOUT | EPOLLIN);
}

/* What was left of the last time. False: it is still not all gone. */
static bool send_rest(struct h2 *h)
{
	size_t took;

	if (h->rest.n == 0)
		return true;
	took = send_bytes(h, h->rest.p, h->rest.n);
	if (took > 0)
		h->blocked_ns = clock_mono_ns();
	if (took < h->rest.n) {
		memmove(h->rest.p, h->rest.p + took, h->rest.n - took);
		h->rest.n -= took;
		return false;
	}
	buf_done(&h->rest);
	count_rest(h);
	h->blocked_ns = 0;
	end_done(h);
	watch(h, EPOLLIN);
	return !h->is_gone;
}

/* Fills out; false: the library has nothing more. Bodies come into it by
 * on_send_data, which stops the library when it is full. */
static bool gather(struct h2 *h)
{
	struct buf *out = &h->owner->out;

	while (out->n < H2_WRITE_BYTES) {
		const uint8_t *p;
		ssize_t n = nghttp2_session_mem_send(h->session, &p);

		if (n < 0)
			is_gone(h);
		if (n <= 0)
			return n == 0 && out->n >= H2_WRITE_BYTES;
		buf_append(out, p, (size_t)n);
	}
	return true;
}

static void flush(struct h2 *h)
{
	struct buf *out = &h->owner->out;
	size_t sent = 0;
	bool more = true;

	if (h->is_gone || !send_rest(h))
		return;
	while (more && !h->is_gone) {
		size_t took;

		if (sent >= TURN_BYTES) {
			h2_mark(h);
			return;
		}
		buf_clear(out);
		h->owner->gathers = h;
		more = gather(h);
		took = out->n > 0 ? send_bytes(h, out->p, out->n) : 0;
		h->owner->gathers = NULL;
		if (out->n == 0)
			break;
		sent += took;
		if (took < out->n) {
			block(h, out->p + took, out->n - took);
			return;
		}
		end_done(h);
	}
}

static void run_one(struct h2 *h)
{
	list_remove(&h->dirty);
	h2_streams_drop_cut(h);
	flush(h);
	if (!is_over(h))
		return;
	/* what is carried out to its end has its connection till then */
	if (h2_streams_hold(h))
		h2_streams_lost(h);
	else
		destroy(h);
}

void h2_run(struct h2s *all)
{
	struct list now;

	if (list_empty(&all->dirty))
		return;
	now = all->dirty; /* those that are marked meanwhile come next time */
	now.next->prev = now.prev->next = &now;
	list_init(&all->dirty);
	while (!list_empty(&now))
		run_one(list_entry(now.next, struct h2, dirty));
	if (!list_empty(&all->dirty))
		loop_timer_arm(all->again, 0);
	buf_shrink(&all->out, 2 * H2_WRITE_BYTES);
}

/* The turn is what it was made for. */
static void on_again(_unused_ void *ctx)
{
}

/* --- reading --- */

static void on_refused(struct h2 *h, ssize_t err)
{
	if (err == NGHTTP2_ERR_FLOODED)
		h2_end_by(h, H2_FRAMES, NGHTTP2_ENHANCE_YOUR_CALM);
	else if (err == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
		h2_end_by(h, H2_PROTOCOL, NGHTTP2_PROTOCOL_ERROR);
	else
		is_gone(h);
}

static void give(struct h2 *h, const uint8_t *p, size_t n)
{
	enum h2_id_verdict verdict;
	unsigned unknown_n = 0;
	size_t good = h2_scan_feed(&h->scan, p, n, &verdict, &unknown_n);
	ssize_t took = nghttp2_session_mem_recv(h->session, p, good);

	h2_mark(h);
	while (unknown_n-- > 0) /* the library skips them without a word */
		h2_note_frame(h);
	if (took < 0)
		on_refused(h, took);
	else if (verdict != H2_ID_FINE)
		h2_end_by(h, H2_PROTOCOL,
			  verdict == H2_ID_ENDED ? NGHTTP2_STREAM_CLOSED
						 : NGHTTP2_PROTOCOL_ERROR);
}

/* Its answers pile up: it has to read some of them first. */
static bool is_full(const struct h2 *h)
{
	return h->rest.n > 0 &&
	       nghttp2_session_get_outbound_queue_size(h->session) > QUEUED_MAX;
}

static void read_some(struct h2 *h)
{
	static uint8_t b[READ_BYTES];
	ssize_t n;

	if (is_full(h)) {
		watch(h, EPOLLOUT);
		return;
	}
	n = recv(h->conn->fd, b, sizeof(b), MSG_DONTWAIT);
	if (n > 0)
		give(h, b, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		is_gone(h);
}

static void on_events(void *ctx, _unused_ int fd, _unused_ int events)
{
	struct h2s *all = ctx;
	struct epoll_event e[EVENTS_MAX];
	int n = epoll_wait(all->epoll_fd, e, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		struct h2 *h = e[i].data.ptr;

		if (e[i].events & EPOLLOUT)
			h2_mark(h);
		if (e[i].events & EPOLLIN)
			read_some(h);
		else if (e[i].events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP))
			is_gone(h);
	}
}

/* --- time --- */

/* A stream of messages has begun with its first bytes, and has limits of its
 * own then. */
static bool is_coming(const struct exchange *x)
{
	return x->coming && (x->body_to == NULL || x->came_n == 0);
}

static void sweep_stream(struct h2_stream *st, const struct conns *cs,
			 uint64_t now_ns)
{
	struct exchange *x = st->x;

	if (x == NULL || st->is_over || st->is_cut)
		return;
	if (is_coming(x) && now_ns - x->start_ns > cs->request_timeout_ns)
		h2_refuse(x, ERR_REQUEST_TIMEOUT, STR_NULL);
	else
		slow_look(cs, x, now_ns);
}

static bool is_late(uint64_t since_ns, uint64_t now_ns, uint64_t limit_ns)
{
	return since_ns != 0 && now_ns - since_ns > limit_ns;
}

void h2_sweep(struct h2 *h, const struct conns *cs, uint64_t now_ns)
{
	struct conn *c = h->conn;

	if (h->asked_n > 0 && h->acked_n < h->sent_n)
		h2_place_look(h, now_ns);
	if (is_late(h->closing_ns, now_ns, CLOSING_NS) ||
	    is_late(h->blocked_ns, now_ns, cs->answer_timeout_ns)) {
		h2_cut(h);
		return;
	}
	if (is_late(h->head_ns, now_ns, cs->request_timeout_ns))
		h2_end_by(h, H2_SLOW, NGHTTP2_ENHANCE_YOUR_CALM);
	if (c->phase == CONN_IDLE && now_ns - c->since_ns > cs->idle_timeout_ns)
		h2_goodbye(h);
	LIST_FOREACH_SAFE (it, &h->streams)
		sweep_stream(list_entry(it, struct h2_stream, node), cs,
			     now_ns);
}

void h2_refuse_coming(struct h2 *h, uint64_t now_ns, uint64_t after_ns,
		      struct conns_refused *ret)
{
	if (is_late(h->head_ns, now_ns, after_ns) && h->closing_ns == 0) {
		ret->heads++;
		h2_goodbye(h);
	}
	LIST_FOREACH_SAFE (it, &h->streams) {
		struct h2_stream *st = list_entry(it, struct h2_stream, node);
		struct exchange *x = st->x;

		if (x == NULL || st->is_over || !is_coming(x) ||
		    !is_late(x->start_ns, now_ns, after_ns))
			continue;
		ret->streams += x->body_to != NULL;
		ret->bodies += x->body_to == NULL;
		h2_refuse(x, ERR_SHUTTING_DOWN, STR_NULL);
	}
}

void h2_each_exchange(struct h2 *h, conn_exchange_fn *fn, void *ctx)
{
	LIST_FOREACH_SAFE (it, &h->streams) {
		struct h2_stream *st = list_entry(it, struct h2_stream, node);

		if (st->x != NULL && !st->is_over)
			fn(ctx, st->x);
	}
}

/* --- life --- */

static bool start(struct h2 *h)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, LIMIT_H2_STREAMS },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, LIMIT_H2_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, LIMIT_HEAD_BYTES },
	};

	return nghttp2_session_server_new2(&h->session, h->owner->callbacks, h,
					   h->owner->option) == 0 &&
	       nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings,
				       ARRAY_SIZE(settings)) == 0 &&
	       nghttp2_session_set_local_window_size(
		   h->session, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES) == 0;
}

void h2_add(struct h2s *all, struct conn *c)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP };
	uint64_t now_ns = clock_mono_ns();
	struct h2 *h = xcalloc(1, sizeof(*h));
	int on = 1;

	h->owner = all;
	h->conn = c;
	list_init(&h->streams);
	list_init(&h->done);
	list_init(&h->dirty);
	h2_limits_init(&h->limits, now_ns);
	h2_scan_init(&h->scan);
	CHECK(start(h)); /* fails only without memory */
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	c->front = &h2_front;
	c->h2 = h;
	conn_enter(c, CONN_IDLE, now_ns);
	list_push_back(&all->all, &h->node);
	all->n++;
	e.data.ptr = h;
	if (epoll_ctl(all->epoll_fd, EPOLL_CTL_ADD, c->fd, &e) < 0) {
		h->is_gone = true;
		h2_mark(h);
		return;
	}
	read_some(h);
}

/* What they have asked is answered; what they ask now, elsewhere. */
void h2_drain(struct h2s *all)
{
	LIST_FOREACH (it, &all->all) {
		struct h2 *h = list_entry(it, struct h2, node);

		/* some clients read nothing behind the notice, and it would
		 * overtake what is there */
		flush(h);
		(void)nghttp2_submit_shutdown_notice(h->session);
		h2_mark(h);
	}
}

/* The library ends it when its last stream has ended. */
void h2_drain_end(struct h2s *all)
{
	LIST_FOREACH (it, &all->all) {
		struct h2 *h = list_entry(it, struct h2, node);
		nghttp2_session *s = h->session;

		if (h->takes_no_more || h->closing_ns != 0)
			continue;
		h->takes_no_more = true;
		(void)nghttp2_submit_goaway(
		    s, NGHTTP2_FLAG_NONE,
		    nghttp2_session_get_last_proc_stream_id(s),
		    NGHTTP2_NO_ERROR, NULL, 0);
		h2_mark(h);
	}
}

static void set_options(nghttp2_option *o)
{
	/* windows open when bytes are taken, not when they come */
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_closed_streams(o, 1);
	nghttp2_option_set_max_outbound_ack(o, ACKS_MAX);
	nghttp2_option_set_max_continuations(o, CONTINUED_MAX);
	/* answers differ in nearly all they say; a table is memory */
	nghttp2_option_set_max_deflate_dynamic_table_size(o, 0);
}

struct h2s *h2s_new(struct server *s)
{
	struct h2s *all = xcalloc(1, sizeof(*all));
	struct loop *loop = server_config(s)->loop;

	all->server = s;
	list_init(&all->all);
	list_init(&all->dirty);
	h2_places_init(all);
	all->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (all->epoll_fd < 0) {
		free(all);
		return NULL;
	}
	CHECK(nghttp2_session_callbacks_new(&all->callbacks) == 0);
	CHECK(nghttp2_option_new(&all->option) == 0);
	set_options(all->option);
	h2_stream_callbacks(all->callbacks);
	h2_answer_callbacks(all->callbacks);
	all->poll = loop_fd_add(loop, all->epoll_fd, LOOP_READ, on_events, all);
	all->again = loop_timer_add(loop, on_again, all);
	return all;
}

void h2s_free(struct h2s *all)
{
	if (all == NULL)
		return;
	LIST_FOREACH_SAFE (it, &all->all) {
		struct h2 *h = list_entry(it, struct h2, node);

		flush(h); /* as much of the answers as there is room for */
		h->is_gone = true;
		destroy(h);
	}
	CHECK(all->places_n == 0 && all->refused_n == 0);
	loop_fd_remove(all->poll);
	loop_timer_remove(all->again);
	(void)close(all->epoll_fd);
	nghttp2_session_callbacks_del(all->callbacks);
	nghttp2_option_del(all->option);
	buf_done(&all->out);
	buf_done(&all->names);
	free(all->nv);
	free(all);
}
