/*
 * Shared by service.c and service_read.c only.
 */
#ifndef CORVO_SERVICE_IMPL_H
#define CORVO_SERVICE_IMPL_H

#include "rt/worker.h"
#include "service.h"
#include "util/hmap.h"
#include "util/list.h"

struct asker;

/* What a client has ready in a lane, in the order it came. */
struct turn {
	struct list node; /* among those of the lane that have some */
	struct list ready;
	size_t n;
	struct asker *asker;
};

struct lane {
	struct list turns; /* the first is next */
	size_t n;          /* questions that are ready */
	size_t first;      /* its reader while writers need the processors */
	uint64_t rest_until_ns; /* which then starts nothing before */
};

enum { LANE_QUICK, LANE_SEARCH, LANE_LONG, LANES };
_Static_assert(VIEW_READERS >= LANES, "each lane has a reader");

/* A client, while it has questions. */
struct asker {
	struct str name; /* behind the struct */
	size_t asks;
	struct turn turns[LANES];
};

struct ask {
	struct list node; /* of those that wait, or of a turn */
	struct list all;  /* of all questions, in the order they came */
	struct service *service;
	struct asker *asker;
	struct lane *lane;
	bool is_ready; /* it is in its lane */
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
	struct list waiting, all;
	struct hmap askers; /* name -> struct asker */
	struct lane lanes[LANES];
	size_t asks; /* in all places */
	struct ask *running[VIEW_READERS];
	struct worker *workers[VIEW_READERS]; /* one for each reader */
	uint64_t busy_until_ns;               /* writers need the processors */
	struct loop_timer *rest_timer; /* the end of a rest, or of that; room
					* for answers */
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

/* --- service_turns.c --- */

/* Who asks: one more question of his, until asker_leave. */
struct asker *asker_enter(struct service *s, struct str name);
void asker_leave(struct service *s, struct asker *a);

/* It is ready, behind what its client has in its lane already; or before that,
 * because it was at its turn. */
void turn_wait(struct ask *a);
void turn_wait_first(struct ask *a);
/* It is not ready any more; no-op if it was not. */
void turn_leave(struct ask *a);
/* It has its turn; what else its client has comes after all others. */
void turn_take(struct ask *a);
struct ask *turn_first(const struct turn *t); /* which has some */
/* Its peer has taken enough of the answers before: they are megabytes, and wait
 * here until then. */
bool turn_has_room(const struct ask *a);
/* The next of the lane that has room, or NULL. */
struct ask *turn_next(const struct lane *l);
/* Whose turn to wait was over by then, or NULL; *next becomes the first moment
 * at which there will be one, if that is earlier. */
struct ask *turn_late(const struct lane *l, uint64_t now, uint64_t *next);
/* The client that has most in the lane, if that is at least two more than the
 * other one has: its turn, else NULL. */
struct turn *turn_of_most(const struct lane *l, const struct turn *other);

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
