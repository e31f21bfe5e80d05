/*
 * See util/unique.h. Open addressing, at most half full.
 */
#include "util/unique.h"

#include "util/hash.h"
#include "util/turn.h"

struct place {
	uint32_t hash; /* the upper half; the lower one chose the place */
	uint32_t at;   /* in the list, plus one; 0: empty */
};

size_t unique_texts(struct arena *a, struct str *list, size_t n)
{
	uint64_t seed = hash_new_seed();
	struct place *table;
	size_t cap = 2, kept = 0;

	CHECK(n < UINT32_MAX);
	while (cap < 2 * n)
		cap *= 2;
	table = arena_zalloc(a, cap * sizeof(*table));
	for (size_t i = 0; i < n; i++) {
		uint64_t hash = hash_secret(seed, list[i].p, list[i].n);
		uint32_t upper = (uint32_t)(hash >> 32);
		size_t p = hash & (cap - 1);

		turn_step();
		while (table[p].at != 0 &&
		       (table[p].hash != upper ||
			!str_eq(list[table[p].at - 1], list[i])))
			p = (p + 1) & (cap - 1);
		if (table[p].at != 0)
			continue;
		list[kept++] = list[i];
		table[p] = (struct place){ upper, (uint32_t)kept };
	}
	return kept;
}
