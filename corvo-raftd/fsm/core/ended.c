/*
 * See core/ended.h.
 */
#include "fsm/core/ended.h"

#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/state.h"

static struct str keep(struct str s)
{
	char *p = xmalloc(s.n);

	memcpy(p, s.p, s.n);
	return str_of(p, s.n);
}

static void let_go(struct str s)
{
	free((char *)(uintptr_t)s.p);
}

/* Where the key stands, or would. */
static size_t place_of(const struct ended *e, struct str key)
{
	size_t from = 0, upto = e->kept;

	while (from < upto) {
		size_t mid = from + (upto - from) / 2;

		if (str_cmp(e->keys[mid], key) < 0)
			from = mid + 1;
		else
			upto = mid;
	}
	return from;
}

static bool is_covered(const struct ended *e, struct str key)
{
	return e->edge.p == NULL || str_cmp(key, e->edge) <= 0;
}

static void set_edge(struct ended *e, struct str key)
{
	let_go(e->edge);
	e->edge = key;
}

/* Of one too many the last goes, and with it what is known of those behind. */
static void drop_last(struct ended *e)
{
	let_go(e->keys[--e->kept]);
	set_edge(e, keep(e->keys[e->kept - 1]));
}

/* One more than is kept: it is put in its place before the last one goes. */
static void make_room(struct ended *e)
{
	if (e->keys == NULL)
		e->keys = xmalloc((ENDED_KEPT + 1) * sizeof(*e->keys));
}

static void insert(struct ended *e, size_t at, struct str key)
{
	make_room(e);
	memmove(e->keys + at + 1, e->keys + at,
		(e->kept - at) * sizeof(*e->keys));
	e->keys[at] = keep(key);
	e->kept++;
	if (e->kept > ENDED_KEPT)
		drop_last(e);
}

void ended_add(struct fsm *f, const struct key *k, struct str value)
{
	struct ended *e = &f->deps.ends;
	struct str key = key_str(k);

	txn_put(f->txn, key, value);
	e->n++;
	if (is_covered(e, key))
		insert(e, place_of(e, key), key);
}

void ended_remove(struct fsm *f, const struct key *k)
{
	struct ended *e = &f->deps.ends;
	size_t i = place_of(e, key_str(k));

	MUST(f, e->n > 0);
	fsm_delete(f, k);
	e->n--;
	if (i == e->kept || !str_eq(e->keys[i], key_str(k)))
		return;
	let_go(e->keys[i]);
	e->kept--;
	memmove(e->keys + i, e->keys + i + 1, (e->kept - i) * sizeof(*e->keys));
}

/* --- in the store --- */

struct look {
	struct str *keys;
	size_t n, max;
};

static bool look_add(void *ctx, struct str key, struct str value _unused_)
{
	struct look *l = ctx;

	l->keys[l->n++] = keep(key);
	return l->n < l->max;
}

static int look(struct fsm *f, struct str from, struct str upto, struct look *l)
{
	int r;

	r = txn_scan_first(f->txn, from, upto, l->max, look_add, l);
	return r < 0 ? fsm_fail(f, r) : 0;
}

/* None is kept any more, and there are others behind the edge. */
static int fill(struct fsm *f)
{
	struct ended *e = &f->deps.ends;
	struct key prefix, from, upto;
	struct look l = { .max = ENDED_KEPT };
	int r;

	MUST(f, e->kept == 0 && e->edge.p != NULL);
	key_prefix(&prefix, "dr|");
	key_prefix_end(&prefix, &upto);
	memcpy(from.p, e->edge.p, e->edge.n);
	from.p[e->edge.n] = '\0'; /* the next key there can be */
	from.n = e->edge.n + 1;
	make_room(e);
	l.keys = e->keys;
	r = look(f, key_str(&from), key_str(&upto), &l);
	e->kept = l.n;
	if (r < 0)
		return r;
	set_edge(e, l.n < l.max ? STR_NULL : keep(e->keys[l.n - 1]));
	return 0;
}

/* Of one job, whose keys stand behind the edge. */
static int first_behind(struct fsm *f, const struct key *prefix,
			struct key *ret)
{
	struct str found;
	struct look l = { .keys = &found, .max = 1 };
	struct key upto;
	int r;

	key_prefix_end(prefix, &upto);
	r = look(f, key_str(prefix), key_str(&upto), &l);
	if (l.n > 0) {
		memcpy(ret->p, found.p, found.n);
		ret->n = found.n;
		let_go(found);
	}
	return r < 0 ? r : (int)l.n;
}

int ended_first(struct fsm *f, const struct key *prefix, struct key *ret)
{
	struct ended *e = &f->deps.ends;
	struct key end;
	size_t i;
	int r;

	if (e->n == 0)
		return 0;
	if (e->kept == 0 && e->edge.p != NULL) {
		r = fill(f);
		if (r < 0)
			return r;
	}
	i = place_of(e, key_str(prefix));
	if (i < e->kept && str_starts(e->keys[i], key_str(prefix))) {
		memcpy(ret->p, e->keys[i].p, e->keys[i].n);
		ret->n = e->keys[i].n;
		return 1;
	}
	key_prefix_end(prefix, &end);
	return is_covered(e, key_str(&end)) ? 0 : first_behind(f, prefix, ret);
}

/* --- the whole --- */

int ended_load(struct fsm *f)
{
	struct ended *e = &f->deps.ends;
	struct kv_iter *it;
	struct key from, upto;
	int r;

	key_prefix(&from, "dr|");
	key_prefix_end(&from, &upto);
	it = kv_iter_new(f->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it))
		e->n++;
	r = kv_iter_error(it);
	kv_iter_free(it);
	if (e->n > 0)
		set_edge(e, keep(key_str(&from)));
	return r;
}

void ended_free(struct fsm *f)
{
	struct ended *e = &f->deps.ends;

	for (size_t i = 0; i < e->kept; i++)
		let_go(e->keys[i]);
	free(e->keys);
	let_go(e->edge);
	*e = (struct ended){ 0 };
}
