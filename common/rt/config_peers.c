/*
 * Which settings about other nodes work: the port for them, and where they
 * are looked for.
 */
#include "proto/err.h"
#include "proto/limits.h"
#include "rt/config.h"
#include "rt/config_impl.h"
#include "rt/netaddr.h"

#define ADVERTISE_BYTES 255
#define DEAD_NS_MIN     (5 * NS_PER_S) /* more than a pause of a node */

/* --- where others are looked for --- */

static const char *const discover_names[] = {
	[DISCOVER_STATIC] = "static",
	[DISCOVER_GOSSIP] = "gossip",
	[DISCOVER_DNS] = "dns",
	[DISCOVER_SRV] = "dns-srv",
	[DISCOVER_KUBERNETES] = "kubernetes",
};

enum discover_how settings_discover(const struct settings *s)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(discover_names) &&
	       strcmp(s->discover, discover_names[i]) != 0)
		i++;
	return (enum discover_how)i;
}

bool settings_next_join(struct str *rest, struct str *ret)
{
	while (rest->n > 0) {
		if (!str_split(*rest, ',', ret, rest))
			*rest = STR_NULL;
		*ret = str_trim(*ret);
		if (ret->n > 0)
			return true;
	}
	return false;
}

/* host:port of a node's API may stand there, too, as http://host:port. */
static struct str address_of(const struct settings *s, struct str place)
{
	enum discover_how how = settings_discover(s);

	if ((how != DISCOVER_STATIC && how != DISCOVER_GOSSIP) ||
	    !str_starts(place, STR("http://")))
		return place;
	place = str_skip(place, strlen("http://"));
	if (place.n > 0 && place.p[place.n - 1] == '/')
		place.n--;
	return place;
}

/* One place to look at, of a list of them. */
static int check_place(const struct settings *s, struct str place,
		       struct buf *why)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(buf_done) struct buf bad = BUF_INIT(0);
	struct str host;
	uint16_t port = 0;
	int r;

	buf_put_str(&text, address_of(s, place));
	buf_putc(&text, '\0');
	if (place.n > LIMIT_ADDRESS_BYTES)
		return setting_refuse(s, SETTING_join,
				      "addresses of at most 255 bytes", why);
	/* names of services need no port */
	if (settings_discover(s) == DISCOVER_SRV ||
	    (settings_discover(s) == DISCOVER_KUBERNETES &&
	     memchr(place.p, ':', place.n) == NULL))
		return 0;
	r = netaddr_split(text.p, &host, &port, &bad);
	if (r == 0 && host.n > 0 && port != 0)
		return 0;
	setting_put_where(why, s, SETTING_join, s->source[SETTING_join]);
	if (r < 0)
		buf_put_str(why, buf_str(&bad));
	else
		buf_printf(why,
			   "%s is no address of another node; it takes "
			   "host:port of its raft_bind, or http://host:port "
			   "of its bind",
			   text.p);
	return -ERR_VALIDATION_ERROR;
}

static int check_places(const struct settings *s, size_t *ret_n,
			struct buf *why)
{
	struct str rest = str_from(s->join), one;
	int r = 0;

	*ret_n = 0;
	while (r == 0 && settings_next_join(&rest, &one)) {
		r = check_place(s, one, why);
		*ret_n += !str_is(one, settings_advertise(s));
	}
	if (r == 0 && *ret_n > LIMIT_MEMBERS)
		r = setting_refuse(s, SETTING_join, "at most 32 addresses",
				   why);
	return r;
}

static int check_expect(const struct settings *s, size_t places,
			struct buf *why)
{
	enum discover_how how = settings_discover(s);
	uint64_t others = s->bootstrap_expect - (s->bootstrap_expect > 0);

	if (s->bootstrap_expect > 0 && !s->bootstrap)
		return setting_refuse(s, SETTING_bootstrap_expect,
				      "0 where bootstrap is false", why);
	if (how == DISCOVER_STATIC && others > places) {
		setting_put_where(why, s, SETTING_bootstrap_expect,
				  s->source[SETTING_bootstrap_expect]);
		buf_printf(why,
			   "%llu nodes are expected and join (--join) names "
			   "%zu others; name all of them, or use "
			   "--discover=gossip, which finds the rest",
			   (unsigned long long)s->bootstrap_expect, places);
		return -ERR_VALIDATION_ERROR;
	}
	if (places > 0 || how == DISCOVER_KUBERNETES || others == 0)
		return 0;
	setting_put_where(why, s, SETTING_bootstrap_expect,
			  s->source[SETTING_bootstrap_expect]);
	buf_puts(why, "nobody is named who could be asked for the others; set "
		      "join (--join)");
	return -ERR_VALIDATION_ERROR;
}

