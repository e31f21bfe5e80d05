/*
 * msgpack read from its bytes, value after value, without a tree: what a
 * message costs to decode is most of what it costs. For values of any shape
 * there is mpk_parse (proto/mpk.h).
 *
 * Input is hostile as far as peers are: items that a head claims are taken
 * from a budget of the input's length, and nesting ends at MPK_DEPTH.
 */
#ifndef CORVO_MPK_CURSOR_H
#define CORVO_MPK_CURSOR_H

#include "proto/mpk.h"

#define MPK_DEPTH 32 /* as deep as mpk_parse goes */

struct mpk_cursor {
	const unsigned char *p, *end;
	size_t budget;  /* items the rest of the input can still hold */
	unsigned depth; /* containers that are open */
};

struct mpk_value {
	enum mpk_type type;
	uint32_t n; /* bytes, items or pairs */
	union {
		bool boolean;
		uint64_t u64;
		int64_t i64;
		double f64;
		const char *p; /* MPK_STR; into the input */
	};
};

void mpk_cursor_init(struct mpk_cursor *c, struct str in);

/*
 * The next value; of an array or a map its head: then come the items, in turns
 * keys and values, and after them mpk_leave. False: malformed.
 */
bool mpk_take(struct mpk_cursor *c, struct mpk_value *ret);
void mpk_leave(struct mpk_cursor *c);

/* The next value with all that is in it. False: malformed. */
bool mpk_skip(struct mpk_cursor *c);

#endif
