/*
 * Little-endian numbers at any place in memory.
 */
#ifndef CORVO_LE_H
#define CORVO_LE_H

#include <endian.h>
#include <string.h>

#include "util/base.h"

static inline uint32_t get_le32(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline uint64_t get_le64(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/* Both return what follows. */
static inline char *put_le32(char *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

static inline char *put_le64(char *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

#endif
