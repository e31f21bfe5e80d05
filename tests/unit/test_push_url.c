/*
 * URLs of push queues: what they are made of, and what is none.
 */
#include "proto/push.h"

#include "lib/testlib.h"

static void good(const char *text, bool tls, const char *credentials,
		 const char *host, unsigned port, const char *rest)
{
	struct push_url u;
	const char *why;

	if (!push_url_parse(str_from(text), &u, &why))
		fail_msg("%s: %s", text, why);
	assert_int_equal(u.tls, tls);
	assert_str_is(u.credentials, credentials);
	assert_str_is(u.host, host);
	assert_int_equal(u.port, port);
	assert_str_is(u.rest, rest);
}

static void test_parts(void **state _unused_)
{
	good("http://a", false, "", "a", 80, "");
	good("HTTPS://A.example/x?y=z#w", true, "", "A.example", 443,
	     "/x?y=z#w");
	good("http://a:8080?q", false, "", "a", 8080, "?q");
	good("http://u:p@a/", false, "u:p", "a", 80, "/");
	good("http://u@b@a/", false, "u@b", "a", 80, "/");
	good("http://[::1]:81/", false, "", "::1", 81, "/");
	good("https://[2001:db8::1]", true, "", "2001:db8::1", 443, "");
	good("http://127.0.0.1/@x", false, "", "127.0.0.1", 80, "/@x");
}

static void test_none(void **state _unused_)
{
	static const char *const bad[] = {
		"",
		"a",
		"//a",
		"ftp://a/",
		"file:///etc/passwd",
		"http:/a",
		"http://",
		"http:///x",
		"http://:80/",
		"http://a:/",
		"http://a:0/",
		"http://a:65536/",
		"http://a:8o/",
		"http://a b/",
		"http://a/\n",
		"http://a/\r\nHost: b",
		"http://a\\@b/",
		"http://[::1",
		"http://[]/",
		"http://[::1]x/",
		"http://a/\xc3",
		"http://a%20b/",
		"gopher://a/",
		"javascript:alert(1)",
	};
	struct push_url u;
	const char *why;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (push_url_parse(str_from(bad[i]), &u, &why))
			fail_msg("%s was taken for a URL", bad[i]);
}

static void test_secrets(void **state _unused_)
{
	_cleanup_(buf_done) struct buf key = BUF_INIT(0);

	assert_true(push_secret_key(STR("0123456789abcdef"), &key));
	assert_str_is(buf_str(&key), "0123456789abcdef");
	buf_clear(&key);
	assert_true(push_secret_key(
	    STR("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"), &key));
	assert_str_is(buf_str(&key), "0123456789abcdef01234567");
	assert_false(push_secret_key(STR("0123456789abcde"), &key));
	assert_false(push_secret_key(STR("whsec_MDEy"), &key));
	assert_false(push_secret_key(STR("whsec_*"), &key));
}

static void test_headers_that_are_not_shown(void **state _unused_)
{
	assert_true(push_header_is_secret(STR("Authorization")));
	assert_true(push_header_is_secret(STR("x-api-KEY")));
	assert_true(push_header_is_secret(STR("Cookie")));
	assert_true(push_header_is_secret(STR("X-Auth")));
	assert_false(push_header_is_secret(STR("Content-Type")));
	assert_false(push_header_is_secret(STR("X-Team")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_secrets),
		cmocka_unit_test(test_headers_that_are_not_shown),
	};

	return cmocka_run_group_tests_name("push_url", tests, NULL, NULL);
}
