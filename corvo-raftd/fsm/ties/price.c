/*
 * The price list: what models cost. All of it is in memory too, for a report
 * without a cost must not have to wait for the store.
 */
#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/ties/usage.h"
#include "proto/units.h"
#include "util/nano.h"

#define MILLION 1000000u

/* Behind the struct: the record, which m points into. */
struct fsm_price {
	struct m_price m;
	struct arena arena;
};

/* provider \0 model, as in the key. */
static struct str name_of(struct key *k, struct str provider, struct str model)
{
	struct key prefix;

	key_price(k, SPACE_DEFAULT, provider, model);
	key_prefix_space(&prefix, "up|", SPACE_DEFAULT);
	return str_skip(key_str(k), prefix.n);
}

static void price_free(struct fsm_price *p)
{
	if (p == NULL)
		return;
	arena_done(&p->arena);
	free(p);
}

const struct m_price *price_find(const struct fsm *f, struct str provider,
				 struct str model)
{
	const struct fsm_price *p;
	struct key k;

	if (f->usage.prices.n == 0)
		return NULL;
	p = hmap_get(&f->usage.prices, name_of(&k, provider, model));
	return p != NULL ? &p->m : NULL;
}

static int keep(struct fsm *f, struct str name, struct str raw)
{
	struct fsm_price *p = xcalloc(1, sizeof(*p));

	if (msg_decode(&msg_price, arena_copy(&p->arena, raw), &p->arena,
		       &p->m) < 0) {
		price_free(p);
		return -ERR_INTERNAL_ERROR;
	}
	price_free(hmap_put(&f->usage.prices, name, p));
	return 0;
}

void price_save(struct fsm *f, const struct m_price *m)
{
	struct key k;
	struct str name = name_of(&k, m->provider, m->model);

	fsm_put(f, &k, &msg_price, m);
	MUST(f, keep(f, name, buf_str(&f->scratch)) == 0);
}

void price_remove(struct fsm *f, const struct m_price *m)
{
	struct key k;
	struct str name = name_of(&k, m->provider, m->model);

	fsm_delete(f, &k);
	price_free(hmap_remove(&f->usage.prices, name));
}

int prices_load(struct fsm *f)
{
	return load_all_named(f, "up|", keep);
}

void prices_free(struct fsm *f)
{
	struct str key;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->usage.prices, &pos, &key, &v))
		price_free(v);
	hmap_done(&f->usage.prices);
}

size_t prices_copy(const struct fsm *f, struct m_price *ret)
{
	struct str key;
	size_t pos = 0, n = 0;
	void *v;

	while (hmap_next(&f->usage.prices, &pos, &key, &v))
		ret[n++] = ((const struct fsm_price *)v)->m;
	return n;
}

/* Each amount in billionths of a billionth, so that one rounding is enough. */
uint64_t price_cost(const struct m_price *p, const struct m_usage *u,
		    struct arena *a)
{
	const uint64_t scale = NANO_PER_UNIT;
	struct unit used[LIMIT_UNITS];
	size_t n = units_list(u->units, a, used);
	unsigned __int128 sum = 0;

	sum += (unsigned __int128)u->input_tokens * p->input_per_million;
	sum += (unsigned __int128)u->output_tokens * p->output_per_million;
	sum += (unsigned __int128)u->cache_creation_tokens *
	       p->cache_creation_per_million;
	sum +=
	    (unsigned __int128)u->cache_read_tokens * p->cache_read_per_million;
	sum *= scale / MILLION;
	for (size_t i = 0; i < n && p->units.n > 0; i++)
		sum += (unsigned __int128)used[i].amount *
		       units_get(p->units, used[i].name, a);
	sum = (sum + scale / 2) / scale;
	return sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
}
