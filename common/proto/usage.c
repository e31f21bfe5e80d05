#include "proto/usage.h"

#include "proto/units.h"
#include "util/nano.h"

#define ADD(field) \
	MSG_SET(sum, usage_sum, field, nano_add(sum->field, more->field))

void usage_sum_add(struct m_usage_sum *sum, const struct m_usage_sum *more,
		   struct arena *a)
{
	ADD(count);
	ADD(input_tokens);
	ADD(output_tokens);
	ADD(cache_creation_tokens);
	ADD(cache_read_tokens);
	ADD(cost_usd);
	if (more->computed_usd > 0)
		ADD(computed_usd);
	if (more->unpriced > 0)
		ADD(unpriced);
	if (more->units.n > 0)
		MSG_SET(sum, usage_sum, units,
			units_add(sum->units, more->units, a));
}

uint64_t usage_sum_tokens(const struct m_usage_sum *s)
{
	return nano_add(
	    nano_add(s->input_tokens, s->output_tokens),
	    nano_add(s->cache_creation_tokens, s->cache_read_tokens));
}

/* --- scores --- */

/*
 * Halves away from zero. One multiplication, and then whole numbers: all
 * replicas round alike, whatever their processors make of a product and a sum.
 */
int64_t score_millionths(double value)
{
	int64_t halves = (int64_t)(value * 2000000);

	return (halves + (halves < 0 ? -1 : 1)) / 2;
}

double score_value(int64_t millionths)
{
	return (double)millionths / 1000000;
}

void score_sum_put(struct m_score_sum *sum, int64_t millionths)
{
	struct m_score_sum one = { 0 };

	MSG_SET(&one, score_sum, count, 1);
	MSG_SET(&one, score_sum, total, millionths);
	MSG_SET(&one, score_sum, min, millionths);
	MSG_SET(&one, score_sum, max, millionths);
	score_sum_add(sum, &one);
}

/* At most LIMIT_SCORE_VALUE each: there are no so many that it runs over. */
void score_sum_add(struct m_score_sum *sum, const struct m_score_sum *more)
{
	bool first = !MSG_HAS(sum, score_sum, min);

	MSG_SET(sum, score_sum, min,
		first ? more->min : MIN(sum->min, more->min));
	MSG_SET(sum, score_sum, max,
		first ? more->max : MAX(sum->max, more->max));
	MSG_SET(sum, score_sum, count, sum->count + more->count);
	MSG_SET(sum, score_sum, total, sum->total + more->total);
}

uint64_t usage_sum_amount(const struct m_usage_sum *s, struct str unit,
			  struct arena *a)
{
	uint64_t tokens;

	if (str_is(unit, UNIT_USD))
		return s->cost_usd;
	if (!str_is(unit, UNIT_TOKENS))
		return units_get(s->units, unit, a);
	tokens = usage_sum_tokens(s);
	return tokens > UINT64_MAX / NANO_PER_UNIT ? UINT64_MAX
						   : tokens * NANO_PER_UNIT;
}
