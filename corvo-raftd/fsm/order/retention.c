/*
 * Bounds of what purge deletes. See order/retention.h.
 */
#include "fsm/order/retention.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"

void purge_forget(struct fsm *f, struct fsm_queue *q)
{
	heap_remove(q->purge_is_own ? &f->purge_own : &f->purge_default,
		    &q->purge);
}

static void place(struct fsm *f, struct fsm_queue *q)
{
	bool own = MSG_HAS(q->set, set_queue, retention);
	uint64_t key =
	    own ? time_after(q->ended_from, q->set->retention) : q->ended_from;

	if (q->purge_is_own != own)
		purge_forget(f, q);
	q->purge_is_own = own;
	if (q->ended_from == NEVER || (own && q->set->retention == 0))
		purge_forget(f, q);
	else if (q->purge.pos == 0 || q->purge.key != key)
		heap_update(own ? &f->purge_own : &f->purge_default, &q->purge,
			    key);
}

void purge_set_first(struct fsm *f, struct fsm_queue *q, uint64_t ended_ns)
{
	q->ended_from = ended_ns;
	place(f, q);
}

void purge_note_job(struct fsm *f, struct fsm_queue *q, uint64_t ended_ns)
{
	if (ended_ns < q->ended_from)
		purge_set_first(f, q, ended_ns);
}

void purge_settings_changed(struct fsm *f, struct fsm_queue *q)
{
	place(f, q);
}

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

	return n == NULL ? NULL : container_of(n, struct fsm_queue, purge);
}