int settings_check_peers(const struct settings *s, struct buf *why)
{
	enum discover_how how = settings_discover(s);
	size_t places;
	int r;

	if ((size_t)how == ARRAY_SIZE(discover_names))
		return setting_refuse(s, SETTING_discover,
				      "static, gossip, dns, dns-srv or "
				      "kubernetes",
				      why);
	r = check_places(s, &places, why);
	if (r < 0)
		return r;
	if (s->remove_dead_after > 0 && s->remove_dead_after < DEAD_NS_MIN)
		return setting_refuse(s, SETTING_remove_dead_after,
				      "0s, or 5s and more", why);
	if (places == 0 && (how == DISCOVER_DNS || how == DISCOVER_SRV)) {
		setting_put_where(why, s, SETTING_discover,
				  s->source[SETTING_discover]);
		buf_printf(why, "%s needs a name; set join (--join) to it",
			   s->discover);
		return -ERR_VALIDATION_ERROR;
	}
	return check_expect(s, places, why);
}

/* --- the port --- */

bool settings_is_cluster(const struct settings *s)
{
	return s->cluster || s->join[0] != '\0' || s->bootstrap_expect > 0 ||
	       settings_discover(s) == DISCOVER_KUBERNETES;
}

const char *settings_advertise(const struct settings *s)
{
	return s->raft_advertise[0] != '\0' ? s->raft_advertise : s->raft_bind;
}

/* The beginning of a sentence about the setting; returns the error. */
static int blame(const struct settings *s, enum setting_id id, struct buf *why)
{
	setting_put_where(why, s, id, s->source[id]);
	return -ERR_VALIDATION_ERROR;
}

/* Other nodes are told to dial it: only they know whether a name is one. */
static int check_advertise(const struct settings *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf bad = BUF_INIT(0);
	const char *text = settings_advertise(s);
	bool own = text == s->raft_advertise;
	enum setting_id id = own ? SETTING_raft_advertise : SETTING_raft_bind;
	struct str host;
	uint16_t port;
	int r = netaddr_split(text, &host, &port, &bad);

	if (r < 0) {
		r = blame(s, id, why);
		buf_put_str(why, buf_str(&bad));
		return r;
	}
	for (size_t i = 0; i < host.n; i++)
		if (host.p[i] <= ' ' || host.p[i] > '~')
			return setting_refuse(s, id, "host:port", why);
	if (strlen(text) > ADVERTISE_BYTES)
		return setting_refuse(s, id, "at most 255 bytes", why);
	if (host.n > 0 && port != 0 && !netaddr_is_wildcard(host))
		return 0;
	r = blame(s, id, why);
	buf_printf(why,
		   "%s is no address that other nodes can dial; set %s to the "
		   "host:port by which they reach this node",
		   text,
		   own ? "it"
		       : "raft_advertise (--raft-advertise), or raft_bind,");
	return r;
}

/* The port for other nodes: whoever can reach it must know a secret. */
int settings_check_peer_port(const struct settings *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf bad = BUF_INIT(0);
	struct netaddr a;
	int r = netaddr_parse(s->raft_bind, &a, &bad);

	if (r < 0) {
		r = blame(s, SETTING_raft_bind, why);
		buf_put_str(why, buf_str(&bad));
		return r;
	}
	if (a.loopback || s->cluster_secret_file[0] != '\0')
		return check_advertise(s, why);
	r = blame(s, SETTING_raft_bind, why);
	buf_printf(why,
		   "%s can be reached from other machines, and without a "
		   "secret any of them could join the cluster; set "
		   "cluster_secret_file (--cluster-secret-file) to a file that "
		   "is the same on all nodes, or bind 127.0.0.1:9400 to stay "
		   "on this machine",
		   s->raft_bind);
	return r;
}
