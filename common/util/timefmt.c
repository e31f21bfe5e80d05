#include "util/timefmt.h"

#include "util/civil.h"

#define YEAR_MIN 1970
#define YEAR_MAX 2200

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The take functions consume from the front of *s when they return true. */
static bool take_char(struct str *s, char c)
{
	if (s->n == 0 || s->p[0] != c)
		return false;
	*s = str_skip(*s, 1);
	return true;
}

/* Exactly `count` digits with a value in [min, max]. */
static bool take_number(struct str *s, size_t count, unsigned min, unsigned max,
			unsigned *ret)
{
	uint64_t v;

	if (s->n < count || !str_parse_u64(str_of(s->p, count), &v))
		return false;
	if (v < min || v > max)
		return false;
	*s = str_skip(*s, count);
	*ret = (unsigned)v;
	return true;
}

static bool take_date(struct str *s, uint64_t *ret_days)
{
	unsigned year, month, day;

	if (!take_number(s, 4, YEAR_MIN, YEAR_MAX, &year) ||
	    !take_char(s, '-') || !take_number(s, 2, 1, 12, &month) ||
	    !take_char(s, '-') ||
	    !take_number(s, 2, 1, civil_month_days(year, month), &day))
		return false;
	*ret_days = civil_days(year, month, day);
	return true;
}

/* No leap second: UNIX time has no number for it. */
static bool take_clock(struct str *s, unsigned *ret_s)
{
	unsigned hour, min, sec;

	if (!take_number(s, 2, 0, 23, &hour) || !take_char(s, ':') ||
	    !take_number(s, 2, 0, 59, &min) || !take_char(s, ':') ||
	    !take_number(s, 2, 0, 59, &sec))
		return false;
	*ret_s = hour * S_PER_HOUR + min * S_PER_MIN + sec;
	return true;
}

static bool take_fraction(struct str *s, uint64_t *ret_ns)
{
	uint64_t unit = NS_PER_S, ns = 0;

	if (!take_char(s, '.')) {
		*ret_ns = 0;
		return true;
	}
	if (s->n == 0 || !is_digit(s->p[0]))
		return false;
	while (s->n > 0 && is_digit(s->p[0])) {
		if (unit == 1) /* a tenth digit */
			return false;
		unit /= 10;
		ns += unit * (uint64_t)(s->p[0] - '0');
		*s = str_skip(*s, 1);
	}
	*ret_ns = ns;
	return true;
}

/* Seconds east of UTC. */
static bool take_offset(struct str *s, int64_t *ret_s)
{
	unsigned hour, min;
	bool west;

	if (take_char(s, 'Z') || take_char(s, 'z')) {
		*ret_s = 0;
		return true;
	}
	west = s->n > 0 && s->p[0] == '-';
	if (!take_char(s, '-') && !take_char(s, '+'))
		return false;
	if (!take_number(s, 2, 0, 23, &hour) || !take_char(s, ':') ||
	    !take_number(s, 2, 0, 59, &min))
		return false;
	*ret_s = (int64_t)hour * S_PER_HOUR + (int64_t)min * S_PER_MIN;
	if (west)
		*ret_s = -*ret_s;
	return true;
}

bool time_parse(struct str s, uint64_t *ret_ns)
{
	uint64_t days, frac_ns;
	unsigned clock_s;
	int64_t offset_s, t;

	if (!take_date(&s, &days))
		return false;
	if (!take_char(&s, 'T') && !take_char(&s, 't'))
		return false;
	if (!take_clock(&s, &clock_s) || !take_fraction(&s, &frac_ns) ||
	    !take_offset(&s, &offset_s) || s.n != 0)
		return false;
	t = (int64_t)(days * S_PER_DAY + clock_s) - offset_s;
	if (t < 0) /* 1970 there, still 1969 in UTC */
		return false;
	*ret_ns = (uint64_t)t * NS_PER_S + frac_ns;
	return true;
}

static char *put_digits(char *p, unsigned v, int count)
{
	for (int i = count; i-- > 0; v /= 10)
		p[i] = (char)('0' + v % 10);
	return p + count;
}

/* "." and the digits of ns / 10^digits without trailing zeros, or nothing. */
static char *put_fraction(char *p, uint64_t ns, int digits)
{
	if (ns == 0)
		return p;
	*p++ = '.';
	p = put_digits(p, (unsigned)ns, digits);
	while (p[-1] == '0')
		p--;
	return p;
}

void time_format(struct buf *b, uint64_t ns)
{
	char text[40];
	char *p = text;
	uint64_t s = ns / NS_PER_S;
	unsigned day_s = (unsigned)(s % S_PER_DAY);
	unsigned year, month, day;

	civil_date(s / S_PER_DAY, &year, &month, &day);
	p = put_digits(p, year, 4);
	*p++ = '-';
	p = put_digits(p, month, 2);
	*p++ = '-';
	p = put_digits(p, day, 2);
	*p++ = 'T';
	p = put_digits(p, day_s / S_PER_HOUR, 2);
	*p++ = ':';
	p = put_digits(p, day_s / S_PER_MIN % 60, 2);
	*p++ = ':';
	p = put_digits(p, day_s % 60, 2);
	p = put_fraction(p, ns % NS_PER_S, 9);
	*p++ = 'Z';
	buf_append(b, text, (size_t)(p - text));
}

