#include "front/framing.h"

#include "lib/testlib.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "util/buf.h"

#define TWO                                            \
	"POST /q?a=1&b=2 HTTP/1.1\r\n"                 \
	"Host: localhost:8080\r\nCookie: a=b; c\r\n"   \
	"Transfer-Encoding: chunked\r\n\r\n"           \
	"5;x=y\r\nhello\r\n0\r\nT: v\r\n\r\n"          \
	"PUT /q HTTP/1.0\r\nContent-Length: 7\r\n\r\n" \
	"GET / \r"

static int feed(struct framing *f, struct str s)
{
	size_t good;

	return framing_feed(f, s.p, s.n, &good);
}

static void test_pieces_of_any_size_mean_the_same(void **state _unused_)
{
	struct str all = STR(TWO);

	for (size_t cut = 1; cut <= all.n; cut++) {
		struct framing f = { 0 };

		for (size_t at = 0; at < all.n; at += cut)
			assert_int_equal(
			    feed(&f, str_of(all.p + at, MIN(cut, all.n - at))),
			    0);
		assert_int_equal(f.whole, 2);
		assert_int_equal(f.state, FRAMING_START);
	}
}

static void
test_what_is_whole_before_a_bad_request_is_told(void **state _unused_)
{
	struct str bad = STR(TWO "GET / HTTP/1.1\r\nHost : x\r\n\r\n");
	struct framing f = { 0 };
	size_t good;

	assert_int_equal(framing_feed(&f, bad.p, bad.n, &good),
			 -ERR_BAD_REQUEST);
	assert_int_equal(f.whole, 2);
	assert_int_equal(good, sizeof(TWO) - 1);
	assert_non_null(f.why);
}

/* Others do not take it for chunked, and would see another request. */
static void test_a_tab_beside_the_coding_is_refused(void **state _unused_)
{
	static const char *const values[] = { "chunked\t", "\tchunked",
					      " \tchunked", "chunked \t" };

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);
		struct framing f = { 0 };

		buf_printf(&b,
			   "POST / HTTP/1.1\r\nHost: x\r\n"
			   "Transfer-Encoding:%s\r\n\r\n",
			   values[i]);
		assert_int_equal(feed(&f, buf_str(&b)), -ERR_BAD_REQUEST);
		assert_non_null(strstr(f.why, "must be chunked"));
	}
}

/* A head of exactly n bytes as they are counted, with one header beside Host.
 */
static void head_of(struct buf *b, size_t n)
{
	static const char start[] = "GET / HTTP/1.1\r\nHost: x\r\nX: ";
	size_t used = sizeof(start) - 1 + 4 + 2 * LIMIT_HEAD_ENTRY_BYTES;

	buf_puts(b, start);
	while (used++ < n)
		buf_putc(b, 'x');
	buf_puts(b, "\r\n\r\n");
}

static void
test_the_size_of_a_head_is_counted_for_each_request(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct framing f = { 0 };

	head_of(&b, LIMIT_HEAD_BYTES);
	head_of(&b, LIMIT_HEAD_BYTES);
	assert_int_equal(feed(&f, buf_str(&b)), 0);
	assert_int_equal(f.whole, 2);
	b.n = 0;
	head_of(&b, LIMIT_HEAD_BYTES + 1);
	assert_int_equal(feed(&f, buf_str(&b)), -ERR_HEAD_TOO_LARGE);
	assert_int_equal(f.whole, 2);
}

/* The end of the line never comes: refused as soon as it is too long. */
static void assert_refused_within(const char *start, char filler, size_t max,
				  int err)
{
	struct framing f = { 0 };
	int r = feed(&f, str_from(start));

	for (size_t i = 0; r == 0 && i <= max; i++)
		r = feed(&f, str_of(&filler, 1));
	assert_int_equal(r, -err);
}

static void test_a_line_without_an_end_is_refused_early(void **state _unused_)
{
	static const char chunked[] = "POST / HTTP/1.1\r\nHost: x\r\n"
				      "Transfer-Encoding: chunked\r\n\r\n";
	_cleanup_(buf_done) struct buf ext = BUF_INIT(0);

	assert_refused_within("", 'A', LIMIT_METHOD_BYTES, ERR_BAD_REQUEST);
	assert_refused_within("GET /", 'a', LIMIT_URI_BYTES, ERR_URI_TOO_LONG);
	assert_refused_within("GET / HTTP/1.1\r\n", 'a', LIMIT_HEAD_BYTES,
			      ERR_HEAD_TOO_LARGE);
	assert_refused_within("GET / HTTP/1.1\r\nX: ", 'a', LIMIT_HEAD_BYTES,
			      ERR_HEAD_TOO_LARGE);
	assert_refused_within(chunked, '0', LIMIT_CHUNK_LINE_BYTES,
			      ERR_BAD_REQUEST);
	buf_printf(&ext, "%s1;", chunked);
	buf_putc(&ext, '\0');
	assert_refused_within(ext.p, 'a', LIMIT_CHUNK_LINE_BYTES,
			      ERR_BAD_REQUEST);
}

static void test_arguments_and_cookies_count_as_headers(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct framing f = { 0 };

	buf_puts(&b, "GET /?");
	for (size_t i = 0; i < LIMIT_HEAD_BYTES / LIMIT_HEAD_ENTRY_BYTES; i++)
		buf_puts(&b, "a&");
	assert_int_equal(feed(&f, buf_str(&b)), -ERR_HEAD_TOO_LARGE);
	f = (struct framing){ 0 };
	b.n = 0;
	buf_puts(&b, "GET / HTTP/1.1\r\nHost: x\r\nCookie: ");
	for (size_t i = 0; i < LIMIT_HEAD_BYTES / LIMIT_HEAD_ENTRY_BYTES; i++)
		buf_puts(&b, "a;");
	assert_int_equal(feed(&f, buf_str(&b)), -ERR_HEAD_TOO_LARGE);
}

/* Whatever comes, in whatever pieces: the same verdict, and no way back. */
static void test_garbled_bytes_in_pieces(void **state _unused_)
{
	struct rng r;

	test_rng(&r);
	for (int round = 0; round < 20000; round++) {
		char bytes[] = TWO;
		struct framing whole = { 0 }, cut = { 0 };
		size_t n = sizeof(bytes) - 1, good, at = 0;
		int want, got = 0;

		for (uint64_t i = rng_below(&r, 4); i > 0; i--)
			bytes[rng_below(&r, n)] = (char)rng_u64(&r);
		want = framing_feed(&whole, bytes, n, &good);
		assert_true(good <= n);
		while (got == 0 && at < n) {
			size_t k = 1 + rng_below(&r, n - at);

			got = feed(&cut, str_of(bytes + at, k));
			at += k;
		}
		assert_int_equal(got, want);
		assert_int_equal(cut.whole, whole.whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_tab_beside_the_coding_is_refused),
		cmocka_unit_test(test_pieces_of_any_size_mean_the_same),
		cmocka_unit_test(
		    test_what_is_whole_before_a_bad_request_is_told),
		cmocka_unit_test(
		    test_the_size_of_a_head_is_counted_for_each_request),
		cmocka_unit_test(test_a_line_without_an_end_is_refused_early),
		cmocka_unit_test(test_arguments_and_cookies_count_as_headers),
		cmocka_unit_test(test_garbled_bytes_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
