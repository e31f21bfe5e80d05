#include "proto/origin.h"

#include <string.h>

#include "util/rng.h"

void history_make(struct history *ret)
{
	do
		rng_system(ret->id, sizeof(ret->id));
	while (history_is_none(ret));
}

bool history_is_none(const struct history *h)
{
	static const struct history none;

	return history_eq(h, &none);
}

bool history_eq(const struct history *a, const struct history *b)
{
	return memcmp(a->id, b->id, sizeof(a->id)) == 0;
}

void history_put(struct buf *b, const struct history *h)
{
	for (size_t i = 0; i < HISTORY_BYTES && !history_is_none(h); i++)
		buf_printf(b, "%02x", h->id[i]);
}

static bool hex_digit(char c, uint8_t *ret)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c != '\0' ? strchr(digits, c) : NULL;

	if (at == NULL)
		return false;
	*ret = (uint8_t)(at - digits);
	return true;
}

bool history_parse(struct str s, struct history *ret)
{
	*ret = (struct history){ { 0 } };
	if (s.n == 0)
		return true;
	if (s.n != HISTORY_TEXT_LEN)
		return false;
	for (size_t i = 0; i < HISTORY_BYTES; i++) {
		uint8_t high, low;

		if (!hex_digit(s.p[2 * i], &high) ||
		    !hex_digit(s.p[2 * i + 1], &low))
			return false;
		ret->id[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

bool origin_fits(const struct entry_origin *store,
		 const struct entry_origin *log)
{
	return store->id == 0 ||
	       (store->id == log->id && store->term == log->term &&
		history_eq(&store->history, &log->history));
}
