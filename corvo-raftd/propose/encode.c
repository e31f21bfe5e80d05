/*
 * Ops to the bytes of an entry. See propose/proposer.h.
 */
#include <stdlib.h>

#include "propose/proposer_impl.h"

/* Its place among the callers of the entry, from 1; 0: no answer is kept. */
static uint32_t caller_of(struct proposer *p, const struct op *op)
{
	size_t i = 0;

	if (!(op->flags & FRAME_KEEP))
		return 0;
	while (i < p->callers_n && p->callers[i].origin != op->caller.origin)
		i++;
	if (i == p->callers_n) {
		if (p->callers_n == p->callers_cap) {
			p->callers_cap = MAX(p->callers_cap * 2, (size_t)8);
			p->callers = xrealloc(
			    p->callers, p->callers_cap * sizeof(*p->callers));
		}
		p->callers[p->callers_n++] = op->caller;
	}
	p->callers[i].done = MAX(p->callers[i].done, op->caller.done);
	return (uint32_t)i + 1;
}

void entry_encode(struct proposer *p, struct batch *b, uint64_t now_ns)
{
	struct frame_writer w;

	p->callers_n = 0;
	LIST_FOREACH (it, &b->ops)
		(void)caller_of(p, list_entry(it, struct op, node));
	entry_begin_for(&w, &p->entry, now_ns, rng_u64(&p->rng), p->callers,
			p->callers_n);
	LIST_FOREACH (it, &b->ops) {
		struct op *op = list_entry(it, struct op, node);
		struct entry_item item = { .op = op->id,
					   .flags = op->flags & FRAME_RESEND,
					   .body = op->body,
					   .caller = caller_of(p, op) };

		if (item.caller != 0)
			item.id = op->number;
		entry_add(&w, &item);
	}
	entry_end(&w);
}
