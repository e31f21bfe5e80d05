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
#include "rt/rpc_impl.h"
#include "util/clock.h"
#include "util/heap.h"
#include "util/list.h"
#include "util/rng.h"

#define CALL_SLOTS_MIN 64

enum client_state {
	CLIENT_DOWN,
	CLIENT_GREET, /* link up, our hello has yet to be sent */
	CLIENT_WAIT,  /* it was sent, the server's has yet to come */
	CLIENT_UP,
	CLIENT_DEAF, /* the server has other tables */
};

struct rpc_call {
	struct list node;
	struct list kept;     /* in rpc_client.kept */
	struct heap_node due; /* key: when it is looked at, see on_timer */
	uint64_t deadline_ns; /* 0: none */
	uint64_t id;
	rpc_reply_fn *fn;
	void *ctx;
	size_t key_n;
	size_t body_n;
	uint32_t op;
	uint32_t flags; /* RPC_ */
	int timeout_err;
	bool sent;    /* on the present connection */
	bool resend;  /* was sent on an earlier one */
	char bytes[]; /* key, then body */
};

struct rpc_client {
	struct ipc_link *link;
	enum proc_id self;
	char *path;
	enum client_state state;
	uint64_t epoch;  /* of the present connection */
	uint64_t origin; /* who we are, on every connection */
	uint64_t last_id;
	struct list kept; /* calls whose answers the server keeps, by id */
	struct list unsent;
	size_t gathered; /* calls since the last flush */
	size_t flush_at; /* calls that are not left to gather; 0: no bound */
	struct list sent;
	struct rpc_call **slots; /* by id, open addressing */
	size_t slots_n;          /* a power of two */
	size_t n;                /* calls */
	struct heap due;
	struct loop_timer *timer;
	uint64_t timer_ns;  /* armed for; 0: not armed */
	struct buf cancels; /* uint64_t ids the server is to be told */
	struct buf out;
	struct arena arena; /* of the frame being read */
	void (*on_state)(void *ctx, bool up);
	void *on_state_ctx;
};

/* --- calls by id --- */

static size_t slot_of(const struct rpc_client *c, uint64_t id)
{
	/* Ids count up: the multiplication spreads long-lived ones. */
	return (size_t)((id * 0x9e3779b97f4a7c15ULL) >> 32) & (c->slots_n - 1);
}

static size_t find_slot(const struct rpc_client *c, uint64_t id)
{
	size_t at = slot_of(c, id);

	while (c->slots[at] != NULL && c->slots[at]->id != id)
		at = (at + 1) & (c->slots_n - 1);
	return at;
}

static void resize_slots(struct rpc_client *c, size_t slots_n)
{
	struct rpc_call **old = c->slots;
	size_t old_n = c->slots_n;

	c->slots = xcalloc(slots_n, sizeof(struct rpc_call *));
	c->slots_n = slots_n;
	for (size_t i = 0; i < old_n; i++)
		if (old[i] != NULL)
			c->slots[find_slot(c, old[i]->id)] = old[i];
	free(old);
}

static void add_call(struct rpc_client *c, struct rpc_call *call)
{
	if (c->n * 2 >= c->slots_n)
		resize_slots(c, c->slots_n * 2);
	c->slots[find_slot(c, call->id)] = call;
	c->n++;
}

/* Moves later entries of the run back, so that no hole breaks a search. */
static void remove_slot(struct rpc_client *c, size_t hole)
{
	size_t mask = c->slots_n - 1;

	c->slots[hole] = NULL;
	for (size_t at = (hole + 1) & mask; c->slots[at] != NULL;
	     at = (at + 1) & mask) {
		size_t home = slot_of(c, c->slots[at]->id);

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		c->slots[hole] = c->slots[at];
		c->slots[at] = NULL;
		hole = at;
	}
}

static void take_call(struct rpc_client *c, struct rpc_call *call)
{
	size_t at = find_slot(c, call->id);

	CHECK(c->slots[at] == call);
	remove_slot(c, at);
	c->n--;
	list_remove(&call->node);
	list_remove(&call->kept);
	heap_remove(&c->due, &call->due);
}

