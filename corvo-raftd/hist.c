#include "hist.h"

const double hist_bounds_s[HIST_BOUNDS] = {
	0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
	0.01,    0.025,  0.05,    0.1,    0.25,  0.5,    1.0,
};

void hist_add(struct hist *h, uint64_t ns)
{
	double s = (double)ns / (double)NS_PER_S;
	size_t i = 0;

	while (i < HIST_BOUNDS && s > hist_bounds_s[i])
		i++;
	h->count[i]++;
	h->total++;
	h->sum_s += s;
}
