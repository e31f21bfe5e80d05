/*
 * See rt/reach.h. Networks by the registries of special addresses: RFC 6890
 * and what came after it, multicast, and the address by which one cloud's
 * machines ask for what concerns them alone. IPv6 networks that stand for IPv4
 * addresses are closed whole: nobody reaches a public receiver only by them.
 */
#include "rt/reach.h"

#include <strings.h>

#include "proto/err.h"
#include "rt/netaddr.h"

static const char closed_nets[] =
    "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 168.63.129.16, "
    "169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, 192.0.2.0/24, "
    "192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, 198.51.100.0/24, "
    "203.0.113.0/24, 224.0.0.0/4, 240.0.0.0/4, "
    "::1, 64:ff9b::/96, 64:ff9b:1::/48, 100::/64, 2001::/23, 2001:db8::/32, "
    "2002::/16, 3fff::/20, 5f00::/16, fc00::/7, fe80::/10, fec0::/10, "
    "ff00::/8";

static const char loopback_nets[] = "127.0.0.0/8, ::1";

static bool is_host(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '/' || s.p[i] == ':' || s.p[i] <= ' ')
			return false;
	return s.n > 0;
}

static int add_item(struct reach *r, struct str item, struct buf *why)
{
	char text[64];
	struct nets one;

	if (item.n < sizeof(text)) {
		_cleanup_(buf_done) struct buf no = BUF_INIT(1024);

		memcpy(text, item.p, item.n);
		text[item.n] = '\0';
		if (nets_parse(text, &one, &no) == 0 && one.n == 1 &&
		    r->nets.n < ARRAY_SIZE(r->nets.net)) {
			r->nets.net[r->nets.n++] = one.net[0];
			return 0;
		}
	}
	if (!is_host(item) || r->hosts_n == ARRAY_SIZE(r->hosts)) {
		buf_printf(why,
			   "\"%.*s\" is neither a network, as 10.0.0.0/8, nor "
			   "a name of a host, or there are too many",
			   STR_ARG(item));
		return -ERR_VALIDATION_ERROR;
	}
	r->hosts[r->hosts_n++] = item;
	return 0;
}

static void add_loopback(struct reach *r)
{
	struct nets own;
	int e = nets_parse(loopback_nets, &own, NULL);

	CHECK(e == 0);
	for (size_t i = 0; i < own.n; i++)
		r->nets.net[r->nets.n++] = own.net[i];
}

int reach_init(struct reach *ret, const char *allow, bool loopback,
	       struct buf *why)
{
	struct str rest = str_trim(str_from(allow)), item;
	bool more = rest.n > 0;
	int r = nets_parse(closed_nets, &ret->closed, NULL);

	CHECK(r == 0);
	ret->nets.n = ret->hosts_n = 0;
	if (loopback)
		add_loopback(ret);
	while (r == 0 && more) {
		more = str_split(rest, ',', &item, &rest);
		r = add_item(ret, str_trim(item), why);
	}
	return r;
}

/* ::a.b.c.d, as IPv6 once wrote IPv4 addresses, and :: itself. */
static bool is_old_v4(const struct ip *ip)
{
	static const unsigned char zeroes[12];

	return memcmp(ip->b, zeroes, sizeof(zeroes)) == 0;
}

bool reach_has(const struct reach *r, struct str host, const struct ip *ip)
{
	if (nets_has(&r->nets, ip))
		return true;
	for (size_t i = 0; i < r->hosts_n; i++)
		if (r->hosts[i].n == host.n &&
		    strncasecmp(r->hosts[i].p, host.p, host.n) == 0)
			return true;
	return !is_old_v4(ip) && !nets_has(&r->closed, ip);
}

static bool is_local(struct str one)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(1024);
	struct str host;
	uint16_t port;

	if (str_starts(one, STR("unix:")))
		return true;
	buf_put_str(&text, one);
	buf_putc(&text, '\0');
	return netaddr_split(text.p, &host, &port, &why) == 0 &&
	       (netaddr_is_loopback(host) || str_is(host, "localhost"));
}

bool reach_is_local(const char *bind)
{
	struct str rest = str_from(bind), item;
	bool more = true, local = true;

	while (more && local) {
		more = str_split(rest, ',', &item, &rest);
		local = is_local(str_trim(item));
	}
	return local;
}
