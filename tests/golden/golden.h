/*
 * Golden files: a log of entries, and what a store holds after it. Texts, one
 * entry or record a line, so that a change shows in a diff; bytes that are not
 * printable are written \xNN, a tab stands between key and value.
 */
#ifndef CORVO_GOLDEN_H
#define CORVO_GOLDEN_H

#include "fsm/fsm.h"
#include "proto/frame.h"
#include "store/record.h"

#define GOLDEN_ITEMS 16 /* of one entry */

struct golden_reply {
	int err;
	struct str body;
};

/* A state machine on a store in memory. */
struct golden {
	struct kv *kv;
	struct fsm *f;
	uint64_t index;     /* of the last entry */
	struct arena arena; /* of the replies to it */
	struct golden_reply replies[GOLDEN_ITEMS];
	size_t n; /* of these */
};

/* On this store, which becomes its own and is of the present format. */
void golden_init(struct golden *g, struct kv *kv);
void golden_done(struct golden *g);
void golden_apply(struct golden *g, struct str entry);

/* Lines of a file; texts are in the arena. */
struct golden_lines {
	struct str *lines;
	size_t n, cap;
	struct arena arena;
};

void golden_lines_done(struct golden_lines *l);
void golden_add(struct golden_lines *l, struct str raw); /* escapes it */
struct str golden_unescape(struct str line, struct arena *a);
/* Every record of the store. */
void golden_dump(struct kv *kv, struct golden_lines *ret);
/* A store in memory with these records. */
struct kv *golden_store(const struct golden_lines *dump);
/* Lines of one and not of the other: "- line", "+ line", in order. */
void golden_diff(const struct golden_lines *from, const struct golden_lines *to,
		 struct golden_lines *ret);

/* False: it cannot be read, and errno says why. */
bool golden_read(const char *dir, const char *name, struct golden_lines *ret);
bool golden_write(const char *dir, const char *name,
		  const struct golden_lines *l);

/*
 * What the present program makes of a released log and store that 0.4.0 or
 * another made: how the log applied to an empty store, and how the store of
 * half the log upgraded and the rest applied to it, differ from the store it
 * had at the end, upgraded. False: the files cannot be read.
 */
bool golden_from(const char *dir, struct golden_lines *ret);
/* Applies entries from..upto of a log. */
void golden_replay(struct golden *g, const struct golden_lines *log,
		   size_t from, size_t upto);

/*
 * Makes the log of the present release: every operation at least once, and of
 * every kind of record at least one that stays. Entries are added to `log` as
 * they are applied.
 */
void golden_script(struct golden *g, struct golden_lines *log);

#endif
