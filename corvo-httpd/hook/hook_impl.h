/*
 * Shared by the files of hook/.
 */
#ifndef CORVO_HOOK_IMPL_H
#define CORVO_HOOK_IMPL_H

#include "hook/hook.h"

static inline char hook_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Of that name, whatever its letters; empty when there is none. */
struct str hook_find_field(const struct hook_fields *f, struct str name);

/* The key of a secret, appended; coded: it is base64, perhaps behind whsec_.
 * False: it is none. */
bool hook_key(struct str secret, bool coded, struct buf *ret);

/* What a text is: a place in the delivery, or itself. */
static inline bool hook_is_place(struct str text)
{
	return text.n > 0 && text.p[0] == '.';
}

#endif
