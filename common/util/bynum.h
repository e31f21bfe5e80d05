/*
 * Embedded nodes by a number that several of them may share. Chains through the
 * nodes themselves: adding and removing allocate nothing but the table, which
 * doubles as it fills. The order inside a chain is unspecified.
 */
#ifndef CORVO_BYNUM_H
#define CORVO_BYNUM_H

#include "util/base.h"

struct bynum_node {
	uint64_t num;
	struct bynum_node *next;
	struct bynum_node **at; /* what points to it; NULL: not in a table */
};

/* Zeroed, it is empty. */
struct bynum {
	struct bynum_node **chains;
	size_t cap; /* power of two, or 0 */
	size_t n;
};

void bynum_done(struct bynum *b); /* frees the table, not the nodes */
void bynum_add(struct bynum *b, struct bynum_node *n); /* n->num set before */
void bynum_remove(struct bynum *b, struct bynum_node *n); /* no-op if absent */

/* Those with that number, one after the other; NULL: no more. */
struct bynum_node *bynum_first(const struct bynum *b, uint64_t num);
struct bynum_node *bynum_next(const struct bynum_node *n);

#endif
