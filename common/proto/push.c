/*
 * See proto/push.h.
 */
#include "proto/push.h"

#include <ctype.h>
#include <strings.h>

#include "util/base64.h"
#include "util/json.h"

#define SECRET_PREFIX    "whsec_"
#define SECRET_KEY_MIN   16 /* bytes to sign with */
#define SECRET_KEY_MAX   64
#define HEADER_NAME_MAX  128
#define HEADER_VALUE_MAX 2048

/* --- URLs --- */

static bool starts_with(struct str s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.n >= n && strncasecmp(s.p, prefix, n) == 0;
}

static bool take_scheme(struct str *url, bool *tls)
{
	*tls = starts_with(*url, "https://");
	if (!*tls && !starts_with(*url, "http://"))
		return false;
	*url = str_skip(*url, *tls ? 8 : 7);
	return true;
}

/* Nothing that a URL cannot have, so that nothing splits a request. */
static bool is_printable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f || s.p[i] == '\\')
			return false;
	return true;
}

/* Up to the first of / ? #; *rest is what follows. */
static struct str take_authority(struct str url, struct str *rest)
{
	size_t n = 0;

	while (n < url.n && strchr("/?#", url.p[n]) == NULL)
		n++;
	*rest = str_skip(url, n);
	return str_of(url.p, n);
}

static bool is_host(struct str host)
{
	if (host.n == 0 || host.n > 253)
		return false;
	for (size_t i = 0; i < host.n; i++)
		if (!isalnum((unsigned char)host.p[i]) && host.p[i] != '-' &&
		    host.p[i] != '.' && host.p[i] != '_')
			return false;
	return true;
}

static bool is_v6(struct str host)
{
	if (host.n < 2)
		return false;
	for (size_t i = 0; i < host.n; i++)
		if (!isxdigit((unsigned char)host.p[i]) && host.p[i] != ':' &&
		    host.p[i] != '.')
			return false;
	return true;
}

/* "name", "name:80", "[::1]:80" */
static bool take_host(struct str s, struct push_url *ret)
{
	struct str host, port = STR_NULL;
	uint64_t n = ret->tls ? 443 : 80;
	bool has_port;

	if (s.n > 0 && s.p[0] == '[') {
		if (!str_split(str_skip(s, 1), ']', &host, &port) ||
		    !is_v6(host) || (port.n > 0 && port.p[0] != ':'))
			return false;
		has_port = port.n > 0;
		port = str_skip(port, has_port);
	} else {
		has_port = str_split(s, ':', &host, &port);
		if (!is_host(host))
			return false;
	}
	if (has_port && (!str_parse_u64(port, &n) || n == 0 || n > UINT16_MAX))
		return false;
	ret->host = host;
	ret->port = (uint16_t)n;
	return true;
}

bool push_url_parse(struct str url, struct push_url *ret, const char **why)
{
	struct str rest = url, authority;
	size_t at = 0;

	*ret = (struct push_url){ 0 };
	*why = "must begin with http:// or https://";
	if (!take_scheme(&rest, &ret->tls))
		return false;
	*why = "has characters that a URL cannot have";
	if (!is_printable(rest))
		return false;
	authority = take_authority(rest, &ret->rest);
	for (size_t i = authority.n; i > 0 && at == 0; i--)
		if (authority.p[i - 1] == '@')
			at = i;
	if (at > 0) {
		ret->credentials = str_of(authority.p, at - 1);
		authority = str_skip(authority, at);
	}
	*why = "has no host, or no port, that could be called";
	return take_host(authority, ret);
}

struct str push_url_bare(struct str url, const struct push_url *parts,
			 struct arena *a)
{
	size_t before;

	if (parts->credentials.p == NULL)
		return url;
	before = (size_t)(parts->credentials.p - url.p);
	return arena_printf(
	    a, "%.*s%.*s", (int)before, url.p,
	    STR_ARG(str_skip(url, before + parts->credentials.n + 1)));
}

/* --- secrets --- */

bool push_secret_key(struct str secret, struct buf *ret)
{
	size_t before = ret->n;

	if (!str_starts(secret, STR(SECRET_PREFIX))) {
		buf_put_str(ret, secret);
		return secret.n >= SECRET_KEY_MIN;
	}
	return base64_read(ret, str_skip(secret, strlen(SECRET_PREFIX))) &&
	       ret->n - before >= SECRET_KEY_MIN &&
	       ret->n - before <= SECRET_KEY_MAX;
}

static int check_secret(const char *member, struct str secret, struct buf *why)
{
	_cleanup_(buf_done) struct buf key = BUF_INIT(0);

	if (push_secret_key(secret, &key))
		return 0;
	buf_printf(why,
		   "push.%s: must be whsec_ and the base64 of %d to %d bytes, "
		   "or a text of at least %d bytes",
		   member, SECRET_KEY_MIN, SECRET_KEY_MAX, SECRET_KEY_MIN);
	return -ERR_VALIDATION_ERROR;
}

/* --- headers --- */

static bool is_token(struct str name)
{
	if (name.n == 0 || name.n > HEADER_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!isalnum((unsigned char)name.p[i]) &&
		    (name.p[i] == '\0' ||
		     strchr("!#$%&'*+-.^_`|~", name.p[i]) == NULL))
			return false;
	return true;
}

