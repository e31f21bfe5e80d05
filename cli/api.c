/*
 * The seam to libcurl. What a server answers is hostile: bounded, checked to
 * be JSON, and shown only through the writers of out.h.
 */
#include "api.h"

#include <stdlib.h>

#include <curl/curl.h>

#include "proto/err.h"
#include "proto/limits.h"
#include "rt/listen.h"
#include "util/json.h"

#define API_CONNECT_TIMEOUT_S 5L
#define API_TIMEOUT_S         90L
#define API_SILENCE_S         60L /* longest, of a stream */
#define API_LINE_BYTES        (16u << 20)
#define API_MAY_PASS          500 /* statuses that need not stay */
#define API_BUSY              429 /* nor this one */
#define API_NOT_NOW           503 /* and nothing was done */
#define API_UNKNOWN           504 /* OUTCOME_UNKNOWN */
#define API_NOT_FOUND         404
#define API_REPLY_BYTES       (512u << 20) /* 1000 jobs of the largest size */
#define API_ERROR_BYTES       4096         /* of a reply that is not JSON */
/* Documents of the deepest nesting stand inside a list of jobs. */
#define API_JSON_DEPTH (LIMIT_JSON_DEPTH + 8)

static size_t on_bytes(char *p, size_t size, size_t n, void *ctx)
{
	struct buf *reply = ctx;

	buf_append(reply, p, size * n);
	return reply->full ? 0 : size * n;
}

/* A stream on its way. */
struct stream {
	CURL *c;
	struct buf *reply;         /* of an answer that is none */
	struct buf line;           /* as far as it has come */
	struct buf id, type, data; /* of the event, likewise */
	api_event_fn *fn;
	void *ctx;
	bool stopped; /* fn wants no more */
};

static void on_field(struct stream *s, struct str line)
{
	struct str name, value;
	struct buf *b = NULL;

	(void)str_split(line, ':', &name, &value);
	if (str_is(name, "id"))
		b = &s->id;
	else if (str_is(name, "event"))
		b = &s->type;
	else if (str_is(name, "data"))
		b = &s->data;
	if (b == NULL)
		return; /* a comment, or of a newer server */
	buf_clear(b);
	buf_put_str(b, value.n > 0 && value.p[0] == ' ' ? str_skip(value, 1)
							: value);
}

/* An empty line ends an event. */
static void on_line(struct stream *s, struct str line)
{
	struct api_event e = { buf_str(&s->id), buf_str(&s->type),
			       buf_str(&s->data) };

	if (line.n > 0) {
		on_field(s, line);
		return;
	}
	s->stopped = !s->fn(s->ctx, &e);
	buf_clear(&s->id);
	buf_clear(&s->type);
	buf_clear(&s->data);
}

static size_t on_stream(char *p, size_t size, size_t n, void *ctx)
{
	struct stream *s = ctx;
	struct str rest = str_of(p, size * n), line;
	long status = 0;

	curl_easy_getinfo(s->c, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200)
		return on_bytes(p, size, n, s->reply);
	while (!s->stopped && memchr(rest.p, '\n', rest.n) != NULL) {
		(void)str_split(rest, '\n', &line, &rest);
		buf_put_str(&s->line, line);
		on_line(s, buf_str(&s->line));
		buf_clear(&s->line);
	}
	buf_put_str(&s->line, rest);
	return s->stopped || s->line.full ? 0 : size * n;
}

void api_put_segment(struct buf *path, const char *text)
{
	buf_put_percent(path, str_from(text));
}

/* A part of an address, or nothing when it has none. */
static struct str url_part(CURLU *u, CURLUPart what, struct arena *a)
{
	char *text = NULL;
	struct str copy = STR("");

	if (curl_url_get(u, what, &text, CURLU_DEFAULT_PORT) == CURLUE_OK)
		copy = arena_copy(a, str_from(text));
	curl_free(text);
	return copy;
}

