/*
 * See rpc/methods.h. Most methods are handlers of routes, which read and answer
 * by the form of the request.
 */
#include "rpc/methods.h"

#include "routes/handlers.h"
#include "rpc/lifecycle.h"
#include "rpc/remote.h"
#include "rpc/streams.h"

/* --- what no route has --- */

static void get_server_info(struct req *r)
{
	struct m_nothing none = { 0 };
	struct m_server_info m = { 0 };

	if (!req_read(r, &msg_nothing, &none))
		return;
	MSG_SET(&m, server_info, server_version, str_from(corvo_version));
	MSG_SET(&m, server_info, api_version, str_from(corvo_version));
	req_answer_message(r, &msg_server_info, &m, 200);
}

/* --- all of them --- */

static const struct {
	const char *service, *name;
	void (*serve)(struct req *r);
	enum http_method method;
	const char *route;
} rows[] = {
	{ "WorkerService", "Enqueue", enqueue_one, HTTP_POST,
	  "/api/v1/enqueue" },
	{ "WorkerService", "Fetch", h_fetch, HTTP_POST, "/api/v1/fetch" },
	{ "WorkerService", "FetchBatch", h_fetch_batch, HTTP_POST,
	  "/api/v1/fetch/batch" },
	{ "WorkerService", "Ack", h_op, HTTP_POST, "/api/v1/ack/{job_id}" },
	{ "WorkerService", "AckBatch", h_op, HTTP_POST, "/api/v1/ack/batch" },
	{ "WorkerService", "Fail", h_op, HTTP_POST, "/api/v1/fail/{job_id}" },
	{ "WorkerService", "Heartbeat", h_heartbeat, HTTP_POST,
	  "/api/v1/heartbeat" },
	{ "WorkerService", "GetServerInfo", get_server_info, HTTP_GET,
	  "/api/v1/info" },
	{ "WorkerService", "StreamLifecycle", serve_lifecycle, HTTP_POST,
	  "/api/v1/fetch/batch" },
	{ "WorkerService", "Subscribe", serve_subscribe, HTTP_GET,
	  "/api/v1/events" },
	{ "Health", "Check", serve_health_check, HTTP_GET, "/readyz" },
	{ "Health", "Watch", serve_health_watch, HTTP_GET, "/readyz" },
	{ "ServerReflection", "ServerReflectionInfo", serve_reflection,
	  HTTP_GET, "/openapi.json" },
};

static const struct route *find_route(enum http_method method, const char *path)
{
	const struct route *route;

	for (size_t i = 0; (route = route_at(i)) != NULL; i++)
		if (route->method == method && strcmp(route->path, path) == 0)
			return route;
	REQUIRE(!"a method stands for a route that does not exist");
	return NULL;
}

/* "/package.Service/Method" */
static bool is_path(const struct pb_method *m, struct str path)
{
	const char *const parts[] = { "/", m->file->package, ".", m->service,
				      "/", m->name };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct str part = str_from(parts[i]);

		if (!str_starts(path, part))
			return false;
		path = str_skip(path, part.n);
	}
	return path.n == 0;
}

/* Of reflection there is an older name, which most clients use. */
static struct str newer_name(struct str path)
{
	static const char older[] =
	    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

	return str_is(path, older) ? STR("/grpc.reflection.v1.ServerReflection/"
					 "ServerReflectionInfo")
				   : path;
}

bool method_find(struct str path, struct method *ret)
{
	const struct pb_method *m;

	path = newer_name(path);

	for (size_t i = 0; (m = pb_method_at(i)) != NULL; i++)
		if (is_path(m, path))
			break;
	for (size_t i = 0; m != NULL && i < ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].service, m->service) != 0 ||
		    strcmp(rows[i].name, m->name) != 0)
			continue;
		*ret = (struct method){ m, rows[i].serve,
					find_route(rows[i].method,
						   rows[i].route) };
		return true;
	}
	return false;
}
