/*
 * See req/guarded.h.
 */
#include "req/guarded.h"

#include <stdlib.h>

#include "front/park.h"
#include "req/metrics.h"
#include "rt/log.h"
#include "util/guard.h"

struct work {
	struct req *r;
	guarded_fn *fn;
	void *arg;
};

/*
 * For tests: a request for the path in the first kills the process, one for
 * that in the second fails a check.
 */
static void plant_fault(_unused_ const struct req *r)
{
#ifdef CORVO_FAULTS
	const char *dies = getenv("CORVO_FAULT_REQUEST_DIES");
	const char *fails = getenv("CORVO_FAULT_REQUEST_FAILS");

	CHECK(dies == NULL || !str_is(r->x.path, dies));
	REQUIRE(fails == NULL || !str_is(r->x.path, fails));
#endif
}

static void run(void *ctx)
{
	const struct work *w = ctx;

	w->fn(w->r, w->arg);
}

static void run_planted(void *ctx)
{
	const struct work *w = ctx;

	plant_fault(w->r);
	run(ctx);
}

/* True: all of it was done. */
static bool try_work(const struct work *w, void (*fn)(void *ctx))
{
	const struct req *r = w->r;
	struct guard_fault f;

	if (guard_call(fn, (void *)(uintptr_t)w, &f))
		return true;
	metrics_note_broken(r->h->metrics);
	log_error("a request failed a check of the server and is ended: "
		  "request_id=%s method=%s path=%.*s check=\"%s:%d: %s\"",
		  r->x.request_id, r->x.method, STR_ARG(r->x.path), f.file,
		  f.line, f.what);
	return false;
}

static void undo(struct req *r, _unused_ void *arg)
{
	r->unsent(r);
}

static void end(struct req *r, _unused_ void *arg)
{
	if (!r->x.answered)
		req_fail(r, ERR_INTERNAL_ERROR,
			 "the request failed a check of the server; its log "
			 "says which");
	else if (r->broken != NULL)
		r->broken(r);
	else if (r->x.stream != NULL)
		r->x.front->cut(&r->x);
}

bool req_try(struct req *r, guarded_fn *fn, void *arg)
{
	const struct work work = { r, fn, arg };

	return try_work(&work, run_planted);
}

void req_give_up(struct req *r)
{
	const struct work undoing = { r, undo, NULL };
	const struct work ending = { r, end, NULL };

	req_cancel_call(r);
	park_remove(&r->x);
	if (r->unsent != NULL && !try_work(&undoing, run))
		log_error("what it was given waits for the end of its lease");
	r->unsent = NULL;
	if (!try_work(&ending, run))
		r->x.front->cut(&r->x);
}

void req_guarded(struct req *r, guarded_fn *fn, void *arg)
{
	if (!req_try(r, fn, arg))
		req_give_up(r);
}
