/*
 * Values of settings, as they are written.
 */
#include "rt/config_impl.h"
#include "util/timefmt.h"

#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

bool setting_parse_bool(struct str s, bool *ret)
{
	static const char *const words[] = { "false", "true", "no", "yes",
					     "off",   "on",   "0",  "1" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (str_is(s, words[i])) {
			*ret = i % 2 == 1;
			return true;
		}
	}
	return false;
}

static bool scale(uint64_t v, uint64_t factor, uint64_t *ret)
{
	return !__builtin_mul_overflow(v, factor, ret);
}

/* Bare letters and ...iB count in 1024, ...B in 1000, as their names say. */
bool setting_parse_size(struct str s, uint64_t *ret)
{
	static const struct {
		const char *unit;
		uint64_t factor;
	} units[] = {
		{ "", 1 },      { "B", 1 },     { "k", KIB },
		{ "K", KIB },   { "M", MIB },   { "G", GIB },
		{ "KiB", KIB }, { "MiB", MIB }, { "GiB", GIB },
		{ "kB", 1000 }, { "KB", 1000 }, { "MB", 1000000 },
		{ "m", MIB },   { "g", GIB },   { "GB", 1000000000 },
	};
	size_t digits = 0;
	struct str unit;
	uint64_t v;

	while (digits < s.n && s.p[digits] >= '0' && s.p[digits] <= '9')
		digits++;
	unit = str_trim(str_skip(s, digits));
	if (!str_parse_u64(str_of(s.p, digits), &v))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (str_is(unit, units[i].unit))
			return scale(v, units[i].factor, ret);
	return false;
}

bool setting_parse_duration(struct str s, uint64_t *ret)
{
	uint64_t seconds;

	if (str_parse_u64(s, &seconds))
		return scale(seconds, NS_PER_S, ret);
	return duration_parse(s, ret);
}
