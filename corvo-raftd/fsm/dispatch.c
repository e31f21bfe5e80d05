/*
 * From an op's number to its function: the rows of ops.def. A row without an
 * apply_<name> does not link, one with other types does not compile.
 */
#include "fsm/dispatch.h"

#include "fsm/core/state.h"
#include "fsm/ops/ops.h"

#define OP(num, NAME, name, request, reply, who, level, doc)             \
	static int call_##name(struct fsm *f, const void *op, void *ret) \
	{                                                                \
		return apply_##name(f, op, ret);                         \
	}
#include "proto/defs/ops.def"

typedef int call_fn(struct fsm *f, const void *op, void *ret);

static call_fn *const calls[OP_ID_MAX] = {
#define OP(num, NAME, name, request, reply, who, level, doc) \
	[num] = call_##name,
#include "proto/defs/ops.def"
};

int fsm_dispatch(struct fsm *f, unsigned op, const void *request, void *reply)
{
	CHECK(op < OP_ID_MAX && calls[op] != NULL);
	return calls[op](f, request, reply);
}
