/* HTTP/2: heads, as they are gathered and checked. */
#include "front/h2_head.h"
#include "lib/testlib.h"
#include "proto/err.h"
#include "proto/limits.h"

static void add(struct h2_head *h, const char *name, const char *value)
{
	assert_true(h2_head_add(h, str_from(name), str_from(value)));
}

static void begin(struct h2_head *h, const char *path)
{
	h2_head_init(h);
	add(h, ":method", "GET");
	add(h, ":path", path);
	add(h, ":scheme", "http");
	add(h, ":authority", "localhost:8080");
}

static void put(void *ctx, const char *name, const char *value)
{
	buf_printf(ctx, "%s=%s;", name, value);
}

static void put_name(void *ctx, const char *name)
{
	buf_printf(ctx, "%s;", name);
}

static void test_a_head(void **state _unused_)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	struct h2_head h;
	struct head known;

	begin(&h, "/a/b%20c");
	add(&h, "content-type", "application/json");
	add(&h, "x-request-id", "one");
	add(&h, "x-request-id", "two");
	assert_int_equal(h2_head_whole(&h), 0);
	assert_string_equal(h2_head_text(&h, h.path), "/a/b%20c");
	assert_string_equal(h2_head_text(&h, h.method), "GET");
	h2_head_read(&h, &known);
	assert_false(known.has_arguments);
	assert_string_equal(known.value[HEAD_HOST], "localhost:8080");
	assert_string_equal(known.value[HEAD_CONTENT_TYPE], "application/json");
	assert_string_equal(known.value[HEAD_REQUEST_ID], "one");
	assert_null(known.value[HEAD_ORIGIN]);
	h2_head_each(&h, put, &all);
	assert_str_is(buf_str(&all), "content-type=application/json;"
				     "x-request-id=one;x-request-id=two;"
				     "host=localhost:8080;");
	h2_head_done(&h);
}

static void test_arguments(void **state _unused_)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	struct h2_head h;
	struct head known;

	begin(&h, "/q?a=1&b&c=x=y&&d=+%2B&a=2&");
	assert_int_equal(h2_head_whole(&h), 0);
	assert_string_equal(h2_head_text(&h, h.path), "/q");
	h2_head_read(&h, &known);
	assert_true(known.has_arguments);
	assert_string_equal(h2_head_argument(&h, "a"), "1");
	assert_null(h2_head_argument(&h, "b"));
	assert_string_equal(h2_head_argument(&h, "c"), "x=y");
	assert_string_equal(h2_head_argument(&h, "d"), " %2B");
	assert_null(h2_head_argument(&h, "host")); /* that is a header */
	h2_head_each_argument(&h, put_name, &all);
	assert_str_is(buf_str(&all), "a;b;c;;d;a;");
	h2_head_done(&h);

	begin(&h, "/q?");
	assert_int_equal(h2_head_whole(&h), 0);
	h2_head_read(&h, &known);
	assert_false(known.has_arguments);
	h2_head_done(&h);
}

static void test_bad_ones(void **state _unused_)
{
	static const struct {
		const char *method, *path, *authority, *host;
		int err;
	} bad[] = {
		{ "", "/", "h", NULL, ERR_BAD_REQUEST },
		{ "G T", "/", "h", NULL, ERR_BAD_REQUEST },
		{ "GET", "", "h", NULL, ERR_BAD_REQUEST },
		{ "GET", "a", "h", NULL, ERR_BAD_REQUEST },
		{ "GET", "/a b", "h", NULL, ERR_BAD_REQUEST },
		{ "GET", "/\xc3\xa4", "h", NULL, ERR_BAD_REQUEST },
		{ "GET", "/", "a/b", NULL, ERR_BAD_REQUEST },
		{ "GET", "/", "a", "b", ERR_BAD_REQUEST },
		{ "GET", "/", "a", "a", 0 },
		{ "GET", "*", "a", NULL, 0 },
		{ "GET", "/", NULL, "b", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct h2_head h;

		h2_head_init(&h);
		add(&h, ":method", bad[i].method);
		add(&h, ":path", bad[i].path);
		if (bad[i].authority != NULL)
			add(&h, ":authority", bad[i].authority);
		if (bad[i].host != NULL)
			add(&h, "host", bad[i].host);
		assert_int_equal(h2_head_whole(&h), -bad[i].err);
		h2_head_done(&h);
	}
}

static void test_nothing_is_kept_of_one_too_large(void **state _unused_)
{
	char value[1000];
	struct h2_head h;
	size_t n = 0;

	memset(value, 'x', sizeof(value));
	begin(&h, "/");
	while (h2_head_add(&h, STR("x-a"), str_of(value, sizeof(value))))
		n++;
	/* as much as eight heads have been looked at, one was kept */
	assert_in_range(n, 55, 65);
	assert_true(h2_head_bytes(&h) <= 3 * (size_t)LIMIT_HEAD_BYTES);
	assert_int_equal(h2_head_whole(&h), -ERR_HEAD_TOO_LARGE);
	h2_head_done(&h);
}

static void test_a_spoilt_one(void **state _unused_)
{
	struct h2_head h;

	begin(&h, "/");
	assert_true(h2_head_add(&h, STR("x"), str_of("a\0b", 3)));
	assert_true(h2_head_add_bad(&h, 2));
	assert_int_equal(h2_head_whole(&h), -ERR_BAD_REQUEST);
	assert_string_equal(h.why, "a header has a NUL in it");
	h2_head_done(&h);
}

/* They are not kept, and count as good ones do. */
static void test_malformed_ones_without_end(void **state _unused_)
{
	struct h2_head h;
	size_t n = 0;

	begin(&h, "/");
	while (h2_head_add_bad(&h, 1000))
		n++;
	assert_in_range(n, 55, 65);
	assert_int_equal(h2_head_whole(&h), -ERR_BAD_REQUEST);
	assert_string_equal(h.why, "a header is malformed");
	h2_head_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_head),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_bad_ones),
		cmocka_unit_test(test_nothing_is_kept_of_one_too_large),
		cmocka_unit_test(test_a_spoilt_one),
		cmocka_unit_test(test_malformed_ones_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
