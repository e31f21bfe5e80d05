#include "rpc/form/form.h"

#include "lib/testlib.h"
#include "rpc/form/status.h"
#include "util/base64.h"

static void test_content_types(void **state _unused_)
{
	static const struct {
		const char *type;
		enum rpc_protocol protocol;
		bool is_json, is_text;
	} rows[] = {
		{ "application/json", RPC_CONNECT, true, false },
		{ "Application/JSON; charset=utf-8", RPC_CONNECT, true, false },
		{ "application/proto", RPC_CONNECT, false, false },
		{ "application/connect+proto", RPC_CONNECT_STREAM, false,
		  false },
		{ "application/grpc", RPC_GRPC, false, false },
		{ "application/grpc+proto", RPC_GRPC, false, false },
		{ "application/grpc-web+json", RPC_GRPC_WEB, true, false },
		{ "application/grpc-web-text", RPC_GRPC_WEB, false, true },
	};
	static const char *const bad[] = { "", "text/plain",
					   "application/grpcx",
					   "application/json+proto" };
	struct rpc_form f;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_true(form_parse(rows[i].type, &f));
		assert_int_equal(f.protocol, rows[i].protocol);
		assert_int_equal(f.is_json, rows[i].is_json);
		assert_int_equal(f.is_text, rows[i].is_text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(form_parse(bad[i], &f));
	assert_false(form_parse(NULL, &f));
}

static void test_deadlines(void **state _unused_)
{
	static const char *const bad[] = { "",     "S",          "5",   "-1S",
					   "1.5S", "123456789S", "5 S", "5s" };
	uint64_t ns;

	assert_true(form_grpc_timeout("250m", &ns));
	assert_int_equal(ns, 250 * NS_PER_MS);
	assert_true(form_grpc_timeout("1H", &ns));
	assert_int_equal(ns, 3600 * NS_PER_S);
	assert_true(form_grpc_timeout("99999999H", &ns));
	assert_true(ns > 86400 * NS_PER_S);
	assert_true(form_connect_timeout("1500", &ns));
	assert_int_equal(ns, 1500 * NS_PER_MS);
	assert_false(form_connect_timeout("12345678901", &ns));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(form_grpc_timeout(bad[i], &ns));
}

static void test_envelopes_come_in_pieces(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct envelope e;
	struct str in;

	envelope_write(&b, 0, STR("hello"));
	envelope_write(&b, ENVELOPE_PACKED, STR(""));
	for (size_t n = 0; n < 10; n++) {
		in = str_of(b.p, n);
		assert_int_equal(envelope_next(&in, 100, &e), 0);
		assert_int_equal(in.n, n);
	}
	in = buf_str(&b);
	assert_int_equal(envelope_next(&in, 100, &e), 1);
	assert_str_is(e.data, "hello");
	assert_int_equal(e.flags, 0);
	assert_int_equal(envelope_next(&in, 100, &e), 1);
	assert_int_equal(e.data.n, 0);
	assert_int_equal(e.flags, ENVELOPE_PACKED);
	assert_int_equal(envelope_next(&in, 100, &e), 0);
}

/* A head that promises gigabytes is enough. */
static void test_where_an_envelope_ends(void **state _unused_)
{
	_cleanup_(buf_done) struct buf plain = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	static const char *const messages[] = { "", "a", "ab", "abc", "hello" };
	size_t start = 0, text_start = 0;

	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		envelope_write(&plain, 0, str_from(messages[i]));
		base64_write(&text, str_skip(buf_str(&plain), start), true);
		for (size_t at = start + 1; at <= plain.n; at++)
			assert_int_equal(envelope_end(plain.p, at, plain.n),
					 plain.n);
		for (size_t at = text_start + 1; at <= text.n; at++)
			assert_int_equal(envelope_end_text(text.p, at, text.n),
					 text.n);
		start = plain.n;
		text_start = text.n;
	}
	assert_int_equal(envelope_end(plain.p, 1, plain.n), ENVELOPE_HEAD);
	assert_int_equal(envelope_end_text(text.p, 8, text.n), 8);
}

static void
test_an_envelope_too_large_is_refused_by_its_head(void **state _unused_)
{
	struct str in = str_of("\0\xff\xff\xff\xff", 5);
	struct envelope e;

	assert_int_equal(envelope_next(&in, 16u << 20, &e),
			 -ERR_BODY_TOO_LARGE);
	in = str_of("\x40\0\0\0\0", 5);
	assert_int_equal(envelope_next(&in, 100, &e), -ERR_PARSE_ERROR);
}

static void test_a_status_in_each_protocol(void **state _unused_)
{
	struct rpc_status s = { ERR_OVERLOADED, STR("too 100% much\n"), 1500 };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(buf_done) struct buf details = BUF_INIT(0);

	assert_int_equal(status_http(&s), 429);
	status_json(&s, &b);
	assert_str_is(buf_str(&b),
		      "{\"code\":\"resource_exhausted\",\"message\":\"too 100% "
		      "much\\n (retry_after_ms=1500)\",\"details\":["
		      "{\"type\":\"google.rpc.ErrorInfo\",\"value\":"
		      "\"CgpPVkVSTE9BREVEEgVjb3J2bw\"},"
		      "{\"type\":\"google.rpc.RetryInfo\",\"value\":"
		      "\"CggIARCAyrXuAQ\"}]}");
	buf_clear(&b);
	status_message(&s, &b);
	assert_str_is(buf_str(&b), "too 100%25 much%0A (retry_after_ms=1500)");
	buf_clear(&b);
	status_details(&s, &b);
	assert_true(base64_read(&details, buf_str(&b)));
	assert_memory_equal(details.p, "\x08\x08", 2); /* the code */
	assert_non_null(memmem(details.p, details.n,
			       "type.googleapis.com/google.rpc.RetryInfo", 40));
}

static void test_a_good_end(void **state _unused_)
{
	struct rpc_status s = { 0 };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	status_trailers(&s, &b);
	assert_str_is(buf_str(&b), "grpc-status: 0\r\n");
	buf_clear(&b);
	status_end_json(&s, &b);
	assert_str_is(buf_str(&b), "{}");
}

/* A header has no line ends in it, whatever a text says. */
static void test_trailers_are_three_lines(void **state _unused_)
{
	static char text[10000];
	struct rpc_status s = { ERR_NOT_FOUND, str_of(text, sizeof(text)), 0 };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	size_t lines = 0;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "\r\n:\xc3\xa9 x"[i % 7];
	status_trailers(&s, &b);
	for (size_t i = 0; i < b.n; i++)
		lines += b.p[i] == '\n';
	assert_int_equal(lines, 3);
	assert_true(b.n < 4 * STATUS_TEXT_BYTES + 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_content_types),
		cmocka_unit_test(test_deadlines),
		cmocka_unit_test(test_envelopes_come_in_pieces),
		cmocka_unit_test(test_where_an_envelope_ends),
		cmocka_unit_test(
		    test_an_envelope_too_large_is_refused_by_its_head),
		cmocka_unit_test(test_a_status_in_each_protocol),
		cmocka_unit_test(test_a_good_end),
		cmocka_unit_test(test_trailers_are_three_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
