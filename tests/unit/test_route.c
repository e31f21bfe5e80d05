/* Requests against the table of routes. */
#include "proto/route.h"

#include "lib/testlib.h"

#define GET    (1u << HTTP_GET)
#define POST   (1u << HTTP_POST)
#define DELETE (1u << HTTP_DELETE)

static void test_find(void **state _unused_)
{
	static const struct {
		enum http_method method;
		const char *path;
		const char *route; /* NULL: none */
		const char *value; /* of the first parameter */
		unsigned allowed;
	} cases[] = {
		{ HTTP_POST, "/api/v1/enqueue", "/api/v1/enqueue", NULL, POST },
		{ HTTP_GET, "/api/v1/enqueue", NULL, NULL, POST },
		{ HTTP_POST, "/api/v1/enqueue/batch", "/api/v1/enqueue/batch",
		  NULL, POST },
		{ HTTP_POST, "/api/v1/ack/batch", "/api/v1/ack/batch", NULL,
		  POST },
		{ HTTP_POST, "/api/v1/ack/job_1", "/api/v1/ack/{job_id}",
		  "job_1", POST },
		{ HTTP_POST, "/api/v1/jobs/search", "/api/v1/jobs/search", NULL,
		  GET | POST | DELETE },
		{ HTTP_GET, "/api/v1/jobs/search", "/api/v1/jobs/{job_id}",
		  "search", GET | POST | DELETE },
		{ HTTP_GET, "/api/v1/jobs/j", "/api/v1/jobs/{job_id}", "j",
		  GET | DELETE },
		{ HTTP_DELETE, "/api/v1/jobs/j", "/api/v1/jobs/{job_id}", "j",
		  GET | DELETE },
		{ HTTP_PUT, "/api/v1/jobs/j", NULL, NULL, GET | DELETE },
		{ HTTP_POST, "/api/v1/jobs/j/retry",
		  "/api/v1/jobs/{job_id}/retry", "j", POST },
		{ HTTP_POST, "/api/v1/queues/a%2Fb/pause",
		  "/api/v1/queues/{queue}/pause", "a%2Fb", POST },
		{ HTTP_GET, "/api/v1/batch/b", "/api/v1/batches/{batch_id}",
		  "b", GET },
		{ HTTP_POST, "/api/v1/batch", "/api/v1/batches", NULL, POST },
		{ HTTP_POST, "/api/v1/batch/b/seal",
		  "/api/v1/batches/{batch_id}/seal", "b", POST },
		{ HTTP_GET, "/healthz", "/healthz", NULL, GET },
		{ HTTP_GET, "/openapi.json", "/openapi.json", NULL, GET },
		{ HTTP_GET, "/healthz/", NULL, NULL, 0 },
		{ HTTP_POST, "/api/v1/ack/", NULL, NULL, 0 },
		{ HTTP_POST, "/api/v1/jobs//retry", NULL, NULL, 0 },
		{ HTTP_POST, "/api/v1/jobs/a/b/retry", NULL, NULL, 0 },
		{ HTTP_POST, "//api/v1/enqueue", NULL, NULL, 0 },
		{ HTTP_POST, "/API/v1/enqueue", NULL, NULL, 0 },
		{ HTTP_POST, "/api/v1/enqueu", NULL, NULL, 0 },
		{ HTTP_POST, "/api/v1/enqueuee", NULL, NULL, 0 },
		{ HTTP_GET, "", NULL, NULL, 0 },
		{ HTTP_GET, "/", NULL, NULL, 0 },
		{ HTTP_GET, "healthz", NULL, NULL, 0 },
		{ HTTP_GET, "*", NULL, NULL, 0 },
		{ HTTP_GET, "/a/b/c/d/e/f/g/h/i/j/k/l/m", NULL, NULL, 0 },
		{ HTTP_GET, "////////////////", NULL, NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct route_match m;
		const char *path;

		route_find(cases[i].method, str_from(cases[i].path), &m);
		path = m.route != NULL ? m.route->path : NULL;
		if ((path == NULL) != (cases[i].route == NULL) ||
		    (path != NULL && strcmp(path, cases[i].route) != 0))
			fail_msg("%s: %s", cases[i].path, path);
		assert_int_equal(m.allowed, cases[i].allowed);
		assert_int_equal(m.n, cases[i].value != NULL);
		if (m.n > 0)
			assert_str_is(m.value[0], cases[i].value);
	}
}

static void test_parameter_names(void **state _unused_)
{
	struct route_match m;

	route_find(HTTP_POST, STR("/api/v1/queues/mail/resume"), &m);
	assert_int_equal(m.route->target, OP_RESUME);
	assert_int_equal(m.route->status, 200);
	assert_string_equal(m.route->handler, "op");
	assert_str_is(m.name[0], "queue");
	assert_str_is(m.value[0], "mail");
}

/* Each row is found by its own path, and what it says exists. */
static void test_every_row(void **state _unused_)
{
	assert_null(route_at(route_count()));
	for (size_t i = 0; i < route_count(); i++) {
		const struct route *r = route_at(i);
		const struct call_info *call = op_info(r->target);
		struct route_match m;

		route_find(r->method, str_from(r->path), &m);
		assert_ptr_equal(m.route, r);
		assert_int_equal(r->index, i);
		assert_true((m.allowed >> r->method & 1) != 0);
		if (r->target == ROUTE_LOCAL)
			continue;
		if (call == NULL)
			call = query_info(r->target);
		assert_non_null(call);
		/* A parameter fills a member of the request. */
		for (size_t p = 0; p < m.n; p++) {
			size_t f = 0;

			while (
			    f < call->request->n &&
			    !str_is(m.name[p], call->request->fields[f].name))
				f++;
			assert_true(f < call->request->n);
			/* or the body is no request, and it says the queue;
			 * or another route has it in its body */
			assert_true((call->request->fields[f].flags & F_PATH) !=
					0 ||
				    strcmp(r->handler, "queue_hook") == 0 ||
				    strcmp(r->handler, "change_webhook") == 0);
		}
	}
}

static void test_methods(void **state _unused_)
{
	enum http_method m;

	for (int i = 0; i < HTTP_METHOD_MAX; i++) {
		assert_true(http_method_parse(
		    str_from(http_method_name((enum http_method)i)), &m));
		assert_int_equal(m, i);
	}
	assert_false(http_method_parse(STR("get"), &m));
	assert_false(http_method_parse(STR("TRACE"), &m));
	assert_false(http_method_parse(STR(""), &m));
}

static void test_url_decode(void **state _unused_)
{
	static const struct {
		struct str in;
		const char *out; /* NULL: refused */
	} cases[] = {
		{ STR(""), "" },           { STR("plain"), "plain" },
		{ STR("a+b"), "a+b" },     { STR("a%20b"), "a b" },
		{ STR("%2f%2F"), "//" },   { STR("%C3%A4"), "\xc3\xa4" },
		{ STR("100%25"), "100%" }, { STR("%25%32%35"), "%25" },
		{ STR("%"), NULL },        { STR("%4"), NULL },
		{ STR("a%4"), NULL },      { STR("%4g"), NULL },
		{ STR("%g4"), NULL },      { STR("%-1"), NULL },
		{ STR("%00"), NULL },      { STR("a%00b"), NULL },
		{ STR("a\0b"), NULL },
	};
	_cleanup_(arena_done) struct arena a = ARENA_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str out;
		bool ok = url_decode(cases[i].in, &a, &out);

		if (ok != (cases[i].out != NULL))
			fail_msg("%.*s: %d", STR_ARG(cases[i].in), ok);
		if (ok)
			assert_str_is(out, cases[i].out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_parameter_names),
		cmocka_unit_test(test_every_row),
		cmocka_unit_test(test_methods),
		cmocka_unit_test(test_url_decode),
	};

	return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
