/*
 * corvo-httpd: takes HTTP requests, turns them into operations and questions
 * for raftd and viewd, and their answers into JSON. It owns no state: it may
 * die at any moment and another one goes on with the same listening socket.
 *
 * Everything that comes from a socket of a client is hostile. One thread, the
 * loop's; nng's threads never call in here.
 */
#ifndef CORVO_HTTPD_H
#define CORVO_HTTPD_H

#include "rt/daemon.h"
#include "rt/rpc.h"
#include "util/id.h"
#include "util/list.h"
#include "util/tz.h"

struct hub;
struct server;
struct http_metrics;
struct tell;

struct httpd {
	struct daemon *d;
	const struct settings *set;
	struct server *server;
	struct hub *hub;
	struct rpc_client *raftd;
	struct rpc_client *viewd;
	struct http_metrics *metrics;
	struct tell *tell;
	struct id_gen ids;
	struct rng rng;
	uint64_t seq;          /* greatest event sequence any reply carried */
	struct buf scratch;    /* message being encoded */
	struct list free_reqs; /* requests to be used again */
	size_t free_reqs_n;
	struct tz_cache zones; /* for schedules */
	struct buf openapi;    /* openapi.json, made at the first request */
	bool compat_03;        /* settings.compat */
	bool draining;
	bool told_ready;
};

extern const struct daemon_ops httpd_ops;

#endif
