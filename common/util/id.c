#include "util/id.h"

#define TAIL_LEN 10

/* Crockford's base 32: no I, L, O, U. Its order is the byte order. */
static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* Writes the 128 bits of (ms, tail) as 26 digits after the prefix. */
static size_t id_write(const char *prefix, uint64_t ms, const uint8_t *tail,
		       char *ret)
{
	size_t prefix_len = strlen(prefix);
	char *p = ret + prefix_len;
	uint64_t bits = 0;
	unsigned have = 0;

	CHECK(prefix_len + ULID_LEN < ID_LEN_MAX);
	memcpy(ret, prefix, prefix_len);
	for (int shift = 45; shift >= 0; shift -= 5)
		*p++ = alphabet[ms >> shift & 31];
	for (size_t i = 0; i < TAIL_LEN; i++) {
		bits = bits << 8 | tail[i];
		for (have += 8; have >= 5; have -= 5)
			*p++ = alphabet[bits >> (have - 5) & 31];
	}
	*p = '\0';
	return prefix_len + ULID_LEN;
}

/* False when all 80 bits were set and the count starts again at zero. */
static bool tail_increment(uint8_t *tail)
{
	for (size_t i = TAIL_LEN; i-- > 0;)
		if (++tail[i] != 0)
			return true;
	return false;
}

size_t id_make(struct id_gen *g, const char *prefix, uint64_t wall_ns,
	       char *ret)
{
	uint64_t ms = wall_ns / NS_PER_MS;

	/* A clock that went back does not count: ids go on from the last. */
	if (ms > g->last_ms) {
		g->last_ms = ms;
		rng_system(g->tail, sizeof(g->tail));
	} else if (!tail_increment(g->tail)) {
		g->last_ms++;
	}
	return id_write(prefix, g->last_ms, g->tail, ret);
}

size_t id_derive(const char *prefix, uint64_t wall_ns, uint64_t index,
		 uint32_t ordinal, char *ret)
{
	uint8_t tail[TAIL_LEN];

	CHECK(index < 1ULL << 48);
	for (int i = 0; i < 6; i++)
		tail[i] = (uint8_t)(index >> (40 - 8 * i));
	for (int i = 0; i < 4; i++)
		tail[6 + i] = (uint8_t)(ordinal >> (24 - 8 * i));
	return id_write(prefix, wall_ns / NS_PER_MS, tail, ret);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static struct str skip_shard(struct str s)
{
	bool has = s.n > ID_SHARD_LEN && s.p[0] == 's' && is_digit(s.p[1]) &&
		   is_digit(s.p[2]) && s.p[3] == '_';

	return has ? str_skip(s, ID_SHARD_LEN) : s;
}

bool id_is_valid(struct str s, const char *prefix)
{
	struct str p = str_from(prefix);
	struct str ulid;

	s = skip_shard(s);
	if (!str_starts(s, p))
		return false;
	ulid = str_skip(s, p.n);
	/* 26 digits hold 130 bits: the first one carries only three. */
	if (ulid.n != ULID_LEN || ulid.p[0] > '7')
		return false;
	for (size_t i = 0; i < ulid.n; i++)
		if (ulid.p[i] == '\0' || strchr(alphabet, ulid.p[i]) == NULL)
			return false;
	return true;
}
