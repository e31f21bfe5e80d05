/*
 * Times and durations as text. Times are UNIX nanoseconds; text is RFC 3339.
 * Durations are nanoseconds; text is Go's form ("1h30m", "90s", "500ms").
 */
#ifndef CORVO_TIMEFMT_H
#define CORVO_TIMEFMT_H

#include "util/buf.h"

/*
 * RFC 3339 with any offset and up to nine fractional digits; years 1970 to
 * 2200. False when it cannot be read.
 */
bool time_parse(struct str s, uint64_t *ret_ns);

/* "2026-02-11T10:00:00.123456789Z", trailing zeros of the fraction trimmed. */
void time_format(struct buf *b, uint64_t ns);

/* Sum of number+unit (ns, us, µs, ms, s, m, h, d), decimals allowed; no sign.
 */
bool duration_parse(struct str s, uint64_t *ret_ns);

/* The same, or a whole number of seconds without a unit. */
bool duration_read(struct str s, uint64_t *ret_ns);

/* Shortest exact text in Go's units: "1h30m0s" is written "1h30m". 0: "0s". */
void duration_format(struct buf *b, uint64_t ns);

#endif
