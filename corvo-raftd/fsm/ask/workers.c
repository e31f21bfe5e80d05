/*
 * Workers that took a job, and what they have in their hands.
 */
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/worker.h"

void fsm_each_worker(const struct fsm *f, fsm_worker_fn *fn, void *ctx)
{
	for (size_t i = 0; i < f->seen.n; i++) {
		const struct fsm_worker *w =
		    container_of(f->seen.nodes[i], struct fsm_worker, seen);
		struct m_worker m = { 0 };

		MSG_SET(&m, worker, id, w->id);
		MSG_SET(&m, worker, hostname, w->hostname);
		MSG_SET(&m, worker, queues, w->queues);
		MSG_SET(&m, worker, last_heartbeat, w->seen.key);
		MSG_SET(&m, worker, started_at, w->started_at);
		fn(ctx, &m);
	}
}

void fsm_each_held(const struct fsm *f, size_t max, fsm_held_fn *fn, void *ctx)
{
	size_t pos = 0;
	struct str id;
	void *v;

	while (max-- > 0 && hmap_next(&f->active, &pos, &id, &v)) {
		const struct fsm_active *a = v;

		if (a->worker.n > 0)
			fn(ctx, a->id, a->worker);
	}
}
