/*
 * Texts of a list, each once. For lists of any length from outside: a table of
 * places takes less than a map of copies.
 */
#ifndef CORVO_UNIQUE_H
#define CORVO_UNIQUE_H

#include "util/str.h"

/* Keeps the first of equal ones, in their order; returns how many are left. */
size_t unique_texts(struct str *list, size_t n);
/* The first that is equal to one before it; NULL: there is none. When nobody
 * wants the result any more (util/turn.h), any of them. */
const struct str *unique_twin(const struct str *list, size_t n);

#endif