static void finish(struct rpc_client *c, struct rpc_call *call,
		   const struct rpc_reply *r)
{
	take_call(c, call);
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

static void tell_cancel(struct rpc_client *c, const struct rpc_call *call)
{
	if (call->sent && c->state == CLIENT_UP)
		buf_append(&c->cancels, &call->id, sizeof(call->id));
}

/* --- deadlines --- */

/* The timer is moved only to an earlier moment; a late one costs nothing. */
static void arm_timer(struct rpc_client *c)
{
	struct heap_node *min = heap_min(&c->due);
	uint64_t now_ns;

	if (min == NULL || (c->timer_ns != 0 && c->timer_ns <= min->key))
		return;
	now_ns = clock_mono_ns();
	c->timer_ns = min->key;
	loop_timer_arm(c->timer, min->key > now_ns ? min->key - now_ns : 0);
}

static void set_due(struct rpc_client *c, struct rpc_call *call, uint64_t ns)
{
	call->due.tie = call->id;
	heap_update(&c->due, &call->due, ns);
	arm_timer(c);
}

/* The server withdraws it now if it still waits there, and will say so. */
static bool is_awaited(const struct rpc_call *call)
{
	return (call->flags & RPC_CHANGES) && call->sent &&
	       call->due.key < call->deadline_ns + RPC_LATE_NS;
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
			set_due(c, call, call->deadline_ns + RPC_LATE_NS);
			continue;
		}
		tell_cancel(c, call);
		finish_timeout(c, call);
	}
	arm_timer(c);
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
	r = ipc_send(c->link, c->out.p, c->out.n);
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
	struct frame_request r = {
		.id = call->id,
		.op = call->op,
		.flags = call->resend ? FRAME_RESEND : 0,
		.deadline_ns = call->deadline_ns,
		.key = str_of(call->bytes, call->key_n),
		.body = str_of(call->bytes + call->key_n, call->body_n),
	};

	if (call->flags & RPC_KEEP) {
		r.flags |= FRAME_KEEP;
		r.done = done;
	}
	frame_add_request(w, &r);
}

/* Moves the nodes from first up to, not including, end to the tail of l. */
static void splice_back(struct list *l, struct list *first, struct list *end)
{
	struct list *last = end->prev;

	if (first == end)
		return;
	first->prev->next = end;
	end->prev = first->prev;
	first->prev = l->prev;
	last->next = l;
	l->prev->next = first;
	l->prev = last;
}

static void note_sent(struct rpc_client *c, struct rpc_call *call)
{
	call->sent = true;
	if (call->due.key < call->deadline_ns)
		set_due(c, call, call->deadline_ns);
}

static int send_requests(struct rpc_client *c)
{
	struct list *first = c->unsent.next, *end = first;
	uint64_t done = done_below(c);
	struct frame_writer w;
	int r;

	frame_begin(&w, &c->out, FRAME_REQUEST, c->epoch);
	for (; end != &c->unsent; end = end->next) {
		struct rpc_call *call = list_entry(end, struct rpc_call, node);

		if (w.n > 0 && c->out.n + call->body_n > RPC_FRAME_BYTES)
			break;
		put_request(&w, call, done);
	}
	frame_end(&w);
	r = ipc_send(c->link, c->out.p, c->out.n);
	if (r < 0)
		return r;
	for (struct list *it = first; it != end; it = it->next)
		note_sent(c, list_entry(it, struct rpc_call, node));
	splice_back(&c->sent, first, end);
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
	while (r == 0 && ipc_is_up(c->link) && !ipc_is_sending(c->link)) {
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
	LIST_FOREACH (it, &c->sent) {
		struct rpc_call *call = list_entry(it, struct rpc_call, node);

		call->sent = false;
		call->resend = true;
	}
	/* sent, then unsent: the order in which they were made */
	splice_back(&c->sent, c->unsent.next, &c->unsent);
	splice_back(&c->unsent, c->sent.next, &c->sent);
	end_once(c);
	if (was_up && c->on_state != NULL)
		c->on_state(c->on_state_ctx, false);
}

static void on_hello(struct rpc_client *c, const struct frame *f)
{
	if (c->state != CLIENT_WAIT)
		return;
	if (!rpc_hello_check(&f->hello, c->path)) {
		c->state = CLIENT_DEAF;
		return;
	}
	set_state(c, CLIENT_UP);
	rpc_client_flush(c);
}

static void on_replies(struct rpc_client *c, const struct frame *f)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct frame_reply *got = &f->replies[i];
		struct rpc_call *call = c->slots[find_slot(c, got->id)];
		struct rpc_reply r = { .err = got->err,
				       .seq = got->seq,
				       .body = got->body };

		/* cancelled or timed out meanwhile */
		if (call == NULL || !call->sent)
			continue;
		finish(c, call, &r);
	}
}

