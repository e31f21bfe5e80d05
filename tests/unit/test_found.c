/*
 * Where other nodes are, read from what a name server or a node has answered.
 * Both may say anything.
 */
#include "cluster/api_ask.h"
#include "cluster/srv.h"
#include "lib/testlib.h"

#define TYPE_A   1
#define TYPE_SRV 33
#define GARBAGE  20000

/* --- SRV records --- */

static void put16(struct buf *b, unsigned v)
{
	buf_putc(b, (char)(v >> 8));
	buf_putc(b, (char)v);
}

/* "n1.test": its parts, each behind its length. */
static void put_name(struct buf *b, const char *name)
{
	struct str part, rest = str_from(name);

	while (rest.n > 0) {
		(void)str_split(rest, '.', &part, &rest);
		buf_putc(b, (char)part.n);
		buf_put_str(b, part);
	}
	buf_putc(b, '\0');
}

/* The head and the question of an answer with so many records. */
static void put_head(struct buf *b, unsigned records)
{
	put16(b, 7);      /* id */
	put16(b, 0x8180); /* an answer, without errors */
	put16(b, 1);      /* question */
	put16(b, records);
	put16(b, 0);
	put16(b, 0);
	put_name(b, "_corvo._tcp.test");
	put16(b, TYPE_SRV);
	put16(b, 1);
}

static void put_record(struct buf *b, unsigned type, struct str data)
{
	put16(b, 0xc00c); /* the name of the question */
	put16(b, type);
	put16(b, 1);
	put16(b, 0);
	put16(b, 60); /* seconds it lasts */
	put16(b, (unsigned)data.n);
	buf_put_str(b, data);
}

static void put_srv(struct buf *b, const char *host, unsigned port)
{
	_cleanup_(buf_done) struct buf data = BUF_INIT(0);

	put16(&data, 10); /* priority, weight */
	put16(&data, 20);
	put16(&data, port);
	put_name(&data, host);
	put_record(b, TYPE_SRV, buf_str(&data));
}

/* Of memory that ends where it does. */
static bool read_srv(struct str bytes, struct found *ret)
{
	unsigned char *copy = malloc(bytes.n + !bytes.n);
	bool ok;

	assert_non_null(copy);
	if (bytes.n > 0)
		memcpy(copy, bytes.p, bytes.n);
	*ret = (struct found){ 0 };
	ok = srv_read(copy, bytes.n, ret);
	free(copy);
	return ok;
}

static void each_record_is_a_host_and_its_port(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct found f;

	put_head(&b, 3);
	put_srv(&b, "n1.test", 9400);
	put_srv(&b, "n2.test", 65535);
	put_srv(&b, "n1.test", 9400); /* twice is once */
	assert_true(read_srv(buf_str(&b), &f));
	assert_int_equal(f.n, 2);
	assert_string_equal(f.at[0], "n1.test:9400");
	assert_string_equal(f.at[1], "n2.test:65535");
}

static void what_is_no_host_is_left_out(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct found f;

	put_head(&b, 4);
	put_record(&b, TYPE_A, STR("\x7f\0\0\1"));
	put_srv(&b, "", 9400); /* there is no such service */
	put_record(&b, TYPE_SRV, STR("\0\1\0\1\0\1"));
	put_srv(&b, "n3.test", 1);
	assert_true(read_srv(buf_str(&b), &f));
	assert_int_equal(f.n, 1);
	assert_string_equal(f.at[0], "n3.test:1");
}

static void more_than_there_is_room_for_is_left_out(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct found f;

	put_head(&b, LIMIT_FOUND + 3);
	for (unsigned i = 0; i < LIMIT_FOUND + 3; i++)
		put_srv(&b, "n.test", 1000 + i);
	assert_true(read_srv(buf_str(&b), &f));
	assert_int_equal(f.n, LIMIT_FOUND);
}

static void an_answer_that_is_cut_or_too_long_is_none(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct found f;

	put_head(&b, 2);
	put_srv(&b, "n1.test", 9400);
	put_srv(&b, "n2.test", 9400);
	for (size_t n = 0; n < b.n; n++)
		assert_false(read_srv(str_of(b.p, n), &f));
	buf_putc(&b, 'x');
	assert_false(read_srv(buf_str(&b), &f));
	while (b.n <= 64 << 10)
		buf_putc(&b, '\0');
	assert_false(read_srv(buf_str(&b), &f));
}

