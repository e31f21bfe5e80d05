/*
 * See req/ask_view.h. X-Corvo-Min-Index comes from clients.
 */
#include "req/ask_view.h"

#include "front/clients.h"
#include "front/park.h"
#include "proto/view_ask.h"

/* How long somebody waits who needs a view that is current. */
#define SURELY_NS (5 * NS_PER_S)
/* Least time raftd has to say what was acknowledged. */
#define HEAD_NS (100 * NS_PER_MS)

/* A question on its way to the view; in the request's arena. */
struct question {
	unsigned query;
	const struct msg_desc *desc;
	void *m;
	uint64_t min_seq;
	uint64_t wait_ns; /* for the view to have it */
	req_reply_fn *then;
	void *state; /* the handler's, while r->state is ours */
};

bool ask_view_min_seq(struct req *r, uint64_t *ret)
{
	const char *text = req_header(r, HEAD_MIN_INDEX);
	uint64_t asked = 0;

	if (text != NULL && !str_parse_u64(str_from(text), &asked)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "X-Corvo-Min-Index must be a value of X-Corvo-Index");
		return false;
	}
	*ret = MAX(asked, r->h->seq);
	return true;
}

/* Whose turn it is in viewd, where clients take turns. */
static struct str whose(struct req *r)
{
	struct ip who = clients_key(&r->x.client);
	char text[IP_TEXT_BYTES];

	ip_format(&who, text);
	return arena_copy(&r->arena, str_from(text));
}

static void put(struct req *r, const struct question *q)
{
	(void)view_ask_set(q->desc, q->m, q->min_seq, q->wait_ns);
	req_call(r, &(struct req_call){
			.client = r->h->viewd,
			.id = q->query,
			.key = whose(r),
			.desc = q->desc,
			.m = q->m,
			.timeout_ns = q->wait_ns +
				      view_ask_answer_ns(q->desc, q->m,
							 r->h->set->op_timeout),
			.link_ns = MAX(q->wait_ns, (uint64_t)1),
			.timeout_err = ERR_VIEW_UNAVAILABLE,
			.flags = RPC_ONCE,
			.then = q->then,
		    });
	if (!r->x.outlives)
		park_add(&r->x);
}

/*
 * Without an answer nobody knows what was acknowledged: the view is asked for
 * more than there can be, so that it answers what it has and says so.
 */
static void on_head(struct req *r, const struct rpc_reply *reply)
{
	struct question *q = r->state;

	q->min_seq = reply->err != 0 ? UINT64_MAX : MAX(q->min_seq, reply->seq);
	r->state = q->state;
	r->x.seq = 0; /* a read has no index of its own */
	put(r, q);
}

static void ask(struct req *r, const struct question *what)
{
	static const struct m_nothing nothing;
	struct question *q = arena_alloc(&r->arena, sizeof(*q));

	*q = *what;
	q->state = r->state;
	if (!ask_view_min_seq(r, &q->min_seq))
		return;
	if (r->fenced_ns != 0) /* an old answer is none */
		q->wait_ns = MAX(q->wait_ns, req_time_left(r));
	/* 0: raftd has not been heard since this process began */
	if (r->h->set->httpd_processes == 1 && r->h->seq != 0) {
		put(r, q);
		return;
	}
	r->state = q;
	req_call(r, &(struct req_call){
			.client = r->h->raftd,
			.id = QUERY_NODE_STATUS,
			.desc = &msg_nothing,
			.m = &nothing,
			.timeout_ns = MAX(r->h->set->view_wait, HEAD_NS),
			.timeout_err = ERR_LEADER_UNAVAILABLE,
			.flags = RPC_ONCE,
			.then = on_head,
		    });
}

void ask_view_query(struct req *r, unsigned query, const struct msg_desc *desc,
		    void *m, req_reply_fn *then)
{
	ask(r, &(struct question){ .query = query,
				   .desc = desc,
				   .m = m,
				   .wait_ns = r->h->set->view_wait,
				   .then = then });
}

void ask_view_surely(struct req *r, unsigned query, const struct msg_desc *desc,
		     void *m, req_reply_fn *then)
{
	ask(r,
	    &(struct question){ .query = query,
				.desc = desc,
				.m = m,
				.wait_ns = MAX(r->h->set->view_wait, SURELY_NS),
				.then = then });
}

void ask_view(struct req *r, const struct msg_desc *desc, void *m,
	      req_reply_fn *then)
{
	ask_view_query(r, r->match.route->target, desc, m, then);
}

void ask_view_answer(struct req *r, const struct msg_desc *desc, const void *m,
		     uint64_t lag_ns)
{
	struct json_style style = req_style(r);
	struct json_writer w;

	ask_view_lag(r, lag_ns);
	w = req_json(r);
	jw_object(&w);
	msg_members_to_json(desc, m, &style, &w);
	if (r->x.has_lag) {
		jw_key(&w, "view_lag_ms");
		jw_u64(&w, r->x.lag_ms);
	}
	jw_object_end(&w);
	req_answer(r, 200);
}

void ask_view_lag(struct req *r, uint64_t lag_ns)
{
	if (lag_ns == 0)
		return;
	r->x.has_lag = true;
	r->x.lag_ms = (lag_ns + NS_PER_MS - 1) / NS_PER_MS;
}

bool ask_view_all_ok(struct req *r, const struct m_search *s, const char *where)
{
	if (!MSG_HAS(s, search, all))
		return true;
	if (s->all && (s->has & ~SEARCH_PAGE_BITS) == MSG_BIT(search, all))
		return true;
	req_fail(r, ERR_VALIDATION_ERROR,
		 "%sall: must be true, and no condition may stand beside it",
		 where);
	return false;
}