static const struct {
	struct str name;
	uint64_t ns;
} units[] = {
	{ { "ns", 2 }, 1 },
	{ { "us", 2 }, NS_PER_US },
	{ { "\xc2\xb5s", 3 }, NS_PER_US }, /* U+00B5, the micro sign */
	{ { "\xce\xbcs", 3 }, NS_PER_US }, /* U+03BC, the Greek letter */
	{ { "ms", 2 }, NS_PER_MS },
	{ { "s", 1 }, NS_PER_S },
	{ { "m", 1 }, S_PER_MIN *NS_PER_S },
	{ { "h", 1 }, S_PER_HOUR *NS_PER_S },
	{ { "d", 1 }, S_PER_DAY *NS_PER_S },
};

/* The unit is everything up to the next number. */
static bool take_unit(struct str *s, uint64_t *ret_ns)
{
	size_t n = 0;

	while (n < s->n && !is_digit(s->p[n]) && s->p[n] != '.')
		n++;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (str_eq(str_of(s->p, n), units[i].name)) {
			*s = str_skip(*s, n);
			*ret_ns = units[i].ns;
			return true;
		}
	}
	return false;
}

/*
 * A decimal as whole + part / scale. Digits past the 18th after the point
 * are dropped: in days they are still under a nanosecond.
 */
struct decimal {
	uint64_t whole, part, scale;
};

static bool take_decimal(struct str *s, struct decimal *ret)
{
	struct decimal d = { .scale = 1 };
	const uint64_t scale_max = 1000000000000000000ULL;
	size_t digits = 0;

	for (; s->n > 0 && is_digit(s->p[0]); *s = str_skip(*s, 1), digits++) {
		uint64_t digit = (uint64_t)(s->p[0] - '0');

		if (__builtin_mul_overflow(d.whole, 10, &d.whole) ||
		    __builtin_add_overflow(d.whole, digit, &d.whole))
			return false;
	}
	if (take_char(s, '.')) {
		for (; s->n > 0 && is_digit(s->p[0]); digits++) {
			if (d.scale < scale_max) {
				d.part =
				    d.part * 10 + (uint64_t)(s->p[0] - '0');
				d.scale *= 10;
			}
			*s = str_skip(*s, 1);
		}
	}
	*ret = d;
	return digits > 0;
}

bool duration_parse(struct str s, uint64_t *ret_ns)
{
	uint64_t sum = 0;

	if (s.n == 0)
		return false;
	if (str_is(s, "0")) /* as in Go, the one number without a unit */
		s.n = 0;
	while (s.n > 0) {
		struct decimal d;
		uint64_t unit, whole, part;

		if (!take_decimal(&s, &d) || !take_unit(&s, &unit))
			return false;
		part = (uint64_t)((unsigned __int128)d.part * unit / d.scale);
		if (__builtin_mul_overflow(d.whole, unit, &whole) ||
		    __builtin_add_overflow(sum, whole, &sum) ||
		    __builtin_add_overflow(sum, part, &sum))
			return false;
	}
	*ret_ns = sum;
	return true;
}

bool duration_read(struct str s, uint64_t *ret_ns)
{
	uint64_t v;

	if (!str_parse_u64(s, &v))
		return duration_parse(s, ret_ns);
	if (__builtin_mul_overflow(v, NS_PER_S, &v))
		return false;
	*ret_ns = v;
	return true;
}

/* ns in `unit`, which is 10^digits nanoseconds: "1.5" and then the name. */
static void put_decimal(struct buf *b, uint64_t ns, uint64_t unit, int digits,
			const char *name)
{
	char frac[16];
	char *end = put_fraction(frac, ns % unit, digits);

	buf_put_u64(b, ns / unit);
	buf_append(b, frac, (size_t)(end - frac));
	buf_puts(b, name);
}

void duration_format(struct buf *b, uint64_t ns)
{
	uint64_t s = ns / NS_PER_S;

	if (ns == 0) {
		buf_puts(b, "0s");
	} else if (ns < NS_PER_US) {
		put_decimal(b, ns, 1, 0, "ns");
	} else if (ns < NS_PER_MS) {
		put_decimal(b, ns, NS_PER_US, 3, "us");
	} else if (ns < NS_PER_S) {
		put_decimal(b, ns, NS_PER_MS, 6, "ms");
	} else {
		uint64_t rest = ns % (S_PER_MIN * NS_PER_S);

		if (s >= S_PER_HOUR)
			put_decimal(b, s / S_PER_HOUR, 1, 0, "h");
		if (s % S_PER_HOUR >= S_PER_MIN)
			put_decimal(b, s / S_PER_MIN % 60, 1, 0, "m");
		if (rest > 0)
			put_decimal(b, rest, NS_PER_S, 9, "s");
	}
}
