/*
 * One frame: from its bytes to operations, from their replies to its answer.
 * See rpc/lifecycle.h. The bytes are hostile.
 *
 * Acks, fails, heartbeats and the fetch are asked for together; in the log acks
 * come first, so that what they free can be fetched. Jobs to add follow when
 * the fetch is answered, so that a frame is not given its own jobs; unless it
 * waits for jobs, which may take a minute.
 */
#include <stdio.h>
#include <stdlib.h>

#include "req/guarded.h"
#include "rpc/life_parts.h"
#include "util/clock.h"
#include "util/hmap.h"

#define ARENA_BLOCK 1024
/* What encodes messages for all gives its memory back after a larger one. */
#define SCRATCH_KEEP_BYTES (1u << 20)

struct life_frame *life_frame_of(struct list *node)
{
	return list_entry(node, struct life_frame, node);
}

bool life_frame_is_done(const struct life_frame *f)
{
	return f->open == 0 && !f->is_starting;
}

static void count(struct life_frame *f)
{
	size_t now = sizeof(*f) + arena_bytes(&f->a);

	f->l->kept += now - f->counted;
	f->counted = now;
	lifecycle_count(f->l);
}

static void stop_working(struct life_frame *f)
{
	if (!f->is_working)
		return;
	f->is_working = false;
	lifecycles_release(f->l->all);
}

/* --- errors --- */

/* How much harm it does to send the frame again for it. */
static unsigned weight(int err)
{
	switch (err_again(err)) {
	case AGAIN_SAME:
		return 4;
	case AGAIN_NO:
		return 3;
	case AGAIN_AFTER:
		return 2;
	case AGAIN_NOW:
		break;
	}
	return 1;
}

static bool is_worse(const struct life_fault *a, const struct life_fault *b)
{
	if (b->err == 0)
		return true;
	if (weight(a->err) != weight(b->err))
		return weight(a->err) > weight(b->err);
	if (a->part != b->part)
		return a->part < b->part;
	return a->index < b->index;
}

static bool is_overload(int err)
{
	return err_rpc(err) == CODE_RESOURCE_EXHAUSTED;
}

static void tell_error(struct life_frame *f)
{
	static const char *const names[LIFE_PARTS] = {
		[LIFE_WHOLE] = "",        [LIFE_ACKS] = "ack: ",
		[LIFE_FAILS] = "fail: ",  [LIFE_BEATS] = "heartbeat: ",
		[LIFE_FETCH] = "fetch: ", [LIFE_JOBS] = "enqueue: ",
	};
	const struct life_fault *e = &f->worst;
	struct str text = e->text.n > 0 ? e->text : str_from(err_text(e->err));

	MSG_SET(&f->reply, lifecycle_reply, error,
		arena_printf(&f->a, "%s%s%.*s",
			     is_overload(e->err) ? "OVERLOADED: " : "",
			     e->says_where ? "" : names[e->part],
			     STR_ARG(text)));
	MSG_SET(&f->reply, lifecycle_reply, code, str_from(err_code(e->err)));
	MSG_UNSET(&f->reply, lifecycle_reply, retry_after_ms);
	if (err_again(e->err) == AGAIN_AFTER)
		MSG_SET(&f->reply, lifecycle_reply, retry_after_ms, 1000);
}

void life_error(struct life_frame *f, const struct life_fault *e)
{
	if (is_overload(e->err))
		f->l->h->calls.overloads++;
	else
		f->is_wrong = true;
	if (!is_worse(e, &f->worst))
		return;
	f->worst = *e;
	tell_error(f);
	f->worst.text = STR_NULL; /* it lasts for the call */
}

void life_refuse_frame(struct life_frame *f, int err, struct str text)
{
	f->worst = (struct life_fault){ 0 };
	MSG_SET_LIST(&f->reply, lifecycle_reply, refused_items, NULL, 0);
	life_error(f, &(struct life_fault){ .err = err, .text = text });
}

/* --- asking --- */

struct answered {
	struct part *p;
	const struct rpc_reply *reply;
};

