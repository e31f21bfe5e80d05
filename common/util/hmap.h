/*
 * Hash map from bytes to a pointer. Keys are copied in. Every map has another
 * order, so that nobody can choose keys that collide; code whose result must
 * be the same on all replicas never depends on it, and the tests that compare
 * replicas of one process would notice.
 */
#ifndef CORVO_HMAP_H
#define CORVO_HMAP_H

#include "util/str.h"

struct hmap_slot;

struct hmap {
	struct hmap_slot *slots;
	size_t cap;    /* power of two, or 0 */
	size_t n;      /* live entries */
	size_t gone;   /* removed slots not yet reused */
	uint64_t seed; /* of its hashes, drawn with its first slots */
};

void hmap_done(struct hmap *m);  /* frees keys and slots, not the values */
void hmap_clear(struct hmap *m); /* removes all entries, keeps the slots */

void *hmap_get(const struct hmap *m, struct str key); /* NULL when absent */

/* Adds or replaces; returns the value that was there, or NULL. v != NULL. */
void *hmap_put(struct hmap *m, struct str key, void *v);

void *hmap_remove(struct hmap *m, struct str key); /* the removed value */

/*
 * Start with *pos = 0; false at the end. The entry just returned may be
 * removed during the walk; nothing may be added.
 */
bool hmap_next(const struct hmap *m, size_t *pos, struct str *ret_key,
	       void **ret_v);

#endif
