/*
 * See util/guard.h.
 */
#include "util/guard.h"

#include <setjmp.h>

struct guard {
	jmp_buf here;
	struct guard *outer;
	struct guard_fault fault;
};

static _Thread_local struct guard *innermost;

void require_failed(const char *file, int line, const char *what)
{
	struct guard *g = innermost;

	if (g == NULL)
		check_failed(file, line, what);
	g->fault = (struct guard_fault){ file, what, line };
	longjmp(g->here, 1);
}

bool guard_call(void (*fn)(void *ctx), void *ctx, struct guard_fault *ret)
{
	struct guard g;

	g.outer = innermost;
	if (setjmp(g.here) != 0) {
		innermost = g.outer;
		*ret = g.fault;
		return false;
	}
	innermost = &g;
	fn(ctx);
	innermost = g.outer;
	return true;
}

void guard_swap(struct guard **g)
{
	struct guard *was = innermost;

	innermost = *g;
	*g = was;
}