static void any_bytes_can_be_read(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(buf_done) struct buf bad = BUF_INIT(0);
	struct found f;
	struct rng rng;

	test_rng(&rng);
	put_head(&b, 2);
	put_srv(&b, "n1.test", 9400);
	put_srv(&b, "n2.test", 9400);
	for (int i = 0; i < GARBAGE; i++) {
		buf_clear(&bad);
		buf_put_str(&bad, buf_str(&b));
		for (uint64_t n = 1 + rng_below(&rng, 4); n > 0; n--)
			bad.p[rng_below(&rng, bad.n)] = (char)rng_u64(&rng);
		if (read_srv(buf_str(&bad), &f))
			assert_true(f.n <= 2);
	}
}

/* --- answers of a node --- */

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"

static int read_nodes(struct str answer, struct found *ret, struct buf *why)
{
	*ret = (struct found){ 0 };
	buf_clear(why);
	return api_read_nodes(STR("here:8080"), answer, ret, why);
}

static void addresses_of_all_nodes_are_read(void **state _unused_)
{
	static const char *const answer = OK_HEAD
	    "{\"nodes\":[{\"id\":\"a\",\"address\":\"n1:9400\"},"
	    "{\"address\":\"[::1]:9401\"},{\"id\":\"c\"},7,"
	    "{\"address\":9402},{\"address\":\"n1:9400\"}],\"state\":\"x\"}\n";
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct found f;

	assert_int_equal(read_nodes(str_from(answer), &f, &why), 0);
	assert_int_equal(f.n, 2);
	assert_string_equal(f.at[0], "n1:9400");
	assert_string_equal(f.at[1], "[::1]:9401");
	assert_int_equal(why.n, 0);
	for (size_t n = 0; n < strlen(answer) - 2; n++) /* "}\n" */
		assert_true(read_nodes(str_of(answer, n), &f, &why) < 0);
}

static void other_answers_are_refused_with_a_reason(void **state _unused_)
{
	static const struct {
		const char *answer, *why;
	} rows[] = {
		{ "", "does not answer as a node does" },
		{ "SSH-2.0-OpenSSH\r\n\r\n", "does not answer as a node does" },
		{ "HTTP/2.0 200 OK\r\n\r\n{}",
		  "does not answer as a node does" },
		{ "HTTP/1.1 200 OK\r\n{\"nodes\":[]}",
		  "does not answer as a node does" },
		{ "HTTP/1.1 503 Not Now\r\n\r\n{\"nodes\":[]}",
		  "answers 503, not as a node that can be asked" },
		{ OK_HEAD, "does not answer as a node does" },
		{ OK_HEAD "[]", "does not answer as a node does" },
		{ OK_HEAD "{\"nodes\":{}}", "does not answer as a node does" },
		{ OK_HEAD "{\"nodes\":[}", "does not answer as a node does" },
		{ OK_HEAD "{\"nodes\":[]}", "is a node that knows no others" },
		{ OK_HEAD "{\"nodes\":[{\"address\":\"no port\"}]}",
		  "is a node that knows no others" },
	};
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf want = BUF_INIT(0);
	struct found f;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_true(read_nodes(str_from(rows[i].answer), &f, &why) < 0);
		buf_clear(&want);
		buf_printf(&want, "http://here:8080 %s", rows[i].why);
		buf_putc(&want, '\0');
		assert_str_is(buf_str(&why), want.p);
		assert_int_equal(f.n, 0);
	}
}

static void an_address_of_the_api_is_one_or_none(void **state _unused_)
{
	assert_str_is(api_authority(STR("http://a:80")), "a:80");
	assert_str_is(api_authority(STR("http://[::1]:80/")), "[::1]:80");
	assert_int_equal(api_authority(STR("http://a:80/api")).n, 0);
	assert_int_equal(api_authority(STR("https://a:80")).n, 0);
	assert_int_equal(api_authority(STR("a:80")).n, 0);
	assert_int_equal(api_authority(STR("http://")).n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_record_is_a_host_and_its_port),
		cmocka_unit_test(what_is_no_host_is_left_out),
		cmocka_unit_test(more_than_there_is_room_for_is_left_out),
		cmocka_unit_test(an_answer_that_is_cut_or_too_long_is_none),
		cmocka_unit_test(any_bytes_can_be_read),
		cmocka_unit_test(addresses_of_all_nodes_are_read),
		cmocka_unit_test(other_answers_are_refused_with_a_reason),
		cmocka_unit_test(an_address_of_the_api_is_one_or_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
