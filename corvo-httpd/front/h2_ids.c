/*
 * See front/h2_ids.h.
 */
#include "front/h2_ids.h"

#define KEPT 64 /* streams */

/* The bit of a stream; 0: it is too long ago. */
static uint64_t bit_of(const struct h2_ids *ids, int32_t id)
{
	int32_t back = (ids->last - id) / 2;

	return back >= 0 && back < KEPT ? UINT64_C(1) << back : 0;
}

static uint64_t shifted(uint64_t bits, int32_t by)
{
	return by < KEPT ? bits << by : 0;
}

void h2_ids_open(struct h2_ids *ids, int32_t id)
{
	if (id > ids->last) {
		int32_t by = ids->last == 0 ? KEPT : (id - ids->last) / 2;

		ids->opened = shifted(ids->opened, by);
		ids->ended = shifted(ids->ended, by);
		ids->last = id;
	}
	ids->opened |= bit_of(ids, id);
}

void h2_ids_end(struct h2_ids *ids, int32_t id)
{
	ids->ended |= bit_of(ids, id);
}

enum h2_id_verdict h2_ids_judge(const struct h2_ids *ids, int32_t id)
{
	uint64_t bit = bit_of(ids, id);

	if (id > ids->last || id % 2 == 0 || bit == 0)
		return H2_ID_FINE; /* or the library knows better */
	if ((ids->opened & bit) == 0)
		return H2_ID_SKIPPED;
	return (ids->ended & bit) != 0 ? H2_ID_ENDED : H2_ID_FINE;
}
