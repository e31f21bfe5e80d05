/*
 * Addresses of clients, and lists of networks. An IPv4 address is kept as IPv6
 * writes it (::ffff:a.b.c.d), so that an address has one form, whichever socket
 * it came by.
 */
#ifndef CORVO_IP_H
#define CORVO_IP_H

#include <sys/socket.h>

#include "proto/limits.h"
#include "util/buf.h"

#define IP_TEXT_BYTES 46 /* with its NUL */

/* Zeroed: none, as that of a client of a UNIX socket. */
struct ip {
	unsigned char b[16];
};

bool ip_is_none(const struct ip *ip);
bool ip_is_v4(const struct ip *ip);

/* False: the text is no numeric address, or the one that means none. */
bool ip_parse(struct str text, struct ip *ret);
struct ip ip_of(const struct sockaddr *sa);
void ip_format(const struct ip *ip, char to[IP_TEXT_BYTES]);

struct net {
	struct ip ip;
	unsigned bits; /* of the IPv6 form that count */
};

struct nets {
	struct net net[LIMIT_TRUSTED_PROXIES];
	size_t n;
};

/*
 * "10.0.0.0/8, ::1, fd00::/8"; empty is none. -ERR_VALIDATION_ERROR with a
 * sentence in why.
 */
int nets_parse(const char *text, struct nets *ret, struct buf *why);
bool nets_has(const struct nets *ns, const struct ip *ip);

#endif
