/*
 * Conditions on a JSON document, in a part of jq's language:
 *
 *   PATH CMP LITERAL             PATH | length CMP WHOLE-NUMBER
 *   PATH | startswith("text")    PATH | contains("text")
 *   A and B    A or B    not A    A | not    ( A )
 *
 * PATH: . .a.b ."any key" .["any key"] .[0] .[-1] and any chain of these.
 * CMP: == != < <= > >=. LITERAL: text, number, true, false, null, as in JSON.
 * `and` binds tighter than `or`, `not` and `PATH |` tighter than both;
 * `| not` is for everything to the left of it within its parentheses.
 *
 * A condition on a path that leads nowhere, or to null, is false, but for
 * `== null`. Values of different types are not equal and have no order.
 * Numbers compare by value, texts by code points. A text contains its parts,
 * an array its items.
 *
 * Both the condition and the document come from clients. A struct jq belongs
 * to one thread at a time.
 */
#ifndef CORVO_JQ_H
#define CORVO_JQ_H

#include "util/json.h"

#define JQ_DEPTH 64 /* of parentheses and `not` */

struct jq;

struct jq_error {
	size_t pos;       /* byte offset of what is wrong */
	const char *text; /* static, e.g. "expected a comparison" */
};

/*
 * Reads the condition; it lives in `a` and may point into text. NULL, with
 * *ret_err filled, when it cannot be read.
 */
struct jq *jq_parse(struct str text, struct arena *a, struct jq_error *ret_err);

/* "Each of these members has this text": as a condition. NULL: no members.
 * False, with the member's name, when one is no text. object: validated. */
bool jq_from_texts(struct json object, struct arena *a, struct jq **ret,
		   struct str *ret_name);

/*
 * Reads a path alone. It is for jq_find then, and for nothing else.
 */
struct jq *jq_parse_path(struct str text, struct arena *a,
			 struct jq_error *ret_err);

/* The member of the document it begins with, unless it is . alone: that is
 * STR_NULL. False: it begins with an index. */
bool jq_path_first(const struct jq *path, struct str *ret);

/* The value at the path, as it stands in the document; false when the path
 * leads nowhere. document: validated. */
bool jq_find(struct jq *path, struct str document, struct json *ret);

/* False also when the text is no JSON. */
bool jq_matches(struct jq *jq, struct str text);
/* How many places of a document it looks at, at most: what matching costs. One
 * that is counted from an end is two, for each such end. */
size_t jq_tests(const struct jq *jq);

void jq_done(struct jq *jq); /* frees what matching used; NULL: fine */

#endif