bool api_split(const char *server, struct arena *a, const char **ret_host,
	       const char **ret_port, const char **ret_prefix)
{
	CURLU *u = curl_url();
	struct str host, path;
	bool good;

	CHECK(u != NULL);
	good = curl_url_set(u, CURLUPART_URL, server, CURLU_GUESS_SCHEME) ==
		   CURLUE_OK &&
	       str_is(url_part(u, CURLUPART_SCHEME, a), "http") &&
	       url_part(u, CURLUPART_USER, a).n == 0;
	host = url_part(u, CURLUPART_HOST, a);
	path = url_part(u, CURLUPART_PATH, a);
	if (host.n > 2 && host.p[0] == '[')
		host = str_of(host.p + 1, host.n - 2);
	while (path.n > 0 && path.p[path.n - 1] == '/')
		path.n--;
	*ret_host = arena_cstr(a, host);
	*ret_port = arena_cstr(a, url_part(u, CURLUPART_PORT, a));
	*ret_prefix = arena_cstr(a, path);
	curl_url_cleanup(u);
	return good;
}

/* What the reader of curl's sentence may want to know beside it. */
static const char *hint(CURL *c, CURLcode rc)
{
	curl_off_t connected_us = 0;

	if (rc == CURLE_COULDNT_CONNECT)
		return "; is it running there? --server or CORVO_URL name "
		       "another";
	curl_easy_getinfo(c, CURLINFO_CONNECT_TIME_T, &connected_us);
	if (rc == CURLE_OPERATION_TIMEDOUT && connected_us > 0)
		return "; a node that starts answers once it has heard from "
		       "a leader: `corvo ps` on its machine shows whether it "
		       "is starting, and its log what it waits for";
	return "";
}

/* A proxy cannot reach the loopback of this machine. */
static bool is_loopback(const char *url)
{
	static const char *const names[] = { "127.0.0.1", "localhost",
					     "[::1]" };
	CURLU *u = curl_url();
	char *host = NULL;
	bool found = false;

	CHECK(u != NULL);
	if (curl_url_set(u, CURLUPART_URL, url, CURLU_DEFAULT_SCHEME) ==
		CURLUE_OK &&
	    curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			found = found || strcmp(host, names[i]) == 0;
	curl_free(host);
	curl_url_cleanup(u);
	return found;
}

/* Adds "name: value" unless value is NULL; false when it is no header. */
static bool header_add(struct curl_slist **list, const char *name,
		       const char *value, struct buf *why)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);
	struct curl_slist *more;

	if (value == NULL)
		return true;
	if (strpbrk(value, "\r\n") != NULL) {
		buf_printf(why, "the value of %s must be one line", name);
		return false;
	}
	/* curl drops a header without a value unless it ends with ';' */
	buf_printf(&line, *value == '\0' ? "%s;" : "%s: %s", name, value);
	buf_putc(&line, '\0');
	more = curl_slist_append(*list, line.p);
	CHECK(more != NULL);
	*list = more;
	return true;
}

static struct curl_slist *headers_new(const struct api *api, struct buf *why)
{
	struct curl_slist *list = NULL;

	if (header_add(&list, "Content-Type", "application/json", why) &&
	    header_add(&list, "X-Corvo-Strict", "1", why) &&
	    header_add(&list, "X-API-Key", api->key, why) &&
	    header_add(&list, "Idempotency-Key", api->idempotency_key, why) &&
	    header_add(&list, "Last-Event-ID", api->last_event_id, why))
		return list;
	curl_slist_free_all(list);
	return NULL;
}

static void set_request(const struct api *api, CURL *c, const char *url,
			const char *method, struct str body, struct buf *reply,
			char *text)
{
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(c, CURLOPT_DEFAULT_PROTOCOL, "http");
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, API_CONNECT_TIMEOUT_S);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, API_TIMEOUT_S);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "corvo/" CORVO_VERSION);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, text);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, reply);
	if (listen_path(api->server) != NULL)
		curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH,
				 listen_path(api->server));
	if (is_loopback(url))
		curl_easy_setopt(c, CURLOPT_PROXY, "");
	if (body.n > 0 || strcmp(method, "POST") == 0) {
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE,
				 (curl_off_t)body.n);
		curl_easy_setopt(c, CURLOPT_POSTFIELDS,
				 body.n > 0 ? body.p : "");
	}
}

