/*
 * See front/memory.h.
 */
#include "front/memory.h"

#include <malloc.h>

#include "proto/limits.h"

#define PROCESS_MIN   (16u << 20) /* of one process, however many there are */
#define TRIM_BYTES    (8u << 20)  /* less is not worth a trim */
#define RESERVE_PARTS 8           /* the reserve is one of so many */
#define MAPPED_BYTES  (128 << 10) /* so large ones are mapped by themselves */

const char *memory_reason_name(enum memory_reason r)
{
	static const char *const names[MEMORY_REASONS] = {
		[MEMORY_BODY] = "body",
		[MEMORY_ANSWER] = "answer",
		[MEMORY_SLOW_BODY] = "slow_body",
		[MEMORY_SLOW_READER] = "slow_reader",
	};

	return names[r];
}

void memory_init(struct memory *m, uint64_t bytes, uint64_t processes)
{
	/* Else glibc raises it with the first large body that is freed, and
	 * each one that grows is copied, again and again. */
	(void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
	*m = (struct memory){
		.limit = MAX(bytes / processes, (uint64_t)PROCESS_MIN),
	};
}

void memory_done(const struct memory *m)
{
	CHECK(m->used == 0);
}

void memory_hold(struct memory *m, size_t *held, size_t now)
{
	CHECK(m->used >= *held);
	m->used += now - *held;
	m->most = MAX(m->most, m->used);
	*held = now;
}

void memory_trim(struct memory *m)
{
	if (m->most < TRIM_BYTES || m->used > m->most / 4)
		return;
	malloc_trim(0);
	m->most = m->used;
}

static uint64_t reserve(const struct memory *m)
{
	return m->limit / RESERVE_PARTS;
}

bool memory_fits(const struct memory *m, uint64_t mine, uint64_t more,
		 bool may_use_reserve)
{
	uint64_t limit = may_use_reserve ? m->limit : m->limit - reserve(m);

	return more <= LIMIT_SMALL_BYTES || m->used - mine < reserve(m) ||
	       m->used + more <= limit;
}

bool memory_is_short(const struct memory *m)
{
	return m->used > m->limit - reserve(m);
}
