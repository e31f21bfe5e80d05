/*
 * Next times of cron expressions, by jumping from field to field. See cron.h.
 */
#include "util/cron.h"

#include "util/civil.h"

#define NEVER_WALL (-1)
/* Wall times are counted from 1970; west of UTC they begin a day earlier. */
#define FIRST_S     (2 * S_PER_DAY)
#define LAST_S      (INT64_C(9000000000)) /* the year 2255 */
#define WEEKEND_SUN 0
#define WEEKEND_SAT 6

/* The first set bit at or above `from`; -1: none. */
static int next_bit(uint64_t bits, unsigned from)
{
	bits = from > 63 ? 0 : bits >> from << from;
	return bits == 0 ? -1 : __builtin_ctzll(bits);
}

/* --- days --- */

struct month {
	unsigned year, month; /* from 1 */
	unsigned days;
	unsigned first_weekday;
};

static unsigned weekday_of(const struct month *m, unsigned day)
{
	return (m->first_weekday + day - 1) % 7;
}

/* The weekday nearest to that day, inside the month. */
static unsigned nearest_weekday(const struct month *m, unsigned day)
{
	switch (weekday_of(m, day)) {
	case WEEKEND_SAT:
		return day > 1 ? day - 1 : day + 2;
	case WEEKEND_SUN:
		return day < m->days ? day + 1 : day - 2;
	default:
		return day;
	}
}

static uint32_t bit(unsigned n)
{
	return UINT32_C(1) << n;
}

/* Days by the day of the month, as bits from 1. */
static uint32_t days_by_date(const struct cron *c, const struct month *m)
{
	uint32_t days = c->days;

	for (int n = next_bit(c->last_minus, 0);
	     n >= 0 && (unsigned)n < m->days;
	     n = next_bit(c->last_minus, (unsigned)n + 1))
		days |= bit(m->days - (unsigned)n);
	for (int n = next_bit(c->near_days, 1);
	     n >= 0 && (unsigned)n <= m->days;
	     n = next_bit(c->near_days, (unsigned)n + 1))
		days |= bit(nearest_weekday(m, (unsigned)n));
	if (c->last_weekday) {
		unsigned w = weekday_of(m, m->days);

		days |= bit(m->days - (w == WEEKEND_SUN   ? 2
				       : w == WEEKEND_SAT ? 1
							  : 0));
	}
	return days;
}

/* Days by the day of the week, as bits from 1. */
static uint32_t days_by_weekday(const struct cron *c, const struct month *m)
{
	uint32_t days = 0;

	for (unsigned d = 1; d <= m->days; d++) {
		unsigned w = weekday_of(m, d);
		unsigned in = c->weekdays | c->nth[(d - 1) / 7];

		if (d + 7 > m->days)
			in |= c->last_days;
		if (in >> w & 1)
			days |= bit(d);
	}
	return days;
}

static uint32_t days_of(const struct cron *c, const struct month *m)
{
	uint32_t dates = days_by_date(c, m);
	uint32_t weekdays = days_by_weekday(c, m);
	uint32_t days = c->any_day ? dates & weekdays : dates | weekdays;

	return days & ~(UINT32_MAX << m->days << 1) & ~UINT32_C(1);
}

/* --- wall times --- */

/* The first matching second of a day at or after that one; -1: none. */
static int next_in_day(const struct cron *c, unsigned second)
{
	int h = (int)second / S_PER_HOUR, m = (int)second / S_PER_MIN % 60;
	int hour = next_bit(c->hours, (unsigned)h);
	int minute = next_bit(c->minutes, hour == h ? (unsigned)m : 0);
	int s =
	    next_bit(c->seconds, hour == h && minute == m ? second % 60 : 0);

	if (s < 0) { /* none is left of the minute */
		s = next_bit(c->seconds, 0);
		minute = next_bit(c->minutes, (unsigned)minute + 1);
	}
	if (minute < 0) { /* nor of the hour */
		s = next_bit(c->seconds, 0);
		minute = next_bit(c->minutes, 0);
		hour = hour < 0 ? -1 : next_bit(c->hours, (unsigned)hour + 1);
	}
	if (hour < 0)
		return -1;
	return hour * S_PER_HOUR + minute * S_PER_MIN + s;
}

/* The first second of the month at or after a day and its second. */
static int64_t next_in_month(const struct cron *c, const struct month *m,
			     unsigned day, unsigned second)
{
	uint32_t days = days_of(c, m);

	for (int d = next_bit(days, day); d > 0;
	     d = next_bit(days, (unsigned)d + 1)) {
		int s = next_in_day(c, (unsigned)d == day ? second : 0);

		if (s >= 0)
			return (int64_t)(civil_days(m->year, m->month,
						    (unsigned)d) *
					 S_PER_DAY) +
			       s;
	}
	return NEVER_WALL;
}