static void take_reply(_unused_ struct req *r, void *arg)
{
	const struct answered *a = arg;

	a->p->then(a->p->f, a->p, a->reply);
	life_settle(a->p->f);
}

static void on_reply(void *ctx, const struct rpc_reply *reply)
{
	struct part *p = ctx;
	struct life_frame *f = p->f;
	struct answered a = { p, reply };

	life_asked(p);
	f->l->h->seq = MAX(f->l->h->seq, reply->seq);
	req_guarded(f->l->r, take_reply, &a);
}

void life_ask(struct life_frame *f, struct part *p, const struct life_call *c)
{
	struct httpd *h = f->l->h;
	struct buf *b = &h->scratch;

	if (f->l->gathers != 0 && !c->any_order)
		life_gather_send(f->l->all);
	buf_clear(b);
	msg_encode(c->d, c->m, b);
	REQUIRE(!b->full);
	p->f = f;
	p->then = c->then;
	p->call = rpc_call(h->raftd, c->id, c->key, buf_str(b),
			   clock_mono_ns() + c->timeout_ns, c->timeout_err,
			   c->flags, on_reply, p);
	/* only now: it may have been given up */
	f->open++;
	p->call_n = b->n;
	f->l->asking += b->n;
	buf_shrink(b, SCRATCH_KEEP_BYTES);
}

void life_asked(struct part *p)
{
	p->call = NULL;
	p->f->open--;
	p->f->l->asking -= p->call_n;
}

void life_change(struct life_frame *f, struct part *p, unsigned op,
		 struct str key, const struct msg_desc *d, const void *m,
		 part_fn *then)
{
	life_ask(f, p,
		 &(struct life_call){ .id = op,
				      .key = key,
				      .d = d,
				      .m = m,
				      .timeout_ns = f->l->h->set->op_timeout,
				      .timeout_err = ERR_LEADER_UNAVAILABLE,
				      .flags = RPC_CHANGES | RPC_KEEP,
				      .then = then });
}

void *life_decode(struct life_frame *f, enum life_part part, size_t index,
		  const struct msg_desc *d, const struct rpc_reply *reply)
{
	struct life_fault e = { .part = part, .index = index };
	void *m = arena_alloc(&f->a, d->size);

	if (reply->err == 0 &&
	    msg_decode(d, arena_copy(&f->a, reply->body), &f->a, m) == 0)
		return m;
	e.err = reply->err != 0 ? reply->err : ERR_BAD_MESSAGE;
	e.text = reply->err != 0 ? reply->body : STR_NULL;
	life_error(f, &e);
	return NULL;
}

/* --- fails --- */

static void on_failed(struct life_frame *f, struct part *p,
		      const struct rpc_reply *reply)
{
	struct m_fail_result *r = &f->reply.failed[p->index];
	struct m_fail_reply *m =
	    life_decode(f, LIFE_FAILS, p->index, &msg_fail_reply, reply);
	int err = reply->err != 0 ? reply->err : ERR_BAD_MESSAGE;

	if (m == NULL) {
		MSG_SET(r, fail_result, code, str_from(err_code(err)));
		if (reply->err != 0)
			MSG_SET(r, fail_result, error,
				arena_copy(&f->a, reply->body));
		return;
	}
	MSG_SET(r, fail_result, status, m->status);
	if (MSG_HAS(m, fail_reply, next_attempt_at))
		MSG_SET(r, fail_result, next_attempt_at, m->next_attempt_at);
	MSG_SET(r, fail_result, attempts_remaining, m->attempts_remaining);
}

static void start_fails(struct life_frame *f)
{
	size_t n = f->m.fails_n;

	if (n == 0)
		return;
	f->fails = arena_zalloc(&f->a, n * sizeof(*f->fails));
	MSG_SET_LIST(&f->reply, lifecycle_reply, failed,
		     arena_zalloc(&f->a, n * sizeof(*f->reply.failed)), n);
	for (size_t i = 0; i < n; i++) {
		const struct m_fail *m = &f->m.fails[i];

		MSG_SET(&f->reply.failed[i], fail_result, job_id, m->job_id);
		if (!life_item_ok(f, LIFE_FAILS, i, m)) {
			MSG_SET(&f->reply.failed[i], fail_result, code,
				STR("VALIDATION_ERROR"));
			continue;
		}
		pushed_remove(f->l, m->job_id);
		f->fails[i].index = i;
		life_change(f, &f->fails[i], OP_FAIL, STR_NULL, &msg_fail, m,
			    on_failed);
	}
}

