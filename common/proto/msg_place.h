/*
 * Where in a request something is wrong: shared by the readers and checkers
 * of requests, nobody else.
 */
#ifndef CORVO_MSG_PLACE_H
#define CORVO_MSG_PLACE_H

#include "proto/proto.h"

#define PLACE_NO_INDEX SIZE_MAX

/* A member, or one item of it; a chain on the stack of the reader. */
struct place {
	const struct place *up; /* NULL: a member of the body itself */
	const struct field_desc *field;
	size_t index; /* PLACE_NO_INDEX: the member as a whole */
	bool in_ms;   /* given as <name>_ms */
};

/* Appends "jobs[3].queue"; nothing for NULL. */
void place_print(const struct place *at, struct buf *why);

/* A name as a client wrote it, the beginning of a long one. */
void place_print_name(struct str name, struct buf *why);

/* That the enum of the field has no such word. -ERR_VALIDATION_ERROR. */
int place_refuse_word(const struct place *at, struct buf *why);

/* Appends "jobs[3].queue: text" to `why`, returns -ERR_VALIDATION_ERROR. */
_printf_(3, 4) int place_refuse(const struct place *at, struct buf *why,
				const char *fmt, ...);

#endif
