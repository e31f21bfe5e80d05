/*
 * See front/clients.h.
 */
#include "front/clients.h"

#include <stdlib.h>

#include "util/clock.h"

#define BUCKET_NS     NS_PER_S /* an empty bucket is full after so long */
#define REFUSALS      100u /* of a client per second that are told at once */
#define DEBT_NS       (10 * NS_PER_S) /* so much it may lack */
#define V6_BYTES      8               /* of an address that make a client */
#define FORGET_AT_ONE 2               /* so many at most where one is added */

const char *client_reason_name(enum client_reason r)
{
	static const char *const names[CLIENT_REASONS] = {
		[CLIENT_REQUESTS] = "requests",
		[CLIENT_CONNECTIONS] = "connections",
	};

	return names[r];
}

void clients_init(struct clients *cs, size_t max)
{
	*cs = (struct clients){ .max = max };
	list_init(&cs->idle);
}

void clients_done(struct clients *cs)
{
	CHECK(cs->others.connections == 0);
	LIST_FOREACH_SAFE (it, &cs->idle) {
		struct client *c = list_entry(it, struct client, node);

		(void)hmap_remove(&cs->by_key,
				  str_of(c->key.b, sizeof(c->key.b)));
		free(c);
	}
	CHECK(cs->by_key.n == 0); /* all connections are closed */
	hmap_done(&cs->by_key);
}

void clients_set(struct clients *cs, const struct settings *set)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	cs->rate = set->client_max_requests_per_second;
	cs->max_connections = set->client_max_connections;
	CHECK(nets_parse(set->trusted_proxies, &cs->trusted, &why) == 0);
}

/* --- who it is --- */

/* An address of X-Forwarded-For, where some write a port with it. */
static bool parse_forwarded(struct str s, struct ip *ret)
{
	struct str head, port;
	uint64_t n;

	s = str_trim(s);
	if (s.n > 0 && s.p[0] == '[') {
		if (!str_split(str_skip(s, 1), ']', &head, &port) ||
		    memchr(head.p, ':', head.n) == NULL)
			return false;
		if (port.n > 0 && port.p[0] != ':')
			return false;
		port = str_skip(port, MIN(port.n, (size_t)1));
		return (port.n == 0 || str_parse_u64(port, &n)) &&
		       ip_parse(head, ret);
	}
	if (ip_parse(s, ret))
		return true;
	return str_split(s, ':', &head, &port) && str_parse_u64(port, &n) &&
	       ip_parse(head, ret);
}

static struct str last_item(struct str *list)
{
	size_t n = list->n;
	struct str item;

	while (n > 0 && list->p[n - 1] != ',')
		n--;
	item = str_skip(*list, n);
	list->n = n > 0 ? n - 1 : 0;
	return item;
}

struct ip clients_find(const struct clients *cs, const struct ip *peer,
		       struct str forwarded)
{
	struct ip found = *peer, next;

	if (!nets_has(&cs->trusted, peer))
		return *peer;
	while (forwarded.n > 0 && nets_has(&cs->trusted, &found)) {
		if (!parse_forwarded(last_item(&forwarded), &next))
			return *peer;
		found = next;
	}
	return found;
}

/* --- the records --- */

struct ip clients_key(const struct ip *ip)
{
	struct ip key = *ip;

	if (!ip_is_v4(ip))
		memset(key.b + V6_BYTES, 0, sizeof(key.b) - V6_BYTES);
	return key;
}

static bool has_nothing(const struct client *c, uint64_t now_ns)
{
	return c->connections == 0 && c->full_ns <= now_ns &&
	       c->calm_ns <= now_ns;
}

static void forget(struct clients *cs, struct client *c)
{
	list_remove(&c->node);
	CHECK(hmap_remove(&cs->by_key, str_of(c->key.b, sizeof(c->key.b))) ==
	      c);
	free(c);
}

static void forget_some(struct clients *cs, uint64_t now_ns)
{
	for (int i = 0; i < FORGET_AT_ONE && !list_empty(&cs->idle); i++) {
		struct client *c =
		    list_entry(cs->idle.next, struct client, node);

		if (!has_nothing(c, now_ns))
			return;
		forget(cs, c);
	}
}

static struct client *client_of(struct clients *cs, const struct ip *ip,
				uint64_t now_ns)
{
	struct ip key = clients_key(ip);
	struct str bytes = str_of(key.b, sizeof(key.b));
	struct client *c = hmap_get(&cs->by_key, bytes);

	if (c != NULL)
		return c;
	forget_some(cs, now_ns);
	if (cs->by_key.n >= cs->max)
		return &cs->others;
	c = xcalloc(1, sizeof(*c));
	c->key = key;
	list_push_back(&cs->idle, &c->node);
	(void)hmap_put(&cs->by_key, bytes, c);
	CHECK(cs->by_key.n <= cs->max);
	return c;
}

