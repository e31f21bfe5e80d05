/*
 * See fault.h.
 */
#include "fsm/fault.h"

#include <setjmp.h>

#include "fsm/core/entry.h"
#include "fsm/order/queue.h"

#define UNDONE_MAX 8 /* ops of one entry: each has it applied anew */

/* One may fail beside them before it is known that loading does not help, one
 * only at the end of the entry, and a renewal has its turn in any case. */
_Static_assert(FSM_FAULTS_MAX >= UNDONE_MAX + 3, "room for all of them");

void fsm_broken(struct fsm *f, const char *file, int line, const char *what)
{
	struct fsm_faults *s = &f->faults;

	if (s->unwind == NULL || s->n == FSM_FAULTS_MAX)
		check_failed(file, line, what);
	s->list[s->n] = (struct fsm_fault){ .raft_index = f->entry_index,
					    .item = f->item,
					    .file = file,
					    .line = line,
					    .what = what };
	longjmp(*(jmp_buf *)s->unwind, 1);
}

int fault_guard(struct fsm *f, const struct entry_item *item, fault_fn *fn)
{
	struct fsm_faults *s = &f->faults;
	jmp_buf here;
	int r;

	if (setjmp(here) != 0) {
		s->unwind = NULL;
		/* what could not be read is no wonder, and only so here */
		if (f->fatal < 0)
			return f->fatal;
		s->hit = true;
		s->list[s->n].op = item->op;
		s->list[s->n].is_undone = s->is_fresh;
		s->undone += s->is_fresh;
		s->n++;
		return -ERR_INTERNAL_ERROR;
	}
	s->unwind = &here;
	r = fn(f, item);
	s->unwind = NULL;
	return r;
}

static int settle_first(struct fsm *f, const struct entry_item *item _unused_)
{
	return bounds_settle_first(f);
}

void faults_settle(struct fsm *f, const struct entry *e)
{
	while (f->fatal == 0 && !f->faults.hit &&
	       bounds_are_unsure(f, &f->item))
		(void)fault_guard(f, &e->items[f->item], settle_first);
}

void faults_begin(struct fsm *f)
{
	struct fsm_faults *s = &f->faults;

	s->hit = s->is_fresh = false;
	s->n = s->undone = 0;
}

bool fault_is_undone(const struct fsm *f, size_t i)
{
	for (size_t k = 0; k < f->faults.n; k++)
		if (f->faults.list[k].is_undone && f->faults.list[k].item == i)
			return true;
	return false;
}

int fault_refuse(struct fsm *f)
{
	f->counters.undone++;
	return fsm_refuse(f, ERR_INTERNAL_ERROR, "%s", ERR_UNDONE_TEXT);
}

/* Behind the last one that may be undone. Renewals fail later and count on, as
 * do ops that fail at the end of the entry, which may stand before it. */
bool faults_are_many(const struct fsm *f, size_t i)
{
	const struct fsm_faults *s = &f->faults;
	size_t undone = 0;

	for (size_t k = 0; k < s->n; k++) {
		undone += s->list[k].is_undone;
		if (undone >= UNDONE_MAX && i > s->list[k].item)
			return true;
	}
	return false;
}

/* Whoever waits for jobs may not have heard of all that there are. */
void faults_loaded(struct fsm *f)
{
	struct str name;
	size_t pos = 0;
	void *q;

	f->faults.hit = false;
	f->faults.is_fresh = true;
	f->counters.reloads++;
	while (hmap_next(&f->queues, &pos, &name, &q))
		queue_wake(f, q);
}

void fsm_each_fault(const struct fsm *f, fsm_fault_fn *fn, void *ctx)
{
	for (size_t i = 0; i < f->faults.n; i++)
		fn(ctx, &f->faults.list[i]);
}
