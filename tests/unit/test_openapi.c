/* The API document and the shapes of routes it is made from. */
#include "api/openapi.h"

#include "api/route_shape.h"
#include "lib/testlib.h"
#include "util/json.h"

static struct json document(struct buf *b)
{
	struct json_error err;

	openapi_write(b);
	if (!json_validate(buf_str(b), LIMIT_JSON_DEPTH, &err))
		fail_msg("%zu: %s", err.pos, err.text);
	return json_root(buf_str(b));
}

static struct json member(struct json v, const char *name, struct arena *a)
{
	struct json ret;

	if (!json_member(v, name, a, &ret))
		fail_msg("no member %s", name);
	return ret;
}

static void test_routes_are_there(void **state _unused_)
{
	static const char *const methods[] = { "get", "post", "put", "patch",
					       "delete" };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct json paths = member(document(&b), "paths", &a);

	for (size_t i = 0; i < route_count(); i++) {
		const struct route *r = route_at(i);
		struct json path = member(paths, r->path, &a);
		struct json op = member(path, methods[r->method], &a);
		struct json replies = member(op, "responses", &a);
		char status[16];

		snprintf(status, sizeof(status), "%d", r->status);
		member(replies, status, &a);
		member(op, "operationId", &a);
	}
}

/* Every "$ref" names a schema that exists. */
static void test_references(void **state _unused_)
{
	static const char mark[] = "\"#/components/schemas/";
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct json doc = document(&b);
	struct json schemas =
	    member(member(doc, "components", &a), "schemas", &a);
	size_t found = 0;

	buf_putc(&b, '\0');
	for (const char *p = b.p; (p = strstr(p, mark)) != NULL; found++) {
		size_t n;

		p += sizeof(mark) - 1;
		n = strcspn(p, "\"");
		member(schemas, arena_cstr(&a, str_of(p, n)), &a);
	}
	assert_true(found > 20);
}

static void test_shapes(void **state _unused_)
{
	for (size_t i = 0; i < route_count(); i++) {
		struct route_shape s, other;

		route_shape_get(route_at(i), &s);
		assert_non_null(s.id);
		/* Whatever takes a body can be given a bad one. */
		if (s.request != NULL)
			assert_true(s.errors_n >= 3);
		if (s.form == REPLY_LIST)
			assert_non_null(s.reply);
		for (size_t j = 0; j < i; j++) {
			route_shape_get(route_at(j), &other);
			assert_string_not_equal(s.id, other.id);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_routes_are_there),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_shapes),
	};

	return cmocka_run_group_tests_name("openapi", tests, NULL, NULL);
}
