/*
 * Shared by service.c and service_read.c only.
 */
#ifndef CORVO_SERVICE_IMPL_H
#define CORVO_SERVICE_IMPL_H

#include "rt/worker.h"
#include "service.h"
#include "util/list.h"

struct lane {
	struct list ready;
	size_t first; /* its reader while writers need the processors */
	uint64_t rest_until_ns; /* which then starts nothing before */
};

enum { LANE_QUICK, LANE_SEARCH, LANE_LONG, LANES };
_Static_assert(VIEW_READERS >= LANES, "each lane has a reader");

struct ask {
	struct list node;
	struct service *service;
	struct lane *lane;
	struct rpc_req req;
	uint64_t min_seq;
	uint64_t came_ns;       /* clock_mono_ns */
	uint64_t wait_until_ns; /* the same */
	uint64_t started_ns;    /* the same */
	uint64_t turn_until_ns; /* the same; its turn has to come before */
	struct buf body;        /* the request as it came */
	struct arena arena;     /* its lists */
	void *msg;              /* decoded, in arena */
	struct query_ask query;
	bool uses_text;       /* finds jobs by their words */
	bool dropped;         /* nobody wants the answer any more */
	bool again;           /* was interrupted to be run once more */
	struct query *reader; /* set while it runs */
	int err;
	struct buf out;
};

struct service {
	struct daemon *d;
	const struct view *view;
	struct rpc_server *server;
	struct list waiting;
	struct lane lanes[LANES];
	size_t asks; /* in all places */
	struct ask *running[VIEW_READERS];
	struct worker *workers[VIEW_READERS]; /* one for each reader */
	uint64_t busy_until_ns;               /* writers need the processors */
	struct loop_timer *rest_timer; /* the end of a rest, or of that */
	struct loop_timer *wait_timer; /* the first wait_until_ns, or
					* turn_until_ns */
	bool usable;
	bool paused;
	loop_fn *idle; /* of service_pause, until it ran */
	void *idle_ctx;
	bool writing;   /* the file is being written to */
	uint64_t shown; /* the newest event that answers were given with */
	const struct service_ops *ops;
	void *ops_ctx;
	struct query_facts facts;
};

void ask_free(struct ask *a);
void ask_refuse(struct ask *a, int err, const char *text);

/* Moves on whatever waits no longer, and sets the timer for the rest. */
void service_look(struct service *s);

/* --- service_read.c --- */

/* Gives ready questions to free readers. */
void readers_dispatch(struct service *s);
/* Refuses those whose turn did not come in time; the next moment at which one
 * will have to be, or UINT64_MAX. */
uint64_t readers_give_up(struct service *s, uint64_t now);
/* Nobody has a question. */
bool readers_are_idle(const struct service *s);
void readers_on_rest_over(void *ctx);
struct query_facts readers_facts(const struct service *s);
/* The view is too old for it. */
bool readers_are_behind(const struct service *s, const struct ask *a);

#endif
