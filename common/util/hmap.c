/*
 * Open addressing with linear probing. A slot is one cache line and holds
 * its hash and, for the usual short key, the key itself: a lookup that hits
 * at once costs one miss.
 *
 * A removed slot is marked gone unless the slot after it is empty; used
 * slots (live and gone) stay under 7/10, so that every probe ends.
 */
#include "util/hmap.h"

#include <endian.h>
#include <stdlib.h>

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

static uint64_t load64(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static uint64_t load32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

/* The two halves of the 128-bit product, folded. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 m = (unsigned __int128)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/*
 * Multiply and fold, 16 bytes a step; the last step reads the final bytes,
 * overlapping where they are fewer. The constants are odd with about half of
 * their bits set.
 */
uint64_t hash_bytes(const void *data, size_t n)
{
	const uint64_t k0 = 0x9e3779b97f4a7c15ULL;
	const uint64_t k1 = 0xd1b54a32d192ed03ULL;
	const uint64_t k2 = 0x8cb92ba72f3d8dd7ULL;
	const unsigned char *p = data;
	uint64_t h = k0, a = 0, b = 0;
	size_t left = n;

	for (; left > 16; left -= 16, p += 16)
		h = mix(load64(p) ^ k1, load64(p + 8) ^ h);
	if (left >= 8) {
		a = load64(p);
		b = load64(p + left - 8);
	} else if (left >= 4) {
		a = load32(p);
		b = load32(p + left - 4);
	} else if (left > 0) {
		a = (uint64_t)p[0] << 16 | (uint64_t)p[left / 2] << 8 |
		    p[left - 1];
	}
	return mix(k2 ^ n, mix(a ^ k1, b ^ h));
}

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

static uint64_t key_hash(struct str key)
{
	return hash_bytes(key.p, key.n) | HASH_LIVE;
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
	struct hmap_slot *s = hmap_find(m, key, key_hash(key));

	return s ? s->v : NULL;
}

void *hmap_put(struct hmap *m, struct str key, void *v)
{
	uint64_t hash = key_hash(key);
	struct hmap_slot *s = hmap_find(m, key, hash);

	CHECK(v != NULL);
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
	struct hmap_slot *s = hmap_find(m, key, key_hash(key));
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
