/*
 * From an op's number to its function: the rows of ops.def. A row without an
 * apply_<name> does not link, one with other types does not compile.
 */
#include "fsm/dispatch.h"

#include <stdlib.h>
#include <string.h>

#include "fsm/core/entry.h"
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

/*
 * For tests: the op named by the first kills the process, that named by the
 * second fails a check.
 */
static void plant_fault(_unused_ struct fsm *f, _unused_ unsigned op)
{
#ifdef CORVO_FAULTS
	const char *dies = getenv("CORVO_FAULT_APPLY_DIES");
	const char *fails = getenv("CORVO_FAULT_APPLY_FAILS");

	CHECK(dies == NULL || strcmp(dies, op_info(op)->name) != 0);
	MUST(f, fails == NULL || strcmp(fails, op_info(op)->name) != 0);
#endif
}

int fsm_dispatch(struct fsm *f, unsigned op, const void *request, void *reply)
{
	CHECK(op < OP_ID_MAX && calls[op] != NULL);
	plant_fault(f, op);
	return calls[op](f, request, reply);
}
