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
