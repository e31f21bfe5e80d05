#include "hist.h"

#define US 1000ULL
#define MS NS_PER_MS
#define S  NS_PER_S

const struct hist_scale hist_short = {
	.ns = { 50 * US, 100 * US, 250 * US, 500 * US, 1 * MS, 2500 * US,
		5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS,
		1 * S },
	.le = { "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025",
		"0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1" },
};

const struct hist_scale hist_long = {
	.ns = { 1 * MS, 5 * MS, 10 * MS, 50 * MS, 100 * MS, 500 * MS, 1 * S,
		5 * S, 10 * S, 30 * S, 60 * S, 300 * S, 1800 * S, 3600 * S },
	.le = { "0.001", "0.005", "0.01", "0.05", "0.1", "0.5", "1", "5", "10",
		"30", "60", "300", "1800", "3600" },
};

void hist_add(struct hist *h, const struct hist_scale *s, uint64_t ns)
{
	size_t i = 0;

	while (i < HIST_BOUNDS && ns > s->ns[i])
		i++;
	h->count[i]++;
	h->total++;
	h->sum_s += (double)ns / (double)NS_PER_S;
}

double hist_quantile(const struct hist *h, const struct hist_scale *s,
		     double share)
{
	double wanted = share * (double)h->total;
	double below = 0;

	for (size_t i = 0; h->total > 0 && i < HIST_BOUNDS; i++) {
		double from = i > 0 ? (double)s->ns[i - 1] : 0;
		double n = (double)h->count[i];

		if (n > 0 && below + n >= wanted)
			return (from + ((double)s->ns[i] - from) *
					   (wanted - below) / n) /
			       (double)NS_PER_S;
		below += n;
	}
	return h->total > 0 ? (double)s->ns[HIST_BOUNDS - 1] / (double)NS_PER_S
			    : 0;
}