/* --- what it may do --- */

static bool refuse(struct clients *cs, enum client_reason r)
{
	cs->refused[r]++;
	return false;
}

/* Takes n from the bucket, also what it does not have yet. */
static void take(struct clients *cs, struct client *c, uint64_t n,
		 uint64_t now_ns)
{
	uint64_t full_ns = MAX(c->full_ns, now_ns) + n * BUCKET_NS / cs->rate;

	c->full_ns = MIN(full_ns, now_ns + BUCKET_NS + DEBT_NS);
	if (c != &cs->others && c->connections == 0) {
		list_remove(&c->node);
		list_push_back(&cs->idle, &c->node);
	}
}

static void note_refusal(struct client *c, uint64_t now_ns)
{
	uint64_t calm_ns = MAX(c->calm_ns, now_ns) + BUCKET_NS / REFUSALS;

	c->calm_ns = MIN(calm_ns, now_ns + BUCKET_NS);
}

bool clients_may_ask(struct clients *cs, const struct ip *client,
		     uint64_t now_ns)
{
	struct client *c;
	uint64_t full_ns;

	if (cs->rate == 0 || ip_is_none(client))
		return true;
	c = client_of(cs, client, now_ns);
	full_ns = MAX(c->full_ns, now_ns) + BUCKET_NS / cs->rate;
	if (full_ns - now_ns > BUCKET_NS) {
		note_refusal(c, now_ns);
		return refuse(cs, CLIENT_REQUESTS);
	}
	take(cs, c, 1, now_ns);
	return true;
}

void clients_take_bytes(struct clients *cs, const struct ip *client, size_t n,
			uint64_t now_ns)
{
	if (cs->rate == 0 || n < CLIENT_TAKE_BYTES || ip_is_none(client))
		return;
	take(cs, client_of(cs, client, now_ns), n / CLIENT_TAKE_BYTES, now_ns);
}

unsigned clients_wait_s(struct clients *cs, const struct ip *client,
			uint64_t now_ns)
{
	uint64_t full_ns;

	if (cs->rate == 0 || ip_is_none(client))
		return 1;
	full_ns = client_of(cs, client, now_ns)->full_ns;
	if (full_ns <= now_ns + BUCKET_NS)
		return 1;
	return (unsigned)((full_ns - now_ns + BUCKET_NS / cs->rate - 1) /
			  NS_PER_S);
}

bool clients_is_in_debt(struct clients *cs, const struct ip *client,
			uint64_t now_ns)
{
	if (cs->rate == 0 || ip_is_none(client))
		return false;
	return client_of(cs, client, now_ns)->full_ns > now_ns + BUCKET_NS;
}

bool clients_is_deaf(struct clients *cs, const struct ip *client,
		     uint64_t now_ns)
{
	const struct client *c;

	if (cs->rate == 0 || ip_is_none(client))
		return false;
	c = client_of(cs, client, now_ns);
	return c->calm_ns > now_ns && c->calm_ns - now_ns >= BUCKET_NS / 2;
}

bool clients_may_knock(struct clients *cs, const struct ip *peer,
		       uint64_t now_ns)
{
	if (nets_has(&cs->trusted, peer) || !clients_is_deaf(cs, peer, now_ns))
		return true;
	note_refusal(client_of(cs, peer, now_ns), now_ns);
	return refuse(cs, CLIENT_CONNECTIONS);
}

static bool is_counted(const struct clients *cs, const struct ip *peer)
{
	return cs->max_connections != 0 && !ip_is_none(peer) &&
	       !nets_has(&cs->trusted, peer);
}

struct client *clients_connect(struct clients *cs, const struct ip *peer,
			       uint64_t now_ns)
{
	struct client *c;

	if (!is_counted(cs, peer))
		return NULL;
	c = client_of(cs, peer, now_ns);
	c->connections++;
	list_remove(&c->node);
	return c;
}

bool clients_may_connect(struct clients *cs, const struct ip *peer,
			 uint64_t now_ns, struct client **ret)
{
	*ret = NULL;
	if (is_counted(cs, peer) &&
	    client_of(cs, peer, now_ns)->connections >= cs->max_connections)
		return refuse(cs, CLIENT_CONNECTIONS);
	*ret = clients_connect(cs, peer, now_ns);
	return true;
}

void clients_disconnect(struct clients *cs, struct client *c)
{
	if (c == NULL)
		return;
	CHECK(c->connections > 0);
	c->connections--;
	if (c->connections == 0 && c != &cs->others)
		list_push_back(&cs->idle, &c->node);
}
