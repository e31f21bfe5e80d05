/*
 * A condition as it is run; shared by jq/jq.c (reads it), jq/run.c (runs it)
 * and jq/walk.c (walks the document).
 */
#ifndef CORVO_JQ_IMPL_H
#define CORVO_JQ_IMPL_H

#include "jq/jq.h"

enum jq_code {
	JQ_COMPARE,    /* path cmp literal */
	JQ_STARTS,     /* path | startswith(text) */
	JQ_CONTAINS,   /* path | contains(text) */
	JQ_LENGTH,     /* path | length cmp length */
	JQ_NOT,        /* turns the truth around */
	JQ_JUMP_FALSE, /* to target when it is false */
	JQ_JUMP_TRUE,
};

enum jq_cmp { JQ_EQ, JQ_NE, JQ_LT, JQ_LE, JQ_GT, JQ_GE };

struct jq_key {
	bool is_index;
	int64_t index; /* < 0: from the end */
	struct str name;
};

struct jq_path {
	struct jq_key *keys;
	size_t n;
};

struct jq_step {
	enum jq_code code;
	enum jq_cmp cmp;
	struct jq_path path;
	enum json_type type; /* of the literal: null, bool, number, string */
	bool flag;
	long double number; /* holds every 64-bit integer and every double */
	struct str text;
	int64_t length;
	size_t target; /* index of a step, or past the last */
};

struct jq {
	struct jq_step *steps;
	size_t n;
	bool has_escapes;   /* the document, which is validated then */
	struct arena arena; /* of the document's unescaped texts */
};

/* Members of an object or items of an array, in a text that may be anything;
 * texts begin and end with a quote. */
struct jq_iter {
	const char *p, *end;
};

struct jq_iter jq_iter(struct json v);
bool jq_next_item(struct jq_iter *it, struct json *ret);
bool jq_next_member(struct jq_iter *it, struct json *ret_key,
		    struct json *ret); /* key: with its quotes */

/*
 * The same in two steps: to where the next value begins; behind it. False:
 * there is none, and p is where its object or array is closed. What is within
 * the value can be looked at in between.
 */
bool jq_iter_item(struct jq_iter *it);
bool jq_iter_member(struct jq_iter *it, struct json *ret_key);
bool jq_iter_skip(struct jq_iter *it, struct json *ret);

/* False when v is no number or too large for a double. */
bool jq_number(struct json v, long double *ret);

#endif
