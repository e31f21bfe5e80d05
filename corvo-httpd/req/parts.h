/*
 * The parts of this process that requests use. httpd.c makes them, wires them
 * and owns them. Loop thread.
 */
#ifndef CORVO_HTTPD_PARTS_H
#define CORVO_HTTPD_PARTS_H

#include "rt/daemon.h"
#include "rt/listen.h"
#include "rt/rpc.h"
#include "util/id.h"
#include "util/list.h"
#include "util/tz.h"

struct hub;
struct leaving;
struct lifecycles;
struct server;
struct http_metrics;
struct tell;
struct turns;

/* What metrics tell of streams of remote calls. */
struct call_counts {
	size_t open;      /* streams of workers */
	size_t inflight;  /* frames of them at work */
	uint64_t streams; /* so far, and so on */
	uint64_t frames;
	uint64_t overloads;
};

struct httpd {
	struct daemon *d;
	const struct settings *set;
	struct server *server;
	struct listeners listeners;
	bool inherited; /* they are: others may go on to accept */
	struct hub *hub;
	struct lifecycles *lifecycles; /* streams of workers */
	struct call_counts calls;
	struct rpc_client *raftd;
	struct rpc_client *viewd;
	struct http_metrics *metrics;
	struct access *access;
	struct tell *tell;
	struct leaving *leaving; /* NULL: it does not drain */
	uint64_t end_ns;         /* of a drain: nothing goes on then; or 0 */
	struct turns *turns;     /* for what large bodies ask for */
	struct id_gen ids;
	struct rng rng;
	uint64_t seq;          /* greatest event sequence any reply carried */
	struct buf scratch;    /* message being encoded */
	struct buf frame;      /* and one on its way into a stream */
	struct list free_reqs; /* requests to be used again */
	size_t free_reqs_n;
	struct tz_cache zones; /* for schedules */
	struct buf openapi;    /* openapi.json, made at the first request */
	bool compat_03;        /* settings.compat */
	bool draining;
	bool told_ready;
};

#endif
