/*
 * A digest of the store, for whoever compares nodes. It may be of gigabytes:
 * the worker reads a portion at a time, and others have their turn between.
 * What the digest is of is one moment all the same: an iterator's.
 */
#include "store/digest.h"

#include <inttypes.h>
#include <stdlib.h>

#include "serve/svc_impl.h"
#include "util/clock.h"

#define PORTION_BYTES (4u << 20) /* some milliseconds */
#define BUSY_TEXT     "another digest is being made; try again when it is done"

struct digest_ask {
	struct svc *s;
	struct rpc_req req;
	uint64_t at_index;
	uint64_t until_ns; /* monotonic: it waits for at_index so long */
	bool runs;
	bool gone; /* nobody waits for it any more */
	struct digest *d;
	int step; /* as digest_step */
};

static void on_timer(void *ctx)
{
	(void)ctx; /* the end of this turn looks at the deadline */
}

void digest_ask_init(struct svc *s)
{
	s->digest_timer = loop_timer_add(s->p->d->loop, on_timer, s);
}

static void ask_free(struct digest_ask *a)
{
	a->s->digest = NULL;
	digest_free(a->d);
	free(a);
}

void digest_ask_done(struct svc *s)
{
	if (s->digest != NULL)
		ask_free(s->digest);
	loop_timer_remove(s->digest_timer);
}

void digest_ask_cancel(struct svc *s, struct rpc_req req)
{
	struct digest_ask *a = s->digest;

	if (a == NULL || !rpc_req_is(a->req, req))
		return;
	a->gone = true;
	if (!a->runs)
		ask_free(a);
}

/* --- making it --- */

static void portion_work(void *ctx)
{
	struct digest_ask *a = ctx;

	if (a->d == NULL)
		a->d = digest_new(a->s->p->kv);
	a->step = digest_step(a->d, PORTION_BYTES);
}

static void answer(struct digest_ask *a)
{
	struct m_digest_reply m = { 0 };
	struct digest_result r;

	digest_result(a->d, &r);
	MSG_SET(&m, digest_reply, index, r.index);
	MSG_SET(&m, digest_reply, seq, r.seq);
	MSG_SET(&m, digest_reply, keys, r.keys);
	MSG_SET(&m, digest_reply, bytes, r.bytes);
	MSG_SET(&m, digest_reply, digest, str_from(r.text));
	svc_reply(a->s, a->req, &msg_digest_reply, &m);
}

static void portion_done(void *ctx)
{
	struct digest_ask *a = ctx;
	bool goes_on = !a->s->draining && !worker_is_ending(a->s->p->worker);

	if (a->gone || !rpc_req_is_live(a->req)) {
		ask_free(a);
	} else if (a->step > 0 && goes_on) {
		worker_run(a->s->p->worker, portion_work, portion_done, a);
	} else {
		if (a->step == 0)
			answer(a);
		else
			svc_reply_error(a->req, a->step > 0 ? ERR_SHUTTING_DOWN
							    : -a->step);
		ask_free(a);
	}
}

/* --- waiting for its moment --- */

static uint64_t applied(const struct svc *s)
{
	struct node_info i;

	node_info(s->p->node, &i);
	return i.applied_index;
}

static void refuse_late(struct digest_ask *a)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	buf_printf(&why,
		   "this node has applied entry %" PRIu64 " and not %" PRIu64
		   " yet; try again",
		   applied(a->s), a->at_index);
	rpc_reply(a->req, ERR_LEADER_UNAVAILABLE, 0, buf_str(&why));
	ask_free(a);
}

void digest_ask_turn_end(struct svc *s)
{
	struct digest_ask *a = s->digest;
	uint64_t now;
	int e;

	if (a == NULL || a->runs)
		return;
	if (applied(s) < a->at_index) {
		now = clock_mono_ns();
		if (!rpc_req_is_live(a->req))
			ask_free(a);
		else if (s->draining || now >= a->until_ns)
			refuse_late(a);
		else
			loop_timer_arm(s->digest_timer, a->until_ns - now);
		return;
	}
	e = fsm_flush(s->p->fsm); /* what gathered is part of it */
	if (e < 0) {
		svc_reply_error(a->req, -e);
		ask_free(a);
		return;
	}
	a->runs = true;
	worker_run(s->p->worker, portion_work, portion_done, a);
}

void q_digest(struct svc *s, struct rpc_req req, const struct m_digest *m)
{
	struct digest_ask *a;

	if (s->digest != NULL) {
		rpc_reply(req, ERR_CONFLICT, 0, STR(BUSY_TEXT));
		return;
	}
	a = xcalloc(1, sizeof(*a));
	a->s = s;
	a->req = req;
	a->at_index = m->at_index;
	a->until_ns = clock_mono_ns() + s->p->d->settings.op_timeout;
	s->digest = a; /* digest_ask_turn_end looks at it */
}
