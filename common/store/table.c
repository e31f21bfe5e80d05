/*
 * Changes of keys in memory. See store/table.h.
 */
#include "store/table.h"

#include <stdlib.h>

#include "util/hash.h"

#define SLOTS_MIN   1024
#define ARENA_BYTES (256u << 10)
#define AHEAD       8 /* entries that are merged, meanwhile */
/* An entry, its place in a group, and two to four slots. */
#define ENTRY_WEIGHT \
	(sizeof(struct table_entry) + 4 * sizeof(struct table_slot))

/* Entries whose keys begin with the same two bytes. */
struct table_group {
	unsigned kind;
	bool is_walked;    /* was put in order */
	uint32_t *entries; /* by index */
	size_t n, cap;
	size_t sorted_n; /* the first of them, which are in order */
};

/* An entry that was there at the mark, and its value. */
struct table_undo {
	uint32_t entry;
	struct str value;
};

void table_init(struct table *t, size_t keep)
{
	*t = (struct table){ .arena.block_size = ARENA_BYTES,
			     .arena.keep = keep,
			     .slots_n = SLOTS_MIN,
			     .keep = keep };
	t->slots = xcalloc(t->slots_n, sizeof(*t->slots));
}

void table_done(struct table *t)
{
	for (size_t i = 0; i < t->groups_n; i++)
		free(t->groups[i].entries);
	free(t->groups);
	free(t->ranges);
	free(t->slots);
	free(t->entries);
	free(t->undo);
	arena_done(&t->arena);
}

static void *grow(void *p, size_t *cap, size_t size)
{
	*cap = MAX(*cap * 2, (size_t)16);
	return xrealloc(p, *cap * size);
}

/* --- the hash table --- */

/* The same in all tables: one that goes into another brings it along. */
static uint32_t key_hash(struct str key)
{
	uint64_t h = hash_secret(0, key.p, key.n);

	return (uint32_t)(h ^ h >> 32);
}

/* The slot that holds the key, or the free one where it belongs. */
static size_t find_slot(const struct table *t, struct str key, uint32_t hash)
{
	size_t mask = t->slots_n - 1;
	size_t i = hash & mask;

	for (; t->slots[i].entry != 0; i = (i + 1) & mask) {
		const struct table_slot *s = &t->slots[i];

		if (s->hash == hash &&
		    str_eq(t->entries[s->entry - 1].key, key))
			break;
	}
	return i;
}

struct table_entry *table_find(const struct table *t, struct str key)
{
	size_t i;

	if (t->n == 0)
		return NULL;
	i = find_slot(t, key, key_hash(key));
	return t->slots[i].entry ? &t->entries[t->slots[i].entry - 1] : NULL;
}

static void grow_slots(struct table *t)
{
	struct table_slot *old = t->slots;
	size_t old_n = t->slots_n, mask;

	t->slots_n *= 2;
	mask = t->slots_n - 1;
	t->slots = xcalloc(t->slots_n, sizeof(*t->slots));
	for (size_t k = 0; k < old_n; k++) {
		size_t i = old[k].hash & mask;

		if (old[k].entry == 0)
			continue;
		while (t->slots[i].entry != 0)
			i = (i + 1) & mask;
		t->slots[i] = old[k];
		t->entries[old[k].entry - 1].slot = (uint32_t)i;
	}
	free(old);
}

/* --- kinds of records --- */

static unsigned kind_of(struct str key)
{
	unsigned kind = (unsigned char)key.p[0];

	return kind << 8 | (key.n > 1 ? (unsigned char)key.p[1] : 0);
}

static struct table_group *find_group(const struct table *t, unsigned kind)
{
	for (size_t i = 0; i < t->groups_n; i++) {
		if (t->groups[i].kind == kind)
			return &t->groups[i];
	}
	return NULL;
}

static struct table_group *group_of(struct table *t, struct str key)
{
	unsigned kind = kind_of(key);
	struct table_group *g = find_group(t, kind);

	if (g != NULL)
		return g;
	if (t->groups_n == t->groups_cap)
		t->groups = grow(t->groups, &t->groups_cap, sizeof(*t->groups));
	t->groups[t->groups_n] = (struct table_group){ .kind = kind };
	return &t->groups[t->groups_n++];
}

static void group_add(const struct table *t, struct table_group *g,
		      uint32_t entry)
{
	if (g->sorted_n == g->n &&
	    (g->n == 0 || str_cmp(t->entries[g->entries[g->n - 1]].key,
				  t->entries[entry].key) < 0))
		g->sorted_n++;
	if (g->n == g->cap)
		g->entries = grow(g->entries, &g->cap, sizeof(*g->entries));
	g->entries[g->n++] = entry;
}