static bool is_value(struct str value)
{
	if (value.n > HEADER_VALUE_MAX)
		return false;
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] != '\t' &&
		    (value.p[i] < ' ' || value.p[i] == 0x7f))
			return false;
	return true;
}

/* The server's own, and those that say where a request ends. */
static bool is_reserved(struct str name)
{
	static const char *const names[] = {
		"connection", "content-length",  "expect",
		"host",       "idempotency-key", "keep-alive",
		"te",         "trailer",         "transfer-encoding",
		"upgrade",    "proxy-connection"
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (name.n == strlen(names[i]) && starts_with(name, names[i]))
			return true;
	return starts_with(name, "webhook-") || starts_with(name, "x-corvo-");
}

static bool has_word(struct str name, const char *word)
{
	for (size_t i = 0; i < name.n; i++)
		if (starts_with(str_skip(name, i), word))
			return true;
	return false;
}

bool push_header_is_secret(struct str name)
{
	static const char *const words[] = { "auth",   "cookie",   "key",
					     "secret", "password", "token",
					     "sign" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (has_word(name, words[i]))
			return true;
	return false;
}

static int check_header(struct str name, struct json v, struct arena *a,
			struct buf *why)
{
	const char *what = NULL;

	if (!is_token(name))
		what = "is no name of a header";
	else if (is_reserved(name))
		what = "is set by the server";
	else if (json_type_of(v) != JSON_STRING || !is_value(json_string(v, a)))
		what = "has a value that a header cannot have";
	if (what == NULL)
		return 0;
	buf_printf(why, "push.headers: \"%.*s\" %s",
		   (int)MIN(name.n, (size_t)HEADER_NAME_MAX), name.p, what);
	return -ERR_VALIDATION_ERROR;
}

static int check_headers(struct str headers, struct arena *a, struct buf *why)
{
	struct json_error e;
	struct json_iter it;
	struct json v;
	struct str name;
	size_t n = 0;
	int r = 0;

	if (!json_validate(headers, LIMIT_JSON_DEPTH, &e) ||
	    json_type_of(json_root(headers)) != JSON_OBJECT) {
		buf_puts(why, "push.headers: must be an object");
		return -ERR_VALIDATION_ERROR;
	}
	it = json_iter(json_root(headers));
	while (r == 0 && json_next_member(&it, a, &name, &v)) {
		r = check_header(name, v, a, why);
		n++;
	}
	if (r == 0 && n > LIMIT_PUSH_HEADERS) {
		buf_printf(why, "push.headers: at most %d", LIMIT_PUSH_HEADERS);
		r = -ERR_VALIDATION_ERROR;
	}
	return r;
}

/* Both would say who calls, and one of them would be left out. */
static int check_who(const struct m_push *p, struct arena *a, struct buf *why)
{
	struct json_iter it = json_iter(json_root(p->headers));
	struct str name;
	struct json v;

	if (!MSG_HAS(p, push, credentials))
		return 0;
	while (json_next_member(&it, a, &name, &v)) {
		if (name.n != strlen("authorization") ||
		    strncasecmp(name.p, "authorization", name.n) != 0)
			continue;
		buf_puts(why, "push.headers: Authorization cannot stand beside "
			      "credentials of url");
		return -ERR_VALIDATION_ERROR;
	}
	return 0;
}

/* --- all --- */

static int check_url(const struct m_push *p, struct buf *why)
{
	struct push_url url;
	const char *what = "is required";

	if (p->format == PUSH_SCHEDDB) {
		if (p->url.n == 0)
			return 0;
		buf_puts(why, "push.url: with format scheduled-db each job has "
			      "its own");
		return -ERR_VALIDATION_ERROR;
	}
	if (p->url.n > 0 && p->url.n <= LIMIT_PUSH_URL_BYTES &&
	    push_url_parse(p->url, &url, &what)) {
		if (url.credentials.n == 0)
			return 0;
		what = "has credentials where there can be none";
	}
	buf_printf(why, "push.url: %s", what);
	return -ERR_VALIDATION_ERROR;
}

int push_check(const struct m_push *p, struct arena *a, struct buf *why)
{
	int r = check_url(p, why);

	if (r == 0 && MSG_HAS(p, push, timeout) &&
	    (p->timeout < NS_PER_MS ||
	     p->timeout > LIMIT_PUSH_TIMEOUT_S * NS_PER_S)) {
		buf_puts(why, "push.timeout: must be from 1ms to 1h");
		r = -ERR_VALIDATION_ERROR;
	}
	if (r == 0 && MSG_HAS(p, push, previous_secret) &&
	    !MSG_HAS(p, push, secret)) {
		buf_puts(why, "push.previous_secret: needs secret beside it");
		r = -ERR_VALIDATION_ERROR;
	}
	if (r == 0 && MSG_HAS(p, push, secret))
		r = check_secret("secret", p->secret, why);
	if (r == 0 && MSG_HAS(p, push, previous_secret))
		r = check_secret("previous_secret", p->previous_secret, why);
	if (r == 0 && MSG_HAS(p, push, headers))
		r = check_headers(p->headers, a, why);
	if (r == 0 && MSG_HAS(p, push, headers))
		r = check_who(p, a, why);
	return r;
}
