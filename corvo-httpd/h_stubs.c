/*
 * Routes that are not built yet.
 */
#include "handlers.h"
#include "req.h"

#define STUB(name)                                         \
	void h_##name(struct req *r)                       \
	{                                                  \
		req_fail_text(r, ERR_NOT_FOUND, STR_NULL); \
	}

STUB(rebuild_view)
STUB(verify_view)
