/*
 * Push queues, for who makes the calls.
 */
#include <stdlib.h>

#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/order/queue.h"

uint64_t fsm_push_version(const struct fsm *f)
{
	return f->push_version;
}

size_t fsm_push_n(const struct fsm *f)
{
	return f->pushed_n;
}

static int by_name(const void *a, const void *b)
{
	const struct m_push_queue *x = a, *y = b;

	return str_cmp(x->queue, y->queue);
}

size_t fsm_push_queues(const struct fsm *f, struct str after, size_t max,
		       struct arena *a, struct m_push_queue **ret)
{
	struct m_push_queue *all =
	    arena_zalloc(a, (f->pushed_n + 1) * sizeof(*all));
	size_t n = 0;

	LIST_FOREACH (it, &f->pushed) {
		const struct fsm_queue *q =
		    list_entry(it, struct fsm_queue, pushed);

		if (str_cmp(q->name, after) <= 0)
			continue;
		MSG_SET(&all[n], push_queue, queue, q->name);
		MSG_SET(&all[n], push_queue, push, q->set->push);
		n++;
	}
	qsort(all, n, sizeof(*all), by_name);
	*ret = all;
	return MIN(n, max);
}

size_t fsm_push_held(const struct fsm *f, struct str worker, size_t max,
		     struct arena *a, struct m_fetched **ret)
{
	struct m_fetched *jobs = NULL;
	size_t pos = 0, n = 0, cap = 0;
	struct str id;
	void *v;

	while (n < max && hmap_next(&f->active, &pos, &id, &v)) {
		const struct fsm_active *held = v;

		if (held->accepted || !str_eq(held->worker, worker))
			continue;
		jobs = arena_grow(a, jobs, sizeof(*jobs), n, &cap);
		jobs[n] = (struct m_fetched){ 0 };
		MSG_SET(&jobs[n], fetched, job_id, held->id);
		MSG_SET(&jobs[n], fetched, lease_token, held->token);
		n++;
	}
	*ret = jobs;
	return n;
}
