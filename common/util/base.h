/*
 * The few macros every file may use. Knows nothing of jobs.
 *
 * CHECK is for bugs only: it is never compiled out and stops the process,
 * and the supervisor turns that into a restart. Bad input is never a CHECK.
 * REQUIRE is for bugs that end no more than the request they show in.
 */
#ifndef CORVO_BASE_H
#define CORVO_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))

/* The earlier of two moments of which 0 is none. */
static inline uint64_t min_nonzero(uint64_t a, uint64_t b)
{
	return a == 0 || b == 0 ? a | b : MIN(a, b);
}

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr)-offsetof(type, member)))

#define _cleanup_(fn)     __attribute__((cleanup(fn)))
#define _printf_(fmt, va) __attribute__((format(printf, fmt, va)))
#define _noreturn_        __attribute__((noreturn))
#define _unused_          __attribute__((unused))

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define CHECK(cond)                                              \
	do {                                                     \
		if (UNLIKELY(!(cond)))                           \
			check_failed(__FILE__, __LINE__, #cond); \
	} while (0)

/*
 * What must be true of the data of one request, and is unless there is a bug:
 * of its body, of what is made of it, of the tables its route is in. Where a
 * guard stands around the work (util/guard.h) that is given up, and elsewhere
 * this is CHECK. For memory, for what is shared by others and for what outlives
 * the request CHECK stays right.
 */
#define REQUIRE(cond)                                              \
	do {                                                       \
		if (UNLIKELY(!(cond)))                             \
			require_failed(__FILE__, __LINE__, #cond); \
	} while (0)

_noreturn_ void require_failed(const char *file, int line, const char *what);

/* Writes "file:line: CHECK failed: text" to stderr and aborts. */
_noreturn_ void check_failed(const char *file, int line, const char *what);

/* malloc family that aborts when memory is gone: there is no useful way on. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

#endif
