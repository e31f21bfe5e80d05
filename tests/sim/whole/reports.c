/*
 * Reports of what was used, each of which may be said several times.
 */
#include <stdlib.h>

#include "clients_impl.h"

#define COST_MAX  1000 /* of a report; in thousandths of a usd */
#define COST_NANO 1000000

/* Said once or several times under the same name. */
struct report {
	uint64_t cost;
	bool is_counted;    /* for sure */
	bool may_be;        /* nobody knows */
	unsigned under_way; /* requests without an answer */
};

static size_t new_report(struct clients *c)
{
	size_t n = c->reports_n;

	if ((n & (n - 1)) == 0)
		c->reports = xrealloc(c->reports, 2 * MAX(n, (size_t)1) *
						      sizeof(*c->reports));
	c->reports[n] =
	    (struct report){ .cost = sim_between(c->w->sim, 1, COST_MAX) *
				     COST_NANO };
	return c->reports_n++;
}

size_t report_next(struct clients *c, size_t last, struct m_usage *u,
		   struct arena *a)
{
	const struct report *r = &c->reports[last];

	if (last == 0 ||
	    (r->under_way == 0 && !r->may_be && sim_chance(c->w->sim, 70)))
		last = new_report(c);
	report_sent(c, last, 1);
	MSG_SET(u, usage, cost_usd, c->reports[last].cost);
	MSG_SET(u, usage, report_id, arena_printf(a, "r%zu", last));
	return last;
}

void report_sent(struct clients *c, size_t report, int times)
{
	if (report != 0)
		c->reports[report].under_way += (unsigned)times;
}

void report_heard(const struct call *x, int err, bool is_counted)
{
	struct clients *c = x->c;
	struct report *r = &c->reports[x->report];

	if (x->report == 0)
		return;
	r->under_way--;
	if (is_unsure(err))
		r->may_be = true;
	if (err != 0 || !is_counted || r->is_counted)
		return;
	r->is_counted = true;
	c->spent += r->cost;
	people_note_spent(c->people);
}

void reports_sum(const struct clients *c, uint64_t *least, uint64_t *most)
{
	*least = *most = 0;
	for (size_t i = 1; i < c->reports_n; i++) {
		const struct report *r = &c->reports[i];

		if (r->is_counted)
			*least += r->cost;
		if (r->is_counted || r->may_be || r->under_way > 0)
			*most += r->cost;
	}
}

void reports_begin(struct clients *c)
{
	(void)new_report(c); /* the first one is none */
}
