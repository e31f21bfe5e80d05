/*
 * Inside tz: the rule in the footer of a TZif file, a POSIX TZ string such as
 * "CET-1CEST,M3.5.0,M10.5.0/3".
 */
#ifndef CORVO_TZ_RULE_H
#define CORVO_TZ_RULE_H

#include "util/str.h"

enum tz_day_kind {
	TZ_DAY_JULIAN, /* Jn: 1 to 365, 29 February is not counted */
	TZ_DAY_ZERO,   /* n: 0 to 365 */
	TZ_DAY_MONTH,  /* Mm.w.d */
};

/* A moment of every year, by the wall clock before it. */
struct tz_when {
	enum tz_day_kind kind;
	unsigned day, week, month; /* day: of the week with TZ_DAY_MONTH */
	int32_t seconds;           /* of that day */
};

struct tz_rule {
	int32_t std, dst; /* seconds east of UTC */
	bool has_dst;
	struct tz_when start, end; /* of dst */
};

bool tz_rule_parse(struct str text, struct tz_rule *ret);
int32_t tz_rule_offset(const struct tz_rule *r, int64_t at);
bool tz_rule_next(const struct tz_rule *r, int64_t after, int64_t *ret);

#endif
