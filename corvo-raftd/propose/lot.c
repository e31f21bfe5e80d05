#include "propose/lot.h"

#include <stdlib.h>

#define SLOT_BYTES 64 /* of the table of queues, and the allocator's own */

struct lot_queue {
	struct list line; /* places of parked fetches */
	uint64_t demand;  /* jobs that fetches under way ask for */
	size_t users;     /* fetches that name it; 0: it goes */
	size_t name_n;
	char name[];
};

void lot_done(struct lot *l)
{
	CHECK(l->queues.n == 0 && l->bytes == 0); /* every fetch has left */
	hmap_done(&l->queues);
	heap_done(&l->deadlines);
}

struct str lot_queue_name(const struct lot_queue *q)
{
	return str_of(q->name, q->name_n);
}

struct lot_queue *lot_find(struct lot *l, struct str queue)
{
	return hmap_get(&l->queues, queue);
}

static size_t queue_bytes(const struct lot_queue *q)
{
	return sizeof(*q) + q->name_n + SLOT_BYTES;
}

static struct lot_queue *queue_use(struct lot *l, struct str name)
{
	struct lot_queue *q = lot_find(l, name);

	if (q == NULL) {
		q = xcalloc(1, sizeof(*q) + name.n);
		list_init(&q->line);
		q->name_n = name.n;
		memcpy(q->name, name.p, name.n);
		hmap_put(&l->queues, name, q);
		l->bytes += queue_bytes(q);
	}
	q->users++;
	return q;
}

static void queue_release(struct lot *l, struct lot_queue *q)
{
	CHECK(q->users > 0);
	if (--q->users > 0)
		return;
	CHECK(list_empty(&q->line) && q->demand == 0);
	hmap_remove(&l->queues, lot_queue_name(q));
	l->bytes -= queue_bytes(q);
	free(q);
}

void lot_enter(struct lot *l, struct waiter *w, const struct str *queues,
	       size_t n)
{
	w->n = n;
	w->bytes += n * sizeof(*w->places);
	l->bytes += w->bytes;
	for (size_t i = 0; i < n; i++) {
		w->places[i].waiter = w;
		w->places[i].queue = queue_use(l, queues[i]);
		list_init(&w->places[i].node);
	}
}

void lot_leave(struct lot *l, struct waiter *w)
{
	CHECK(!w->parked);
	if (w->demanding)
		lot_remove_demand(w);
	for (size_t i = 0; i < w->n; i++)
		queue_release(l, w->places[i].queue);
	l->bytes -= w->bytes;
	w->n = w->bytes = 0;
}

void lot_park(struct lot *l, struct waiter *w, bool first)
{
	CHECK(!w->parked);
	for (size_t i = 0; i < w->n; i++) {
		struct lot_place *p = &w->places[i];

		if (first)
			list_push_front(&p->queue->line, &p->node);
		else
			list_push_back(&p->queue->line, &p->node);
	}
	w->parked = true;
	l->parked++;
	heap_insert(&l->deadlines, &w->deadline);
}

void lot_unpark(struct lot *l, struct waiter *w)
{
	CHECK(w->parked);
	for (size_t i = 0; i < w->n; i++)
		list_remove(&w->places[i].node);
	w->parked = false;
	l->parked--;
	heap_remove(&l->deadlines, &w->deadline);
}

void lot_add_demand(struct waiter *w)
{
	CHECK(!w->demanding);
	w->demanding = true;
	for (size_t i = 0; i < w->n; i++)
		w->places[i].queue->demand += w->count;
}

void lot_remove_demand(struct waiter *w)
{
	CHECK(w->demanding);
	w->demanding = false;
	for (size_t i = 0; i < w->n; i++) {
		CHECK(w->places[i].queue->demand >= w->count);
		w->places[i].queue->demand -= w->count;
	}
}

struct waiter *lot_first(const struct lot_queue *q)
{
	if (list_empty(&q->line))
		return NULL;
	return list_entry(q->line.next, struct lot_place, node)->waiter;
}

uint64_t lot_demand(const struct lot_queue *q)
{
	return q->demand;
}

struct waiter *lot_next_deadline(const struct lot *l)
{
	struct heap_node *n = heap_min(&l->deadlines);

	return n == NULL ? NULL : container_of(n, struct waiter, deadline);
}
