/*
 * See push/caller.h. Loop thread; names are resolved on threads of the library.
 */
#include "push/caller.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/err.h"
#include "util/clock.h"
#include "util/list.h"

#define IDLE_HANDLES 256
#define CONNECTIONS  2048       /* kept open for the next call */
#define BODY_MAX     (4u << 20) /* read of an answer; then it is cut off */
#define HEAD_MAX     (1u << 20) /* the same of its headers and trailers */
/* A piece counts for so many bytes at least: one of a single byte is as much
 * work as one of a hundred, and an answer may be nothing else. */
#define PIECE_MIN 128u

struct caller {
	struct loop *loop;
	const struct reach *reach;
	const char *ca_file;
	CURLM *multi;
	struct loop_timer *timer;
	struct list calls; /* under way */
	CURL *idle[IDLE_HANDLES];
	size_t idle_n;
};

struct call {
	struct list node;
	struct caller *c;
	CURL *easy;
	struct curl_slist *headers;
	struct call_request r;
	call_fn *fn;
	void *ctx;
	struct buf body;
	size_t got;  /* bytes of the body in all */
	size_t cost; /* what its pieces count for */
	size_t head; /* the same of headers and trailers */
	bool cut;
	bool closed; /* an address may not be called */
	char address[IP_TEXT_BYTES];
	char error[CURL_ERROR_SIZE];
};

/* --- what the library asks of the loop --- */

static void deliver(struct caller *c);

static void act(struct caller *c, curl_socket_t fd, int events)
{
	int running;

	CHECK(curl_multi_socket_action(c->multi, fd, events, &running) ==
	      CURLM_OK);
	deliver(c);
}

static void on_fd(void *ctx, int fd, int events)
{
	act(ctx, fd,
	    (events & LOOP_READ ? CURL_CSELECT_IN : 0) |
		(events & LOOP_WRITE ? CURL_CSELECT_OUT : 0));
}

static void on_timer(void *ctx)
{
	act(ctx, CURL_SOCKET_TIMEOUT, 0);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx,
		     void *assigned)
{
	struct caller *c = ctx;
	struct loop_fd *io = assigned;
	int events = (what & CURL_POLL_IN ? LOOP_READ : 0) |
		     (what & CURL_POLL_OUT ? LOOP_WRITE : 0);

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (io != NULL)
			loop_fd_remove(io);
		curl_multi_assign(c->multi, fd, NULL);
	} else if (io == NULL) {
		io = loop_fd_add(c->loop, fd, events, on_fd, c);
		curl_multi_assign(c->multi, fd, io);
	} else {
		loop_fd_watch(io, events);
	}
	return 0;
}

static int on_timeout(CURLM *multi, long ms, void *ctx)
{
	struct caller *c = ctx;

	(void)multi;
	if (ms < 0)
		loop_timer_disarm(c->timer);
	else
		loop_timer_arm(c->timer, (uint64_t)ms * NS_PER_MS);
	return 0;
}

/* --- what the library asks of a call --- */

/* The address is the one that is connected to: nothing comes after this. */
static curl_socket_t on_open(void *ctx, curlsocktype purpose,
			     struct curl_sockaddr *to)
{
	struct call *k = ctx;
	struct ip ip = ip_of(&to->addr);

	(void)purpose;
	if ((to->family != AF_INET && to->family != AF_INET6) ||
	    !reach_has(k->c->reach, k->r.host, &ip)) {
		k->closed = true;
		ip_format(&ip, k->address);
		return CURL_SOCKET_BAD;
	}
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct call *k = ctx;
	size_t all = size * n;
	size_t room = k->r.body_max - MIN(k->r.body_max, k->body.n);

	buf_append(&k->body, p, MIN(all, room));
	k->got += all;
	k->cost += MAX(all, PIECE_MIN);
	k->cut = k->got > k->body.n || k->cost > BODY_MAX;
	return k->cost > BODY_MAX ? 0 : all; /* 0: no more of it */
}

/* The library keeps them all, and trailers have no end of its own. */
static size_t on_header(char *p _unused_, size_t size, size_t n, void *ctx)
{
	struct call *k = ctx;
	size_t all = size * n;

	k->head += MAX(all, PIECE_MIN);
	return k->head > HEAD_MAX ? 0 : all;
}

/* --- a call --- */

static CURL *take_handle(struct caller *c)
{
	CURL *easy;

	if (c->idle_n > 0)
		return c->idle[--c->idle_n];
	easy = curl_easy_init();
	CHECK(easy != NULL);
	return easy;
}

static void put_handle(struct caller *c, CURL *easy)
{
	if (c->idle_n == IDLE_HANDLES) {
		curl_easy_cleanup(easy);
		return;
	}
	curl_easy_reset(easy);
	c->idle[c->idle_n++] = easy;
}

static void call_free(struct call *k)
{
	struct caller *c = k->c;

	list_remove(&k->node);
	curl_multi_remove_handle(c->multi, k->easy);
	put_handle(c, k->easy);
	curl_slist_free_all(k->headers);
	buf_done(&k->body);
	free(k);
}

static long ms_of(uint64_t ns)
{
	return (long)MAX((ns + NS_PER_MS - 1) / NS_PER_MS, 1u);
}

#define SET(option, value) \
	CHECK(curl_easy_setopt(k->easy, option, value) == CURLE_OK)

