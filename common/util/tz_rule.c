/*
 * POSIX TZ strings. The text comes from a file: hostile.
 */
#include "util/tz_rule.h"

#include "util/civil.h"

#define NAME_MIN    3
#define RULE_TIME_S (2 * S_PER_HOUR) /* a change without a time is at 02:00 */
#define YEAR_FIRST  1971             /* years around a moment are looked at */

/* --- reading --- */

struct reader {
	struct str s;
};

static bool take(struct reader *r, char c)
{
	if (r->s.n == 0 || r->s.p[0] != c)
		return false;
	r->s = str_skip(r->s, 1);
	return true;
}

static bool take_number(struct reader *r, unsigned max, unsigned *ret)
{
	size_t n = 0;
	uint64_t v;

	while (n < r->s.n && r->s.p[n] >= '0' && r->s.p[n] <= '9')
		n++;
	if (!str_parse_u64(str_of(r->s.p, n), &v) || v > max)
		return false;
	r->s = str_skip(r->s, n);
	*ret = (unsigned)v;
	return true;
}

static bool is_alpha(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* "CET" or "<+03>"; nobody needs it. */
static bool skip_name(struct reader *r)
{
	bool quoted = take(r, '<');
	size_t n = 0;

	while (n < r->s.n && (quoted ? r->s.p[n] != '>' : is_alpha(r->s.p[n])))
		n++;
	if (n < NAME_MIN)
		return false;
	r->s = str_skip(r->s, n);
	return !quoted || take(r, '>');
}

/* [+-]hh[:mm[:ss]] */
static bool take_clock(struct reader *r, unsigned hours_max, int32_t *ret)
{
	unsigned h, m = 0, s = 0;
	bool minus = take(r, '-');

	if (!minus)
		(void)take(r, '+');
	if (!take_number(r, hours_max, &h))
		return false;
	if (take(r, ':') && !take_number(r, 59, &m))
		return false;
	if (take(r, ':') && !take_number(r, 59, &s))
		return false;
	*ret = (int32_t)(h * S_PER_HOUR + m * S_PER_MIN + s);
	if (minus)
		*ret = -*ret;
	return true;
}

/* Counted westward in the text, eastward here. */
static bool take_offset(struct reader *r, int32_t *ret)
{
	if (!take_clock(r, 24, ret))
		return false;
	*ret = -*ret;
	return true;
}

static bool take_month_day(struct reader *r, struct tz_when *w)
{
	w->kind = TZ_DAY_MONTH;
	return take_number(r, 12, &w->month) && w->month > 0 && take(r, '.') &&
	       take_number(r, 5, &w->week) && w->week > 0 && take(r, '.') &&
	       take_number(r, 6, &w->day);
}

static bool take_when(struct reader *r, struct tz_when *w)
{
	bool ok;

	if (!take(r, ','))
		return false;
	w->seconds = RULE_TIME_S;
	if (take(r, 'M')) {
		ok = take_month_day(r, w);
	} else if (take(r, 'J')) {
		w->kind = TZ_DAY_JULIAN;
		ok = take_number(r, 365, &w->day) && w->day > 0;
	} else {
		w->kind = TZ_DAY_ZERO;
		ok = take_number(r, 365, &w->day);
	}
	return ok && (!take(r, '/') || take_clock(r, 167, &w->seconds));
}

bool tz_rule_parse(struct str text, struct tz_rule *ret)
{
	struct reader r = { text };

	*ret = (struct tz_rule){ 0 };
	if (!skip_name(&r) || !take_offset(&r, &ret->std))
		return false;
	if (r.s.n == 0)
		return true;
	ret->has_dst = true;
	ret->dst = ret->std + S_PER_HOUR;
	if (!skip_name(&r))
		return false;
	if (r.s.n > 0 && r.s.p[0] != ',' && !take_offset(&r, &ret->dst))
		return false;
	return take_when(&r, &ret->start) && take_when(&r, &ret->end) &&
	       r.s.n == 0;
}

/* --- using --- */

static uint64_t month_day(unsigned year, const struct tz_when *w)
{
	uint64_t first = civil_days(year, w->month, 1);
	unsigned days = civil_month_days(year, w->month);
	unsigned day =
	    (w->day + 7 - civil_weekday(first)) % 7 + (w->week - 1) * 7;

	return first + (day < days ? day : day - 7); /* 5: the last */
}

static int64_t when_of_year(unsigned year, const struct tz_when *w,
			    int32_t offset)
{
	uint64_t day = civil_days(year, 1, 1);

	switch (w->kind) {
	case TZ_DAY_MONTH:
		day = month_day(year, w);
		break;
	case TZ_DAY_JULIAN:
		day += w->day - 1 + (w->day >= 60 && civil_is_leap(year));
		break;
	case TZ_DAY_ZERO:
		day += w->day;
		break;
	}
	return (int64_t)(day * S_PER_DAY) + w->seconds - offset;
}

static unsigned year_near(int64_t at)
{
	unsigned y, m, d;

	civil_date((uint64_t)MAX(at, 0) / S_PER_DAY, &y, &m, &d);
	return MAX(y, (unsigned)YEAR_FIRST);
}

/* The last of the changes around decides. At one moment dst begins last. */
int32_t tz_rule_offset(const struct tz_rule *r, int64_t at)
{
	unsigned year = year_near(at);
	int64_t last = INT64_MIN;
	int32_t offset = r->std;

	for (unsigned y = year - 1; r->has_dst && y <= year + 1; y++) {
		int64_t end = when_of_year(y, &r->end, r->dst);
		int64_t start = when_of_year(y, &r->start, r->std);

		if (end <= at && end > last) {
			last = end;
			offset = r->std;
		}
		if (start <= at && start >= last) {
			last = start;
			offset = r->dst;
		}
	}
	return offset;
}

bool tz_rule_next(const struct tz_rule *r, int64_t after, int64_t *ret)
{
	unsigned year = year_near(after);

	*ret = INT64_MAX;
	for (unsigned y = year - 1; r->has_dst && y <= year + 1; y++) {
		int64_t end = when_of_year(y, &r->end, r->dst);
		int64_t start = when_of_year(y, &r->start, r->std);

		if (end > after)
			*ret = MIN(*ret, end);
		if (start > after)
			*ret = MIN(*ret, start);
	}
	return *ret != INT64_MAX;
}