static bool is_sorted(const struct table_group *g)
{
	return g->sorted_n == g->n;
}

static int entry_cmp(const void *a, const void *b, void *entries)
{
	const struct table_entry *e = entries;

	return str_cmp(e[*(const uint32_t *)a].key,
		       e[*(const uint32_t *)b].key);
}

static void sort_entries(const struct table *t, uint32_t *list, size_t n)
{
	if (n > 1)
		qsort_r(list, n, sizeof(*list), entry_cmp, t->entries);
}

/*
 * Of the first n of a group, which are in order, those before the key. It is
 * looked for from the end in longer and longer steps: it is mostly near.
 */
static size_t place_before(const struct table *t, const struct table_group *g,
			   size_t n, struct str key)
{
	size_t from = 0, upto = n;

	for (size_t step = 1; step <= n; step *= 2) {
		if (str_cmp(t->entries[g->entries[n - step]].key, key) < 0) {
			from = n - step + 1;
			break;
		}
		upto = n - step;
	}
	while (from < upto) {
		size_t mid = from + (upto - from) / 2;

		if (str_cmp(t->entries[g->entries[mid]].key, key) < 0)
			from = mid + 1;
		else
			upto = mid;
	}
	return from;
}

/* Those in order move up, from the last on, and the others go in between. */
static void sort_group(const struct table *t, struct table_group *g)
{
	size_t n = g->sorted_n, late_n = g->n - n, end = g->n;
	uint32_t *late;

	if (late_n == 0)
		return;
	sort_entries(t, g->entries + n, late_n);
	late = xmalloc(late_n * sizeof(*late));
	memcpy(late, g->entries + n, late_n * sizeof(*late));
	for (size_t i = late_n; i-- > 0;) {
		size_t at = place_before(t, g, n, t->entries[late[i]].key);

		end -= n - at;
		memmove(g->entries + end, g->entries + at,
			(n - at) * sizeof(*late));
		g->entries[--end] = late[i];
		n = at;
	}
	CHECK(end == n);
	free(late);
	g->sorted_n = g->n;
}

void table_sort_kind(struct table *t, struct str key)
{
	struct table_group *g = find_group(t, kind_of(key));

	if (g == NULL)
		return;
	g->is_walked = true;
	sort_group(t, g);
}

void table_sort_walked(struct table *t)
{
	for (size_t i = 0; i < t->groups_n; i++) {
		if (t->groups[i].is_walked)
			sort_group(t, &t->groups[i]);
	}
}

/* --- changes --- */

static void put_value(struct table *t, uint32_t entry, struct str value)
{
	if (entry < t->mark.n) {
		if (t->undo_n == t->undo_cap)
			t->undo = grow(t->undo, &t->undo_cap, sizeof(*t->undo));
		t->undo[t->undo_n++] =
		    (struct table_undo){ entry, t->entries[entry].value };
	}
	t->entries[entry].value = value;
}

static void set(struct table *t, struct str key, uint32_t hash,
		struct str value, bool is_new)
{
	size_t i = find_slot(t, key, hash);
	struct table_entry *e;
	char *p;

	CHECK(key.n > 0);
	t->bytes += key.n + value.n;
	if (t->slots[i].entry != 0) {
		put_value(t, t->slots[i].entry - 1,
			  arena_copy(&t->arena, value));
		return;
	}
	if (t->n == t->cap)
		t->entries = grow(t->entries, &t->cap, sizeof(*t->entries));
	e = &t->entries[t->n++];
	p = arena_alloc(&t->arena, key.n + value.n);
	memcpy(p, key.p, key.n);
	if (value.n > 0)
		memcpy(p + key.n, value.p, value.n);
	e->key = str_of(p, key.n);
	e->value = value.p ? str_of(p + key.n, value.n) : STR_NULL;
	e->slot = (uint32_t)i;
	e->is_new = is_new;
	t->slots[i] = (struct table_slot){ (uint32_t)t->n, hash };
	group_add(t, group_of(t, key), (uint32_t)t->n - 1);
	if (t->n * 2 > t->slots_n)
		grow_slots(t);
}

void table_set(struct table *t, struct str key, struct str value, bool is_new)
{
	set(t, key, key_hash(key), value, is_new);
}

