/*
 * See routes/fence.h. The leader is asked whether it leads still, which an
 * entry of its log shows, and for the newest event it has; from then on raftd
 * and the view of this node answer when they have that one, too.
 */
#include "routes/fence.h"

#include "api/route_shape.h"
#include "req/ask_view.h"
#include "req/work.h"
#include "util/clock.h"

struct waiting {
	fence_then_fn *then;
};

static void go_on(struct req *r)
{
	const struct waiting *w = r->state;

	r->state = NULL;
	r->x.seq = 0; /* a read has no index of its own */
	req_work(r, r->x.body.n, w->then);
}

static void ask(struct req *r, unsigned id, const struct msg_desc *d,
		const void *m, uint64_t timeout_ns, fence_then_fn *then,
		req_reply_fn *on_reply)
{
	struct waiting *w = arena_alloc(&r->arena, sizeof(*w));

	w->then = then;
	r->state = w;
	req_call(r, &(struct req_call){ .client = r->h->raftd,
					.id = id,
					.desc = d,
					.m = m,
					.timeout_ns = timeout_ns,
					.timeout_err = ERR_LEADER_UNAVAILABLE,
					.then = on_reply });
}

/* --- ?consistency= --- */

static void on_fence(struct req *r, const struct rpc_reply *reply)
{
	if (reply->err != 0)
		req_fail_text(r, reply->err, reply->body);
	else
		go_on(r);
}

/* False when an error has been answered. */
static bool read_consistency(struct req *r, bool *leader)
{
	struct str text = STR("local");

	if (!req_text_argument(r, "consistency", &text))
		return false;
	*leader = str_is(text, "leader");
	if (*leader || str_is(text, "local"))
		return true;
	req_fail(r, ERR_VALIDATION_ERROR,
		 "consistency: must be leader or local");
	return false;
}

/* --- X-Corvo-Min-Index --- */

/* What there is is answered, and that it may lack that write. */
static void on_reached(struct req *r, const struct rpc_reply *reply)
{
	if (reply->err != 0)
		ask_view_lag(r, MAX(r->h->set->view_wait, NS_PER_MS));
	go_on(r);
}

static void reach(struct req *r, fence_then_fn *then)
{
	struct m_reach m = { 0 };
	uint64_t seq;

	if (!ask_view_min_seq(r, &seq))
		return;
	if (seq <= r->h->seq) { /* raftd minds what it has answered */
		then(r);
		return;
	}
	MSG_SET(&m, reach, seq, seq);
	ask(r, QUERY_REACH, &msg_reach, &m,
	    MAX(r->h->set->view_wait, NS_PER_MS), then, on_reached);
}

void fence_pass(struct req *r, fence_then_fn *then)
{
	static const struct m_nothing nothing;
	const struct route *route = r->match.route;
	bool wants = req_header(r, HEAD_MIN_INDEX) != NULL, leader = false;

	if ((!wants && !r->x.head.has_arguments) || !route_is_read(route)) {
		then(r);
		return;
	}
	if (r->x.head.has_arguments && !read_consistency(r, &leader))
		return;
	if (leader) {
		r->fenced_ns = clock_mono_ns();
		ask(r, QUERY_FENCE, &msg_nothing, &nothing,
		    r->h->set->op_timeout, then, on_fence);
	} else if (wants && query_info(route->target)->process == PROC_RAFTD) {
		reach(r, then);
	} else {
		then(r);
	}
}
