/*
 * Keeps the first few of many jobs in an order no index has. Memory: twice as
 * many jobs as are kept; they are sorted and halved whenever it is full.
 */
#include <stdlib.h>

#include "query/search.h"

void spot_set(struct spot *s, struct str created_at, struct str id)
{
	/* Longer than raftd ever writes: cut, which only moves the place. */
	s->created_n = (uint8_t)MIN(created_at.n, sizeof(s->created_at));
	s->id_n = (uint8_t)MIN(id.n, sizeof(s->id));
	if (s->created_n > 0)
		memcpy(s->created_at, created_at.p, s->created_n);
	if (s->id_n > 0)
		memcpy(s->id, id.p, s->id_n);
}

int spot_cmp(const struct spot *a, const struct spot *b)
{
	int order = str_cmp(spot_created(a), spot_created(b));

	return order != 0 ? order : str_cmp(spot_id(a), spot_id(b));
}

void hit_set_text(struct hit *h, struct str text)
{
	h->text_n = (uint8_t)MIN(text.n, sizeof(h->text));
	if (h->text_n > 0)
		memcpy(h->text, text.p, h->text_n);
}

int hit_cmp(const struct hit *a, const struct hit *b, bool descending)
{
	int order;

	if (a->none != b->none)
		return a->none ? 1 : -1;
	order = str_cmp(hit_text(a), hit_text(b));
	if (!a->none && a->key != b->key)
		order = a->key < b->key ? -1 : 1;
	if (order == 0)
		order = spot_cmp(&a->spot, &b->spot);
	return descending ? -order : order;
}

static int compare(const void *a, const void *b, void *descending)
{
	return hit_cmp(a, b, *(bool *)descending);
}

void best_init(struct best *b, size_t keep, bool descending)
{
	*b = (struct best){ .descending = descending, .keep = keep };
	b->hits = xcalloc(2 * keep, sizeof(*b->hits));
}

void best_done(struct best *b)
{
	free(b->hits);
}

void best_sort(struct best *b)
{
	qsort_r(b->hits, b->n, sizeof(*b->hits), compare, &b->descending);
	if (b->n >= b->keep) {
		b->n = b->keep;
		b->cut = true;
	}
}

void best_add(struct best *b, const struct hit *h)
{
	if (b->cut && hit_cmp(h, &b->hits[b->keep - 1], b->descending) > 0)
		return;
	if (b->n == 2 * b->keep)
		best_sort(b);
	b->hits[b->n++] = *h;
}
