/*
 * Open addressing with linear probing. A slot is one cache line and holds
 * its hash and, for the usual short key, the key itself: a lookup that hits
 * at once costs one miss.
 *
 * A removed slot is marked gone unless the slot after it is empty; used
 * slots (live and gone) stay under 7/10, so that every probe ends.
 */
#include "util/hmap.h"

#include <stdlib.h>

#include "util/hash.h"

#define CAP_MIN    8
#define INLINE_MAX 40
#define SLOT_SIZE  64

/* Values of slot.hash below HASH_LIVE, which every live hash carries. */
#define HASH_EMPTY 0ULL
#define HASH_GONE  1ULL
#define HASH_LIVE  (1ULL << 63)

struct hmap_slot {
	uint64_t hash;
	void *v;
	union {
		char small[INLINE_MAX];
		char *large; /* owned; when len > INLINE_MAX */
	} key;
	uint32_t len;
};

_Static_assert(sizeof(struct hmap_slot) == SLOT_SIZE, "one cache line");

static const char *slot_key(const struct hmap_slot *s)
{
	return s->len > INLINE_MAX ? s->key.large : s->key.small;
}

static bool slot_is_live(const struct hmap_slot *s)
{
	return s->hash >= HASH_LIVE;
}

static void slot_free_key(struct hmap_slot *s)
{
	if (s->len > INLINE_MAX)
		free(s->key.large);
}

static void slot_fill(struct hmap_slot *s, uint64_t hash, struct str key,
		      void *v)
{
	CHECK(key.n <= UINT32_MAX);
	s->hash = hash;
	s->v = v;
	s->len = (uint32_t)key.n;
	if (key.n > INLINE_MAX) {
		s->key.large = xmalloc(key.n);
		memcpy(s->key.large, key.p, key.n);
	} else if (key.n > 0) {
		memcpy(s->key.small, key.p, key.n);
	}
}

static struct hmap_slot *slots_new(size_t cap)
{
	struct hmap_slot *slots;

	CHECK(cap <= SIZE_MAX / SLOT_SIZE);
	slots = aligned_alloc(SLOT_SIZE, cap * SLOT_SIZE);
	CHECK(slots != NULL);
	memset(slots, 0, cap * SLOT_SIZE);
	return slots;
}

static uint64_t key_hash(const struct hmap *m, struct str key)
{
	return hash_secret(m->seed, key.p, key.n) | HASH_LIVE;
}

static struct hmap_slot *hmap_find(const struct hmap *m, struct str key,
				   uint64_t hash)
{
	size_t mask = m->cap - 1;

	if (m->n == 0)
		return NULL;
	for (size_t i = hash & mask;; i = (i + 1) & mask) {
		struct hmap_slot *s = &m->slots[i];

		if (s->hash == hash && str_eq(str_of(slot_key(s), s->len), key))
			return s;
		if (s->hash == HASH_EMPTY)
			return NULL;
	}
}

/* The first slot of the probe that can take a new entry. */
static struct hmap_slot *hmap_find_free(const struct hmap *m, uint64_t hash)
{
	size_t mask = m->cap - 1;
	size_t i = hash & mask;

	while (slot_is_live(&m->slots[i]))
		i = (i + 1) & mask;
	return &m->slots[i];
}

/*
 * Moves the entries to new slots, at most half of them used with one more
 * entry: twice as many when the map is full, the same number or fewer when
 * it was full of gone slots.
 */
static void hmap_rebuild(struct hmap *m)
{
	struct hmap old = *m;

	m->cap = CAP_MIN;
	while (m->cap / 2 < m->n + 1)
		m->cap *= 2;
	m->slots = slots_new(m->cap);
	m->gone = 0;
	for (size_t i = 0; i < old.cap; i++) {
		struct hmap_slot *s = &old.slots[i];

		if (slot_is_live(s))
			*hmap_find_free(m, s->hash) = *s;
	}
	free(old.slots);
}

void hmap_done(struct hmap *m)
{
	hmap_clear(m);
	free(m->slots);
	*m = (struct hmap){ 0 };
}

void hmap_clear(struct hmap *m)
{
	for (size_t i = 0; i < m->cap && m->n > 0; i++) {
		if (slot_is_live(&m->slots[i])) {
			slot_free_key(&m->slots[i]);
			m->n--;
		}
	}
	if (m->cap > 0)
		memset(m->slots, 0, m->cap * SLOT_SIZE);
	m->gone = 0;
}

void *hmap_get(const struct hmap *m, struct str key)
{
	struct hmap_slot *s = hmap_find(m, key, key_hash(m, key));

	return s ? s->v : NULL;
}

void *hmap_put(struct hmap *m, struct str key, void *v)
{
	struct hmap_slot *s;
	uint64_t hash;

	CHECK(v != NULL);
	if (m->cap == 0)
		m->seed = hash_new_seed();
	hash = key_hash(m, key);
	s = hmap_find(m, key, hash);
	if (s != NULL) {
		void *old = s->v;

		s->v = v;
		return old;
	}
	if ((m->n + m->gone + 1) * 10 > m->cap * 7)
		hmap_rebuild(m);
	s = hmap_find_free(m, hash);
	if (s->hash == HASH_GONE)
		m->gone--;
	slot_fill(s, hash, key, v);
	m->n++;
	return NULL;
}

void *hmap_remove(struct hmap *m, struct str key)
{
	struct hmap_slot *s = hmap_find(m, key, key_hash(m, key));
	size_t mask = m->cap - 1;
	size_t i;
	void *v;

	if (s == NULL)
		return NULL;
	v = s->v;
	slot_free_key(s);
	s->hash = HASH_GONE;
	s->v = NULL;
	m->n--;
	m->gone++;

	/* No probe needs to pass gone slots that end at an empty one. */
	i = (size_t)(s - m->slots);
	if (m->slots[(i + 1) & mask].hash != HASH_EMPTY)
		return v;
	for (; m->slots[i].hash == HASH_GONE; i = (i - 1) & mask) {
		m->slots[i].hash = HASH_EMPTY;
		m->gone--;
	}
	return v;
}

bool hmap_next(const struct hmap *m, size_t *pos, struct str *ret_key,
	       void **ret_v)
{
	while (*pos < m->cap) {
		const struct hmap_slot *s = &m->slots[(*pos)++];

		if (!slot_is_live(s))
			continue;
		*ret_key = str_of(slot_key(s), s->len);
		*ret_v = s->v;
		return true;
	}
	return false;
}
