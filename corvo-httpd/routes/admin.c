/*
 * What administrators ask of the view: to be made anew, to be compared with
 * the store. Both take as long as the data are large, and no body.
 */
#include "front/park.h"
#include "req/req.h"
#include "routes/handlers.h"

/* A view of tens of millions of jobs is done by then. */
#define ADMIN_NS (3600 * NS_PER_S)

static void end_parked(struct req *r)
{
	req_fail_text(r, ERR_SHUTTING_DOWN, STR_NULL);
}

/* A comparison whose client has gone is given up. */
static void ask(struct req *r)
{
	static const struct m_nothing nothing;

	if (r->h->draining) {
		end_parked(r);
		return;
	}
	req_call(r, &(struct req_call){
			.client = r->h->viewd,
			.id = r->match.route->target,
			.desc = &msg_nothing,
			.m = &nothing,
			.timeout_ns = ADMIN_NS,
			.link_ns = MAX(r->h->set->view_wait, (uint64_t)1),
			.timeout_err = ERR_VIEW_UNAVAILABLE,
			.flags = RPC_ONCE,
			.then = req_answer_query,
		    });
	r->end_parked = end_parked;
	park_add(&r->x);
}

void h_rebuild_view(struct req *r)
{
	ask(r);
}

void h_verify_view(struct req *r)
{
	ask(r);
}
