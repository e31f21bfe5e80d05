/*
 * Sortable ids: a prefix and a ULID, "job_01HX7Y2K3MABCDEFGHJKMNPQRS".
 * Ids made by one id_gen are strictly increasing, also inside a millisecond.
 *
 * Ids of a cluster of several shards begin with theirs: "s03_job_01HX...". A
 * node has one shard today and its ids none of that, but no name may look like
 * such an id, and every place that holds an id has room for one.
 */
#ifndef CORVO_ID_H
#define CORVO_ID_H

#include "util/rng.h"
#include "util/str.h"

#define ULID_LEN     26
#define ID_SHARD_LEN 4  /* "s03_" */
#define ID_LEN_MAX   40 /* shard and prefix, ULID, NUL */

struct id_gen {
	uint64_t last_ms;
	uint8_t tail[10]; /* 80 random bits, counted up inside a millisecond */
};

/* Writes prefix + ULID + NUL to `ret` (ID_LEN_MAX bytes); returns length. */
size_t id_make(struct id_gen *g, const char *prefix, uint64_t wall_ns,
	       char *ret);

/* Same bytes for the same arguments: ids made inside the state machine. */
size_t id_derive(const char *prefix, uint64_t wall_ns, uint64_t index,
		 uint32_t ordinal, char *ret);

/* perhaps a shard, then prefix followed by exactly one well-formed ULID */
bool id_is_valid(struct str s, const char *prefix);

#endif
