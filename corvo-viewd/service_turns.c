/*
 * Turns of clients. Questions that are ready stand in their lane by client, and
 * clients take turns: one that asks much waits for himself, and one that asks
 * once is next. See service_impl.h.
 */
#include <stdlib.h>

#include "service_impl.h"

struct asker *asker_enter(struct service *s, struct str name)
{
	struct asker *a = hmap_get(&s->askers, name);

	if (a == NULL) {
		a = xcalloc(1, sizeof(*a) + name.n);
		if (name.n > 0)
			memcpy(a + 1, name.p, name.n);
		a->name = str_of((char *)(a + 1), name.n);
		for (size_t i = 0; i < LANES; i++) {
			list_init(&a->turns[i].ready);
			a->turns[i].asker = a;
		}
		hmap_put(&s->askers, a->name, a);
	}
	a->asks++;
	return a;
}

void asker_leave(struct service *s, struct asker *a)
{
	if (--a->asks > 0)
		return;
	CHECK(hmap_remove(&s->askers, a->name) == a);
	free(a);
}

static struct turn *turn_of(struct ask *a)
{
	return &a->asker->turns[a->lane - a->service->lanes];
}

static struct turn *enter(struct ask *a)
{
	struct turn *t = turn_of(a);

	CHECK(!a->is_ready);
	a->is_ready = true;
	list_remove(&a->node);
	a->lane->n++;
	if (t->n++ == 0)
		list_push_back(&a->lane->turns, &t->node);
	return t;
}

void turn_wait(struct ask *a)
{
	list_push_back(&enter(a)->ready, &a->node);
}

void turn_wait_first(struct ask *a)
{
	list_push_front(&enter(a)->ready, &a->node);
}

void turn_leave(struct ask *a)
{
	struct turn *t = turn_of(a);

	if (!a->is_ready)
		return;
	a->is_ready = false;
	list_remove(&a->node);
	a->lane->n--;
	if (--t->n == 0)
		list_remove(&t->node);
}

void turn_take(struct ask *a)
{
	struct turn *t = turn_of(a);

	turn_leave(a);
	if (t->n == 0)
		return;
	list_remove(&t->node);
	list_push_back(&a->lane->turns, &t->node);
}

struct ask *turn_first(const struct turn *t)
{
	return list_entry(t->ready.next, struct ask, node);
}

bool turn_has_room(const struct ask *a)
{
	return rpc_req_has_room(
	    a->req, a->lane == &a->service->lanes[LANE_QUICK] ? RPC_NOT_LARGE
							      : RPC_LARGE);
}

struct ask *turn_next(const struct lane *l)
{
	LIST_FOREACH (it, &l->turns) {
		struct ask *a = turn_first(list_entry(it, struct turn, node));

		if (turn_has_room(a))
			return a;
	}
	return NULL;
}

struct ask *turn_late(const struct lane *l, uint64_t now, uint64_t *next)
{
	LIST_FOREACH (it, &l->turns) {
		/* within a slice they are in the order in which they came */
		struct ask *a = turn_first(list_entry(it, struct turn, node));

		if (a->turn_until_ns <= now)
			return a;
		*next = MIN(*next, a->turn_until_ns);
	}
	return NULL;
}

struct turn *turn_of_most(const struct lane *l, const struct turn *other)
{
	struct turn *most = NULL;

	LIST_FOREACH (it, &l->turns) {
		struct turn *t = list_entry(it, struct turn, node);

		if (t->n >= other->n + 2 && (most == NULL || t->n > most->n))
			most = t;
	}
	return most;
}
