/*
 * What each client may do: so many requests per second, and so many connections
 * at a time. A client is an address; of IPv6 the network of 64 bits that one
 * customer has, because all of its addresses are his.
 *
 * A request takes from a bucket that holds what one second allows and fills
 * steadily, and takes more for many bytes, also when the bucket then lacks up
 * to ten seconds; one that is refused takes nothing. Whoever goes on although
 * he is refused has a second bucket, of refusals he is told at once. The
 * addresses that are remembered are bounded: those that have no connection and
 * a full bucket are forgotten, and while there are none of these, all that come
 * anew share one record. Every look is O(1). Loop thread.
 */
#ifndef CORVO_CLIENTS_H
#define CORVO_CLIENTS_H

#include "rt/config.h"
#include "rt/ip.h"
#include "util/hmap.h"
#include "util/list.h"

#define CLIENT_TAKE_BYTES (4u << 10) /* of both ways: as much as a request */

/* What was refused. */
enum client_reason { CLIENT_REQUESTS, CLIENT_CONNECTIONS, CLIENT_REASONS };

struct client {
	struct list node;     /* of those without connections */
	struct ip key;        /* of several addresses */
	uint64_t full_ns;     /* when its bucket will be full */
	uint64_t calm_ns;     /* and that of refusals */
	uint64_t connections; /* that are counted */
};

struct clients {
	uint64_t rate;            /* requests per second; 0: any */
	uint64_t max_connections; /* of a client; 0: any */
	size_t max;               /* clients that are remembered */
	struct nets trusted;      /* proxies */
	struct hmap by_key;
	struct list idle; /* without connections; longest unused first */
	struct client others;
	uint64_t refused[CLIENT_REASONS];
};

const char *client_reason_name(enum client_reason r); /* for a label */

void clients_init(struct clients *cs, size_t max);
void clients_done(struct clients *cs);
/* Takes the limits from settings that were checked. */
void clients_set(struct clients *cs, const struct settings *set);

/*
 * Who asks: the peer; if that is a trusted proxy, the last address of its
 * X-Forwarded-For (all lines of it, joined by commas) that is not trusted
 * itself, or the first if all are. What cannot be read is nobody's word: then
 * it is the peer.
 */
struct ip clients_find(const struct clients *cs, const struct ip *peer,
		       struct str forwarded);

/* The address that stands for all of a client. */
struct ip clients_key(const struct ip *ip);

/* Takes one request from the client's bucket. False: counted as refused. */
bool clients_may_ask(struct clients *cs, const struct ip *client,
		     uint64_t now_ns);

/* Takes what so many bytes of a body or of an answer have cost. */
void clients_take_bytes(struct clients *cs, const struct ip *client, size_t n,
			uint64_t now_ns);

/* Seconds after which it may ask again, at least one. */
unsigned clients_wait_s(struct clients *cs, const struct ip *client,
			uint64_t now_ns);
/* Whether more was taken than it had. */
bool clients_is_in_debt(struct clients *cs, const struct ip *client,
			uint64_t now_ns);

/* Whether it goes on although it was refused often: no need to tell it soon. */
bool clients_is_deaf(struct clients *cs, const struct ip *client,
		     uint64_t now_ns);
/* Whether to take a connection of that peer at all; those of deaf ones are not
 * worth a word. False: counted as refused. */
bool clients_may_knock(struct clients *cs, const struct ip *peer,
		       uint64_t now_ns);

/*
 * A connection of that peer. False: counted as refused. *ret, or NULL when it
 * is not counted, is for clients_disconnect. Trusted proxies and peers without
 * address have no limit.
 */
bool clients_may_connect(struct clients *cs, const struct ip *peer,
			 uint64_t now_ns, struct client **ret);
/* The same of a connection that there is already. */
struct client *clients_connect(struct clients *cs, const struct ip *peer,
			       uint64_t now_ns);
void clients_disconnect(struct clients *cs, struct client *c);

#endif
