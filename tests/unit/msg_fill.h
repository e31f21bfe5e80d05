/*
 * Messages with random values in every field, and their comparison: for
 * tests that go over all rows of messages.def.
 */
#ifndef CORVO_MSG_FILL_H
#define CORVO_MSG_FILL_H

#include "proto/proto.h"
#include "util/rng.h"

/* Sets each field with probability 1 / one_in (1: all of them). */
void msg_fill(const struct msg_desc *d, struct rng *rng, unsigned one_in,
	      struct arena *a, void *ret);

/* Fails the test when two messages differ, naming the field. */
void msg_assert_equal(const struct msg_desc *d, const void *x, const void *y);

#endif
