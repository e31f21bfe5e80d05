/*
 * See rpc/methods.h. Most methods are handlers of routes, which read and answer
 * by the form of the request.
 */
#include "rpc/methods.h"

#include "routes/handlers.h"
#include "rpc/remote.h"

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

static void answer_health(struct req *r, enum serving_status status)
{
	struct m_health_reply m = { 0 };

	MSG_SET(&m, health_reply, status, status);
	r->x.seq = 0;
	req_answer_message(r, &msg_health_reply, &m, 200);
}

static void on_health(struct req *r, const struct rpc_reply *reply)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct m_node_status m;
	bool is_ready =
	    reply->err == 0 &&
	    msg_decode(&msg_node_status, reply->body, &r->arena, &m) == 0 &&
	    node_fault(&m, &why) == 0;

	answer_health(r, is_ready ? HEALTH_SERVING : HEALTH_NOT_SERVING);
}

static bool is_service(struct str name)
{
	const struct pb_method *m;

	for (size_t i = 0; (m = pb_method_at(i)) != NULL; i++) {
		struct str package = str_from(m->file->package), rest = name;

		if (!str_starts(rest, package))
			continue;
		rest = str_skip(rest, package.n);
		if (rest.n > 0 && rest.p[0] == '.' &&
		    str_is(str_skip(rest, 1), m->service))
			return true;
	}
	return false;
}

static void check_health(struct req *r)
{
	struct m_health_ask m = { 0 };

	if (!req_read(r, &msg_health_ask, &m))
		return;
	if (m.service.n > 0 && !is_service(m.service))
		req_fail(r, ERR_NOT_FOUND, "there is no such service");
	else if (r->h->draining || !rpc_client_is_up(r->h->raftd))
		answer_health(r, HEALTH_NOT_SERVING);
	else
		node_ask(r, on_health);
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
	{ "Health", "Check", check_health, HTTP_GET, "/readyz" },
};

static const struct route *find_route(enum http_method method, const char *path)
{
	const struct route *route;

	for (size_t i = 0; (route = route_at(i)) != NULL; i++)
		if (route->method == method && strcmp(route->path, path) == 0)
			return route;
	CHECK(!"a method stands for a route that does not exist");
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

bool method_find(struct str path, struct method *ret)
{
	const struct pb_method *m;

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
