/*
 * Calls of a client: by id, by the moment they are looked at, in the order they
 * were made. See rt/rpc.h.
 */
#include <stdlib.h>

#include "rt/rpc_client.h"
#include "util/clock.h"

#define CALL_SLOTS_MIN 64
#define ABANDONED_NS   (10 * NS_PER_S) /* an answer is waited for */

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

void rpc_calls_take(struct rpc_client *c, struct rpc_call *call)
{
	size_t at = find_slot(c, call->id);

	CHECK(c->slots[at] == call);
	remove_slot(c, at);
	c->n--;
	list_remove(&call->node);
	list_remove(&call->kept);
	heap_remove(&c->due, &call->due);
}

void rpc_calls_init(struct rpc_client *c)
{
	list_init(&c->kept);
	list_init(&c->unsent);
	list_init(&c->sent);
	resize_slots(c, CALL_SLOTS_MIN);
}

void rpc_calls_done(struct rpc_client *c)
{
	for (size_t i = 0; i < c->slots_n; i++)
		free(c->slots[i]);
	free(c->slots);
	heap_done(&c->due);
}

struct rpc_call *rpc_calls_find(const struct rpc_client *c, uint64_t id)
{
	return c->slots[find_slot(c, id)];
}

/* --- deadlines --- */

/* The timer is moved only to an earlier moment; a late one costs nothing. */
void rpc_calls_arm(struct rpc_client *c)
{
	struct heap_node *min = heap_min(&c->due);
	uint64_t now_ns;

	if (min == NULL || (c->timer_ns != 0 && c->timer_ns <= min->key))
		return;
	now_ns = clock_mono_ns();
	c->timer_ns = min->key;
	loop_timer_arm(c->timer, min->key > now_ns ? min->key - now_ns : 0);
}

void rpc_calls_set_due(struct rpc_client *c, struct rpc_call *call, uint64_t ns)
{
	call->due.tie = call->id;
	heap_update(&c->due, &call->due, ns);
	rpc_calls_arm(c);
}

/* --- making and ending --- */

void rpc_calls_tell_cancel(struct rpc_client *c, const struct rpc_call *call)
{
	if (call->sent && c->state == CLIENT_UP)
		buf_append(&c->cancels, &call->id, sizeof(call->id));
}

struct frame_request rpc_calls_request(const struct rpc_call *call)
{
	return (struct frame_request){
		.id = call->id,
		.op = call->op,
		.flags = call->frame_flags | (call->resend ? FRAME_RESEND : 0),
		.deadline_ns = call->deadline_ns,
		.done = call->done,
		.origin = call->origin,
		.number = call->number,
		.key = str_of(call->bytes, call->key_n),
		.body = str_of(call->bytes + call->key_n, call->body_n),
	};
}

void rpc_calls_splice(struct list *l, struct list *first, struct list *end)
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

static struct rpc_call *call_new(struct rpc_client *c, unsigned id,
				 struct str key, struct str body,
				 uint64_t deadline_ns)
{
	struct rpc_call *call;

	REQUIRE(key.n + body.n <= RPC_BODY_BYTES);
	call = xmalloc(sizeof(*call) + key.n + body.n);
	*call = (struct rpc_call){
		.id = ++c->last_id,
		.key_n = key.n,
		.body_n = body.n,
		.op = id,
		.deadline_ns = deadline_ns,
	};
	if (key.n > 0)
		memcpy(call->bytes, key.p, key.n);
	if (body.n > 0)
		memcpy(call->bytes + key.n, body.p, body.n);
	list_push_back(&c->unsent, &call->node);
	list_init(&call->kept);
	add_call(c, call);
	if (deadline_ns != 0)
		rpc_calls_set_due(c, call, deadline_ns);
	return call;
}

struct rpc_call *rpc_call(struct rpc_client *c, unsigned id, struct str key,
			  struct str body, uint64_t deadline_ns,
			  int timeout_err, unsigned flags, rpc_reply_fn *fn,
			  void *ctx)
{
	struct rpc_call *call = call_new(c, id, key, body, deadline_ns);

	CHECK(timeout_err > 0);
	call->fn = fn;
	call->ctx = ctx;
	call->flags = flags;
	call->timeout_err = timeout_err;
	if (flags & RPC_KEEP)
		list_push_back(&c->kept, &call->kept);
	if (++c->gathered == c->flush_at)
		rpc_client_flush(c);
	return call;
}

struct rpc_call *rpc_forward(struct rpc_client *c,
			     const struct frame_request *item, int timeout_err,
			     rpc_reply_fn *fn, void *ctx)
{
	struct rpc_call *call =
	    call_new(c, item->op, item->key, item->body, item->deadline_ns);

	CHECK(c->to_node && timeout_err > 0);
	call->fn = fn;
	call->ctx = ctx;
	call->flags = call_changes(item->op) ? RPC_CHANGES : 0;
	call->timeout_err = timeout_err;
	call->frame_flags = item->flags & FRAME_KEEP;
	call->resend = item->flags & FRAME_RESEND;
	call->origin = item->origin;
	call->number = item->number;
	call->done = item->done;
	return call;
}

void rpc_client_take_back(struct rpc_client *c, rpc_taken_fn *fn, void *arg)
{
	struct list all;

	list_init(&all);
	rpc_calls_splice(&all, c->sent.next, &c->sent);
	rpc_calls_splice(&all, c->unsent.next, &c->unsent);
	while (!list_empty(&all)) {
		struct rpc_call *call =
		    list_entry(all.next, struct rpc_call, node);
		struct frame_request r;

		rpc_calls_tell_cancel(c, call);
		call->resend |= call->sent;
		r = rpc_calls_request(call);
		rpc_calls_take(c, call);
		fn(arg, call->ctx, &r);
		free(call);
	}
}

void rpc_cancel(struct rpc_client *c, struct rpc_call *call)
{
	rpc_calls_tell_cancel(c, call);
	rpc_calls_take(c, call);
	free(call);
}

void rpc_when_late(struct rpc_call *call, rpc_reply_fn *late, void *ctx)
{
	call->late = late;
	call->late_ctx = ctx;
}

bool rpc_abandon(struct rpc_client *c, struct rpc_call *call, rpc_reply_fn *fn,
		 void *ctx)
{
	uint64_t end_ns = clock_mono_ns() + ABANDONED_NS;

	if (!call->sent && !call->resend) {
		rpc_cancel(c, call);
		return true;
	}
	rpc_calls_tell_cancel(c, call);
	call->abandoned = true;
	call->late = NULL;
	call->fn = fn;
	call->ctx = ctx;
	if (call->deadline_ns == 0 || call->deadline_ns > end_ns) {
		call->deadline_ns = end_ns;
		rpc_calls_set_due(c, call, end_ns);
	}
	return false;
}

/* What ends is ended by the timer: a callback may make calls, and end some. */
static void hurry(struct rpc_client *c, struct list *calls, uint64_t now_ns)
{
	LIST_FOREACH (it, calls) {
		struct rpc_call *call = list_entry(it, struct rpc_call, node);

		if (call->deadline_ns == 0)
			continue;
		if (call->flags & RPC_CHANGES)
			rpc_calls_tell_cancel(c, call);
		if (call->deadline_ns <= now_ns)
			continue;
		call->deadline_ns = now_ns;
		rpc_calls_set_due(c, call, now_ns);
	}
}

void rpc_client_hurry(struct rpc_client *c)
{
	uint64_t now_ns = clock_mono_ns();

	hurry(c, &c->sent, now_ns);
	hurry(c, &c->unsent, now_ns);
}
