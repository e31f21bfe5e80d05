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

/* A score in millionths, and back. */
int64_t score_millionths(double value);
double score_value(int64_t millionths);
/* Adds one score. */
void score_sum_put(struct m_score_sum *sum, int64_t millionths);
/* Adds one sum to another. */
void score_sum_add(struct m_score_sum *sum, const struct m_score_sum *more);

/* Of all kinds. */
uint64_t usage_sum_tokens(const struct m_usage_sum *s);

/* Of usd, tokens or another unit, in billionths. */
uint64_t usage_sum_amount(const struct m_usage_sum *s, struct str unit,
			  struct arena *a);

#endif
