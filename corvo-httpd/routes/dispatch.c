/*
 * Finds the route of a request and calls its handler. See routes/dispatch.h.
 */
#include "routes/dispatch.h"

#include <strings.h>

#include "front/conn.h"
#include "req/origin.h"
#include "routes/arguments.h"
#include "routes/fence.h"
#include "routes/handlers.h"

/* In the order of the table: route.index is the place. */
static fence_then_fn *const handlers[] = {
#define ROUTE(method, path, handler, target, status, doc) h_##handler,
#include "proto/defs/routes.def"
};

void dispatch_take_target(struct req *r)
{
	const struct str scheme = STR("http://");
	struct str rest = str_skip(r->x.path, scheme.n);
	size_t n = 0;

	if (!str_starts(r->x.path, scheme))
		return;
	while (n < rest.n && rest.p[n] != '/')
		n++;
	r->x.head.value[HEAD_HOST] = arena_cstr(&r->arena, str_of(rest.p, n));
	r->x.path = n < rest.n ? str_skip(rest, n) : STR("/");
}

/* "/batch" is another name of "/batches", and "/metrics" of ours. */
static struct str full_name(struct req *r, struct str path)
{
	static const struct str alias = { "/api/v1/batch", 13 };
	struct str rest;

	if (str_is(path, "/metrics"))
		return STR("/api/v1/metrics");
	if (!str_starts(path, alias))
		return path;
	rest = str_skip(path, alias.n);
	if (rest.n > 0 && rest.p[0] != '/')
		return path;
	return arena_printf(&r->arena, "/api/v1/batches%.*s", STR_ARG(rest));
}

static void refuse_method(struct req *r)
{
	r->x.allow = r->match.allowed;
	req_fail_text(r, ERR_METHOD_NOT_ALLOWED, STR_NULL);
}

int dispatch_admit_body(const struct req *r)
{
	struct str coding = str_from(req_header(r, HEAD_CONTENT_ENCODING));

	if (coding.n == 0 || (coding.n == strlen("identity") &&
			      strncasecmp(coding.p, "identity", coding.n) == 0))
		return 0;
	return -ERR_UNSUPPORTED_ENCODING;
}

/* A path, or what is below it. */
static bool is_at(struct str path, const char *place)
{
	size_t n = strlen(place);

	return str_starts(path, str_from(place)) &&
	       (path.n == n || path.p[n] == '/');
}

bool dispatch_is_served(const struct req *r)
{
	static const char *const places[] = { "/jobs", "/health", "/join",
					      "/debug/cluster" };
	struct str path = r->x.path;

	if (r->x.conn->part == LISTEN_ALL || is_at(path, "/metrics") ||
	    is_at(path, "/healthz") || is_at(path, "/readyz"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (r->x.conn->part == LISTEN_SCHEDDB && is_at(path, places[i]))
			return true;
	return false;
}

int dispatch_admit(struct req *r, struct str *why)
{
	if (dispatch_is_served(
		r)) /* who may ask for /metrics may not for others */
		return origin_admit(r);
	*why = STR("there is nothing at this path of this address; see "
		   "scheddb_bind");
	return -ERR_NOT_FOUND;
}

void dispatch(struct req *r)
{
	struct str method = str_from(r->x.method);
	enum http_method m = HTTP_GET;
	bool known = str_is(method, "HEAD") || http_method_parse(method, &m);

	r->x.path = full_name(r, r->x.path);
	if (str_is(method, "OPTIONS")) {
		req_answer_empty(r, 200);
		return;
	}
	route_find(m, r->x.path, &r->match);
	if (r->match.allowed == 0) {
		req_fail(r, ERR_NOT_FOUND,
			 "there is nothing at this path; /openapi.json lists "
			 "what there is");
	} else if (!known || r->match.route == NULL) {
		r->match.route = NULL;
		refuse_method(r);
	} else if (arguments_admit(r)) {
		fence_pass(r, handlers[r->match.route->index]);
	}
}