/* --- heartbeats --- */

static void on_beaten(struct life_frame *f, _unused_ struct part *p,
		      const struct rpc_reply *reply)
{
	struct m_heartbeat_reply *m =
	    life_decode(f, LIFE_BEATS, 0, &msg_heartbeat_reply, reply);

	if (m != NULL)
		MSG_SET_LIST(&f->reply, lifecycle_reply, heartbeats, m->jobs,
			     m->jobs_n);
}

/* The answer could not say what became of both. */
static bool is_twice(struct life_frame *f, struct hmap *seen, size_t i)
{
	const struct m_beat *b = &f->m.heartbeats[i];

	if (hmap_put(seen, b->job_id, f) == NULL)
		return false;
	life_refuse_item(
	    f, LIFE_BEATS, i, ERR_VALIDATION_ERROR,
	    arena_printf(&f->a, "\"%.*s\" is given twice", STR_ARG(b->job_id)));
	return true;
}

static void start_beats(struct life_frame *f)
{
	struct m_heartbeat m = { 0 };
	struct hmap seen = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < f->m.heartbeats_n; i++)
		if (life_item_ok(f, LIFE_BEATS, i, &f->m.heartbeats[i]) &&
		    !is_twice(f, &seen, i))
			f->m.heartbeats[n++] = f->m.heartbeats[i];
	hmap_done(&seen);
	if (n == 0 || !life_text_ok(f, LIFE_BEATS, "worker_id", f->m.worker_id,
				    LIMIT_WORKER_ID_BYTES))
		return;
	if (f->m.worker_id.n > 0)
		MSG_SET(&m, heartbeat, worker_id, f->m.worker_id);
	MSG_SET_LIST(&m, heartbeat, jobs, f->m.heartbeats, n);
	life_change(f, &f->beat, OP_HEARTBEAT, STR_NULL, &msg_heartbeat, &m,
		    on_beaten);
}

/* --- its life --- */

static void start_work(struct life_frame *f)
{
	life_start_acks(f);
	start_fails(f);
	start_beats(f);
	life_start_fetch(f);
	if (f->adds_later && f->open > 0)
		return;
	f->adds_later = false;
	life_start_enqueue(f);
}

void life_settle(struct life_frame *f)
{
	if (f->is_starting)
		return;
	if (f->open == 0 && f->asks_first) {
		f->asks_first = false;
		if (f->leads)
			start_work(f);
		else
			f->adds_later = false;
	} else if (f->open == 0 && f->adds_later) {
		f->adds_later = false;
		life_start_enqueue(f);
	}
	count(f);
	/* one that only waits for jobs is no work */
	if (f->open == 0 || (f->open == 1 && f->waits && f->fetch.call != NULL))
		stop_working(f);
	if (f->open > 0)
		return;
	lifecycle_judge(f->l, f->is_wrong);
	lifecycle_done(f->l, &f->node, f->waits);
}

/* False: the client wants to be refused rather than ignored. */
static bool admit_ignored(struct life_frame *f)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);

	if (f->ignored.n == 0)
		return true;
	if (!req_is_strict(f->l->r)) {
		MSG_SET_LIST(&f->reply, lifecycle_reply, ignored,
			     f->ignored.paths, f->ignored.n);
		return true;
	}
	ignored_explain(&f->ignored, &why);
	life_refuse_frame(f, ERR_VALIDATION_ERROR, buf_str(&why));
	return false;
}

/* False: it says nothing that can be done. */
static bool parse_frame(struct life_frame *f, struct str bytes)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd = { .a = &f->a,
				 .why = &why,
				 .ignored = &f->ignored,
				 .compat_03 = f->l->h->compat_03,
				 .refused = life_unread,
				 .refused_ctx = f };
	int r = remote_parse_unchecked(f->l->r, bytes, &rd,
				       &pb_LifecycleStreamRequest, &f->m);

	MSG_SET(&f->reply, lifecycle_reply, request_id, f->m.request_id);
	if (r < 0)
		life_refuse_frame(f, -r, buf_str(&why));
	return r == 0 && admit_ignored(f);
}

