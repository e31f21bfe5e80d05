/*
 * Amounts of named units, {"gpu_seconds":12.5}: as JSON in messages and
 * records, added up as billionths. Texts are well-formed JSON; what they say
 * was checked by units_check, or was written here.
 */
#ifndef CORVO_UNITS_H
#define CORVO_UNITS_H

#include "proto/limits.h"
#include "util/arena.h"
#include "util/buf.h"

/* Names that are no units of their own: they have members. */
#define UNIT_USD    "usd"
#define UNIT_TOKENS "tokens"

struct unit {
	struct str name;
	uint64_t amount;
};

/* Those of an object, at most LIMIT_UNITS, in its order; empty: none. */
size_t units_list(struct str object, struct arena *a,
		  struct unit ret[LIMIT_UNITS]);

/* The amount of one; 0: it is not there. */
uint64_t units_get(struct str object, struct str name, struct arena *a);

/*
 * The sums of two objects, by name; in the arena. A name for which there is no
 * room any more is left out: whoever takes in names sees to it that there is.
 */
struct str units_add(struct str x, struct str y, struct arena *a);

/*
 * An object of a client: at most LIMIT_UNITS names, numbers from 0 to max.
 * member: what it is called. 0 or -ERR_VALIDATION_ERROR, with "member.NAME:
 * ..." in why. usd and tokens are refused but by units_check_any.
 */
int units_check(struct str object, uint64_t max, const char *member,
		struct arena *a, struct buf *why);
int units_check_any(struct str object, uint64_t max, const char *member,
		    struct arena *a, struct buf *why);

#endif
