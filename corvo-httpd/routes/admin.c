/*
 * What administrators ask: of the view, to be made anew, to be compared with
 * the store; of the store, a digest. All take as long as the data are large,
 * and no body.
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

static void ask(struct req *r, struct req_call c)
{
	if (r->h->draining) {
		end_parked(r);
		return;
	}
	c.id = r->match.route->target;
	c.desc = query_info(c.id)->request;
	c.timeout_ns = ADMIN_NS;
	c.flags = RPC_ONCE;
	c.then = req_answer_query;
	req_call(r, &c);
	r->end_parked = end_parked;
	park_add(&r->x);
}

/* A comparison whose client has gone is given up. */
static void ask_viewd(struct req *r)
{
	static const struct m_nothing nothing;

	ask(r, (struct req_call){
		   .client = r->h->viewd,
		   .m = &nothing,
		   .link_ns = MAX(r->h->set->view_wait, (uint64_t)1),
		   .timeout_err = ERR_VIEW_UNAVAILABLE,
	       });
}

void h_rebuild_view(struct req *r)
{
	ask_viewd(r);
}

void h_verify_view(struct req *r)
{
	ask_viewd(r);
}

/* So is a digest. */
void h_digest(struct req *r)
{
	struct m_digest *m = arena_zalloc(&r->arena, sizeof(*m));
	uint64_t at_index = 0;

	if (!req_number_argument(r, "at_index", 1, UINT64_MAX, &at_index))
		return;
	if (at_index > 0)
		MSG_SET(m, digest, at_index, at_index);
	ask(r, (struct req_call){ .client = r->h->raftd,
				  .m = m,
				  .timeout_err = ERR_LEADER_UNAVAILABLE });
}
