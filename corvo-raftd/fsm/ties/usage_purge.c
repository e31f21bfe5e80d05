/*
 * Sums of usage that are older than their retention. In portions; what goes
 * follows from the store and the settings alone.
 */
#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/ties/usage.h"
#include "util/civil.h"

/* A sum is as old as the end of its hour. */
static uint64_t end_of(uint64_t hour_ns)
{
	return time_after(hour_ns, S_PER_HOUR * NS_PER_S);
}

uint64_t usage_purge_from(const struct fsm *f)
{
	uint64_t retention = usage_retention(f);

	if (f->usage.from == NEVER || retention == 0)
		return NEVER;
	return time_after(end_of(f->usage.from), retention);
}

int usage_purge(struct fsm *f, struct portion *p)
{
	uint64_t age = usage_retention(f) + S_PER_HOUR * NS_PER_S;
	struct due_scan s = { 0 };
	struct key k;
	size_t i = 0;
	int r;

	if (usage_purge_from(f) > f->now_ns)
		return 0;
	s.upto_ns = f->now_ns - age;
	/* Also when the portion is full: the bound may be too early, and the
	 * answer tells whether there is more. */
	if (!portion_is_full(f, p))
		s.max = p->max - p->jobs;
	s.ids = arena_alloc(&f->item_arena, s.max * sizeof(*s.ids));
	s.keys = arena_alloc(&f->item_arena, s.max * sizeof(*s.keys));
	key_prefix(&k, "us|");
	r = due_scan_run(f, &k, f->usage.from, &s);
	if (r < 0)
		return r;
	for (; i < s.n && !budget_is_spent(f); i++) {
		txn_delete(f->txn, s.keys[i]);
		budget_take_job(f);
	}
	p->jobs += (uint32_t)i;
	if (i == s.n)
		f->usage.from = s.next;
	return 0;
}
