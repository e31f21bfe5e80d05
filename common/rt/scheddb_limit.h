/*
 * How much jobs of Scheduled-DB may take, as the settings of a node say.
 */
#ifndef CORVO_SCHEDDB_LIMIT_H
#define CORVO_SCHEDDB_LIMIT_H

#include "rt/config.h"

/* Bytes; 0: nothing tells how much memory there is, and nothing is set. */
static inline uint64_t scheddb_memory_limit(const struct settings *s)
{
	if (s->scheddb_memory_limit != 0)
		return s->scheddb_memory_limit;
	return s->memory.bytes / 100 * s->scheddb_memory_percent;
}

/* 0 to 100. */
static inline double scheddb_percent(uint64_t bytes, uint64_t limit)
{
	return limit > 0 ? (double)bytes * 100 / (double)limit : 0;
}

#endif
