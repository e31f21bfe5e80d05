/*
 * Texts of a list, each once. For lists of any length from outside: a table of
 * places, an eighth of what a map of copies takes.
 */
#ifndef CORVO_UNIQUE_H
#define CORVO_UNIQUE_H

#include "util/arena.h"
#include "util/str.h"

/* Keeps the first of equal ones, in their order; returns how many are left. */
size_t unique_texts(struct arena *a, struct str *list, size_t n);

#endif
