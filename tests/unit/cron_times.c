/*
 * Prints next times, for a comparison with other implementations. Each line
 * of standard input is ZONE|GAP|AFTER|COUNT|EXPRESSION, with GAP a number of
 * enum cron_gap and AFTER in seconds; each line of the output has COUNT times
 * in seconds, or "error: " and why.
 */
#include <stdio.h>
#include <stdlib.h>

#include "util/cron.h"

static void print_times(struct tz_cache *zones, struct str *part)
{
	struct buf why = BUF_INIT(0);
	const struct tz *z = tz_find(zones, part[0], &why);
	uint64_t gap = 0, at = 0, count = 0;
	struct cron c;

	if (!str_parse_u64(part[1], &gap) || !str_parse_u64(part[2], &at) ||
	    !str_parse_u64(part[3], &count)) {
		buf_puts(&why, "the line is not as it should be");
		z = NULL;
	}
	if (z == NULL || !cron_parse(part[4], &c, &why)) {
		(void)printf("error: %.*s\n", STR_ARG(buf_str(&why)));
		buf_done(&why);
		return;
	}
	at *= NS_PER_S;
	for (; count > 0; count--) {
		at = cron_next(&c, z, (enum cron_gap)gap, at, at);
		(void)printf("%llu ", (unsigned long long)(at / NS_PER_S));
		if (at == 0)
			break;
	}
	(void)printf("\n");
	buf_done(&why);
}

int main(void)
{
	struct tz_cache zones = { 0 };
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	while ((n = getline(&line, &cap, stdin)) > 0) {
		struct str rest = str_trim(str_of(line, (size_t)n)), part[5];

		for (size_t i = 0; i < 4; i++)
			(void)str_split(rest, '|', &part[i], &rest);
		part[4] = rest;
		print_times(&zones, part);
	}
	free(line);
	tz_cache_done(&zones);
	return 0;
}
