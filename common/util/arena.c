/*
 * A chain of blocks. Only the head is filled; an allocation that would waste
 * much of a block gets one of its own behind the head, so the head is always
 * a block of the usual size and is the one worth keeping at a reset.
 */
#include "util/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define ALIGN         16
#define BLOCK_DEFAULT 4096

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN
#endif

/* Under ASan, allocations keep a poisoned gap between them. */
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define GAP            ALIGN
#define poison(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define unpoison(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define GAP            0
#define poison(p, n)   ((void)(p), (void)(n))
#define unpoison(p, n) ((void)(p), (void)(n))
#endif

struct arena_block {
	struct arena_block *next;
	size_t size; /* bytes of data */
	_Alignas(ALIGN) char data[];
};

/* A block of at least so many bytes that a reset kept, or NULL. */
static struct arena_block *block_kept(struct arena *a, size_t size)
{
	for (struct arena_block **at = &a->kept; *at; at = &(*at)->next) {
		struct arena_block *b = *at;

		if (b->size < size)
			continue;
		*at = b->next;
		a->kept_bytes -= b->size;
		return b;
	}
	return NULL;
}

static struct arena_block *block_new(struct arena *a, size_t size,
				     struct arena_block *next)
{
	struct arena_block *b = block_kept(a, size);

	if (b == NULL) {
		b = xmalloc(sizeof(*b) + size);
		b->size = size;
	}
	b->next = next;
	poison(b->data, b->size);
	return b;
}

/* Data bytes of a usual block, so that it fills block_size with its header. */
static size_t block_data_size(const struct arena *a)
{
	size_t size = a->block_size ? a->block_size : BLOCK_DEFAULT;

	size = MAX(size, 2 * sizeof(struct arena_block));
	return (size - sizeof(struct arena_block)) & ~(size_t)(ALIGN - 1);
}

static void arena_add_head(struct arena *a)
{
	a->head = block_new(a, block_data_size(a), a->head);
	a->used = 0;
}

void *arena_alloc(struct arena *a, size_t n)
{
	size_t need;
	char *p;

	CHECK(n < SIZE_MAX / 2);
	need = (n + GAP + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (a->head == NULL)
		arena_add_head(a);
	if (need > a->head->size - a->used) {
		if (need > block_data_size(a) / 2) {
			a->head->next = block_new(a, need, a->head->next);
			unpoison(a->head->next->data, n);
			return a->head->next->data;
		}
		arena_add_head(a);
	}
	p = a->head->data + a->used;
	a->used += need;
	unpoison(p, n);
	return p;
}

void *arena_zalloc(struct arena *a, size_t n)
{
	void *p = arena_alloc(a, n);

	memset(p, 0, n);
	return p;
}

struct str arena_copy(struct arena *a, struct str s)
{
	char *p;

	if (s.n == 0) /* absent stays absent, empty stays empty */
		return s.p ? STR("") : STR_NULL;
	p = arena_alloc(a, s.n);
	memcpy(p, s.p, s.n);
	return str_of(p, s.n);
}

char *arena_cstr(struct arena *a, struct str s)
{
	char *p = arena_alloc(a, s.n + 1);

	if (s.n > 0)
		memcpy(p, s.p, s.n);
	p[s.n] = '\0';
	return p;
}

struct str arena_join(struct arena *a, struct str x, char between, struct str y)
{
	char *p = arena_alloc(a, x.n + 1 + y.n);

	if (x.n > 0)
		memcpy(p, x.p, x.n);
	p[x.n] = between;
	if (y.n > 0)
		memcpy(p + x.n + 1, y.p, y.n);
	return str_of(p, x.n + 1 + y.n);
}

struct str arena_printf(struct arena *a, const char *fmt, ...)
{
	char small[256];
	va_list ap, again;
	size_t n;
	int len;
	char *p;

	va_start(ap, fmt);
	va_copy(again, ap);
	len = vsnprintf(small, sizeof(small), fmt, ap);
	CHECK(len >= 0);
	n = (size_t)len;
	p = arena_alloc(a, n + 1);
	if (n < sizeof(small))
		memcpy(p, small, n + 1);
	else
		(void)vsnprintf(p, n + 1, fmt, again);
	va_end(again);
	va_end(ap);
	return str_of(p, n);
}

static void blocks_free(struct arena_block *b)
{
	while (b != NULL) {
		struct arena_block *next = b->next;

		free(b);
		b = next;
	}
}

static void blocks_keep(struct arena *a, struct arena_block *b)
{
	while (b != NULL) {
		struct arena_block *next = b->next;

		if (a->kept_bytes + b->size <= a->keep) {
			b->next = a->kept;
			a->kept = b;
			a->kept_bytes += b->size;
		} else {
			free(b);
		}
		b = next;
	}
}

void arena_reset(struct arena *a)
{
	if (a->head == NULL)
		return;
	blocks_keep(a, a->head->next);
	a->head->next = NULL;
	a->used = 0;
	poison(a->head->data, a->head->size);
}

void arena_trim(struct arena *a)
{
	blocks_free(a->kept);
	a->kept = NULL;
	a->kept_bytes = 0;
}

void arena_done(struct arena *a)
{
	blocks_free(a->head);
	a->head = NULL;
	a->used = 0;
	arena_trim(a);
}

size_t arena_bytes(const struct arena *a)
{
	size_t n = 0;

	for (const struct arena_block *b = a->head; b != NULL; b = b->next)
		n += sizeof(*b) + b->size;
	return n + a->kept_bytes;
}

void *arena_grow(struct arena *a, void *items, size_t size, size_t n,
		 size_t *cap)
{
	void *p;

	if (n < *cap)
		return items;
	*cap = MAX(*cap * 2, (size_t)64);
	p = arena_alloc(a, *cap * size);
	if (n > 0)
		memcpy(p, items, n * size);
	return p;
}
