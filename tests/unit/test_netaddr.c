#include "rt/netaddr.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "proto/err.h"

static struct netaddr parse(const char *text)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct netaddr a;

	if (netaddr_parse(text, &a, &why) != 0)
		fail_msg("%s: %.*s", text, STR_ARG(buf_str(&why)));
	return a;
}

static unsigned port_of(const struct netaddr *a)
{
	if (a->sa.ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)(const void *)&a->sa)
				 ->sin_port);
	return ntohs(
	    ((const struct sockaddr_in6 *)(const void *)&a->sa)->sin6_port);
}

static void test_good(void **state _unused_)
{
	static const struct {
		const char *text;
		unsigned port;
		bool loopback;
	} rows[] = {
		{ "127.0.0.1:8080", 8080, true },
		{ "127.9.8.7:1", 1, true },
		{ "localhost:65535", 65535, true },
		{ "[::1]:8080", 8080, true },
		{ "[::ffff:127.0.0.1]:80", 80, true },
		{ ":8080", 8080, false },
		{ "0.0.0.0:8080", 8080, false },
		{ "[::]:8080", 8080, false },
		{ "10.0.0.1:0", 0, false },
		{ "[::ffff:10.0.0.1]:80", 80, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct netaddr a = parse(rows[i].text);

		assert_int_equal(port_of(&a), rows[i].port);
		assert_int_equal(a.loopback, rows[i].loopback);
		assert_true(a.len > 0);
	}
}

static void test_bad(void **state _unused_)
{
	static const char *const rows[] = {
		"",
		"8080",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:http",
		"127.0.0.1:65536",
		"127.0.0.1:-1",
		"127.0.0.1: 80",
		"::1:8080",
		"no.such.host.invalid:80",
		"256.1.1.1.1:80",
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf why = BUF_INIT(0);
		struct netaddr a;

		assert_int_equal(netaddr_parse(rows[i], &a, &why),
				 -ERR_VALIDATION_ERROR);
		assert_true(why.n > 0);
	}
}

static void test_listen_and_busy_port(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct sockaddr_in in;
	socklen_t len = sizeof(in);
	struct netaddr a = parse("127.0.0.1:0");
	char text[32];
	int fd;

	fd = netaddr_listen(&a, "127.0.0.1:0", &why);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);

	(void)snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(in.sin_port));
	a = parse(text);
	assert_int_equal(netaddr_listen(&a, text, &why), -ERR_VALIDATION_ERROR);
	buf_putc(&why, '\0');
	assert_non_null(strstr(why.p, text));
	assert_non_null(strstr(why.p, "in use"));
	(void)close(fd);
}

static void test_address_of_another_machine(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct netaddr a = parse("192.0.2.1:8080");

	assert_int_equal(netaddr_listen(&a, "192.0.2.1:8080", &why),
			 -ERR_VALIDATION_ERROR);
	buf_putc(&why, '\0');
	assert_non_null(strstr(why.p, "does not have that address"));
}

static void test_numeric_addresses_of_this_machine(void **state _unused_)
{
	static const char *const ours[] = { "127.0.0.1", "127.9.8.7", "::1",
					    "::ffff:127.0.0.1" };
	static const char *const others[] = {
		"",    "localhost",       "1",           "128.0.0.1",
		"::2", "::ffff:10.0.0.1", "127.0.0.1:80"
	};

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		assert_true(netaddr_is_loopback(str_from(ours[i])));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_false(netaddr_is_loopback(str_from(others[i])));
}

static void test_numeric_addresses_of_any_machine(void **state _unused_)
{
	assert_true(netaddr_is_wildcard(STR("0.0.0.0")));
	assert_true(netaddr_is_wildcard(STR("::")));
	assert_true(netaddr_is_wildcard(STR("0:0::0")));
	assert_false(netaddr_is_wildcard(STR("0.0.0.1")));
	assert_false(netaddr_is_wildcard(STR("::1")));
	assert_false(netaddr_is_wildcard(STR("localhost")));
	assert_false(netaddr_is_wildcard(STR("")));
}

static void test_addresses_to_dial(void **state _unused_)
{
	static const char *const bad[] = { "nonsense", ":80", "127.0.0.1:0",
					   "no.such.host.invalid:80" };
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct netaddr a[4];
	size_t n;

	assert_int_equal(
	    netaddr_resolve("[::1]:9400", true, a, ARRAY_SIZE(a), &n, &why), 0);
	assert_int_equal(n, 1);
	assert_int_equal(port_of(&a[0]), 9400);
	assert_int_equal(a[0].sa.ss_family, AF_INET6);
	assert_true(a[0].loopback);
	assert_int_equal(netaddr_resolve("localhost:9400", false, a,
					 ARRAY_SIZE(a), &n, &why),
			 0);
	assert_true(n >= 1);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(port_of(&a[i]), 9400);
		assert_true(a[i].loopback);
	}
	/* a name is no number: nobody is asked for it */
	assert_int_equal(
	    netaddr_resolve("localhost:9400", true, a, ARRAY_SIZE(a), &n, &why),
	    -ERR_VALIDATION_ERROR);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		buf_clear(&why);
		assert_int_equal(
		    netaddr_resolve(bad[i], false, a, ARRAY_SIZE(a), &n, &why),
		    -ERR_VALIDATION_ERROR);
		assert_int_equal(n, 0);
		assert_true(why.n > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_numeric_addresses_of_this_machine),
		cmocka_unit_test(test_numeric_addresses_of_any_machine),
		cmocka_unit_test(test_addresses_to_dial),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_listen_and_busy_port),
		cmocka_unit_test(test_address_of_another_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
