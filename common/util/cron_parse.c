/*
 * Reads cron expressions. See cron.h. The text is hostile; nothing is
 * allocated but the refusal in `why`.
 */

#include "util/civil.h"
#include "util/cron.h"
#include "util/timefmt.h"

#define FIELDS_MAX   6
#define EVERY_MAX_NS (36525ULL * S_PER_DAY * NS_PER_S) /* a hundred years */

enum field_id { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY };

static const char *const month_names[] = { "JAN", "FEB", "MAR", "APR",
					   "MAY", "JUN", "JUL", "AUG",
					   "SEP", "OCT", "NOV", "DEC" };
static const char *const weekday_names[] = { "SUN", "MON", "TUE", "WED",
					     "THU", "FRI", "SAT" };

static const struct field_info {
	const char *name;
	unsigned min, max;
	const char *const *names;
	unsigned names_n;
} fields[FIELDS_MAX] = {
	[SECOND] = { "second", 0, 59, NULL, 0 },
	[MINUTE] = { "minute", 0, 59, NULL, 0 },
	[HOUR] = { "hour", 0, 23, NULL, 0 },
	[DAY] = { "day of month", 1, 31, NULL, 0 },
	[MONTH] = { "month", 1, 12, month_names, 12 },
	[WEEKDAY] = { "day of week", 0, 7, weekday_names, 7 },
};

static const struct {
	const char *name, *fields;
} nicknames[] = {
	{ "@yearly", "0 0 1 1 *" },  { "@annually", "0 0 1 1 *" },
	{ "@monthly", "0 0 1 * *" }, { "@weekly", "0 0 * * 0" },
	{ "@daily", "0 0 * * *" },   { "@midnight", "0 0 * * *" },
	{ "@hourly", "0 * * * *" },
};

struct parser {
	const char *start; /* of the expression */
	struct str rest;   /* of the field being read */
	enum field_id id;
	struct cron *c;
	struct buf *why;
};

/* A list item: from, from-to or either with a step. */
struct range {
	unsigned from, to, step;
	bool star;
};

_printf_(2, 3) static bool refuse(struct parser *p, const char *fmt, ...)
{
	va_list ap;

	buf_printf(p->why, "%s field, character %zu: ", fields[p->id].name,
		   (size_t)(p->rest.p - p->start) + 1);
	va_start(ap, fmt);
	buf_vprintf(p->why, fmt, ap);
	va_end(ap);
	return false;
}

static bool take(struct parser *p, char c)
{
	if (p->rest.n == 0 || p->rest.p[0] != c)
		return false;
	p->rest = str_skip(p->rest, 1);
	return true;
}

static bool is_next(const struct parser *p, char c)
{
	return p->rest.n > 0 && p->rest.p[0] == c;
}

static char upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool take_name(struct parser *p, unsigned *ret)
{
	const struct field_info *f = &fields[p->id];

	for (unsigned i = 0; p->rest.n >= 3 && i < f->names_n; i++) {
		const char *name = f->names[i];

		if (upper(p->rest.p[0]) != name[0] ||
		    upper(p->rest.p[1]) != name[1] ||
		    upper(p->rest.p[2]) != name[2])
			continue;
		p->rest = str_skip(p->rest, 3);
		*ret = f->min + i;
		return true;
	}
	return false;
}

static bool take_digits(struct parser *p, unsigned min, unsigned max,
			unsigned *ret)
{
	size_t n = 0;
	uint64_t v;

	while (n < p->rest.n && p->rest.p[n] >= '0' && p->rest.p[n] <= '9')
		n++;
	if (n == 0)
		return refuse(p, "expected a number from %u to %u", min, max);
	if (!str_parse_u64(str_of(p->rest.p, n), &v) || v < min || v > max)
		return refuse(p, "%.*s is not from %u to %u",
			      (int)MIN(n, (size_t)20), p->rest.p, min, max);
	p->rest = str_skip(p->rest, n);
	*ret = (unsigned)v;
	return true;
}

