/*
 * Who is there: workers that ask for jobs or send heartbeats, whether or not
 * they have ever been given a job.
 *
 * It is kept in memory and nowhere else. A fetch that waits writes nothing to
 * the log, and what is known here is learned again from the next sign of life:
 * after a restart long polls are sent again at once. Whoever leads serves the
 * fetches, so it is the one that knows.
 *
 * At most LIMIT_WORKERS: for another one the worker without an open fetch that
 * was silent longest is forgotten; where all have one, the new one is not
 * noted. Workers choose their names. Loop thread.
 */
#ifndef CORVO_PRESENCE_H
#define CORVO_PRESENCE_H

#include "proto/proto.h"
#include "util/hmap.h"
#include "util/list.h"

struct presence {
	struct hmap workers; /* id -> struct present */
	struct list silent;  /* without an open fetch, silent longest first */
};

/* The same moment on both clocks. */
struct presence_time {
	uint64_t mono_ns, wall_ns;
};

struct present {
	struct list node;        /* in presence.silent while open is 0 */
	struct str id, hostname; /* each its own memory */
	char *queues;            /* names, each behind a byte with its length */
	size_t queues_n;
	size_t open; /* fetches of it that wait or are under way */
	struct presence_time first, last; /* signs of life */
};

void presence_init(struct presence *p);
void presence_done(struct presence *p);

/*
 * A fetch begins: good until presence_leave. NULL: it has no name, or there is
 * no room.
 */
struct present *presence_ask(struct presence *p, const struct m_fetch *m,
			     struct presence_time now);
/* It has ended, one way or another. */
void presence_leave(struct presence *p, struct present *w,
		    struct presence_time now);
/* Another sign of life. */
void presence_heard(struct presence *p, struct str id,
		    struct presence_time now);
/* Those that were silent for LIMIT_WORKER_IDLE_S. */
void presence_forget(struct presence *p, struct presence_time now);

/* The queues it last asked for, the first of them: false at the end. */
bool presence_next_queue(const struct present *w, size_t *pos, struct str *ret);

#endif
