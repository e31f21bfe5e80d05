/*
 * The client's side of RPC. Replies come from another process and may be
 * anything; after a frame that cannot be read the connection is made anew.
 *
 * Loop thread only. A call is one allocation that holds its body until the
 * reply. It is on one of two lists in the order the calls were made: unsent,
 * or sent on the present connection. When that goes down, sent calls return
 * to the head of unsent. Frames are made from the list at the moment of
 * sending, so nothing has to be taken out of a buffer again.
 */
#include "rt/rpc.h"

#include <stdlib.h>

#include "rt/log.h"
#include "rt/rpc_client.h"
#include "util/clock.h"
#include "util/rng.h"

static void finish(struct rpc_client *c, struct rpc_call *call,
		   const struct rpc_reply *r)
{
	rpc_calls_take(c, call);
	call->fn(call->ctx, r);
	free(call);
}

static void finish_timeout(struct rpc_client *c, struct rpc_call *call)
{
	struct rpc_reply r = { .err = call->timeout_err,
			       .sent = call->sent || call->resend };

	if (r.sent && (call->flags & RPC_CHANGES))
		r.err = ERR_OUTCOME_UNKNOWN;
	r.body = str_from(err_text(r.err));
	finish(c, call, &r);
}

/* --- deadlines --- */

/* The server withdraws it now if it still waits there, and will say so. */
static bool is_awaited(const struct rpc_call *call)
{
	return (call->flags & RPC_CHANGES) && call->sent &&
	       call->due.key < call->deadline_ns + RPC_LATE_NS;
}

/* Who asked waits no longer, but the server may be answering just now. */
static void end_before_answer(struct rpc_client *c, struct rpc_call *call)
{
	struct rpc_reply r = { .err = ERR_OUTCOME_UNKNOWN,
			       .body = str_from(err_text(ERR_OUTCOME_UNKNOWN)),
			       .sent = true };
	rpc_reply_fn *fn = call->fn;
	void *of = call->ctx;

	call->flags &= ~RPC_CHANGES; /* it has been waited for */
	call->deadline_ns = 0;
	(void)rpc_abandon(c, call, call->late, call->late_ctx);
	fn(of, &r);
}

static void on_timer(void *ctx)
{
	struct rpc_client *c = ctx;
	uint64_t now_ns = clock_mono_ns();
	/* What a callback adds meanwhile has the next turn. */
	size_t left = c->due.n;

	c->timer_ns = 0;
	while (left-- > 0) {
		struct heap_node *min = heap_min(&c->due);
		struct rpc_call *call;

		if (min == NULL || min->key > now_ns)
			break;
		call = container_of(min, struct rpc_call, due);
		if (is_awaited(call)) {
			rpc_calls_set_due(c, call,
					  call->deadline_ns + RPC_LATE_NS);
			continue;
		}
		if (call->sent && call->late != NULL) {
			end_before_answer(c, call);
			continue;
		}
		rpc_calls_tell_cancel(c, call);
		finish_timeout(c, call);
	}
	rpc_calls_arm(c);
}

/* --- sending --- */

static int send_cancels(struct rpc_client *c)
{
	struct frame_writer w;
	int r;

	frame_begin(&w, &c->out, FRAME_CANCEL, c->epoch);
	for (size_t i = 0; i < c->cancels.n; i += sizeof(uint64_t)) {
		uint64_t id;

		memcpy(&id, c->cancels.p + i, sizeof(id));
		frame_add_cancel(&w, id);
	}
	frame_end(&w);
	r = link_send(c->link, c->out.p, c->out.n);
	if (r == 0)
		rpc_buf_reuse(&c->cancels);
	return r;
}

/* All calls below this have ended: their answers may be forgotten. */
static uint64_t done_below(const struct rpc_client *c)
{
	if (list_empty(&c->kept))
		return c->last_id + 1;
	return list_entry(c->kept.next, struct rpc_call, kept)->id;
}

static void put_request(struct frame_writer *w, const struct rpc_call *call,
			uint64_t done)
{
	struct frame_request r = rpc_calls_request(call);

	if (call->flags & RPC_KEEP) {
		r.flags |= FRAME_KEEP;
		r.done = done;
	}
	frame_add_request(w, &r);
}

static void put_forward(struct frame_writer *w, const struct rpc_call *call,
			uint64_t now_ns)
{
	struct frame_request r = rpc_calls_request(call);

	r.deadline_ns = rpc_time_left(r.deadline_ns, now_ns);
	frame_add_forward(w, &r);
}

static void note_sent(struct rpc_client *c, struct rpc_call *call)
{
	call->sent = true;
	if (call->abandoned)
		rpc_calls_tell_cancel(c, call);
	if (call->due.key < call->deadline_ns)
		rpc_calls_set_due(c, call, call->deadline_ns);
}

