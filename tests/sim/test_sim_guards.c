/*
 * The guards of cluster/guard.h, each taken out in its turn: the storms have to
 * show what it is for. Prints a table.
 *
 *   CORVO_TEST_SEEDS=2000   looks at that many, and counts those that show it
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rt/log.h"
#include "seeds.h"
#include "util/str.h"

#define SEEDS 500 /* by then it has to be found */

/* Those without `must` are needed so rarely that a table is all there is. */
static const struct {
	unsigned rule;
	const char *name;
	bool must;
} guards[] = {
	{ GUARD_COMMIT, "commit", true },   { GUARD_ANSWER, "answer", true },
	{ GUARD_TERM, "term", false },      { GUARD_MEMBERS, "members", true },
	{ GUARD_APPLIED, "applied", true }, { GUARD_ALONE, "alone", true },
	{ GUARD_ASKED, "asked", false },    { GUARD_LATE, "late", false },
	{ GUARD_STAND, "stand", false },    { GUARD_ONCE, "once", false },
};

/* How many seeds to count in; 0: up to the first that shows it. */
static uint64_t seeds_to_count(void)
{
	const char *text = getenv("CORVO_TEST_SEEDS");
	uint64_t n;

	return text != NULL && str_parse_u64(str_from(text), &n) ? n : 0;
}

static bool look_for(unsigned rule, const char *name)
{
	uint64_t count = seeds_to_count();
	struct seeds s = { .first = 1,
			   .last = count != 0 ? count : SEEDS,
			   .stop_at_failure = count == 0,
			   .is_quiet = true };

	guards_off = rule;
	seeds_run(&s);
	if (s.failures == 0)
		printf("%-10s not found in %" PRIu64 " seeds\n", name, s.last);
	else if (count == 0)
		printf("%-10s seed %4" PRIu64 ": %s\n", name, s.failed,
		       s.verdict);
	else
		printf("%-10s %4" PRIu64 " of %" PRIu64 " seeds, first %" PRIu64
		       ": %s\n",
		       name, s.failures, s.last, s.failed, s.verdict);
	return s.failures > 0 && s.failed <= SEEDS;
}

int main(void)
{
	bool found = true;

	log_init("sim", "");
	log_set_level(LOG_ERROR);
	for (size_t i = 0; i < ARRAY_SIZE(guards); i++)
		found &=
		    look_for(guards[i].rule, guards[i].name) || !guards[i].must;
	return found ? EXIT_SUCCESS : EXIT_FAILURE;
}
