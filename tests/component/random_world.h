/*
 * What random entries are made of: a few ids and queues that come again, so
 * that operations meet.
 */
#ifndef CORVO_RANDOM_WORLD_H
#define CORVO_RANDOM_WORLD_H

#include "fsm_fixture.h"

#define IDS    60 /* ids in use */
#define QUEUES 4

struct world {
	struct rng r;
	struct fx *x;
	uint64_t tokens[IDS]; /* last one handed out */
	bool known[IDS];      /* enqueued and not deleted */
	uint64_t gone[IDS];   /* ids used up there: none ever comes again */
	uint64_t batches;     /* opened so far */
	uint64_t bulks;       /* begun so far */
	struct arena arena;   /* of the entry being made */
};

static inline struct str text(struct world *w, const char *fmt, uint64_t n)
{
	/* fmt is one of the literals below */
	return strcmp(fmt, "q") == 0
		   ? arena_printf(&w->arena, "q%llu", (unsigned long long)n)
		   : arena_printf(&w->arena, "job_%02llu",
				  (unsigned long long)n);
}

static inline struct str some_id(struct world *w, uint64_t i)
{
	return text(w, "job", i + IDS * w->gone[i]);
}

static inline struct str some_queue(struct world *w)
{
	return text(w, "q", rng_below(&w->r, QUEUES));
}

static inline bool one_in(struct world *w, uint64_t n)
{
	return rng_below(&w->r, n) == 0;
}

/* One of the last few. */
static inline struct str some_batch(struct world *w)
{
	uint64_t back = 1 + rng_below(&w->r, 4);

	return text(w, "q", w->batches > back ? w->batches - back : 0);
}

#endif
