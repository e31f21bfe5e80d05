/*
 * See rt/ip.h.
 */
#include "rt/ip.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "proto/err.h"

#define V4_BITS_BEFORE 96 /* of ::ffff:0:0/96 */
#define IP_BITS        128

static const unsigned char v4_head[12] = { [10] = 0xff, [11] = 0xff };

bool ip_is_none(const struct ip *ip)
{
	static const struct ip none;

	return memcmp(ip, &none, sizeof(none)) == 0;
}

bool ip_is_v4(const struct ip *ip)
{
	return memcmp(ip->b, v4_head, sizeof(v4_head)) == 0;
}

static void set_v4(struct ip *ip, const struct in_addr *v4)
{
	memcpy(ip->b, v4_head, sizeof(v4_head));
	memcpy(ip->b + sizeof(v4_head), v4, sizeof(*v4));
}

bool ip_parse(struct str text, struct ip *ret)
{
	char s[IP_TEXT_BYTES];
	struct in_addr v4;

	if (text.n >= sizeof(s) || memchr(text.p, '\0', text.n) != NULL)
		return false;
	memcpy(s, text.p, text.n);
	s[text.n] = '\0';
	if (inet_pton(AF_INET, s, &v4) == 1) {
		set_v4(ret, &v4);
		return true;
	}
	return inet_pton(AF_INET6, s, ret->b) == 1 && !ip_is_none(ret);
}

struct ip ip_of(const struct sockaddr *sa)
{
	const void *p = sa;
	struct ip ip = { 0 };

	if (sa->sa_family == AF_INET)
		set_v4(&ip, &((const struct sockaddr_in *)p)->sin_addr);
	else if (sa->sa_family == AF_INET6)
		memcpy(ip.b, &((const struct sockaddr_in6 *)p)->sin6_addr,
		       sizeof(ip.b));
	return ip;
}

void ip_format(const struct ip *ip, char to[IP_TEXT_BYTES])
{
	bool v4 = ip_is_v4(ip);

	CHECK(inet_ntop(v4 ? AF_INET : AF_INET6,
			ip->b + (v4 ? sizeof(v4_head) : 0), to,
			IP_TEXT_BYTES) != NULL);
}

/* The first `bits` of an address. */
static struct ip head_of(const struct ip *ip, unsigned bits)
{
	struct ip head = { 0 };

	memcpy(head.b, ip->b, bits / 8);
	if (bits % 8 != 0)
		head.b[bits / 8] =
		    (unsigned char)(ip->b[bits / 8] & (0xff00 >> bits % 8));
	return head;
}

static int refuse(struct buf *why, struct str item, const char *what)
{
	buf_printf(why,
		   "\"%.*s\" is not an address or network: %s; write for "
		   "example 192.0.2.1, 10.0.0.0/8 or fd00::/8",
		   STR_ARG(item), what);
	return -ERR_VALIDATION_ERROR;
}

static int net_parse(struct str item, struct net *ret, struct buf *why)
{
	struct str address, bits;
	bool has_bits = str_split(item, '/', &address, &bits);
	uint64_t max, n;
	struct ip head;

	if (!ip_parse(address, &ret->ip))
		return refuse(why, item, "the address cannot be read");
	max = ip_is_v4(&ret->ip) && memchr(address.p, ':', address.n) == NULL
		  ? IP_BITS - V4_BITS_BEFORE
		  : IP_BITS;
	n = max;
	if (has_bits && (!str_parse_u64(bits, &n) || n > max))
		return refuse(why, item, "the bits after / are no such number");
	ret->bits = (unsigned)(n + IP_BITS - max);
	head = head_of(&ret->ip, ret->bits);
	if (memcmp(&head, &ret->ip, sizeof(head)) != 0)
		return refuse(why, item,
			      "it has bits beyond those that / counts");
	return 0;
}

int nets_parse(const char *text, struct nets *ret, struct buf *why)
{
	struct str rest = str_trim(str_from(text)), item;
	struct nets ns = { .n = 0 };
	bool more = rest.n > 0;

	while (more) {
		int r;

		more = str_split(rest, ',', &item, &rest);
		if (ns.n == LIMIT_TRUSTED_PROXIES) {
			buf_printf(why, "there are more than %u networks",
				   LIMIT_TRUSTED_PROXIES);
			return -ERR_VALIDATION_ERROR;
		}
		r = net_parse(str_trim(item), &ns.net[ns.n++], why);
		if (r < 0)
			return r;
	}
	*ret = ns;
	return 0;
}

bool nets_has(const struct nets *ns, const struct ip *ip)
{
	for (size_t i = 0; i < ns->n; i++) {
		struct ip head = head_of(ip, ns->net[i].bits);

		if (memcmp(&head, &ns->net[i].ip, sizeof(head)) == 0)
			return true;
	}
	return false;
}
