#include "wild.h"

#include <stdlib.h>

#include "component/wild_gen.h"

#define FAMILY_MEAN 12 /* requests until others are of interest */
#define BODY_MAX    (512u << 10)

struct wild {
	struct rw rw;
	size_t family;
};

/* Those that only corvo-raftd asks itself for. */
static bool is_own(enum op_id op)
{
	static const enum op_id own[] = {
		OP_RENEW,     OP_CLOCK_SET, OP_SET_LIMITS,  OP_SET_MEMBER,
		OP_SET_LEVEL, OP_LEADER,    OP_TRIM_EVENTS, OP_FORGET_MEMBER,
	};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (own[i] == op)
			return true;
	return false;
}

/* What would concern the jobs of others, who expect theirs to be done. */
static bool is_for_all(enum op_id op, const void *m)
{
	const struct m_policy *p = m;

	if (op == OP_SET_BUDGET)
		return ((const struct m_budget *)m)->scope == BUDGET_GLOBAL;
	return op == OP_SET_SETTINGS ||
	       (op == OP_SET_POLICY &&
		(!str_starts(p->queue, STR("q")) || p->mode != POLICY_ALL));
}

static void narrow(struct wild *x, enum op_id op, void *m)
{
	struct m_policy *p = m;
	struct m_fire *fire = m;

	if (op == OP_SET_POLICY) {
		MSG_SET(p, policy, queue, some_queue(&x->rw));
		MSG_SET(p, policy, mode, POLICY_ALL);
	}
	/* corvo-sched goes on in time: what it asks for twice is void then */
	if (op == OP_FIRE && fire->next_ns <= fire->due_ns)
		MSG_SET(fire, fire, next_ns, fire->due_ns + NS_PER_S);
}

bool wild_next(struct wild *x, struct fx *state, unsigned *ret_op,
	       struct buf *ret)
{
	enum op_id op;
	void *r;

	x->rw.x = state;
	if (rng_below(&x->rw.r, FAMILY_MEAN) == 0)
		x->family = wild_family(&x->rw);
	op = wild_op(&x->rw, x->family);
	if (is_own(op))
		return false;
	r = wild_request(&x->rw, op);
	narrow(x, op, r);
	if (!is_for_all(op, r))
		msg_encode(op_info(op)->request, r, ret);
	arena_reset(&x->rw.arena);
	*ret_op = op;
	return ret->n > 0 && ret->n <= BODY_MAX;
}

struct wild *wild_new(uint64_t seed)
{
	struct wild *x = xcalloc(1, sizeof(*x));

	rng_seed(&x->rw.r, seed);
	return x;
}

void wild_free(struct wild *x)
{
	arena_done(&x->rw.arena);
	free(x);
}

uint64_t wild_jobs(const struct wild *x)
{
	return x->rw.jobs;
}
