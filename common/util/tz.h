/*
 * Time zones by their IANA names, read from the TZif files of the system
 * (RFC 8536): $TZDIR, or /usr/share/zoneinfo. What the table of a file does
 * not reach follows the rule in its footer.
 *
 * Names come from clients and files from whoever wrote them: neither can make
 * this read another place or go wrong. All times are UNIX seconds from 1970
 * on; wall times are seconds since 1970-01-01T00:00 of the zone's own clock.
 */
#ifndef CORVO_TZ_H
#define CORVO_TZ_H

#include "util/buf.h"
#include "util/hmap.h"

#define TZ_OFFSET_MAX 93600 /* seconds a zone may be from UTC */

struct tz;

/* Zones read so far. A file that was replaced is read again. */
struct tz_cache {
	struct hmap zones;
};

void tz_cache_done(struct tz_cache *c);

/*
 * The zone, valid until the next tz_find. An empty name means UTC, which
 * needs no file. NULL, with a sentence in why, when there is none.
 */
const struct tz *tz_find(struct tz_cache *c, struct str name, struct buf *why);

/* A zone from the bytes of a file; NULL: they make no sense. */
struct tz *tz_parse(struct str bytes);
void tz_free(struct tz *z);

/* Seconds east of UTC. */
int32_t tz_offset(const struct tz *z, int64_t at);

/* The first change of the offset after that moment; false: none. */
bool tz_next_change(const struct tz *z, int64_t after, int64_t *ret);

enum tz_kind {
	TZ_UNIQUE, /* the wall time comes once */
	TZ_GAP,    /* a change of the clock leaves it out */
	TZ_FOLD,   /* it comes twice */
};

struct tz_local {
	enum tz_kind kind;
	/* UNIQUE: the moment. FOLD: the earlier. GAP: when the clock jumps. */
	int64_t first;
	/* FOLD: the later. GAP: later than the jump by what the wall time is
	 * past its beginning. */
	int64_t second;
	int64_t end; /* GAP, FOLD: the first wall time after it */
};

void tz_from_wall(const struct tz *z, int64_t wall, struct tz_local *ret);

#endif
