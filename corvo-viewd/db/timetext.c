/*
 * Almost all times of a batch lie in the same few seconds, and those of a row
 * in turns in two of them (when it began, when its lease ends): the date is
 * computed once per second and only the fraction per time.
 */
#include "db/timetext.h"

#include <time.h>

#include "util/timefmt.h"

static void put_head(struct timetext_second *t, uint64_t second)
{
	time_t unix_s = (time_t)second;
	char text[sizeof(t->head) + 1];
	struct tm tm;

	CHECK(gmtime_r(&unix_s, &tm) != NULL); /* 64 bits of ns: year < 2555 */
	CHECK(strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S.", &tm) ==
	      sizeof(t->head));
	memcpy(t->head, text, sizeof(t->head));
	t->second = second + 1;
}

void timetext_put(struct timetext *t, uint64_t ns, char *ret)
{
	uint64_t second = ns / NS_PER_S;
	uint32_t fraction = (uint32_t)(ns % NS_PER_S);
	struct timetext_second *s = &t->last[second % TIMETEXT_SECONDS];

	if (s->second != second + 1)
		put_head(s, second);
	memcpy(ret, s->head, sizeof(s->head));
	for (size_t i = TIMETEXT_LEN - 2; i >= sizeof(s->head); i--) {
		ret[i] = (char)('0' + fraction % 10);
		fraction /= 10;
	}
	ret[TIMETEXT_LEN - 1] = 'Z';
}

uint64_t timetext_parse(struct str s)
{
	uint64_t ns;

	return time_parse(s, &ns) ? ns : 0;
}
