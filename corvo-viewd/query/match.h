/*
 * Words somebody looks for, as an expression of FTS5's MATCH. The text comes
 * from clients: every word leaves here in quotes, so nothing in it is an
 * operator, a column name or a syntax error.
 */
#ifndef CORVO_MATCH_H
#define CORVO_MATCH_H

#include "util/buf.h"

/*
 * Words stand between white space and must all be there; "several in quotes"
 * next to each other; word* begins so (the last one, after quotes). What
 * stands inside a word but is no letter or digit parts it, as it does in the
 * index: user@example.com are three words next to each other.
 *
 * False, and out as it was: there is no word in it.
 */
bool match_build(struct str q, struct buf *out);

#endif
