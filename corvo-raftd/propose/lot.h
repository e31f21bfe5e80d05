/*
 * The parking lot: fetches that wait for a job, by queue and in the order they
 * came, with the end of their wait. A fetch waits at every queue it names.
 *
 * Beside the waiting ones it counts the demand of those under way, so that ten
 * jobs call ten fetches into the log and not a thousand.
 */
#ifndef CORVO_LOT_H
#define CORVO_LOT_H

#include "util/heap.h"
#include "util/hmap.h"
#include "util/list.h"

struct lot_queue;

/* One fetch at one queue. */
struct lot_place {
	struct list node; /* in the queue's line, when parked */
	struct waiter *waiter;
	struct lot_queue *queue;
};

/* Embedded in the fetch; places has n entries. */
struct waiter {
	struct heap_node deadline; /* key: clock_mono_ns */
	uint32_t count;            /* jobs it asks for */
	bool parked;
	bool demanding; /* its count is part of its queues' demand */
	size_t n;
	struct lot_place *places;
	size_t bytes; /* of its own: its request and its places */
};

struct lot {
	struct hmap queues; /* name -> struct lot_queue */
	struct heap deadlines;
	size_t parked;
	size_t bytes; /* of all fetches, and of what is kept of their queues */
};

void lot_done(struct lot *l);

/* Names the queues of a new fetch; w->places has room for n, and w->bytes says
 * what its request takes. */
void lot_enter(struct lot *l, struct waiter *w, const struct str *queues,
	       size_t n);
/* Forgets it; not parked and not under way any more. */
void lot_leave(struct lot *l, struct waiter *w);

/* first: back to the front of the line, after an empty-handed try. */
void lot_park(struct lot *l, struct waiter *w, bool first);
void lot_unpark(struct lot *l, struct waiter *w);

/* While a fetch is under way its count is part of its queues' demand. */
void lot_add_demand(struct waiter *w);
void lot_remove_demand(struct waiter *w);

struct lot_queue *lot_find(struct lot *l, struct str queue); /* or NULL */
struct str lot_queue_name(const struct lot_queue *q);
struct waiter *lot_first(const struct lot_queue *q); /* or NULL */
uint64_t lot_demand(const struct lot_queue *q);

/* The parked fetch whose wait ends first, or NULL. */
struct waiter *lot_next_deadline(const struct lot *l);

#endif