void table_delete_range(struct table *t, struct str from, struct str upto)
{
	uint32_t *own;
	size_t n = table_range(t, from, upto, &own);

	for (size_t i = 0; i < n; i++)
		put_value(t, own[i], STR_NULL);
	free(own);
	if (t->ranges_n == t->ranges_cap)
		t->ranges = grow(t->ranges, &t->ranges_cap, sizeof(*t->ranges));
	t->ranges[t->ranges_n++] =
	    (struct table_range){ arena_copy(&t->arena, from),
				  arena_copy(&t->arena, upto) };
	t->bytes += from.n + upto.n;
}

bool ranges_have(const struct table_range *ranges, size_t n, struct str key)
{
	for (size_t i = 0; i < n; i++) {
		if (str_cmp(key, ranges[i].from) >= 0 &&
		    str_cmp(key, ranges[i].upto) < 0)
			return true;
	}
	return false;
}

bool table_in_deleted_range(const struct table *t, struct str key)
{
	return ranges_have(t->ranges, t->ranges_n, key);
}

/* --- in order --- */

struct found {
	uint32_t *list;
	size_t n, cap;
};

static void found_add(struct found *f, const uint32_t *list, size_t n)
{
	if (f->n + n > f->cap) {
		f->cap = MAX(f->cap * 2, f->n + n);
		f->list = xrealloc(f->list, f->cap * sizeof(*f->list));
	}
	if (n > 0)
		memcpy(f->list + f->n, list, n * sizeof(*list));
	f->n += n;
}

static bool is_in(struct str key, struct str from, struct str upto)
{
	return str_cmp(key, from) >= 0 &&
	       (upto.n == 0 || str_cmp(key, upto) < 0);
}

static void group_range(const struct table *t, const struct table_group *g,
			struct str from, struct str upto, struct found *f)
{
	size_t first = f->n;

	if (is_sorted(g)) {
		size_t begin = place_before(t, g, g->n, from);
		size_t end = upto.n > 0 ? place_before(t, g, g->n, upto) : g->n;

		if (begin < end)
			found_add(f, g->entries + begin, end - begin);
		return;
	}
	for (size_t i = 0; i < g->n; i++) {
		if (is_in(t->entries[g->entries[i]].key, from, upto))
			found_add(f, &g->entries[i], 1);
	}
	sort_entries(t, f->list + first, f->n - first);
}

/* Nearly every range: all its keys begin with the same two bytes. */
static bool is_one_kind(struct str from, struct str upto)
{
	if (from.n < 2 || upto.n < 2)
		return false;
	return kind_of(upto) == kind_of(from) ||
	       (upto.n == 2 && kind_of(upto) == kind_of(from) + 1);
}

size_t table_range(const struct table *t, struct str from, struct str upto,
		   uint32_t **ret)
{
	struct found f = { 0 };

	if (is_one_kind(from, upto)) {
		const struct table_group *g = find_group(t, kind_of(from));

		if (g != NULL)
			group_range(t, g, from, upto, &f);
	} else {
		for (size_t i = 0; i < t->groups_n; i++)
			group_range(t, &t->groups[i], from, upto, &f);
		sort_entries(t, f.list, f.n);
	}
	*ret = f.list;
	return f.n;
}

static int group_cmp(const void *a, const void *b)
{
	unsigned x = (*(const struct table_group *const *)a)->kind;
	unsigned y = (*(const struct table_group *const *)b)->kind;

	return (x > y) - (x < y);
}

uint32_t *table_in_order(const struct table *t)
{
	const struct table_group **groups =
	    xmalloc(t->groups_n * sizeof(struct table_group *));
	struct found f = { .list = xmalloc(t->n * sizeof(*f.list)),
			   .cap = t->n };

	for (size_t i = 0; i < t->groups_n; i++)
		groups[i] = &t->groups[i];
	qsort(groups, t->groups_n, sizeof(struct table_group *), group_cmp);
	for (size_t i = 0; i < t->groups_n; i++) {
		size_t first = f.n;

		found_add(&f, groups[i]->entries, groups[i]->n);
		if (!is_sorted(groups[i]))
			sort_entries(t, f.list + first, f.n - first);
	}
	CHECK(f.n == t->n);
	free(groups);
	return f.list;
}

bool table_came_and_went(const struct table_entry *e)
{
	return e->is_new && e->value.p == NULL;
}

bool table_same_kind(struct str a, struct str b)
{
	return kind_of(a) == kind_of(b);
}

bool table_writes_kind(const struct table *t, struct str key)
{
	const struct table_group *g = find_group(t, kind_of(key));

	for (size_t i = 0; g != NULL && i < g->n; i++) {
		if (!table_came_and_went(&t->entries[g->entries[i]]))
			return true;
	}
	return false;
}

