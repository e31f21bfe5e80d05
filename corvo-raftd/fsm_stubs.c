/*
 * Operations that are not built yet: each is refused.
 */
#include "fsm_impl.h"

#define STUB(name, reply)                                          \
	int apply_##name(struct fsm *f, const struct m_##name *op, \
			 struct m_##reply *ret)                    \
	{                                                          \
		(void)op;                                          \
		(void)ret;                                         \
		return fsm_refuse(f, ERR_BULK_ERROR, "not yet");   \
	}

STUB(bulk_act, bulk_result)
STUB(bulk_create, bulk)
STUB(bulk_add, bulk)
STUB(bulk_control, bulk)
STUB(bulk_step, bulk)
