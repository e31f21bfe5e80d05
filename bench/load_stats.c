/*
 * Percentiles. See load_stats.h.
 */
#include "load_stats.h"

#include <stdio.h>
#include <stdlib.h>

void stats_add(struct stats *s, int64_t ns)
{
	if (s->n == s->cap) {
		s->cap = MAX(1024, s->cap * 2);
		s->ns = xrealloc(s->ns, s->cap * sizeof(*s->ns));
	}
	s->ns[s->n++] = ns;
}

void stats_done(struct stats *s)
{
	free(s->ns);
	*s = (struct stats){ 0 };
}

static int cmp(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void print_at(const struct stats *s, const char *name, const char *what,
		     double share)
{
	size_t i = (size_t)((double)(s->n - 1) * share + 0.5);

	printf("%s_%s_us %.1f\n", name, what, (double)s->ns[i] / 1e3);
}

void stats_print(struct stats *s, const char *name)
{
	printf("%s_count %zu\n", name, s->n);
	if (s->n == 0)
		return;
	qsort(s->ns, s->n, sizeof(*s->ns), cmp);
	print_at(s, name, "min", 0);
	print_at(s, name, "p50", 0.5);
	print_at(s, name, "p90", 0.9);
	print_at(s, name, "p99", 0.99);
	print_at(s, name, "max", 1);
}

void print_rate(const char *name, uint64_t count, uint64_t ns)
{
	printf("%s %.0f\n", name, (double)count * 1e9 / (double)MAX(ns, 1));
}
