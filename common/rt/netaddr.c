/*
 * Addresses. Names are resolved when they are parsed; of several addresses
 * of a name IPv4 is preferred, because that is what "localhost" means to most
 * clients of a listening socket.
 */
#include "rt/netaddr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/err.h"

#define LISTEN_BACKLOG 4096
#define HOST_BYTES     256

static int refuse(struct buf *why, const char *text, const char *what)
{
	buf_printf(why,
		   "\"%s\" is not an address: %s; write host:port, for example "
		   "127.0.0.1:8080, [::1]:8080 or :8080 for every address",
		   text, what);
	return -ERR_VALIDATION_ERROR;
}

int netaddr_split(const char *text, struct str *ret_host, uint16_t *ret_port,
		  struct buf *why)
{
	struct str s = str_from(text);
	const char *colon = strrchr(text, ':');
	struct str host, port;
	uint64_t number;

	if (colon == NULL)
		return refuse(why, text, "there is no port");
	host = str_of(s.p, (size_t)(colon - s.p));
	port = str_skip(s, host.n + 1);
	if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
		host = str_of(host.p + 1, host.n - 2);
	else if (host.n > 0 && memchr(host.p, ':', host.n) != NULL)
		return refuse(why, text, "an IPv6 address needs [ ] around it");
	if (!str_parse_u64(port, &number) || number > UINT16_MAX)
		return refuse(why, text, "the port must be 0 to 65535");
	*ret_host = host;
	*ret_port = (uint16_t)number;
	return 0;
}

static bool is_loopback(const struct sockaddr_storage *sa)
{
	const struct in6_addr *v6;

	if (sa->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;

		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	}
	v6 = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	if (IN6_IS_ADDR_V4MAPPED(v6))
		return v6->s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(v6);
}

/* An address in digits; false: it is none. */
static bool from_digits(struct str host, struct sockaddr_storage *ret)
{
	struct sockaddr_in *v4 = (void *)ret;
	struct sockaddr_in6 *v6 = (void *)ret;
	char text[INET6_ADDRSTRLEN];

	*ret = (struct sockaddr_storage){ .ss_family = AF_INET };
	if (host.n >= sizeof(text))
		return false;
	memcpy(text, host.p, host.n);
	text[host.n] = '\0';
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		return true;
	ret->ss_family = AF_INET6;
	return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

bool netaddr_is_loopback(struct str host)
{
	struct sockaddr_storage sa;

	return from_digits(host, &sa) && is_loopback(&sa);
}

bool netaddr_is_wildcard(struct str host)
{
	static const struct in6_addr any = IN6ADDR_ANY_INIT;
	struct sockaddr_storage sa;
	const struct sockaddr_in *v4 = (const void *)&sa;
	const struct sockaddr_in6 *v6 = (const void *)&sa;

	if (!from_digits(host, &sa))
		return false;
	if (sa.ss_family == AF_INET)
		return v4->sin_addr.s_addr == INADDR_ANY;
	return memcmp(&v6->sin6_addr, &any, sizeof(any)) == 0;
}

int netaddr_fd_is_local(int fd)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);

	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	return sa.ss_family == AF_UNIX || is_loopback(&sa);
}

static void every_address(struct netaddr *ret, uint16_t port)
{
	struct sockaddr_in6 *in6 = (void *)&ret->sa;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	in6->sin6_addr = in6addr_any;
	ret->len = sizeof(*in6);
}

/* What getaddrinfo knows of the host; to be freed. */
static int look_up(const char *text, struct str host, uint16_t port, int flags,
		   struct addrinfo **ret, struct buf *why)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = flags };
	char name[HOST_BYTES];
	char service[8];
	int r;

	if (host.n >= sizeof(name) || memchr(host.p, '\0', host.n) != NULL)
		return refuse(why, text, "the host name is too long");
	memcpy(name, host.p, host.n);
	name[host.n] = '\0';
	(void)snprintf(service, sizeof(service), "%u", port);

	r = getaddrinfo(name, service, &hints, ret);
	if (r != 0) {
		buf_printf(why, "\"%s\": the host \"%s\" cannot be found (%s)",
			   text, name, gai_strerror(r));
		return -ERR_VALIDATION_ERROR;
	}
	return 0;
}

static void set_address(struct netaddr *ret, const struct addrinfo *i)
{
	memcpy(&ret->sa, i->ai_addr, i->ai_addrlen);
	ret->len = i->ai_addrlen;
	ret->loopback = is_loopback(&ret->sa);
}

