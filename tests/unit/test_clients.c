/* Clients and their limits: the table itself. */
#include "front/clients.h"

#include <stdio.h>

#include "lib/testlib.h"
#include "util/clock.h"

static struct ip address(const char *text)
{
	struct ip ip;

	assert_true(ip_parse(str_from(text), &ip));
	return ip;
}

static struct ip numbered(unsigned i)
{
	char text[IP_TEXT_BYTES];

	(void)snprintf(text, sizeof(text), "10.%u.%u.%u", i >> 16, i >> 8 & 255,
		       i & 255);
	return address(text);
}

static void test_rate(void **state _unused_)
{
	struct ip a = address("192.0.2.1"), none = { 0 };
	uint64_t now = 5 * NS_PER_S;
	struct clients cs;

	clients_init(&cs, 10);
	cs.rate = 3;
	for (int i = 0; i < 3; i++)
		assert_true(clients_may_ask(&cs, &a, now));
	assert_false(clients_may_ask(&cs, &a, now));
	assert_false(clients_may_ask(&cs, &a, now + NS_PER_S / 4));
	assert_true(clients_may_ask(&cs, &a, now + NS_PER_S / 3));
	assert_false(clients_may_ask(&cs, &a, now + NS_PER_S / 3));
	assert_int_equal(cs.refused[CLIENT_REQUESTS], 3);
	/* it does not save up for longer than a second */
	now += 100 * NS_PER_S;
	for (int i = 0; i < 3; i++)
		assert_true(clients_may_ask(&cs, &a, now));
	assert_false(clients_may_ask(&cs, &a, now));
	for (int i = 0; i < 10; i++)
		assert_true(clients_may_ask(&cs, &none, now));
	clients_done(&cs);
}

/* Many bytes are as much work as many requests; the debt is bounded. */
static void test_bytes_count(void **state _unused_)
{
	struct ip a = address("192.0.2.1");
	uint64_t now = 5 * NS_PER_S;
	struct clients cs;

	clients_init(&cs, 10);
	clients_take_bytes(&cs, &a, SIZE_MAX, now); /* there is no limit */
	assert_int_equal(cs.by_key.n, 0);
	cs.rate = 4;
	clients_take_bytes(&cs, &a, CLIENT_TAKE_BYTES - 1, now);
	clients_take_bytes(&cs, &a, 3 * CLIENT_TAKE_BYTES, now);
	assert_true(clients_may_ask(&cs, &a, now));
	assert_false(clients_may_ask(&cs, &a, now));
	clients_take_bytes(&cs, &a, 1000 * CLIENT_TAKE_BYTES, now);
	assert_true(clients_is_in_debt(&cs, &a, now));
	assert_int_equal(clients_wait_s(&cs, &a, now), 11);
	assert_int_equal(clients_wait_s(&cs, &a, now + 5 * NS_PER_S), 6);
	assert_false(clients_may_ask(&cs, &a, now + 10 * NS_PER_S));
	assert_false(clients_is_in_debt(&cs, &a, now + 10 * NS_PER_S));
	assert_true(clients_may_ask(&cs, &a, now + NS_PER_S * 41 / 4));
	assert_int_equal(clients_wait_s(&cs, &a, now + 20 * NS_PER_S), 1);
	clients_done(&cs);
}

/* Who goes on although he is refused is deaf, until he has been quiet. */
static void test_deaf(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct ip a = address("192.0.2.1"), proxy = address("10.1.2.3");
	uint64_t now = 5 * NS_PER_S;
	struct clients cs;

	clients_init(&cs, 10);
	assert_int_equal(nets_parse("10.0.0.0/8", &cs.trusted, &why), 0);
	cs.rate = 1;
	for (int i = 0; i < 10; i++) { /* one is let in */
		assert_false(clients_is_deaf(&cs, &a, now));
		(void)clients_may_ask(&cs, &a, now);
		(void)clients_may_ask(&cs, &proxy, now);
	}
	assert_true(clients_may_knock(&cs, &a, now));
	for (int i = 0; i < 1000; i++) {
		(void)clients_may_ask(&cs, &a, now);
		(void)clients_may_ask(&cs, &proxy, now);
	}
	assert_true(clients_is_deaf(&cs, &a, now));
	assert_false(clients_may_knock(&cs, &a, now));
	assert_int_equal(cs.refused[CLIENT_CONNECTIONS], 1);
	assert_true(clients_may_knock(&cs, &proxy, now)); /* of others, too */
	/* knocking is no quiet */
	for (int i = 1; i <= 20; i++)
		assert_false(clients_may_knock(
		    &cs, &a, now + NS_PER_S / 4 + i * NS_PER_S / 200));
	assert_false(clients_is_deaf(&cs, &a, now + NS_PER_S));
	clients_done(&cs);
}

