/*
 * Walks over keys of the store.
 */
#ifndef CORVO_FSM_CORE_SCAN_H
#define CORVO_FSM_CORE_SCAN_H

#include "fsm/core/state.h"

/* Runs fn for all keys of a kind, without the kind; only while loading. */
typedef int load_fn(struct fsm *f, struct str key, struct str value);
int load_all(struct fsm *f, const char *kind, load_fn *fn);
/* The same for keys that begin with a namespace, which is left out too. */
int load_all_named(struct fsm *f, const char *kind, load_fn *fn);

/* --- keys of a prefix, a time and an id --- */

struct due_scan {
	struct str *ids;  /* due ones, at most max */
	struct str *keys; /* NULL, or room for their keys */
	size_t n, max;
	uint64_t upto_ns; /* what is due by then; 0: now */
	uint64_t next;    /* time of the first key not taken; NEVER: none */
	struct arena *arena;
	size_t prefix_n;
};

/* Reads from `from` on, below which there is nothing. 0 or -ERR_*. */
int due_scan_run(struct fsm *f, const struct key *prefix, uint64_t from,
		 struct due_scan *s);

#endif
