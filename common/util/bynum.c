#include "util/bynum.h"

#include <stdlib.h>

#define CAP_MIN 64

static struct bynum_node **chain_of(const struct bynum *b, uint64_t num)
{
	uint64_t hash = num * 0x9e3779b97f4a7c15ULL;

	return &b->chains[(hash >> 32) & (b->cap - 1)];
}

static void put(struct bynum_node **chain, struct bynum_node *n)
{
	n->next = *chain;
	n->at = chain;
	if (n->next != NULL)
		n->next->at = &n->next;
	*chain = n;
}

static void grow(struct bynum *b)
{
	struct bynum old = *b;

	b->cap = MAX(old.cap * 2, (size_t)CAP_MIN);
	b->chains = xcalloc(b->cap, sizeof(struct bynum_node *));
	for (size_t i = 0; i < old.cap; i++) {
		struct bynum_node *n, *next;

		for (n = old.chains[i]; n != NULL; n = next) {
			next = n->next;
			put(chain_of(b, n->num), n);
		}
	}
	free(old.chains);
}

void bynum_done(struct bynum *b)
{
	free(b->chains);
	*b = (struct bynum){ 0 };
}

void bynum_add(struct bynum *b, struct bynum_node *n)
{
	CHECK(n->at == NULL);
	if (b->n >= b->cap)
		grow(b);
	put(chain_of(b, n->num), n);
	b->n++;
}

void bynum_remove(struct bynum *b, struct bynum_node *n)
{
	if (n->at == NULL)
		return;
	*n->at = n->next;
	if (n->next != NULL)
		n->next->at = n->at;
	n->next = NULL;
	n->at = NULL;
	CHECK(b->n > 0);
	b->n--;
}

static struct bynum_node *find_from(struct bynum_node *n, uint64_t num)
{
	while (n != NULL && n->num != num)
		n = n->next;
	return n;
}

struct bynum_node *bynum_first(const struct bynum *b, uint64_t num)
{
	if (b->n == 0)
		return NULL;
	return find_from(*chain_of(b, num), num);
}

struct bynum_node *bynum_next(const struct bynum_node *n)
{
	return find_from(n->next, n->num);
}
