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
	MATCH_TOO_MANY,
};

/*
 * Words stand between white space and must all be there; "several in quotes"
 * next to each other; word* begins so (the last one, after quotes). What
 * stands inside a word but is no letter or digit parts it, as it does in the
 * index: user@example.com are three words next to each other. What is said
 * twice counts once.
 *
 * Unless it is built, out is as it was.
 */
enum match match_build(struct str q, struct buf *out);

#endif
