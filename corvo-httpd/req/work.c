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

/* The failure that was not told has left its marks: of gRPC, a grpc-status. */
static void drop_untold(struct exchange *x)
{
	x->fields_n = x->trailers_n = 0;
	x->next = NULL;
	x->preferred_ns = 0;
	x->allow = 0;
	x->has_lag = x->replayed = false;
}

/* What it came to was not told, unless it asks somebody. */
static void answer_cut_short(struct req *r, _unused_ void *arg)
{
	r->cut_short = false;
	if (r->x.unwanted || r->x.answered || r->call != NULL)
		return;
	drop_untold(&r->x);
	req_fail_text(r, ERR_SHUTTING_DOWN,
		      str_from(err_text(ERR_SHUTTING_DOWN)));
}

static void on_done(void *ctx)
{
	struct req *r = ctx;

	r->work = NULL;
	if (r->work_failed)
		req_give_up(r);
	else if (r->cut_short)
		req_guarded(r, answer_cut_short, NULL);
	exchange_worked(&r->x);
}

static void on_time_is_up(void *ctx)
{
	struct req *r = ctx;

	if (r->x.outlives || r->x.unwanted || r->x.answered)
		return;
	r->cut_short = true;
	turns_hurry(r->work);
}

static const struct turn_ops ops = {
	.work = work,
	.done = on_done,
	.time_is_up = on_time_is_up,
};

void req_work(struct req *r, size_t bytes, req_fn *fn)
{
	if (bytes <= LIMIT_SMALL_BYTES) {
		fn(r);
		return;
	}
	r->work_fn = fn;
	r->work = turns_add(r->h->turns, &ops, r);
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

bool req_is_unwanted(const struct req *r)
{
	return r->x.unwanted || (r->cut_short && r->work != NULL);
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
