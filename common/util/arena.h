/*
 * Memory by lifetime: many small allocations, one release. An arena belongs
 * to one thing with a clear end (a request, a message, an applied entry).
 * Allocation never fails (it aborts); memory is aligned to 16 bytes.
 */
#ifndef CORVO_ARENA_H
#define CORVO_ARENA_H

#include "util/str.h"

struct arena_block;

struct arena {
	struct arena_block *head; /* block being filled */
	size_t used;              /* bytes used in head */
	size_t block_size;        /* of the next block; 0: default 4 KiB */
	size_t keep;              /* bytes of blocks a reset may keep */
	struct arena_block *kept;
	size_t kept_bytes;
};

#define ARENA_INIT ((struct arena){ 0 })

void *arena_alloc(struct arena *a, size_t n);  /* not zeroed */
void *arena_zalloc(struct arena *a, size_t n); /* zeroed */
struct str arena_copy(struct arena *a, struct str s);
/* Both, with that character between them: they may hold any byte. */
struct str arena_join(struct arena *a, struct str x, char between,
		      struct str y);
char *arena_cstr(struct arena *a, struct str s); /* NUL-terminated copy */
_printf_(2, 3) struct str arena_printf(struct arena *a, const char *fmt, ...);

/* Forgets everything but keeps the first block for reuse, and others as far as
 * `keep` allows: what is filled again and again need not fetch its memory from
 * the system each time. */
void arena_reset(struct arena *a);
/* Gives back what resets kept and nothing uses now. */
void arena_trim(struct arena *a);
void arena_done(struct arena *a);

/* Memory it has; looks at each block. */
size_t arena_bytes(const struct arena *a);

/* Room for one more of n items of `size` bytes in the arena. */
void *arena_grow(struct arena *a, void *items, size_t size, size_t n,
		 size_t *cap);

#endif