void table_fill_batch(const struct table *t, struct kv_batch *b)
{
	uint32_t *list;

	for (size_t i = 0; i < t->ranges_n; i++)
		kv_batch_delete_range(b, t->ranges[i].from, t->ranges[i].upto);
	if (t->n == 0)
		return;
	list = table_in_order(t);
	for (size_t i = 0; i < t->n; i++) {
		const struct table_entry *e = &t->entries[list[i]];

		if (table_came_and_went(e))
			continue;
		if (e->value.p == NULL)
			kv_batch_delete(b, e->key);
		else if (e->is_new)
			kv_batch_put_new(b, e->key, e->value);
		else
			kv_batch_put(b, e->key, e->value);
	}
	free(list);
}

/* --- one into another --- */

static uint32_t hash_of(const struct table *t, const struct table_entry *e)
{
	return t->slots[e->slot].hash;
}

/*
 * A large table is not in the processor's cache: what the next ones will touch
 * is asked for while the others are done, first their slots, then the entries
 * that are there.
 */
static void look_ahead(const struct table *t, uint32_t slot_of,
		       uint32_t entry_of)
{
	const struct table_slot *s = &t->slots[entry_of & (t->slots_n - 1)];

	__builtin_prefetch(&t->slots[slot_of & (t->slots_n - 1)]);
	if (s->entry != 0 && s->hash == entry_of)
		__builtin_prefetch(&t->entries[s->entry - 1]);
}

void table_merge(struct table *t, const struct table *from)
{
	uint32_t *list;

	for (size_t i = 0; i < from->ranges_n; i++)
		table_delete_range(t, from->ranges[i].from,
				   from->ranges[i].upto);
	if (from->n == 0)
		return;
	list = table_in_order(from);
	for (size_t i = 0; i < from->n; i++) {
		const struct table_entry *e = &from->entries[list[i]];
		size_t far = MIN(i + 2 * AHEAD, from->n - 1);
		size_t near = MIN(i + AHEAD, from->n - 1);

		look_ahead(t, hash_of(from, &from->entries[list[far]]),
			   hash_of(from, &from->entries[list[near]]));
		if (!table_came_and_went(e))
			set(t, e->key, hash_of(from, e), e->value, e->is_new);
	}
	free(list);
}

/* --- back to a mark --- */

void table_mark(struct table *t)
{
	t->mark.n = t->n;
	t->mark.ranges_n = t->ranges_n;
	t->mark.bytes = t->bytes;
	t->undo_n = 0;
}

/* Without the entries that came later; the others stay in their order. */
static void group_back(struct table_group *g, size_t entries_n)
{
	size_t n = 0, sorted_n = 0;

	for (size_t i = 0; i < g->n; i++) {
		if (g->entries[i] >= entries_n)
			continue;
		sorted_n += i < g->sorted_n;
		g->entries[n++] = g->entries[i];
	}
	g->n = n;
	g->sorted_n = sorted_n;
}

void table_back(struct table *t)
{
	while (t->undo_n > 0) {
		const struct table_undo *u = &t->undo[--t->undo_n];

		t->entries[u->entry].value = u->value;
	}
	t->n = t->mark.n;
	t->ranges_n = t->mark.ranges_n;
	t->bytes = t->mark.bytes;
	memset(t->slots, 0, t->slots_n * sizeof(*t->slots));
	for (size_t i = 0; i < t->n; i++) {
		struct table_entry *e = &t->entries[i];
		uint32_t hash = key_hash(e->key);

		e->slot = (uint32_t)find_slot(t, e->key, hash);
		t->slots[e->slot] =
		    (struct table_slot){ (uint32_t)i + 1, hash };
	}
	for (size_t i = 0; i < t->groups_n; i++)
		group_back(&t->groups[i], t->n);
}

/* --- empty --- */

size_t table_weight(const struct table *t)
{
	return t->bytes + t->n * ENTRY_WEIGHT;
}

void table_empty(struct table *t)
{
	if (table_weight(t) > t->keep) {
		/* the next ones need not carry its memory along */
		table_done(t);
		table_init(t, t->keep);
		return;
	}
	for (size_t i = 0; i < t->n; i++)
		t->slots[t->entries[i].slot].entry = 0;
	t->n = 0;
	for (size_t i = 0; i < t->groups_n; i++) {
		t->groups[i].n = t->groups[i].sorted_n = 0;
		t->groups[i].is_walked = false;
	}
	t->ranges_n = 0;
	t->bytes = 0;
	arena_reset(&t->arena);
	table_mark(t);
}
