/*
 * Many seeds, each a cluster in a storm: see cluster.h.
 *
 *   CORVO_TEST_SEEDS=20000   so many of them
 *   CORVO_TEST_SEED=17       only that one
 *   VERBOSE=1                with what led to a failure
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rt/log.h"
#include "seeds.h"
#include "util/str.h"

#define SEEDS 2000
#define TWICE 5 /* of them: the same has to happen again */

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	uint64_t v;

	return text != NULL && str_parse_u64(str_from(text), &v) ? v
								 : otherwise;
}

static bool is_repeatable(void)
{
	for (uint64_t seed = 1; seed <= TWICE; seed++)
		if (seed_run(seed) != seed_run(seed)) {
			printf("seed %" PRIu64 " is not the same again\n",
			       seed);
			return false;
		}
	return true;
}

int main(void)
{
	uint64_t one = from_env("CORVO_TEST_SEED", 0);
	struct seeds s = {
		.first = one != 0 ? one : 1,
		.last = one != 0 ? one : from_env("CORVO_TEST_SEEDS", SEEDS),
	};

	log_init("sim", "");
	log_set_level(getenv("VERBOSE") != NULL ? LOG_INFO : LOG_ERROR);
	seeds_run(&s);
	printf("%" PRIu64 " of %" PRIu64 " seeds failed\n", s.failures,
	       s.last - s.first + 1);
	tally_show(&s.tally);
	printf("proposals done %" PRIu64 ", unknown %" PRIu64
	       ", refused %" PRIu64 "\n",
	       s.done, s.unknown, s.refused);
	if (s.failures > 0)
		return EXIT_FAILURE;
	return one != 0 || is_repeatable() ? EXIT_SUCCESS : EXIT_FAILURE;
}
