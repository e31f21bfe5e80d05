/*
 * Members of a server's answer: valid JSON of any shape. What is missing or
 * of another type is as good as nothing.
 */
#ifndef CORVO_CLI_ANSWER_H
#define CORVO_CLI_ANSWER_H

#include "util/arena.h"
#include "util/json.h"

/* A whole number; 0 when there is none. */
uint64_t answer_number(struct json v, const char *member);

/* Whether it is this text, or reads so; "": also when there is none. */
bool answer_is(struct json v, const char *member, const char *text);

/*
 * Of GET /cluster/status: whether what the leader has to answer would be waited
 * for in vain. Puts into why what is in the way, in a sentence.
 */
bool answer_is_unled(struct json status, struct buf *why);

/* The array that is a member of the answer; false when there is none. */
bool answer_list(struct str reply, const char *member, struct arena *a,
		 struct json *ret);

#endif
