/*
 * Which addresses the server itself may call. What is not for everybody
 * (loopback, private and link-local networks, metadata of clouds) is called
 * only where a setting names it.
 */
#ifndef CORVO_REACH_H
#define CORVO_REACH_H

#include "rt/ip.h"

#define REACH_HOSTS 64

struct reach {
	struct nets closed;            /* not for everybody */
	struct nets nets;              /* of those, allowed */
	struct str hosts[REACH_HOSTS]; /* slices of the setting */
	size_t hosts_n;
};

/*
 * allow: networks, addresses and names of hosts, separated by commas; it must
 * live as long as *ret. loopback: that is allowed too. -ERR_VALIDATION_ERROR
 * with a sentence in why.
 */
int reach_init(struct reach *ret, const char *allow, bool loopback,
	       struct buf *why);

/* host: the name by which it is called. */
bool reach_has(const struct reach *r, struct str host, const struct ip *ip);

/* No other machine reaches any of these addresses (as of setting bind). */
bool reach_is_local(const char *bind);

#endif