static bool take_value(struct parser *p, unsigned *ret)
{
	const struct field_info *f = &fields[p->id];

	return take_name(p, ret) || take_digits(p, f->min, f->max, ret);
}

/* --- items that only days know --- */

static bool is_end(const struct parser *p)
{
	return p->rest.n == 0 || p->rest.p[0] == ',';
}

/* L, L-3, LW */
static bool take_last_day(struct parser *p)
{
	unsigned before = 0;

	if (take(p, 'W') || take(p, 'w')) {
		p->c->last_weekday = true;
		return true;
	}
	if (take(p, '-') && !take_digits(p, 1, 30, &before))
		return false;
	p->c->last_minus |= UINT32_C(1) << before;
	return true;
}

/* What may follow a single number: 15W, 5L, FRI#2. True when it did. */
static bool take_suffix(struct parser *p, unsigned v, bool *ret_ok)
{
	unsigned nth;

	*ret_ok = true;
	if (p->id == DAY && (take(p, 'W') || take(p, 'w'))) {
		p->c->near_days |= UINT32_C(1) << v;
		return true;
	}
	if (p->id == WEEKDAY && (take(p, 'L') || take(p, 'l'))) {
		p->c->last_days |= (uint8_t)(1u << v % 7);
		return true;
	}
	if (p->id == WEEKDAY && take(p, '#')) {
		*ret_ok = take_digits(p, 1, 5, &nth);
		if (*ret_ok)
			p->c->nth[nth - 1] |= (uint8_t)(1u << v % 7);
		return true;
	}
	return false;
}

/* --- ranges --- */

static void add_range(struct parser *p, const struct range *r)
{
	struct cron *c = p->c;

	for (unsigned v = r->from; v <= r->to; v += r->step) {
		switch (p->id) {
		case SECOND:
			c->seconds |= UINT64_C(1) << v;
			break;
		case MINUTE:
			c->minutes |= UINT64_C(1) << v;
			break;
		case HOUR:
			c->hours |= UINT32_C(1) << v;
			break;
		case DAY:
			c->days |= UINT32_C(1) << v;
			break;
		case MONTH:
			c->months |= UINT32_C(1) << v;
			break;
		case WEEKDAY:
			c->weekdays |= (uint8_t)(1u << v % 7);
			break;
		}
	}
}

/* The end of a range. The week may end with Sunday: SAT-SUN is 6-7. */
static bool take_to(struct parser *p, struct range *r)
{
	struct parser at = *p;

	if (!take_value(p, &r->to))
		return false;
	if (p->id == WEEKDAY && r->to == 0 && r->from > 0)
		r->to = 7;
	if (r->to >= r->from)
		return true;
	return refuse(&at, "the range ends before it begins");
}

static bool take_step(struct parser *p, struct range *r, bool single)
{
	if (!take(p, '/'))
		return true;
	if (single)
		r->to = fields[p->id].max;
	return take_digits(p, 1, fields[p->id].max, &r->step);
}

static bool take_item(struct parser *p)
{
	const struct field_info *f = &fields[p->id];
	struct range r = { f->min, f->max, 1, false };
	bool single = false, ok;

	if (take(p, '*')) {
		/* 7 is Sunday again */
		r.to = p->id == WEEKDAY ? 6 : f->max;
	} else if (p->id >= DAY && p->id != MONTH && take(p, '?')) {
		r.to = p->id == WEEKDAY ? 6 : f->max;
		add_range(p, &r);
		return true;
	} else if (p->id == DAY && (take(p, 'L') || take(p, 'l'))) {
		return take_last_day(p);
	} else {
		if (!take_value(p, &r.from))
			return false;
		if (take_suffix(p, r.from, &ok))
			return ok;
		single = !is_next(p, '-');
		r.to = r.from;
		if (!single && (!take(p, '-') || !take_to(p, &r)))
			return false;
	}
	if (!take_step(p, &r, single))
		return false;
	add_range(p, &r);
	return true;
}

