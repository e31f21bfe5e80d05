/*
 * Times in the columns of the view: RFC 3339 in UTC with nine digits of the
 * second, always the same width, so that the order of texts is the order of
 * times.
 */
#ifndef CORVO_TIMETEXT_H
#define CORVO_TIMETEXT_H

#include "util/str.h"

#define TIMETEXT_LEN 30 /* "2026-02-11T10:00:00.123456789Z" */

#define TIMETEXT_SECONDS 4

/* Remembers the seconds it wrote last; zeroed at first, one per thread. */
struct timetext {
	struct timetext_second {
		uint64_t second; /* of `head`, plus one; 0: nothing yet */
		char head[20];   /* "2026-02-11T10:00:00." */
	} last[TIMETEXT_SECONDS];
};

/* Writes TIMETEXT_LEN bytes, no NUL. */
void timetext_put(struct timetext *t, uint64_t ns, char *ret);

/* 0 when the text is not a time. */
uint64_t timetext_parse(struct str s);

#endif