int64_t cron_next_wall(const struct cron *c, int64_t after, int64_t upto)
{
	uint64_t from = (uint64_t)MAX(after + 1, 0);
	unsigned second = (unsigned)(from % S_PER_DAY), day;
	struct month m;

	civil_date(from / S_PER_DAY, &m.year, &m.month, &day);
	for (;;) {
		uint64_t first = civil_days(m.year, m.month, 1);
		int64_t found = NEVER_WALL;

		if ((int64_t)(first * S_PER_DAY) > upto)
			return NEVER_WALL;
		m.days = civil_month_days(m.year, m.month);
		m.first_weekday = civil_weekday(first);
		if (c->months >> m.month & 1)
			found = next_in_month(c, &m, day, second);
		if (found >= 0)
			return found <= upto ? found : NEVER_WALL;
		m.year += m.month == 12;
		m.month = m.month % 12 + 1;
		day = 1;
		second = 0;
	}
}

/* --- moments --- */

/* By elapsed time: stretch by stretch of one offset. */
static int64_t next_elapsed(const struct cron *c, const struct tz *z,
			    int64_t after, int64_t upto)
{
	while (after < upto) {
		int32_t offset = tz_offset(z, after + 1);
		int64_t change, wall;

		if (!tz_next_change(z, after + 1, &change) || change > upto)
			change = upto + 1;
		wall = cron_next_wall(c, after + offset, change - 1 + offset);
		if (wall >= 0)
			return wall - offset;
		after = change - 1;
	}
	return NEVER_WALL;
}

/*
 * A gap before `after` whose times, moved by its length, are still to come:
 * the first of them, or -1.
 */
static int64_t next_shifted(const struct cron *c, const struct tz *z,
			    int64_t after)
{
	int64_t change, from = after - 2 * TZ_OFFSET_MAX;

	while (tz_next_change(z, from, &change) && change <= after) {
		int32_t before = tz_offset(z, change - 1);
		int32_t then = tz_offset(z, change);
		int64_t wall = NEVER_WALL;

		if (then > before && after < change + then - before)
			wall = cron_next_wall(c, after + before,
					      change + then - 1);
		if (wall >= 0)
			return wall - before;
		from = change;
	}
	return NEVER_WALL;
}

/* By the wall clock. */
static int64_t next_fixed(const struct cron *c, const struct tz *z,
			  enum cron_gap gap, int64_t after, int64_t upto)
{
	int64_t wall = after + tz_offset(z, after);
	int64_t best =
	    gap == CRON_SHIFT ? next_shifted(c, z, after) : NEVER_WALL;

	for (;;) {
		struct tz_local at;
		int64_t found = NEVER_WALL;

		wall = cron_next_wall(c, wall, upto);
		if (wall < 0)
			return best;
		tz_from_wall(z, wall, &at);
		if (at.kind != TZ_GAP || gap == CRON_ONCE)
			found = at.first;
		else if (gap == CRON_SHIFT)
			found = at.second;
		if (found > after && (best < 0 || found < best))
			best = found;
		/* Times after a gap may come before one it has moved. */
		if (found > after && (at.kind != TZ_GAP || gap == CRON_ONCE))
			return best;
		if (at.kind != TZ_UNIQUE)
			wall = at.end - 1;
	}
}

static uint64_t next_every(const struct cron *c, uint64_t anchor,
			   uint64_t after)
{
	if (after < anchor)
		return anchor;
	return anchor + ((after - anchor) / c->every_ns + 1) * c->every_ns;
}

uint64_t cron_next(const struct cron *c, const struct tz *z, enum cron_gap gap,
		   uint64_t anchor_ns, uint64_t after_ns)
{
	int64_t after = (int64_t)(after_ns / NS_PER_S), next, upto;

	if (after >= LAST_S)
		return 0;
	if (c->every_ns != 0)
		return next_every(c, anchor_ns, after_ns);
	after = MAX(after, FIRST_S);
	upto = MIN(after + (int64_t)CRON_YEARS * 366 * S_PER_DAY, LAST_S);
	if (c->is_elapsed)
		next = next_elapsed(c, z, after, upto);
	else
		next = next_fixed(c, z, gap, after, upto);
	return next < 0 ? 0 : (uint64_t)next * NS_PER_S;
}