static int send_requests(struct rpc_client *c)
{
	struct list *first = c->unsent.next, *end = first;
	uint64_t done = done_below(c);
	uint64_t now_ns = c->to_node ? clock_mono_ns() : 0;
	struct frame_writer w;
	int r;

	frame_begin(&w, &c->out, c->to_node ? FRAME_FORWARD : FRAME_REQUEST,
		    c->epoch);
	for (; end != &c->unsent; end = end->next) {
		struct rpc_call *call = list_entry(end, struct rpc_call, node);

		if (w.n > 0 && c->out.n + call->body_n > RPC_FRAME_BYTES)
			break;
		if (c->to_node)
			put_forward(&w, call, now_ns);
		else
			put_request(&w, call, done);
	}
	frame_end(&w);
	r = link_send(c->link, c->out.p, c->out.n);
	if (r < 0)
		return r;
	for (struct list *it = first; it != end; it = it->next)
		note_sent(c, list_entry(it, struct rpc_call, node));
	rpc_calls_splice(&c->sent, first, end);
	rpc_buf_reuse(&c->out);
	return 0;
}

static int send_hello(struct rpc_client *c)
{
	int r = rpc_hello_send(c->link, c->self, c->epoch, c->origin, &c->out);

	if (r == 0)
		c->state = CLIENT_WAIT;
	return r;
}

/* A send fails only when the link is going down, which resends it all. */
void rpc_client_flush(struct rpc_client *c)
{
	int r = 0;

	c->gathered = 0;
	while (r == 0 && link_is_up(c->link) && !link_is_sending(c->link)) {
		if (c->state == CLIENT_GREET)
			r = send_hello(c);
		else if (c->state != CLIENT_UP)
			break;
		else if (c->cancels.n > 0)
			r = send_cancels(c);
		else if (!list_empty(&c->unsent))
			r = send_requests(c);
		else
			break;
	}
}

/* --- the link --- */

static void set_state(struct rpc_client *c, enum client_state next)
{
	bool was_up = c->state == CLIENT_UP;

	c->state = next;
	if (was_up != (next == CLIENT_UP) && c->on_state != NULL)
		c->on_state(c->on_state_ctx, next == CLIENT_UP);
}

static uint64_t random_number(void)
{
	uint64_t n;

	do
		rng_system(&n, sizeof(n));
	while (n == 0);
	return n;
}

static void on_up(void *ctx)
{
	struct rpc_client *c = ctx;

	c->epoch = random_number();
	c->state = CLIENT_GREET;
	rpc_client_flush(c);
}

/* Calls with RPC_ONCE end here; their callbacks may make and cancel calls. */
static void end_once(struct rpc_client *c)
{
	struct list once;

	list_init(&once);
	LIST_FOREACH_SAFE (it, &c->unsent) {
		if (!(list_entry(it, struct rpc_call, node)->flags & RPC_ONCE))
			continue;
		list_remove(it);
		list_push_back(&once, it);
	}
	while (!list_empty(&once))
		finish_timeout(c, list_entry(once.next, struct rpc_call, node));
}

static void on_down(void *ctx)
{
	struct rpc_client *c = ctx;
	bool was_up = c->state == CLIENT_UP;

	c->state = CLIENT_DOWN;
	buf_clear(&c->cancels);
	buf_done(&c->part);
	LIST_FOREACH (it, &c->sent) {
		struct rpc_call *call = list_entry(it, struct rpc_call, node);

		call->sent = false;
		call->resend = true;
	}
	/* sent, then unsent: the order in which they were made */
	rpc_calls_splice(&c->sent, c->unsent.next, &c->unsent);
	rpc_calls_splice(&c->unsent, c->sent.next, &c->sent);
	end_once(c);
	if (was_up && c->on_state != NULL)
		c->on_state(c->on_state_ctx, false);
}

static void on_hello(struct rpc_client *c, const struct frame *f)
{
	if (c->state != CLIENT_WAIT)
		return;
	if (!c->to_node && !rpc_hello_check(&f->hello, c->path)) {
		c->state = CLIENT_DEAF;
		return;
	}
	set_state(c, CLIENT_UP);
	rpc_client_flush(c);
}

/* Whether who is told so may try again, as nothing was done. */
static bool is_passing(int err)
{
	enum err_again again = err_again(err);

	return again == AGAIN_NOW || again == AGAIN_AFTER;
}

/* A question that changes something may have done so when it was sent before;
 * a refusal is about this time only. */
static void doubt_refusal(const struct rpc_call *call, struct rpc_reply *r)
{
	struct frame_request item;

	if (!call->resend || r->err == 0 || !is_passing(r->err))
		return;
	item = rpc_calls_request(call);
	if (frame_refusal(&item, r->err) == r->err)
		return;
	r->err = ERR_OUTCOME_UNKNOWN;
	r->body = str_from(err_text(r->err));
}

static void on_replies(struct rpc_client *c, const struct frame *f,
		       struct buf *memory)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct frame_reply *got = &f->replies[i];
		struct rpc_call *call = rpc_calls_find(c, got->id);
		struct rpc_reply r = { .err = got->err,
				       .seq = got->seq,
				       .body = got->body,
				       .memory = f->n == 1 ? memory : NULL };

		/* cancelled or timed out meanwhile */
		if (call == NULL || !call->sent)
			continue;
		doubt_refusal(call, &r);
		finish(c, call, &r);
	}
}

