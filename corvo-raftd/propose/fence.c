/*
 * Questions that only a leader may answer that is one still: an entry shows it,
 * any entry that was made after they came. Under load those there are anyway
 * serve. See propose/proposer.h.
 */
#include <stdlib.h>

#include "propose/proposer_impl.h"

struct fence {
	struct list node; /* in proposer.fences or batch.fences */
	struct rpc_req req;
	uint64_t deadline_ns;
	proposer_fenced_fn *fn; /* NULL: req is answered */
	void *ctx;
};

static void tell(const struct fence *f, int err, uint64_t seq, struct str body)
{
	if (f->fn != NULL)
		f->fn(f->ctx, err, seq);
	else
		rpc_reply(f->req, err, seq, body);
}

static void refuse(const struct fence *f, int err)
{
	tell(f, err, 0, str_from(err_text(err)));
}

static void fence(struct proposer *p, const struct fence *asked)
{
	struct fence *f;

	if (p->draining) {
		refuse(asked, ERR_SHUTTING_DOWN);
		return;
	}
	if (p->fences_n >= p->c.settings->raft_max_pending) {
		p->stats.overload++;
		refuse(asked, ERR_OVERLOADED);
		return;
	}
	f = xmalloc(sizeof(*f));
	*f = *asked;
	list_push_back(&p->fences, &f->node);
	p->fences_n++;
}

void proposer_fence(struct proposer *p, struct rpc_req req,
		    uint64_t deadline_ns)
{
	fence(p, &(struct fence){ .req = req, .deadline_ns = deadline_ns });
}

void proposer_fence_own(struct proposer *p, proposer_fenced_fn *fn, void *ctx)
{
	fence(p, &(struct fence){ .fn = fn, .ctx = ctx });
}

static void drop(struct proposer *p, struct fence *f)
{
	CHECK(p->fences_n > 0);
	p->fences_n--;
	list_remove(&f->node);
	free(f);
}

void fences_answer(struct proposer *p, struct list *of)
{
	static const struct m_nothing nothing;
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	if (list_empty(of))
		return;
	msg_encode(&msg_nothing, &nothing, &b);
	LIST_FOREACH_SAFE (it, of) {
		struct fence *f = list_entry(it, struct fence, node);

		tell(f, 0, fsm_last_seq(p->c.fsm), buf_str(&b));
		drop(p, f);
	}
}

void fences_pass_on(struct proposer *p, struct list *of, int err)
{
	static const struct m_nothing nothing;
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	bool is_over = err == ERR_LEADER_UNAVAILABLE && p->c.pass_on != NULL &&
		       !p->draining;

	if (list_empty(of))
		return;
	msg_encode(&msg_nothing, &nothing, &b);
	LIST_FOREACH_SAFE (it, of) {
		struct fence f = *list_entry(it, struct fence, node);
		struct frame_request item = { .op = QUERY_FENCE,
					      .deadline_ns = f.deadline_ns,
					      .body = buf_str(&b) };

		drop(p, list_entry(it, struct fence, node));
		if (f.fn != NULL || !is_over)
			refuse(&f, err);
		else if (rpc_req_is_of_node(f.req))
			continue; /* that node asks the next leader */
		else if (rpc_req_is_live(f.req))
			p->c.pass_on(p->c.ctx, f.req, &item);
		else
			refuse(&f, err);
	}
}

bool fences_want(struct proposer *p)
{
	if (list_empty(&p->fences))
		return false;
	if (node_voters(p->node) == 1) { /* there is nobody else to lead */
		fences_answer(p, &p->fences);
		return false;
	}
	if (!p->stats.disk_ok) {
		fences_pass_on(p, &p->fences, ERR_STORAGE_FULL);
		return false;
	}
	return true;
}

void fences_free(struct list *of)
{
	LIST_FOREACH_SAFE (it, of) {
		struct fence *f = list_entry(it, struct fence, node);

		list_remove(it);
		free(f);
	}
}
