/*
 * See req/work.h.
 */
#include "req/work.h"

#include "req/guarded.h"
#include "rt/turns.h"

static void run(struct req *r, _unused_ void *arg)
{
	r->work_fn(r);
}

/* Not on the thread of the loop, where the guard of the request stands. */
static void work(void *ctx)
{
	struct req *r = ctx;

	r->work_failed = !req_try(r, run, NULL);
}

static void on_done(void *ctx)
{
	struct req *r = ctx;

	r->work = NULL;
	if (r->work_failed)
		req_give_up(r);
	exchange_worked(&r->x);
}

void req_work(struct req *r, size_t bytes, req_fn *fn)
{
	if (bytes <= LIMIT_SMALL_BYTES) {
		fn(r);
		return;
	}
	r->work_fn = fn;
	r->work = turns_add(r->h->turns, work, on_done, r);
	exchange_work(&r->x);
}

bool req_work_fits(struct req *r, size_t bytes)
{
	if (!exchange_fits_work(&r->x, bytes)) {
		req_fail(r, ERR_OVERLOADED,
			 "memory for requests is short; try again after "
			 "retry_after_ms");
		return false;
	}
	r->x.work_n += bytes;
	exchange_count(&r->x);
	return true;
}

void req_hurry_work(struct req *r)
{
	if (r->work != NULL)
		turns_hurry(r->work);
}

void req_end_work(struct req *r)
{
	if (r->work != NULL)
		turns_drop(r->h->turns, r->work);
	r->work = NULL;
}
