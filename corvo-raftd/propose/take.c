/*
 * What goes into an entry: which operations, in what order, and how many. See
 * propose/proposer_impl.h.
 */
#include "propose/proposer_impl.h"

/* --- how much --- */

#define ENTRY_NS (10 * NS_PER_MS)
#define LEAST    (64u << 10) /* less would cost more than it saves */
#define TELLING  (LEAST / 4) /* less says little of what large ones cost */
#define LEARN    8           /* a new figure counts for one of so many */
#define OF_EACH  256         /* beside its bytes */

static size_t weight_of(const struct op *op)
{
	return op->body.n + OF_EACH;
}

void weight_begin(struct weight *w)
{
	*w = (struct weight){ .most = SIZE_MAX };
}

void weight_took(struct weight *w, size_t weight, uint64_t ns)
{
	double one = (double)ns / (double)MAX(weight, (size_t)1);

	if (weight < TELLING)
		return;
	w->ns += w->ns > 0 ? (one - w->ns) / LEARN : one;
	w->most = w->ns > 0 ? MAX((size_t)(ENTRY_NS / w->ns), (size_t)LEAST)
			    : SIZE_MAX;
}

/* --- which, and in what order --- */

enum op_class {
	CLASS_CLOCK, /* the entry's time is that after it */
	CLASS_RENEW, /* before any reclaim */
	CLASS_AGAIN, /* those that had no turn in their entry */
	CLASS_FIRST,
	CLASS_MIDDLE,
	CLASS_LAST,
	CLASS_MAX
};

static enum op_class op_class(const struct op *op)
{
	if (op->id == OP_RENEW)
		return CLASS_RENEW;
	if (op->again)
		return CLASS_AGAIN;
	switch (op->id) {
	case OP_ACK:
	case OP_ACK_BATCH:
	case OP_FAIL:
		return CLASS_FIRST;
	case OP_FETCH:
		return CLASS_LAST;
	default:
		return CLASS_MIDDLE;
	}
}

static void put_clock(struct proposer *p, struct list *into, size_t *n)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);

	if (time_take(p, &body))
		put_own(p, OP_CLOCK_SET, buf_str(&body), into, n);
}

/*
 * Leases that are extended now, one op of them at most: they are put down when
 * the entry is built, so that none waits behind a reclaim. True: that is all.
 */
static bool put_renewals(struct proposer *p, struct list *into, size_t *n)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	bool more = false;

	p->renew_due = false;
	if (p->c.take_renewals == NULL ||
	    !p->c.take_renewals(p->c.ctx, &body, &more))
		return true;
	put_own(p, OP_RENEW, buf_str(&body), into, n);
	p->renew_due = more; /* the next entry goes on */
	return !more;
}

/* Moves ops from pending into the lists by class until the entry is full. */
static size_t take(struct proposer *p, struct list by_class[CLASS_MAX],
		   uint64_t now_ns)
{
	const struct settings *s = p->c.settings;
	bool asked = p->renew_due, all = false;
	size_t n = 0, bytes = 0, weight = 0;
	size_t max = MIN(p->ops_max, (size_t)s->apply_batch_max);

	put_clock(p, &by_class[CLASS_CLOCK], &n);
	if (asked)
		all = put_renewals(p, &by_class[CLASS_RENEW], &n);
	while (!list_empty(&p->pending) && n < max) {
		struct op *op = list_entry(p->pending.next, struct op, node);

		if (admission_is_late(op, now_ns)) {
			admission_withdraw(p, op);
			continue;
		}
		if (time_holds_back(p, op))
			continue;
		if (n > 0 && (bytes + op->body.n > s->apply_batch_bytes ||
			      weight + weight_of(op) > p->weight.most))
			break;
		if (op->id == OP_RECLAIM && !asked) {
			all = put_renewals(p, &by_class[CLASS_RENEW], &n);
			asked = true;
		}
		if (op->id == OP_RECLAIM && !all)
			break; /* it waits until all of them are in the log */
		list_remove(&op->node);
		list_push_back(&by_class[op_class(op)], &op->node);
		bytes += op->body.n;
		weight += weight_of(op);
		n++;
		fetch_ride_along(p, op, &by_class[CLASS_LAST], &n);
	}
	return n;
}

void entry_take(struct proposer *p, struct batch *b, uint64_t now_ns)
{
	struct list by_class[CLASS_MAX];

	for (int i = 0; i < CLASS_MAX; i++)
		list_init(&by_class[i]);
	b->n = take(p, by_class, now_ns);
	b->has_clock = !list_empty(&by_class[CLASS_CLOCK]);
	for (int i = 0; i < CLASS_MAX; i++)
		list_move_all(&by_class[i], &b->ops);
	LIST_FOREACH (it, &b->ops) {
		const struct op *op = list_entry(it, struct op, node);

		b->bytes += op->body.n;
		b->weight += weight_of(op);
		b->reclaims |= op->id == OP_RECLAIM;
	}
}