static void set_stream(CURL *c, struct stream *s)
{
	s->c = c;
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_stream);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, 0L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, API_SILENCE_S);
}

/* A list that lacks the newest writes says so. */
static void read_lag(CURL *c, uint64_t *ret)
{
	struct curl_header *h;

	if (ret != NULL && curl_easy_header(c, "X-Corvo-View-Lag-Ms", 0,
					    CURLH_HEADER, -1, &h) == CURLHE_OK)
		(void)str_parse_u64(str_from(h->value), ret);
}

/* Whoever has not connected has sent nothing. */
static bool is_away(CURLcode rc)
{
	return rc == CURLE_COULDNT_CONNECT ||
	       rc == CURLE_COULDNT_RESOLVE_HOST ||
	       rc == CURLE_COULDNT_RESOLVE_PROXY;
}

/* stream: NULL, or who reads a reply of 200. -ERR_LEADER_UNAVAILABLE: nothing
 * was sent. */
static int transfer(const struct api *api, const char *url, const char *method,
		    struct str body, struct buf *reply, struct stream *stream,
		    long *ret_status, struct buf *why)
{
	char text[CURL_ERROR_SIZE] = "";
	struct curl_slist *headers;
	CURLcode rc;
	CURL *c;

	headers = headers_new(api, why);
	if (headers == NULL)
		return -ERR_VALIDATION_ERROR;
	c = curl_easy_init();
	CHECK(c != NULL);
	set_request(api, c, url, method, body, reply, text);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	if (api->timeout_s > 0)
		curl_easy_setopt(c, CURLOPT_TIMEOUT, api->timeout_s);
	if (stream != NULL)
		set_stream(c, stream);
	rc = curl_easy_perform(c);
	if (stream != NULL && stream->stopped)
		rc = CURLE_OK;
	if (rc == CURLE_OK) {
		curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, ret_status);
		read_lag(c, api->ret_lag_ms);
	} else if (reply->full || (stream != NULL && stream->line.full)) {
		buf_puts(why, "the server's answer is too large");
	} else {
		buf_printf(why, "cannot reach %s: %s%s", api->server,
			   text[0] != '\0' ? text : curl_easy_strerror(rc),
			   hint(c, rc));
	}
	curl_easy_cleanup(c);
	curl_slist_free_all(headers);
	if (is_away(rc))
		return -ERR_LEADER_UNAVAILABLE;
	return rc == CURLE_OK ? 0 : -ERR_INTERNAL_ERROR;
}

/* The text of {"error": text}, or the reply itself as far as it is text. */
static void put_refusal(struct buf *why, struct str reply, bool valid,
			long status)
{
	struct arena a = ARENA_INIT;
	struct json error;

	if (valid && json_type_of(json_root(reply)) == JSON_OBJECT &&
	    json_member(json_root(reply), "error", &a, &error) &&
	    json_type_of(error) == JSON_STRING) {
		buf_put_str(why, json_string(error, &a));
	} else {
		reply.n = MIN(reply.n, API_ERROR_BYTES);
		reply = str_trim(reply);
		buf_printf(why, "the server answered %ld%s", status,
			   reply.n > 0 ? ": " : "");
		buf_put_str(why, reply);
	}
	arena_done(&a);
}

static void put_url(struct buf *url, const struct api *api, const char *path)
{
	struct str server =
	    str_from(listen_path(api->server) != NULL ? "http://localhost"
						      : api->server);

	while (server.n > 0 && server.p[server.n - 1] == '/')
		server.n--;
	buf_printf(url, "%.*s%s", STR_ARG(server), path);
	buf_putc(url, '\0');
}

/* --- several servers --- */

/* The next address of the list; empty: there is no other. */
static struct str next_server(struct str *rest)
{
	struct str one = STR_NULL;

