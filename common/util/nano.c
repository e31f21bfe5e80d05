#include "util/nano.h"

#include "util/turn.h"

#define DECIMALS     9
#define EXPONENT_MAX 1000 /* whatever is beyond is nothing, or too large */

/* The digits of a JSON number without its point, and where that stood. */
struct decimal {
	struct str digits; /* the point is among them */
	long exponent;
	long whole; /* digits before the point, moved by the exponent */
	bool is_negative;
};

static long read_exponent(struct str s)
{
	bool is_negative = s.n > 0 && s.p[0] == '-';
	long v = 0;

	if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'))
		s = str_skip(s, 1);
	for (size_t i = 0; i < s.n && v < EXPONENT_MAX; i++)
		v = v * 10 + (s.p[i] - '0');
	return is_negative ? -v : v;
}

static struct decimal split(struct str s)
{
	struct decimal d = { 0 };
	size_t n = 0, whole = 0;

	if (s.n > 0 && s.p[0] == '-') {
		d.is_negative = true;
		s = str_skip(s, 1);
	}
	while (n < s.n && s.p[n] != 'e' && s.p[n] != 'E')
		turn_at(n++);
	if (n < s.n)
		d.exponent = read_exponent(str_skip(s, n + 1));
	d.digits = str_of(s.p, n);
	while (whole < n && s.p[whole] != '.')
		turn_at(whole++);
	d.whole = (long)whole + d.exponent;
	return d;
}

/* v * 10 + digit; false: that is too large. */
static bool shift_in(uint64_t *v, unsigned digit)
{
	return !__builtin_mul_overflow(*v, 10u, v) &&
	       !__builtin_add_overflow(*v, digit, v);
}

bool nano_parse(struct str number, uint64_t *ret)
{
	struct decimal d = split(number);
	long left = d.whole + DECIMALS; /* digits that count */
	bool is_zero = true;
	uint64_t v = 0;

	for (size_t i = 0; i < d.digits.n; i++) {
		unsigned digit = (unsigned)(d.digits.p[i] - '0');

		turn_at(i);
		if (d.digits.p[i] == '.')
			continue;
		is_zero = is_zero && digit == 0;
		if (left > 0 && !shift_in(&v, digit))
			return false;
		if (left == 0 && digit >= 5 && v == UINT64_MAX)
			return false;
		if (left == 0 && digit >= 5)
			v++;
		left--;
	}
	for (; v > 0 && left > 0; left--)
		if (!shift_in(&v, 0))
			return false;
	*ret = v;
	return !d.is_negative || is_zero;
}

void nano_format(struct buf *b, uint64_t nano)
{
	uint64_t part = nano % NANO_PER_UNIT;
	int digits = DECIMALS;

	buf_put_u64(b, nano / NANO_PER_UNIT);
	if (part == 0)
		return;
	for (; part % 10 == 0; part /= 10)
		digits--;
	buf_printf(b, ".%0*llu", digits, (unsigned long long)part);
}

bool nano_from_double(double v, uint64_t *ret)
{
	double nano = v * (double)NANO_PER_UNIT + 0.5;

	/* not a number compares with nothing */
	if (!(v >= 0 && nano < 0x1p64))
		return false;
	*ret = (uint64_t)nano;
	return true;
}
