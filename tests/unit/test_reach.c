/*
 * Addresses that the server itself calls, or never does.
 */
#include "rt/reach.h"

#include "lib/testlib.h"
#include "proto/err.h"

static void make(struct reach *r, const char *allow, bool loopback)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (reach_init(r, allow, loopback, &why) < 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
}

static bool has(const struct reach *r, const char *host, const char *address)
{
	struct ip ip = { 0 };

	/* :: is none that can be parsed */
	if (strcmp(address, "::") != 0)
		assert_true(ip_parse(str_from(address), &ip));
	return reach_has(r, str_from(host), &ip);
}

static void test_addresses_that_are_not_for_everybody(void **state _unused_)
{
	static const char *const closed[] = {
		"0.0.0.0",
		"0.1.2.3",
		"10.0.0.1",
		"10.255.255.255",
		"100.64.0.1",
		"100.100.100.200",
		"127.0.0.1",
		"127.255.0.1",
		"168.63.129.16",
		"169.254.169.254",
		"169.254.0.1",
		"172.16.0.1",
		"172.31.255.255",
		"192.0.0.192",
		"192.0.2.1",
		"192.168.1.1",
		"198.18.0.1",
		"198.51.100.7",
		"203.0.113.9",
		"224.0.0.1",
		"239.1.2.3",
		"240.0.0.1",
		"255.255.255.255",
		"::",
		"::1",
		"::7f00:1",
		"::10.0.0.1",
		"::ffff:127.0.0.1",
		"::ffff:10.0.0.1",
		"::ffff:169.254.169.254",
		"::ffff:7f00:1",
		"64:ff9b::7f00:1",
		"64:ff9b:1::1",
		"100::1",
		"2001::1",
		"2001:db8::1",
		"2002:7f00:1::",
		"fc00::1",
		"fd00:ec2::254",
		"fe80::1",
		"febf::1",
		"fec0::1",
		"ff02::1",
	};
	static const char *const open[] = {
		"1.1.1.1",           "9.255.255.255",  "11.0.0.0",
		"100.63.255.255",    "100.128.0.0",    "126.255.255.255",
		"128.0.0.0",         "169.253.0.1",    "172.15.255.255",
		"172.32.0.0",        "192.167.0.1",    "198.20.0.0",
		"223.255.255.255",   "::ffff:1.1.1.1", "2606:4700::1111",
		"2a00:1450:4001::1",
	};
	struct reach r;

	make(&r, "", false);
	for (size_t i = 0; i < ARRAY_SIZE(closed); i++)
		if (has(&r, "example.com", closed[i]))
			fail_msg("%s would be called", closed[i]);
	for (size_t i = 0; i < ARRAY_SIZE(open); i++)
		if (!has(&r, "example.com", open[i]))
			fail_msg("%s would not be called", open[i]);
}

static void test_what_is_allowed(void **state _unused_)
{
	struct reach r;

	make(&r, " 10.1.0.0/16, inside.example ,fd00::/8", false);
	assert_true(has(&r, "x", "10.1.2.3"));
	assert_true(has(&r, "x", "::ffff:10.1.2.3"));
	assert_false(has(&r, "x", "10.2.0.1"));
	assert_true(has(&r, "x", "fd12::1"));
	assert_false(has(&r, "x", "127.0.0.1"));
	assert_true(has(&r, "inside.example", "192.168.0.1"));
	assert_true(has(&r, "Inside.Example", "127.0.0.1"));
	assert_false(has(&r, "not-inside.example", "192.168.0.1"));
	make(&r, "", true);
	assert_true(has(&r, "x", "127.0.0.1"));
	assert_true(has(&r, "x", "::1"));
	assert_true(has(&r, "x", "::ffff:127.0.0.1"));
	assert_false(has(&r, "x", "10.0.0.1"));
	assert_false(has(&r, "x", "169.254.169.254"));
}

static void test_what_cannot_be_allowed(void **state _unused_)
{
	static const char *const bad[] = { "10.0.0.0/33", "10.0.0.1/8", "a:b",
					   ",",           "x,,y",       "a b" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_(buf_done) struct buf why = BUF_INIT(0);
		struct reach r;

		if (reach_init(&r, bad[i], false, &why) !=
		    -ERR_VALIDATION_ERROR)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_true(why.n > 0);
	}
}

static void test_who_reaches_the_node(void **state _unused_)
{
	assert_true(reach_is_local("127.0.0.1:8080"));
	assert_true(reach_is_local("[::1]:80, unix:/run/x, 127.0.0.2:1"));
	assert_true(reach_is_local("localhost:80"));
	assert_false(reach_is_local(":8080"));
	assert_false(reach_is_local("0.0.0.0:8080"));
	assert_false(reach_is_local("127.0.0.1:80,192.168.0.1:80"));
	assert_false(reach_is_local("example.com:80"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses_that_are_not_for_everybody),
		cmocka_unit_test(test_what_is_allowed),
		cmocka_unit_test(test_what_cannot_be_allowed),
		cmocka_unit_test(test_who_reaches_the_node),
	};

	return cmocka_run_group_tests_name("reach", tests, NULL, NULL);
}
