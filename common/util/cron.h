/*
 * Cron expressions: five fields (minute, hour, day of the month, month, day of
 * the week), six with seconds first, @daily and the like, or @every DURATION.
 *
 * When both days are restricted, either may match (Vixie's rule: a field that
 * begins with * or is ? is not a restriction).
 *
 * Changes of the clock, as Debian's cron has them. An expression whose minute
 * or hour begins with * follows elapsed time: it runs in both passes of an
 * hour that comes twice and not in one that is left out. All others mean
 * fixed times of the wall clock: one that comes twice runs the first time,
 * and one that is left out runs as `gap` says.
 *
 * The text is hostile. Everything here is pure.
 */
#ifndef CORVO_CRON_H
#define CORVO_CRON_H

#include "util/buf.h"
#include "util/tz.h"

#define CRON_YEARS 40 /* what does not come in so many years never comes */

struct cron {
	uint64_t every_ns; /* @every; 0: the fields below */
	uint64_t seconds, minutes;
	uint32_t hours, months; /* bit 1: January */
	/* days of the month */
	uint32_t days;       /* bit 1: the first */
	uint32_t near_days;  /* nW: the weekday nearest to it */
	uint32_t last_minus; /* bit n: n days before the last; L is bit 0 */
	bool last_weekday;   /* LW */
	/* days of the week, 0: Sunday */
	uint8_t weekdays;
	uint8_t last_days; /* 5L: the last Friday */
	uint8_t nth[5];    /* FRI#2: bit 5 of nth[1] */
	bool any_day;      /* both must match: one of them begins with * */
	bool is_elapsed;   /* minute or hour begins with * */
};

/* False: the sentence in why names the field and the position. */
bool cron_parse(struct str text, struct cron *ret, struct buf *why);

enum cron_gap {
	CRON_ONCE,  /* runs when the gap ends, once for all that it left out */
	CRON_SKIP,  /* does not run */
	CRON_SHIFT, /* runs later by the length of the gap */
};

/*
 * The first time after after_ns, in UNIX nanoseconds; 0: it never comes.
 * anchor_ns is what @every counts from; it is a time itself.
 */
uint64_t cron_next(const struct cron *c, const struct tz *z, enum cron_gap gap,
		   uint64_t anchor_ns, uint64_t after_ns);

/*
 * The first wall time after `after` that matches, both in seconds, at most
 * `upto`; -1: none.
 */
int64_t cron_next_wall(const struct cron *c, int64_t after, int64_t upto);

#endif