static void set_request(struct call *k)
{
	const struct call_request *r = &k->r;

	SET(CURLOPT_URL, r->url);
	SET(CURLOPT_POST, 1L);
	SET(CURLOPT_CUSTOMREQUEST, r->method);
	SET(CURLOPT_POSTFIELDS, r->body.n > 0 ? r->body.p : "");
	SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.n);
	for (size_t i = 0; i < r->headers_n; i++)
		k->headers = curl_slist_append(k->headers, r->headers[i]);
	/* a body is sent without asking first */
	k->headers = curl_slist_append(k->headers, "Expect:");
	CHECK(k->headers != NULL);
	SET(CURLOPT_HTTPHEADER, k->headers);
	if (r->credentials != NULL) {
		SET(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		SET(CURLOPT_USERPWD, r->credentials);
	}
	SET(CURLOPT_TIMEOUT_MS, ms_of(r->timeout_ns));
	SET(CURLOPT_CONNECTTIMEOUT_MS, ms_of(r->connect_timeout_ns));
}

static void set_rules(struct call *k)
{
	SET(CURLOPT_PRIVATE, k);
	SET(CURLOPT_ERRORBUFFER, k->error);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_NOPROGRESS, 1L);
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	/* a name that is being looked up holds nobody up */
	SET(CURLOPT_QUICK_EXIT, 1L);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, k);
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, k);
	SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
	SET(CURLOPT_OPENSOCKETDATA, k);
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	SET(CURLOPT_TCP_NODELAY, 1L);
	if (k->c->ca_file[0] != '\0')
		SET(CURLOPT_CAINFO, k->c->ca_file);
}

struct call *call_start(struct caller *c, const struct call_request *r,
			call_fn *fn, void *ctx)
{
	struct call *k = xcalloc(1, sizeof(*k));

	k->c = c;
	k->r = *r;
	k->fn = fn;
	k->ctx = ctx;
	k->easy = take_handle(c);
	list_push_back(&c->calls, &k->node);
	set_rules(k);
	set_request(k);
	CHECK(curl_multi_add_handle(c->multi, k->easy) == CURLM_OK);
	return k;
}

void call_cancel(struct call *k)
{
	call_free(k);
}

const char *call_header(struct call *k, const char *name)
{
	struct curl_header *h;

	if (curl_easy_header(k->easy, name, 0, CURLH_HEADER, -1, &h) !=
	    CURLHE_OK)
		return NULL;
	return h->value;
}

/* --- its end --- */

static enum call_class class_of(CURLcode code)
{
	switch ((int)code) {
	case CURLE_OPERATION_TIMEDOUT:
		return CALL_TIMEOUT;
	case CURLE_COULDNT_RESOLVE_HOST:
		return CALL_DNS;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
		return CALL_TLS;
	default:
		return CALL_CONNECTION;
	}
}

static uint64_t time_of(struct call *k, CURLINFO what)
{
	curl_off_t us = 0;

	if (curl_easy_getinfo(k->easy, what, &us) != CURLE_OK || us < 0)
		return 0;
	return (uint64_t)us * NS_PER_US;
}

static void judge(struct call *k, CURLcode code, struct call_answer *ret)
{
	long status = 0;
	char *location = NULL;

	curl_easy_getinfo(k->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(k->easy, CURLINFO_REDIRECT_URL, &location);
	/* an answer that was too long is one all the same */
	if (code == CURLE_WRITE_ERROR && k->cost > BODY_MAX)
		code = CURLE_OK;
	*ret = (struct call_answer){
		.status = code == CURLE_OK ? (unsigned)status : 0,
		.body = buf_str(&k->body),
		.cut = k->cut,
		.location = location,
		.total_ns = time_of(k, CURLINFO_TOTAL_TIME_T),
		.connect_ns = time_of(k, CURLINFO_CONNECT_TIME_T),
		.first_byte_ns = time_of(k, CURLINFO_STARTTRANSFER_TIME_T),
	};
	if (code == CURLE_OK)
		return;
	ret->class = class_of(code);
	ret->error = k->error[0] != '\0' ? k->error : curl_easy_strerror(code);
	if (k->head > HEAD_MAX)
		ret->error = "the answer has too many headers";
	if (k->closed && code == CURLE_COULDNT_CONNECT) {
		snprintf(k->error, sizeof(k->error),
			 "the address %s may not be called (push_allow)",
			 k->address);
		ret->error = k->error;
	}
}

static void deliver(struct caller *c)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(c->multi, &left)) != NULL) {
		struct call_answer a;
		char *p = NULL;
		struct call *k;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &p);
		k = (struct call *)(void *)p;
		judge(k, m->data.result, &a);
		k->fn(k->ctx, k, &a);
		call_free(k);
	}
}

/* --- all of them --- */

struct caller *caller_new(struct loop *l, const struct reach *reach,
			  const char *ca_file, struct buf *why)
{
	struct caller *c;

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		buf_puts(why, "libcurl cannot be used");
		return NULL;
	}
	if (ca_file[0] != '\0' && access(ca_file, R_OK) < 0) {
		buf_printf(why, "push_ca_file: %s cannot be read", ca_file);
		curl_global_cleanup();
		return NULL;
	}
	c = xcalloc(1, sizeof(*c));
	c->loop = l;
	c->reach = reach;
	c->ca_file = ca_file;
	list_init(&c->calls);
	c->multi = curl_multi_init();
	CHECK(c->multi != NULL);
	c->timer = loop_timer_add(l, on_timer, c);
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
	curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
	curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS);
	return c;
}

void caller_free(struct caller *c)
{
	if (c == NULL)
		return;
	LIST_FOREACH_SAFE (it, &c->calls)
		call_free(list_entry(it, struct call, node));
	while (c->idle_n > 0)
		curl_easy_cleanup(c->idle[--c->idle_n]);
	curl_multi_cleanup(c->multi);
	loop_timer_remove(c->timer);
	free(c);
	curl_global_cleanup();
}