static void test_v6_by_network_v4_by_address(void **state _unused_)
{
	struct clients cs;

	clients_init(&cs, 10);
	cs.rate = 1;
	for (unsigned i = 1; i < 4; i++) {
		struct ip v6 = address("2001:db8::1"), v4 = numbered(i);

		v6.b[15] = (unsigned char)i;
		assert_int_equal(clients_may_ask(&cs, &v6, 1), i == 1);
		v6.b[7] = (unsigned char)i;
		assert_true(clients_may_ask(&cs, &v6, 1));
		assert_true(clients_may_ask(&cs, &v4, 1));
	}
	clients_done(&cs);
}

/* Memory is bounded, nobody is without limit, and the idle make room. */
static void test_full_table(void **state _unused_)
{
	uint64_t now = NS_PER_S;
	struct clients cs;
	unsigned let_in = 0;
	struct ip ip;

	clients_init(&cs, 100);
	cs.rate = 2;
	for (unsigned i = 0; i < 100; i++) {
		ip = numbered(i);
		assert_true(clients_may_ask(&cs, &ip, now));
	}
	for (unsigned i = 100; i < 10000; i++) {
		ip = numbered(i);
		let_in += clients_may_ask(&cs, &ip, now);
	}
	assert_int_equal(let_in, 2); /* together */
	assert_int_equal(cs.by_key.n, 100);
	/* who is remembered has its own */
	ip = numbered(7);
	assert_true(clients_may_ask(&cs, &ip, now));
	assert_false(clients_may_ask(&cs, &ip, now));

	now += 2 * NS_PER_S;
	for (unsigned i = 20000; i < 20100; i++) {
		ip = numbered(i);
		assert_true(clients_may_ask(&cs, &ip, now));
		assert_true(clients_may_ask(&cs, &ip, now));
		assert_false(clients_may_ask(&cs, &ip, now));
		assert_true(cs.by_key.n <= 100);
	}
	now += 2 * NS_PER_S;
	for (unsigned i = 0; i < 1000; i++) {
		ip = numbered(i);
		(void)clients_may_ask(&cs, &ip, now += NS_PER_S);
	}
	assert_true(cs.by_key.n <= 2); /* the idle are forgotten */
	clients_done(&cs);
}

static void test_connections(void **state _unused_)
{
	struct ip a = address("192.0.2.1"), b = address("192.0.2.2");
	struct ip c = address("192.0.2.3"), proxy = address("10.1.2.3");
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct client *held[4], *none;
	struct clients cs;

	clients_init(&cs, 1);
	cs.max_connections = 2;
	assert_int_equal(nets_parse("10.0.0.0/8", &cs.trusted, &why), 0);
	assert_true(clients_may_connect(&cs, &a, 1, &held[0]));
	assert_true(clients_may_connect(&cs, &a, 1, &held[1]));
	assert_false(clients_may_connect(&cs, &a, 1, &none));
	assert_null(none);
	/* the table is full of one who is connected: the others share */
	assert_true(clients_may_connect(&cs, &b, 1, &held[2]));
	assert_true(clients_may_connect(&cs, &c, 1, &held[3]));
	assert_false(clients_may_connect(&cs, &b, 1, &none));
	assert_int_equal(cs.refused[CLIENT_CONNECTIONS], 2);
	for (int i = 0; i < 5; i++) {
		assert_true(clients_may_connect(&cs, &proxy, 1, &none));
		assert_null(none);
	}
	for (size_t i = 0; i < ARRAY_SIZE(held); i++)
		clients_disconnect(&cs, held[i]);
	/* now there is room for another */
	assert_true(clients_may_connect(&cs, &b, 2, &held[0]));
	assert_ptr_not_equal(held[0], &cs.others);
	clients_disconnect(&cs, held[0]);
	clients_done(&cs);
}

static void test_networks(void **state _unused_)
{
	static const struct {
		const char *list, *ip;
		bool has;
	} rows[] = {
		{ "", "10.0.0.1", false },
		{ "10.0.0.0/8", "10.255.0.1", true },
		{ "10.0.0.0/8", "::ffff:10.0.0.1", true },
		{ "10.0.0.0/8", "11.0.0.1", false },
		{ "10.0.0.0/9", "10.128.0.1", false },
		{ "0.0.0.0/0", "203.0.113.9", true },
		{ "0.0.0.0/0", "2001:db8::1", false },
		{ " ::1 , 192.0.2.1 ", "192.0.2.1", true },
		{ "::1,192.0.2.1", "::1", true },
		{ "fd00::/8", "fdff::1", true },
		{ "fd00::/8", "fe80::1", false },
		{ "::ffff:10.0.0.0/104", "10.7.7.7", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf why = BUF_INIT(0);
		struct ip ip = address(rows[i].ip);
		struct nets ns;

		assert_int_equal(nets_parse(rows[i].list, &ns, &why), 0);
		if (nets_has(&ns, &ip) != rows[i].has)
			fail_msg("%s in %s", rows[i].ip, rows[i].list);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_bytes_count),
		cmocka_unit_test(test_deaf),
		cmocka_unit_test(test_v6_by_network_v4_by_address),
		cmocka_unit_test(test_full_table),
		cmocka_unit_test(test_connections),
		cmocka_unit_test(test_networks),
	};

	return cmocka_run_group_tests_name("clients", tests, NULL, NULL);
}
