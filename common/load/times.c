#include "load/times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- times --- */

/*
 * Below TIMES_STEPS each value has a bucket; above, each power of two has
 * TIMES_STEPS of them, and `shift` is how many low bits do not count.
 */
static size_t bucket_of(int64_t ns)
{
	uint64_t v = ns > 0 ? (uint64_t)ns : 0;
	unsigned shift = 0;
	size_t i;

	while (v >> shift >= 2 * TIMES_STEPS)
		shift++;
	i = shift * TIMES_STEPS + (size_t)(v >> shift);
	return MIN(i, (size_t)TIMES_BUCKETS - 1);
}

/* In the middle of the bucket. */
static double value_of(size_t bucket)
{
	size_t shift = bucket < 2 * TIMES_STEPS ? 0 : bucket / TIMES_STEPS - 1;
	uint64_t low = (uint64_t)(bucket - shift * TIMES_STEPS) << shift;

	return (double)low + (double)((UINT64_C(1) << shift) - 1) / 2;
}

void times_add(struct times *t, int64_t ns)
{
	t->min = t->n == 0 ? ns : MIN(t->min, ns);
	t->max = t->n == 0 ? ns : MAX(t->max, ns);
	t->n++;
	t->count[bucket_of(ns)]++;
}

void times_add_at(struct times *t, int64_t ns, uint64_t at_ns)
{
	if (t->n == 0 || ns > t->max)
		t->max_at_ns = at_ns;
	times_add(t, ns);
}

double times_at(const struct times *t, double share)
{
	uint64_t below = 0;
	uint64_t wanted = (uint64_t)ceil(share * (double)t->n);
	size_t i = 0;

	if (t->n == 0 || wanted == 0)
		return (double)t->min;
	if (wanted >= t->n)
		return (double)t->max;
	while (i < TIMES_BUCKETS - 1 && below + t->count[i] < wanted)
		below += t->count[i++];
	return MAX(MIN(value_of(i), (double)t->max), (double)t->min);
}

/* --- rates --- */

void rates_add(struct rates *r, uint64_t since_start_ns, uint64_t done)
{
	size_t i = (size_t)(since_start_ns / NS_PER_S);

	if (i >= r->n) {
		r->done = xrealloc(r->done, (i + 1) * sizeof(*r->done));
		memset(r->done + r->n, 0, (i + 1 - r->n) * sizeof(*r->done));
		r->n = i + 1;
	}
	r->done[i] += done;
}

void rates_clear(struct rates *r)
{
	free(r->done);
	*r = (struct rates){ 0 };
}

bool rates_sum_up(const struct rates *r, uint64_t took_ns,
		  struct rates_summary *ret)
{
	size_t n = (size_t)(took_ns / NS_PER_S);
	double sum = 0, squares = 0;

	if (n < 2)
		return false;
	for (size_t i = 0; i < n; i++) {
		double v = i < r->n ? (double)r->done[i] : 0;

		ret->min = i == 0 ? v : MIN(ret->min, v);
		ret->max = i == 0 ? v : MAX(ret->max, v);
		sum += v;
		squares += v * v;
	}
	squares = squares / (double)n - sum / (double)n * (sum / (double)n);
	ret->stddev = sqrt(MAX(squares, 0.0));
	return true;
}