static void on_message(void *ctx, const void *data, size_t n)
{
	struct rpc_client *c = ctx;
	struct frame f;
	int r;

	if (c->state == CLIENT_DEAF)
		return;
	r = frame_decode(str_of(data, n), &c->arena, &f);
	if (r < 0 || (f.kind != FRAME_HELLO && f.kind != FRAME_REPLY))
		ipc_drop(c->link);
	else if (f.epoch != c->epoch)
		log_debug("%s: a message of another connection", c->path);
	else if (f.kind == FRAME_HELLO)
		on_hello(c, &f);
	else
		on_replies(c, &f);
	arena_reset(&c->arena);
}

static void on_sent(void *ctx)
{
	rpc_client_flush(ctx);
}

static const struct ipc_ops link_ops = {
	.on_up = on_up,
	.on_down = on_down,
	.on_message = on_message,
	.on_sent = on_sent,
};

/* --- the rest of the interface --- */

struct rpc_client *rpc_client_new(struct ipc *i, const char *path,
				  enum proc_id self, struct buf *why)
{
	struct rpc_client *c = xcalloc(1, sizeof(*c));

	c->self = self;
	c->path = xstrdup(path);
	c->origin = random_number();
	list_init(&c->kept);
	list_init(&c->unsent);
	list_init(&c->sent);
	resize_slots(c, CALL_SLOTS_MIN);
	c->timer = loop_timer_add(ipc_loop(i), on_timer, c);
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
	ipc_close(c->link);
	loop_timer_remove(c->timer);
	for (size_t i = 0; i < c->slots_n; i++)
		free(c->slots[i]);
	free(c->slots);
	heap_done(&c->due);
	buf_done(&c->cancels);
	buf_done(&c->out);
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

struct rpc_call *rpc_call(struct rpc_client *c, unsigned id, struct str key,
			  struct str body, uint64_t deadline_ns,
			  int timeout_err, unsigned flags, rpc_reply_fn *fn,
			  void *ctx)
{
	struct rpc_call *call = xmalloc(sizeof(*call) + key.n + body.n);

	CHECK(key.n + body.n <= RPC_BODY_BYTES);
	CHECK(timeout_err > 0);
	*call = (struct rpc_call){
		.id = ++c->last_id,
		.fn = fn,
		.ctx = ctx,
		.key_n = key.n,
		.body_n = body.n,
		.op = id,
		.flags = flags,
		.deadline_ns = deadline_ns,
		.timeout_err = timeout_err,
	};
	if (key.n > 0)
		memcpy(call->bytes, key.p, key.n);
	if (body.n > 0)
		memcpy(call->bytes + key.n, body.p, body.n);
	list_push_back(&c->unsent, &call->node);
	list_init(&call->kept);
	if (flags & RPC_KEEP)
		list_push_back(&c->kept, &call->kept);
	add_call(c, call);
	if (deadline_ns != 0)
		set_due(c, call, deadline_ns);
	if (++c->gathered == c->flush_at)
		rpc_client_flush(c);
	return call;
}

void rpc_send_by(struct rpc_client *c, struct rpc_call *call, uint64_t by_ns)
{
	CHECK(call->deadline_ns != 0);
	if (!call->sent && by_ns < call->deadline_ns)
		set_due(c, call, by_ns);
}

void rpc_client_flush_at(struct rpc_client *c, size_t calls)
{
	c->flush_at = calls;
}

void rpc_cancel(struct rpc_client *c, struct rpc_call *call)
{
	tell_cancel(c, call);
	take_call(c, call);
	free(call);
}

size_t rpc_client_pending(const struct rpc_client *c)
{
	return c->n;
}
