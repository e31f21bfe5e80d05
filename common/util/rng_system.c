/*
 * The system's own randomness: apart, so that a simulation can have another.
 */
#include <errno.h>
#include <sys/random.h>

#include "util/rng.h"

void rng_system(void *p, size_t n)
{
	char *at = p;

	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		CHECK(got > 0);
		at += got;
		n -= (size_t)got;
	}
}
