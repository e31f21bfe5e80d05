/*
 * Speed of json_validate on an enqueue request of the usual size, the text
 * that httpd checks most often. Prints one line: MB/s of the best round.
 */
#include <stdio.h>
#include <stdlib.h>

#include "util/clock.h"
#include "util/json.h"

#define ROUNDS     10
#define ITERATIONS 500000

static const char envelope[] =
    "{\"queue\":\"emails.transactional\",\"payload\":{\"to\":"
    "\"someone@example.com\",\"template\":\"welcome\",\"locale\":\"en-GB\","
    "\"user_id\":18446744073,\"vars\":{\"name\":\"Zo\xc3\xab\",\"score\":0.875,"
    "\"beta\":true}},\"priority\":5,\"unique_key\":\"welcome:18446744073\","
    "\"retry\":{\"max\":3,\"backoff\":\"exponential\"},"
    "\"tags\":[\"signup\",\"eu\"],\"scheduled_at\":null}";

static double round_mb_per_s(struct str text)
{
	struct json_error err;
	uint64_t start = clock_mono_ns();
	uint64_t ns;

	for (int i = 0; i < ITERATIONS; i++) {
		/* The compiler may not know that the text stays the same. */
		__asm__ volatile("" : "+r"(text.p) : : "memory");
		if (!json_validate(text, 32, &err)) {
			fprintf(stderr, "refused at %zu: %s\n", err.pos,
				err.text);
			exit(1);
		}
	}
	ns = clock_mono_ns() - start;
	return (double)text.n * ITERATIONS * 1e3 / (double)ns;
}

int main(void)
{
	struct str text = STR(envelope);
	double best = 0;

	for (int i = 0; i < ROUNDS; i++) {
		double speed = round_mb_per_s(text);

		best = MAX(best, speed);
	}
	printf("json_validate: %zu bytes, %.0f MB/s\n", text.n, best);
	return 0;
}