	while (rest->n > 0 && one.n == 0) {
		(void)str_split(*rest, ',', &one, rest);
		one = str_trim(one);
	}
	return one;
}

const char *api_first_server(const char *servers, struct arena *a)
{
	struct str rest = str_from(servers);

	return arena_cstr(a, next_server(&rest));
}

/*
 * Another one may be asked: nothing was sent, or the answer says that nothing
 * was done, or the question changes nothing.
 */
static bool may_ask_next(int r, const char *method, long status,
			 const struct stream *stream)
{
	if (r == 0)
		return status == API_NOT_NOW;
	if (r == -ERR_LEADER_UNAVAILABLE)
		return true;
	return strcmp(method, "GET") == 0 && stream == NULL;
}

/* By whoever of the servers can do it; what the last one said. */
static int transfer_any(const struct api *api, const char *path,
			const char *method, struct str body, struct buf *reply,
			struct stream *stream, long *ret_status,
			struct buf *why)
{
	struct str rest = str_from(api->server);
	struct arena a = ARENA_INIT;
	struct str next = next_server(&rest);
	unsigned tried = 0;
	int r;

	do {
		_cleanup_(buf_done) struct buf url = BUF_INIT(0);
		struct api one = *api;

		one.server = arena_cstr(&a, next);
		buf_clear(reply);
		buf_clear(why);
		*ret_status = 0;
		put_url(&url, &one, path);
		r = transfer(&one, url.p, method, body, reply, stream,
			     ret_status, why);
		next = next_server(&rest);
		tried++;
	} while (next.n > 0 && may_ask_next(r, method, *ret_status, stream));
	if (r == -ERR_LEADER_UNAVAILABLE && tried > 1)
		buf_printf(why, " (the last of %u that were asked)", tried);
	arena_done(&a);
	return r;
}

int api_stream(const struct api *api, const char *path, api_event_fn *fn,
	       void *ctx, struct buf *why)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(API_REPLY_BYTES);
	struct stream s = { .reply = &reply,
			    .line = BUF_INIT(API_LINE_BYTES),
			    .fn = fn,
			    .ctx = ctx };
	struct json_error bad;
	long status = 0;
	int r;

	r = transfer_any(api, path, "GET", STR_NULL, &reply, &s, &status, why);
	buf_done(&s.line);
	buf_done(&s.id);
	buf_done(&s.type);
	buf_done(&s.data);
	if (r < 0 || status == 200)
		return r;
	put_refusal(why, buf_str(&reply),
		    json_validate(buf_str(&reply), API_JSON_DEPTH, &bad),
		    status);
	return status >= API_MAY_PASS || status == API_BUSY
		   ? -ERR_LEADER_UNAVAILABLE
		   : -ERR_VALIDATION_ERROR;
}

static int refusal(long status)
{
	switch (status) {
	case API_UNKNOWN:
		return -ERR_OUTCOME_UNKNOWN;
	case API_NOT_FOUND:
		return -ERR_NOT_FOUND;
	default:
		return -ERR_VALIDATION_ERROR;
	}
}

int api_call(const struct api *api, const char *method, const char *path,
	     struct str body, struct buf *ret_reply, struct buf *why)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(API_REPLY_BYTES);
	struct json_error bad;
	long status = 0;
	bool valid;
	int r;

	r = transfer_any(api, path, method, body, &reply, NULL, &status, why);
	if (r < 0)
		return -ERR_INTERNAL_ERROR;
	valid = json_validate(buf_str(&reply), API_JSON_DEPTH, &bad);
	if (status < 200 || status > 299) {
		put_refusal(why, buf_str(&reply), valid, status);
		return refusal(status);
	}
	if (!valid) {
		buf_printf(why,
			   "%s does not answer as a Corvo server does; is the "
			   "address right?",
			   api->server);
		return -ERR_BAD_MESSAGE;
	}
	/* it may be large: handed over, not copied */
	buf_done(ret_reply);
	*ret_reply = reply;
	reply = (struct buf)BUF_INIT(0);
	return 0;
}
