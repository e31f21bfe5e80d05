/*
 * Changes of keys, gathered in memory: a hash table from key to the newest
 * value or the mark that it is gone. Keys and values are copied in and stay
 * where they are until the table is emptied, also those written over since.
 *
 * A batch wants sorted keys. Entries are kept apart by the first two bytes of
 * their key, which are the kind of record: inside a kind keys mostly come in
 * ascending order already, or in a few such rows, so there is little to sort.
 *
 * Whoever shares one between threads locks it.
 */
#ifndef CORVO_TABLE_H
#define CORVO_TABLE_H

#include "store/kv.h"
#include "util/arena.h"

struct table_entry {
	struct str key;
	struct str value; /* p NULL: gone */
	uint32_t slot;
	bool is_new; /* what lies below does not have the key */
};

/* The hash stands beside: of other keys the entry is not looked at. */
struct table_slot {
	uint32_t entry; /* its index + 1; 0: free */
	uint32_t hash;
};

struct table {
	struct arena arena;
	struct table_entry *entries;
	size_t n, cap;
	struct table_slot *slots;
	size_t slots_n; /* power of two */
	struct table_group *groups;
	size_t groups_n, groups_cap;
	struct table_range *ranges; /* deleted, in what lies below */
	size_t ranges_n, ranges_cap;
	size_t bytes; /* of keys and values copied in since it was empty */
	size_t keep;
	/* how it was when it was marked, and what was written over since */
	struct {
		size_t n, ranges_n, bytes;
	} mark;
	struct table_undo *undo;
	size_t undo_n, undo_cap;
};

struct table_range {
	struct str from, upto;
};

/* Of a table that weighed more than `keep` the memory is given back. */
void table_init(struct table *t, size_t keep);
void table_done(struct table *t);
void table_empty(struct table *t);
/* Bytes of keys and values copied in, and what an entry costs. */
size_t table_weight(const struct table *t);

/*
 * table_back makes it what it was at the last table_mark, or when it was
 * emptied since. It may be slow.
 */
void table_mark(struct table *t);
void table_back(struct table *t);

/* The newest change of the key, or NULL; valid until the next change. */
struct table_entry *table_find(const struct table *t, struct str key);
/* A value with p NULL: the key is gone. */
void table_set(struct table *t, struct str key, struct str value, bool is_new);
/* Keys in [from, upto) go: those below, and entries made until now. */
void table_delete_range(struct table *t, struct str from, struct str upto);
bool table_in_deleted_range(const struct table *t, struct str key);
/* Whether one of n ranges has the key. */
bool ranges_have(const struct table_range *ranges, size_t n, struct str key);

/*
 * Entries in [from, upto), sorted, as indexes, which are the caller's to free;
 * upto empty: no end.
 */
size_t table_range(const struct table *t, struct str from, struct str upto,
		   uint32_t **ret);
/* Worth it before ranges of that kind of key are looked at often: what came
 * since the last time is put in its place. */
void table_sort_kind(struct table *t, struct str key);
/* The same for all kinds for which that was done before. */
void table_sort_walked(struct table *t);

/* All entries, sorted, as indexes, which are the caller's to free. */
uint32_t *table_in_order(const struct table *t);
/* Made and gone again: there is nothing to write. */
bool table_came_and_went(const struct table_entry *e);
bool table_same_kind(struct str a, struct str b);
/* Whether an entry of the key's kind is to be written. */
bool table_writes_kind(const struct table *t, struct str key);

/* All changes into a batch, sorted; what came and went is left out. */
void table_fill_batch(const struct table *t, struct kv_batch *b);
/* All changes of another one, on top of those that are there. */
void table_merge(struct table *t, const struct table *from);

#endif
