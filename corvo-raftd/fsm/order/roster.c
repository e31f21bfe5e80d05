/*
 * See order/roster.h. Names come from clients.
 */
#include "fsm/order/roster.h"

#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"

/* --- how many --- */

bool roster_has_room(const struct fsm *f, size_t n)
{
	uint64_t max = f->settings.max_queues;

	return max == 0 || f->queues.n + n <= max;
}

int roster_check(struct fsm *f, const struct str *names, size_t n)
{
	struct hmap news = { 0 };
	int r = 0;

	if (roster_has_room(f, n))
		return 0;
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (queue_find(f, names[i]) != NULL ||
		    hmap_put(&news, names[i], f) != NULL ||
		    roster_has_room(f, news.n))
			continue;
		r = fsm_refuse(f, ERR_QUEUE_LIMIT,
			       "queue \"%.*s\" would be one more than the %llu "
			       "that max_queues allows; delete queues that are "
			       "not needed, or try again after retry_after_ms",
			       STR_ARG(names[i]),
			       (unsigned long long)f->settings.max_queues);
	}
	hmap_done(&news);
	return r;
}

/* --- idle ones --- */

bool roster_is_idle(const struct fsm_queue *q)
{
	return queue_is_empty(q) && !q->paused && q->set->has == 0;
}

static void add_idle(struct fsm *f, struct fsm_queue *q, uint64_t since)
{
	MUST(f, q->idle.pos == 0);
	if (roster_is_idle(q))
		heap_update(&f->idle_queues, &q->idle, since);
}

void roster_settle(struct fsm *f, struct fsm_queue *q)
{
	add_idle(f, q, f->now_ns);
}

void roster_load_idle(struct fsm *f, struct fsm_queue *q, uint64_t since)
{
	add_idle(f, q, since != 0 ? since : q->created_at);
}

struct fsm_queue *roster_idle(const struct fsm *f, uint64_t upto_ns)
{
	struct heap_node *n = heap_min(&f->idle_queues);

	return n != NULL && n->key <= upto_ns
		   ? container_of(n, struct fsm_queue, idle)
		   : NULL;
}

uint64_t roster_idle_from(const struct fsm *f)
{
	const struct heap_node *n = heap_min(&f->idle_queues);

	return n == NULL ? NEVER : n->key;
}
