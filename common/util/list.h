/*
 * Intrusive doubly linked list. A node that is not on a list points at
 * itself or is zeroed; list_remove is safe on both.
 */
#ifndef CORVO_LIST_H
#define CORVO_LIST_H

#include "util/base.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l || l->next == NULL;
}

static inline void list_insert_before(struct list *at, struct list *n)
{
	n->prev = at->prev;
	n->next = at;
	at->prev->next = n;
	at->prev = n;
}

static inline void list_push_back(struct list *l, struct list *n)
{
	list_insert_before(l, n);
}

static inline void list_push_front(struct list *l, struct list *n)
{
	list_insert_before(l->next, n);
}

static inline void list_remove(struct list *n)
{
	if (n->next == NULL)
		return;
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

#define list_entry(node, type, member) container_of(node, type, member)

#define LIST_FOREACH(it, head) \
	for (struct list *it = (head)->next; it != (head); it = it->next)

/* The current node may be removed inside the loop. */
#define LIST_FOREACH_SAFE(it, head)                                 \
	for (struct list *it = (head)->next, *it##_next = it->next; \
	     it != (head); it = it##_next, it##_next = it->next)

#endif