static bool parse_field(struct parser *p)
{
	bool star = is_next(p, '*') || is_next(p, '?');

	if (star && (p->id == DAY || p->id == WEEKDAY))
		p->c->any_day = true;
	if (star && (p->id == MINUTE || p->id == HOUR))
		p->c->is_elapsed = true;
	do {
		if (!take_item(p))
			return false;
		if (!is_end(p))
			return refuse(p, "\"%c\" does not belong here",
				      p->rest.p[0] >= ' ' && p->rest.p[0] < 0x7f
					  ? p->rest.p[0]
					  : '?');
	} while (take(p, ','));
	return true;
}

/* --- the whole --- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* Words of the text; more than max are counted and not kept. */
static size_t split(struct str text, struct str *words, size_t max)
{
	size_t n = 0, i = 0;

	for (;;) {
		size_t from;

		while (i < text.n && is_space(text.p[i]))
			i++;
		if (i == text.n)
			return n;
		from = i;
		while (i < text.n && !is_space(text.p[i]))
			i++;
		if (n < max)
			words[n] = str_of(text.p + from, i - from);
		n++;
	}
}

static bool parse_fields(struct str text, struct cron *ret, struct buf *why)
{
	struct str words[FIELDS_MAX];
	size_t n = split(text, words, FIELDS_MAX);
	size_t skip = FIELDS_MAX - n;

	if (n != 5 && n != 6) {
		buf_printf(why,
			   "an expression has 5 fields, or 6 with seconds "
			   "first, not %zu",
			   n);
		return false;
	}
	if (n == 5)
		ret->seconds = 1;
	for (size_t i = 0; i < n; i++) {
		struct parser p = { .start = text.p,
				    .rest = words[i],
				    .id = (enum field_id)(i + skip),
				    .c = ret,
				    .why = why };

		if (!parse_field(&p))
			return false;
	}
	return true;
}

static bool parse_every(struct str text, struct cron *ret, struct buf *why)
{
	if (duration_parse(str_trim(text), &ret->every_ns) &&
	    ret->every_ns >= NS_PER_S && ret->every_ns <= EVERY_MAX_NS)
		return true;
	buf_puts(why, "@every takes a duration of at least 1s, such as 90s "
		      "or 1h30m");
	return false;
}

static bool parse_nickname(struct str text, struct cron *ret, struct buf *why)
{
	static const struct str every = { "@every ", 7 };

	if (str_starts(text, every))
		return parse_every(str_skip(text, every.n), ret, why);
	for (size_t i = 0; i < ARRAY_SIZE(nicknames); i++)
		if (str_is(text, nicknames[i].name))
			return parse_fields(str_from(nicknames[i].fields), ret,
					    why);
	buf_puts(why, "names are @yearly, @annually, @monthly, @weekly, "
		      "@daily, @midnight, @hourly and @every DURATION");
	return false;
}

/* No zone has to be asked: what no calendar day satisfies never comes. */
static bool check_comes(const struct cron *c, struct buf *why)
{
	int64_t from = (int64_t)(civil_days(2000, 1, 1) * S_PER_DAY);
	int64_t upto = from + (int64_t)CRON_YEARS * 366 * S_PER_DAY;

	if (cron_next_wall(c, from - 1, upto) >= 0)
		return true;
	buf_puts(why, "no day of the calendar matches: it would never run");
	return false;
}

bool cron_parse(struct str text, struct cron *ret, struct buf *why)
{
	*ret = (struct cron){ 0 };
	text = str_trim(text);
	if (text.n > 0 && text.p[0] == '@')
		return parse_nickname(text, ret, why);
	return parse_fields(text, ret, why) && check_comes(ret, why);
}
