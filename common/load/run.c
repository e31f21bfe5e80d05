#include "load/run.h"

#include <stdlib.h>

#include "util/clock.h"

bool run_begin(struct run *r, struct load *l, unsigned connections,
	       unsigned batch, uint64_t count)
{
	r->l = l;
	r->batch = MAX(batch, 1u);
	r->batched = batch > 0;
	r->count = count > 0 ? count : UINT64_MAX;
	l->run = r;
	l->cl->ctx = l;
	r->lanes = xcalloc(connections, sizeof(*r->lanes));
	if (!client_connect(l->cl, connections))
		return false;
	for (unsigned i = 0; i < connections; i++)
		l->cl->conns[i]->own = &r->lanes[i];
	r->start_ns = clock_mono_ns();
	return true;
}

void run_end(struct run *r)
{
	free(r->lanes);
	r->lanes = NULL;
	r->l->run = NULL;
}

void run_count(struct run *r, uint64_t jobs)
{
	if (r->ret == NULL || r->closing)
		return;
	r->ret->done += jobs;
	rates_add(&r->ret->rates, clock_mono_ns() - r->start_ns, jobs);
}

void run_time(struct run *r, struct times *t, uint64_t ns)
{
	if (!r->closing)
		times_add_at(t, (int64_t)ns, clock_mono_ns() - r->start_ns);
}

/* --- producers --- */

void run_send_jobs(struct conn *c, answer_fn *fn)
{
	struct run *r = run_of(c);
	struct lane *lane = c->own;

	if (r->l->ledger != NULL)
		ledger_sent(r->l->ledger, lane->number, lane->n,
			    clock_mono_ns());
	send_enqueue(c, r->l->kind, lane->number, lane->n, r->batched, fn);
}

bool run_jobs_known(struct conn *c, const struct answer *a)
{
	struct run *r = run_of(c);
	const struct lane *lane = c->own;
	struct str rest, id;
	unsigned n = 0;

	if (is_refused(a) || !answer_expect(c, a, 201))
		return false;
	if (r->ret != NULL)
		run_time(r, &r->ret->enqueue, a->took_ns);
	if (r->l->ledger == NULL)
		return true;
	rest = ids_of(a, r->batched);
	while (n < lane->n && next_id(&rest, &id))
		ledger_known(r->l->ledger, lane->number + n++, id);
	if (n < lane->n)
		client_fail(c->cl,
			    "%u jobs were sent and the answer has %u ids",
			    lane->n, n);
	return n == lane->n;
}

/* --- workers --- */

static void enter(struct run *r, const struct held *h)
{
	uint64_t sent_ns;

	if (r->l->ledger == NULL)
		return;
	sent_ns = ledger_taken(r->l->ledger, h->number, str_from(h->id));
	if (sent_ns > 0 && r->ret != NULL)
		run_time(r, &r->ret->start, clock_mono_ns() - sent_ns);
}

unsigned run_jobs_taken(struct conn *c, const struct answer *a, struct held *to,
			unsigned most)
{
	struct run *r = run_of(c);
	struct str rest = a->body;
	struct held one;
	unsigned n = 0;

	if (a->status == 204 || is_refused(a) || !answer_expect(c, a, 200))
		return 0;
	while (next_held(c, r->l->kind, &rest, &one)) {
		if (n == most) {
			client_fail(c->cl,
				    "more than %u jobs came; the last is %s",
				    most, one.id);
			break;
		}
		to[n++] = one;
		enter(r, &one);
	}
	if (n > 0 && r->ret != NULL)
		run_time(r, &r->ret->fetch, a->took_ns);
	return client_has_failed(c->cl) ? 0 : n;
}

bool run_jobs_acked(struct conn *c, const struct answer *a,
		    const struct held *jobs, unsigned n)
{
	struct run *r = run_of(c);

	if (is_refused(a) || !check_acked(c, a, n, r->batched))
		return false;
	if (r->ret != NULL)
		run_time(r, &r->ret->ack, a->took_ns);
	for (unsigned i = 0; i < n && r->l->ledger != NULL; i++)
		ledger_acked(r->l->ledger, jobs[i].number);
	return true;
}