static int resolve(const char *text, struct str host, uint16_t port,
		   struct netaddr *ret, struct buf *why)
{
	struct addrinfo *list, *chosen;
	int r = look_up(text, host, port, 0, &list, why);

	if (r < 0)
		return r;
	chosen = list;
	for (struct addrinfo *i = list; i != NULL; i = i->ai_next) {
		if (i->ai_family == AF_INET) {
			chosen = i;
			break;
		}
	}
	set_address(ret, chosen);
	freeaddrinfo(list);
	return 0;
}

int netaddr_resolve(const char *text, bool numeric, struct netaddr *ret,
		    size_t max, size_t *ret_n, struct buf *why)
{
	struct addrinfo *list;
	struct str host;
	uint16_t port;
	int r = netaddr_split(text, &host, &port, why);

	*ret_n = 0;
	if (r < 0)
		return r;
	if (host.n == 0 || port == 0)
		return refuse(why, text, "nobody can dial it");
	r = look_up(text, host, port,
		    AI_NUMERICSERV | (numeric ? AI_NUMERICHOST : 0), &list,
		    why);
	if (r < 0)
		return r;
	for (struct addrinfo *i = list; i != NULL && *ret_n < max;
	     i = i->ai_next) {
		ret[*ret_n] = (struct netaddr){ .len = 0 };
		set_address(&ret[(*ret_n)++], i);
	}
	freeaddrinfo(list);
	return 0;
}

int netaddr_parse(const char *text, struct netaddr *ret, struct buf *why)
{
	struct netaddr a = { .len = 0 };
	struct str host;
	uint16_t port;
	int r;

	r = netaddr_split(text, &host, &port, why);
	if (r < 0)
		return r;
	if (host.n == 0) {
		every_address(&a, port);
	} else {
		r = resolve(text, host, port, &a, why);
		if (r < 0)
			return r;
	}
	*ret = a;
	return 0;
}

void netaddr_put(const struct sockaddr_storage *sa, struct buf *out)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;
	char text[INET6_ADDRSTRLEN] = "?";

	if (sa->ss_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
		buf_printf(out, "[%s]:%u", text, ntohs(in6->sin6_port));
	} else {
		(void)inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		buf_printf(out, "%s:%u", text, ntohs(in->sin_port));
	}
}

static int set_on(int fd, int level, int option)
{
	int on = 1;

	return setsockopt(fd, level, option, &on, sizeof(on));
}

static int listen_on(const struct sockaddr_storage *sa, socklen_t len)
{
	int off = 0;
	int fd, r;

	fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
		    0);
	if (fd < 0)
		return -errno;
	(void)set_on(fd, SOL_SOCKET, SO_REUSEADDR);
	(void)set_on(fd, SOL_SOCKET, SO_KEEPALIVE);
	if (sa->ss_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off,
				 sizeof(off));
	if (bind(fd, (const struct sockaddr *)(const void *)sa, len) < 0 ||
	    listen(fd, LISTEN_BACKLOG) < 0) {
		r = -errno;
		(void)close(fd);
		return r;
	}
	return fd;
}

/* "Every address" on a host without IPv6 is every IPv4 address. */
static int listen_on_v4(const struct netaddr *a)
{
	const struct sockaddr_in6 *in6 = (const void *)&a->sa;
	struct sockaddr_storage sa = { .ss_family = AF_INET };
	struct sockaddr_in *in = (void *)&sa;

	in->sin_port = in6->sin6_port;
	return listen_on(&sa, sizeof(*in));
}

static bool is_every_v6(const struct netaddr *a)
{
	const struct sockaddr_in6 *in6 = (const void *)&a->sa;

	return a->sa.ss_family == AF_INET6 &&
	       IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

int netaddr_listen(const struct netaddr *a, const char *text, struct buf *why)
{
	int fd = listen_on(&a->sa, a->len);

	if ((fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL) && is_every_v6(a))
		fd = listen_on_v4(a);
	if (fd >= 0)
		return fd;

	buf_printf(why, "cannot listen on %s: ", text);
	if (fd == -EADDRINUSE)
		buf_puts(why, "the port is in use by another program; stop it "
			      "or choose another port");
	else if (fd == -EACCES || fd == -EPERM)
		buf_puts(why, "no permission; choose a port above 1023 or give "
			      "the program CAP_NET_BIND_SERVICE");
	else if (fd == -EADDRNOTAVAIL)
		buf_puts(why, "this machine does not have that address");
	else
		buf_puts(why, strerror(-fd));
	return -ERR_VALIDATION_ERROR;
}
