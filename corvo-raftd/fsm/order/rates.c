#include "fsm/order/rates.h"

#include <math.h>

#define SPAN_MIN_NS RATES_SLOT_NS /* less says nothing about a rate */
#define WORK_OFF_S  60.0
#define WORKERS_MAX 1e9 /* far beyond sense: what a number can hold */

/* The slot of that number; NULL: nothing was counted then. */
static const struct rates_slot *slot_at(const struct rates *r, uint64_t number)
{
	if (number > r->newest || number + RATES_SLOTS <= r->newest)
		return NULL;
	return &r->slots[number % RATES_SLOTS];
}

/* Of the newest slot that has runs, else of those before. */
static uint64_t last_mean_ns(const struct rates *r)
{
	for (uint64_t i = 0; i < RATES_SLOTS && i <= r->newest; i++) {
		const struct rates_slot *s =
		    &r->slots[(r->newest - i) % RATES_SLOTS];

		if (s->runs > 0)
			return s->run_ns / s->runs;
	}
	return r->mean_ns;
}

struct rates_slot *rates_turn(struct rates *r, uint64_t number)
{
	if (number < r->newest) { /* the clock was set back */
		uint64_t mean_ns = last_mean_ns(r);

		*r = (struct rates){ .newest = number, .mean_ns = mean_ns };
		return &r->slots[number % RATES_SLOTS];
	}
	for (uint64_t i = 1; i <= MIN(number - r->newest, RATES_SLOTS); i++) {
		struct rates_slot *s = &r->slots[(r->newest + i) % RATES_SLOTS];

		if (s->runs > 0)
			r->mean_ns = s->run_ns / s->runs;
		*s = (struct rates_slot){ 0 };
	}
	r->newest = number;
	return &r->slots[number % RATES_SLOTS];
}

void rates_read(const struct rates *r, uint64_t now_ns, uint64_t since_ns,
		struct rates_sum *ret)
{
	uint64_t last = rates_slot_number(now_ns);
	uint64_t first = last > RATES_WINDOW ? last - RATES_WINDOW : 0;
	uint64_t from_ns = MAX(first * RATES_SLOT_NS, since_ns);
	uint64_t in = 0, out = 0, runs = 0, run_ns = 0;
	double span_s;

	for (uint64_t i = first; i <= last; i++) {
		const struct rates_slot *s = slot_at(r, i);

		if (s == NULL)
			continue;
		in += s->in;
		out += s->out;
		runs += s->runs;
		run_ns += s->run_ns;
	}
	span_s = (double)MAX(now_ns > from_ns ? now_ns - from_ns : 0,
			     (uint64_t)SPAN_MIN_NS) /
		 (double)NS_PER_S;
	ret->in_s = (double)in / span_s;
	ret->out_s = (double)out / span_s;
	ret->run_s = (double)(runs > 0 ? run_ns / runs : last_mean_ns(r)) /
		     (double)NS_PER_S;
}

uint64_t rates_workers(const struct rates_sum *s, uint64_t waiting,
		       uint64_t active)
{
	double n;

	if (waiting == 0 && active == 0)
		return 0;
	n = ceil(s->in_s * s->run_s + (double)waiting * s->run_s / WORK_OFF_S);
	return (uint64_t)MAX(MIN(n, WORKERS_MAX), 1.0);
}
