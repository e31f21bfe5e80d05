/*
 * Sums of usage: what reports, rows and answers are added up by.
 */
#ifndef CORVO_USAGE_H
#define CORVO_USAGE_H

#include "proto/proto.h"

/*
 * Adds one sum to another; units in the arena. What is of one job only (model,
 * provider) stays as it is.
 */
void usage_sum_add(struct m_usage_sum *sum, const struct m_usage_sum *more,
		   struct arena *a);

/* Of all kinds. */
uint64_t usage_sum_tokens(const struct m_usage_sum *s);

#endif