/* It keeps nothing but its number: its answer may wait for its reader. */
static void shed(struct life_frame *f)
{
	uint64_t id = f->m.request_id;

	arena_done(&f->a);
	f->m = (struct m_lifecycle){ 0 };
	f->reply = (struct m_lifecycle_reply){ 0 };
	f->ignored = (struct ignored){ 0 };
	memset(f->unread, 0, sizeof(f->unread));
	f->is_wrong = false;
	MSG_SET(&f->reply, lifecycle_reply, request_id, id);
	life_refuse_frame(f, ERR_OVERLOADED, REQ_NO_ROOM);
}

static void read_frame(struct life_frame *f, struct str bytes)
{
	struct exchange *x = &f->l->r->x;
	/* it is kept as it came, and as what is sent on */
	bool fits = exchange_fits_work(x, 2 * bytes.n);
	bool is_good = parse_frame(f, fits ? arena_copy(&f->a, bytes) : bytes);

	/* what takes two bytes to say may take a thousand to keep */
	if (!fits || !exchange_fits_work(x, arena_bytes(&f->a))) {
		shed(f);
		return;
	}
	count(f);
	if (!is_good)
		return;
	life_prepare_enqueue(f);
	if (flow_is_ending(f->l->flow)) /* meanwhile; nobody would hear of it */
		return;
	f->waits = f->m.fetch_count > 0 && f->m.wait > 0;
	f->adds_later = f->m.fetch_count > 0 && !f->waits;
	if (f->waits)
		lifecycle_wait(f->l, &f->node);
	if (f->m.push_cancels)
		f->l->pushes = true;
	f->asks_first = f->l->redirects;
	if (f->asks_first)
		life_start_status(f);
	else
		start_work(f);
}

void life_frame_begin(struct lifecycle *l, struct str bytes)
{
	struct life_frame *f = xcalloc(1, sizeof(*f));

	f->l = l;
	f->bytes_n = bytes.n;
	f->a.block_size = ARENA_BLOCK;
	f->is_working = true;
	f->is_starting = true;
	lifecycle_add(l, &f->node);
	read_frame(f, bytes);
	f->is_starting = false;
	life_settle(f);
}

void life_frame_hurry(struct life_frame *f)
{
	if (f->wait_ns > 0)
		life_drop_fetch(f);
	if (f->open > 0 || f->is_starting)
		return;
	stop_working(f);
	lifecycle_done(f->l, &f->node, f->waits);
}

static void drop(struct life_frame *f, struct part *p)
{
	if (p->call == NULL)
		return;
	rpc_cancel(f->l->h->raftd, p->call);
	life_asked(p);
}

void life_frame_abandon(struct life_frame *f)
{
	struct part *parts[] = { &f->ack, &f->enqueue, &f->beat, &f->status };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		drop(f, parts[i]);
	for (size_t i = 0; f->fails != NULL && i < f->m.fails_n; i++)
		drop(f, &f->fails[i]);
	life_drop_fetch(f);
	life_gather_drop(f);
	life_give_back(f);
}

void life_frame_send(struct life_frame *f)
{
	struct lifecycle *l = f->l;

	CHECK(f->open == 0);
	for (size_t i = 0; i < f->reply.jobs_n; i++)
		lifecycle_note_job(l, &f->reply.jobs[i]);
	flow_send(l->flow, &pb_LifecycleStreamResponse, &f->reply);
	for (size_t i = 0; l->pushes && i < f->reply.jobs_n; i++)
		pushed_sent(l, f->reply.jobs[i].job_id);
	if (f->is_last)
		flow_end(l->flow, 0, STR_NULL);
}

void life_frame_free(struct life_frame *f)
{
	CHECK(f->open == 0);
	stop_working(f);
	f->l->kept -= f->counted;
	list_remove(&f->node);
	arena_done(&f->a);
	free(f);
}
