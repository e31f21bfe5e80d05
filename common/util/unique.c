/*
 * See util/unique.h. Open addressing, at most half full. The table is given
 * back at once: a dozen large bodies may be looked at in turns.
 */
#include "util/unique.h"

#include <stdlib.h>

#include "util/hash.h"
#include "util/turn.h"

struct table {
	const struct str *list;
	uint64_t seed;
	uint32_t *places; /* in the list, plus one; 0: empty */
	size_t cap;
};

static struct table make_table(const struct str *list, size_t n)
{
	struct table t = { .list = list, .seed = hash_new_seed(), .cap = 2 };

	CHECK(n < UINT32_MAX);
	while (t.cap < 2 * n)
		t.cap *= 2;
	t.places = xcalloc(t.cap, sizeof(*t.places));
	return t;
}

/* That of its equal, or an empty one for it. */
static uint32_t *find(const struct table *t, struct str s)
{
	size_t i = hash_secret(t->seed, s.p, s.n) & (t->cap - 1);

	while (t->places[i] != 0 && !str_eq(t->list[t->places[i] - 1], s))
		i = (i + 1) & (t->cap - 1);
	return &t->places[i];
}

size_t unique_texts(struct str *list, size_t n)
{
	struct table t = make_table(list, n);
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t *place = find(&t, list[i]);

		turn_step();
		if (*place != 0)
			continue;
		list[kept++] = list[i];
		*place = (uint32_t)kept;
	}
	free(t.places);
	return kept;
}

const struct str *unique_twin(const struct str *list, size_t n)
{
	struct table t = make_table(list, n);
	const struct str *twin = NULL;

	for (size_t i = 0; i < n && twin == NULL; i++) {
		uint32_t *place = find(&t, list[i]);

		if (turn_step() || turn_bytes(list[i].n) || *place != 0)
			twin = &list[i];
		*place = (uint32_t)i + 1;
	}
	free(t.places);
	return twin;
}
