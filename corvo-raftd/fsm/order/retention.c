/*
 * Bounds of what purge deletes. See order/retention.h.
 */
#include "fsm/order/retention.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"

void purge_note_batch(struct fsm *f, uint64_t ended_ns)
{
	f->batches_from = MIN(f->batches_from, ended_ns);
}

void purge_note_key(struct fsm *f, uint64_t expires_ns)
{
	f->keys_from = MIN(f->keys_from, expires_ns);
}

struct fsm_queue *purge_first(const struct heap *h)
{
	struct heap_node *n = heap_min(h);

	return n == NULL ? NULL
			 : container_of(n, struct fsm_queue, bounds.purge);
}
