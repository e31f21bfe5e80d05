/*
 * Words somebody looks for, as an expression of FTS5's MATCH. The text comes
 * from clients: every word leaves here in quotes, so nothing in it is an
 * operator, a column name or a syntax error.
 */
#ifndef CORVO_MATCH_H
#define CORVO_MATCH_H

#include "util/buf.h"

enum match {
	MATCH_NOTHING, /* there is no word in it */
	MATCH_BUILT,
	/* More than LIMIT_SEARCH_PREFIXES words end with a star. For each the
	 * index gathers all that its words are in before the first row comes,
	 * in memory and whatever time there is. */
	MATCH_MANY_PREFIXES,
	/* More than LIMIT_SEARCH_PHRASES words are to stand next to others.
	 * For each the index holds all its places in a row at once, and
	 * compares them whatever time there is. */
	MATCH_LONG_PHRASES,
};

/* How many words the index takes a text for. */
typedef size_t match_count_fn(void *ctx, struct str text);

/*
 * Words stand between white space and must all be there; "several in quotes"
 * next to each other; word* begins so (the last one, after quotes). What
 * stands inside a word but is no letter or digit parts it, as it does in the
 * index: user@example.com are three words next to each other. What is said
 * twice counts once.
 *
 * Unless it is built, out is as it was.
 */
enum match match_build(struct str q, match_count_fn *count, void *ctx,
		       struct buf *out);

#endif