/* The server goes on, but not with this: it greets when it serves again. */
static void on_bye(struct rpc_client *c)
{
	on_down(c);
	on_up(c);
}

/* False: it cannot be the next one. */
static bool add_part(struct rpc_client *c, const struct frame_part *p)
{
	if (p->size > LIMIT_MESSAGE_BYTES || p->bytes.n == 0 ||
	    p->bytes.n > p->size - MIN(c->part.n, p->size))
		return false;
	if (c->part.n == 0)
		(void)buf_reserve(&c->part, p->size);
	buf_put_str(&c->part, p->bytes);
	return true;
}

/* parts: what it came together in, or NULL. */
static void on_frame(struct rpc_client *c, struct str in, struct buf *parts);

/* Callbacks may end the connection, and with it what comes on it. */
static void on_part(struct rpc_client *c, const struct frame_part *p)
{
	_cleanup_(buf_done) struct buf whole = BUF_INIT(0);

	if (!add_part(c, p)) {
		link_drop(c->link);
		return;
	}
	if (c->part.n < p->size)
		return;
	whole = c->part;
	c->part = BUF_INIT(0);
	on_frame(c, buf_str(&whole), &whole);
}

static bool may_come(enum frame_kind kind, const struct buf *parts)
{
	return kind == FRAME_REPLY ||
	       (parts == NULL && (kind == FRAME_HELLO || kind == FRAME_BYE ||
				  kind == FRAME_PART));
}

static void on_frame(struct rpc_client *c, struct str in, struct buf *parts)
{
	struct frame f;

	if (frame_decode(in, &c->arena, &f) < 0 || !may_come(f.kind, parts))
		link_drop(c->link);
	else if (f.epoch != c->epoch)
		log_debug("%s: a message of another connection", c->path);
	else if (f.kind == FRAME_HELLO)
		on_hello(c, &f);
	else if (f.kind == FRAME_REPLY)
		on_replies(c, &f, parts);
	else if (f.kind == FRAME_PART)
		on_part(c, &f.part);
	else
		on_bye(c);
}

static void on_message(void *ctx, const void *data, size_t n)
{
	struct rpc_client *c = ctx;

	if (c->state == CLIENT_DEAF)
		return;
	on_frame(c, str_of(data, n), NULL);
	arena_reset(&c->arena);
}

static void on_sent(void *ctx)
{
	rpc_client_flush(ctx);
}

static const struct link_ops link_ops = {
	.on_up = on_up,
	.on_down = on_down,
	.on_message = on_message,
	.on_sent = on_sent,
};

/* --- the rest of the interface --- */

static struct rpc_client *client_new(struct loop *l, const char *path,
				     enum proc_id self)
{
	struct rpc_client *c = xcalloc(1, sizeof(*c));

	c->self = self;
	c->path = xstrdup(path);
	c->origin = random_number();
	rpc_calls_init(c);
	c->timer = loop_timer_add(l, on_timer, c);
	return c;
}

struct rpc_client *rpc_client_to_node(struct loop *l, const char *name,
				      rpc_open_fn *open, void *ctx)
{
	struct rpc_client *c = client_new(l, name, PROC_RAFTD);

	c->to_node = true;
	c->link = open(ctx, &link_ops, c);
	return c;
}

struct rpc_client *rpc_client_new(struct ipc *i, const char *path,
				  enum proc_id self, struct buf *why)
{
	struct rpc_client *c = client_new(ipc_loop(i), path, self);

	if (ipc_dial(i, path, &link_ops, c, &c->link, why) < 0) {
		rpc_client_free(c);
		return NULL;
	}
	return c;
}

void rpc_client_free(struct rpc_client *c)
{
	if (c == NULL)
		return;
	link_close(c->link);
	loop_timer_remove(c->timer);
	rpc_calls_done(c);
	buf_done(&c->cancels);
	buf_done(&c->out);
	buf_done(&c->part);
	arena_done(&c->arena);
	free(c->path);
	free(c);
}

bool rpc_client_is_up(const struct rpc_client *c)
{
	return c->state == CLIENT_UP;
}

void rpc_client_on_state(struct rpc_client *c, void (*fn)(void *ctx, bool up),
			 void *ctx)
{
	c->on_state = fn;
	c->on_state_ctx = ctx;
}

void rpc_send_by(struct rpc_client *c, struct rpc_call *call, uint64_t by_ns)
{
	CHECK(call->deadline_ns != 0);
	if (!call->sent && by_ns < call->deadline_ns)
		rpc_calls_set_due(c, call, by_ns);
}

void rpc_client_flush_at(struct rpc_client *c, size_t calls)
{
	c->flush_at = calls;
}

size_t rpc_client_pending(const struct rpc_client *c)
{
	return c->n;
}
