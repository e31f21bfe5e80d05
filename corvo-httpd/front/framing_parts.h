/*
 * Between the files of the framing; see front/framing.h.
 */
#ifndef CORVO_FRAMING_PARTS_H
#define CORVO_FRAMING_PARTS_H

#include <sys/types.h>

#include "front/framing.h"

/* What a byte may be part of. */
#define TOKEN  1u /* a method or the name of a header */
#define TARGET 2u /* what is asked for; the rest is percent-encoded */
#define VALUE  4u /* of a header */
#define HOST   8u /* a name or address, and a port */
#define HEX    16u
#define DIGIT  32u

#define ALNUM (TOKEN | TARGET | VALUE | HOST)

extern const uint8_t FRAMING_CLASSES[256];

/* How many of the first n bytes are of that class. */
static inline size_t framing_run(const uint8_t *p, size_t n, unsigned class)
{
	size_t i = 0;

	while (i < n && (FRAMING_CLASSES[p[i]] & class) != 0)
		i++;
	return i;
}

static inline bool framing_is(uint8_t c, unsigned class)
{
	return (FRAMING_CLASSES[c] & class) != 0;
}

/* What the request gets; a NULL why: the error says it. Return -err. */
int framing_refuse(struct framing *f, int err, const char *why);
int framing_malformed(struct framing *f, const char *why);

/* The byte has to be c; then the state is next. 1 or -ERR_. */
int framing_expect(struct framing *f, uint8_t byte, char c,
		   enum framing_state next, const char *why);

/*
 * Counts n bytes of the head. The server library's room for it is fixed, and
 * what does not fit there ends without a word; so it is counted here.
 */
int framing_count(struct framing *f, size_t n);

/*
 * The steps of states, one each: how many of the n > 0 bytes were taken, or
 * -ERR_. None looks at more than it was given, so it does not matter how the
 * bytes are cut into pieces.
 */
ssize_t framing_on_name_start(struct framing *f, const uint8_t *p, size_t n);
ssize_t framing_on_name(struct framing *f, const uint8_t *p, size_t n);
ssize_t framing_on_value(struct framing *f, const uint8_t *p, size_t n);
ssize_t framing_on_value_lf(struct framing *f, const uint8_t *p, size_t n);
ssize_t framing_on_chunk_size(struct framing *f, const uint8_t *p, size_t n);
ssize_t framing_on_chunk_ext(struct framing *f, const uint8_t *p, size_t n);
ssize_t framing_on_chunk_lf(struct framing *f, const uint8_t *p, size_t n);
ssize_t framing_on_chunk_data(struct framing *f, const uint8_t *p, size_t n);
ssize_t framing_on_data_cr(struct framing *f, const uint8_t *p, size_t n);
ssize_t framing_on_data_lf(struct framing *f, const uint8_t *p, size_t n);

#endif
