/*
 * Hosts and origins of requests. See req/origin.h.
 */
#include "req/origin.h"

#include <strings.h>

#include "front/conn.h"
#include "rt/netaddr.h"

static bool is_same_text(struct str a, struct str b)
{
	return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

/* Whether a comma-separated list has it. */
static bool list_has(const char *list, struct str wanted)
{
	struct str item, rest = str_from(list);

	while (rest.n > 0) {
		(void)str_split(rest, ',', &item, &rest);
		item = str_trim(item);
		if (is_same_text(item, wanted) || str_is(item, "*"))
			return true;
	}
	return false;
}

/* "name:8080" and "[::1]:8080" without their ports. */
static struct str without_port(struct str host)
{
	size_t n = host.n;

	if (n > 0 && host.p[0] == '[') {
		const char *end = memchr(host.p, ']', n);

		return end == NULL
			   ? host
			   : str_of(host.p + 1, (size_t)(end - host.p) - 1);
	}
	while (n > 0 && host.p[n - 1] != ':')
		n--;
	return n > 0 ? str_of(host.p, n - 1) : host;
}

static bool ends_with(struct str s, struct str end)
{
	return s.n >= end.n && is_same_text(str_skip(s, s.n - end.n), end);
}

/* A name or an address of this machine, with a port or without. */
static bool is_this_machine(struct str host)
{
	struct str name = without_port(host);

	return is_same_text(name, STR("localhost")) ||
	       ends_with(name, STR(".localhost")) || netaddr_is_loopback(name);
}

/* They say nothing a page could use, and are asked by address. */
static bool is_probe(struct str path)
{
	return str_is(path, "/healthz") || str_is(path, "/readyz") ||
	       str_is(path, "/metrics");
}

static bool is_host_ours(struct req *r, const char *host)
{
	struct str h = str_from(host);

	/* A browser always sends one; HTTP/1.0 need not. */
	if (!r->x.conn->check_host || host == NULL || is_this_machine(h))
		return true;
	return list_has(r->h->set->allowed_hosts, h) ||
	       list_has(r->h->set->allowed_hosts, without_port(h));
}

/* The page came from here, as our own UI does. */
static bool is_same_origin(const char *origin, const char *host)
{
	struct str s = str_from(origin);

	for (size_t i = 0; i + 2 < s.n; i++)
		if (memcmp(s.p + i, "://", 3) == 0)
			return is_same_text(str_skip(s, i + 3), str_from(host));
	return false;
}

/* One that a browser sends without asking is not of these types. */
static bool is_asked_for(struct req *r)
{
	const char *type = req_header(r, HEAD_CONTENT_TYPE);
	struct str name, rest;

	(void)str_split(str_from(type), ';', &name, &rest);
	name = str_trim(name);
	return is_same_text(name, STR("application/json")) ||
	       is_same_text(name, STR("application/proto")) ||
	       ends_with(name, STR("+json")) || ends_with(name, STR("+proto"));
}

static bool is_harmless(struct req *r)
{
	return strcmp(r->x.method, "GET") == 0 ||
	       strcmp(r->x.method, "HEAD") == 0 ||
	       strcmp(r->x.method, "OPTIONS") == 0;
}

int origin_admit(struct req *r)
{
	const char *host = req_header(r, HEAD_HOST);
	const char *origin = req_header(r, HEAD_ORIGIN);

	if (is_probe(r->x.path))
		return 0;
	if (!is_host_ours(r, host))
		return -ERR_MISDIRECTED;
	if (origin == NULL)
		return 0;
	if (list_has(r->h->set->cors_origins, str_from(origin))) {
		r->x.cors_origin = origin;
		return 0;
	}
	if (is_harmless(r) || is_same_origin(origin, host) || is_asked_for(r))
		return 0;
	return -ERR_UNSUPPORTED_MEDIA_TYPE;
}
