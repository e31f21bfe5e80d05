/*
 * Entries: group commit and answers. See propose/proposer.h.
 *
 * Bodies of ops come from other processes of this node, which checked what
 * clients sent; the state machine decodes them once, at apply. Here only
 * fetches are looked into.
 */
#include <stdlib.h>

#include "propose/proposer_impl.h"
#include "util/clock.h"

#define ENTRY_KEEP_BYTES (4u << 20) /* of the buffer entries are built in */
#define CROWD            16         /* pending ops */
/* How often waiting ops are looked at for their deadline. */
#define LATE_LOOK_NS (50 * NS_PER_MS)

static void on_min_wait(void *ctx)
{
	(void)ctx; /* the pump at the end of this turn does the work */
}

struct proposer *proposer_new(const struct proposer_config *c)
{
	struct proposer *p = xcalloc(1, sizeof(*p));
	uint64_t seed;

	p->c = *c;
	list_init(&p->pending);
	list_init(&p->fences);
	list_init(&p->inflight);
	presence_init(&p->presence);
	p->entry = BUF_INIT(0);
	fetch_init(p);
	p->deadline = loop_timer_add(c->loop, fetch_on_deadline, p);
	p->look = loop_timer_add(c->loop, fetch_on_look, p);
	p->min_wait = loop_timer_add(c->loop, on_min_wait, p);
	p->late = loop_timer_add(c->loop, admission_on_late, p);
	time_new(p);
	p->stats.disk_ok = true;
	p->room = ROOM_NONE;
	admission_look_at_disk(p); /* before the log gives back any room */
	p->ops_max = SIZE_MAX;
	weight_begin(&p->weight);
	rng_system(&seed, sizeof(seed));
	rng_seed(&p->rng, seed);
	return p;
}

static void ops_free(struct proposer *p, struct list *ops)
{
	LIST_FOREACH_SAFE (it, ops)
		op_free(p, list_entry(it, struct op, node));
}

void proposer_free(struct proposer *p)
{
	if (p == NULL)
		return;
	fetch_drain(p);
	fences_free(&p->fences);
	ops_free(p, &p->pending);
	LIST_FOREACH_SAFE (it, &p->inflight) {
		struct batch *b = list_entry(it, struct batch, node);

		ops_free(p, &b->ops);
		fences_free(&b->fences);
		free(b);
	}
	lot_done(&p->lot);
	hmap_done(&p->fetches);
	presence_done(&p->presence);
	loop_timer_remove(p->deadline);
	loop_timer_remove(p->look);
	loop_timer_remove(p->min_wait);
	loop_timer_remove(p->late);
	time_free(p);
	buf_done(&p->entry);
	buf_done(&p->no_jobs);
	free(p->callers);
	arena_done(&p->scratch);
	free(p);
}

void proposer_set_node(struct proposer *p, struct node *n)
{
	p->node = n;
}

/* --- ops --- */

static struct op *op_new(struct rpc_req req, uint32_t id, uint32_t flags,
			 struct str key, struct str body)
{
	struct op *op = xmalloc(sizeof(*op) + key.n + body.n);
	char *tail = (char *)(op + 1);

	*op = (struct op){ .req = req, .id = id, .flags = flags };
	op->arrived_ns = clock_mono_ns();
	if (body.n > 0)
		memcpy(tail, body.p, body.n);
	if (key.n > 0)
		memcpy(tail + body.n, key.p, key.n);
	op->body = str_of(tail, body.n);
	op->key = str_of(tail + body.n, key.n);
	list_init(&op->node);
	return op;
}

void op_free(struct proposer *p, struct op *op)
{
	list_remove(&op->node);
	if (op->fetch != NULL)
		fetch_free(p, op);
	free(op->rest);
	free(op);
}

void op_reply(struct op *op, int err, uint64_t seq, struct str body)
{
	if (op->req.peer != NULL && !op->cancelled)
		rpc_reply(op->req, err, seq, body);
}

void op_refuse(struct proposer *p, struct op *op, int err, const char *text)
{
	if (op->flags & FRAME_RESEND || op->rest != NULL) {
		err = ERR_OUTCOME_UNKNOWN;
		text = err_text(err);
	}
	op_reply(op, err, 0, str_from(text));
	op_free(p, op);
}

void proposer_count(struct proposer *p, const struct op *op)
{
	p->stats.pending++;
	p->stats.pending_bytes += op->body.n;
}

/* The ops of an entry are applied, or given up. */
static void uncount(struct proposer *p, const struct batch *b)
{
	CHECK(p->stats.pending >= b->n && p->stats.pending_bytes >= b->bytes);
	p->stats.pending -= b->n;
	p->stats.pending_bytes -= b->bytes;
}

void proposer_enqueue(struct proposer *p, struct op *op)
{
	list_push_back(&p->pending, &op->node);
	proposer_count(p, op);
}

void pending_drop(struct proposer *p, struct op *op)
{
	CHECK(p->stats.pending > 0 && p->stats.pending_bytes >= op->body.n);
	list_remove(&op->node);
	p->stats.pending--;
	p->stats.pending_bytes -= op->body.n;
}

void proposer_submit(struct proposer *p, struct rpc_req req,
		     const struct frame_request *item)
{
	struct op *op =
	    op_new(req, item->op, item->flags, item->key, item->body);
	const char *text;
	int err;

	op->deadline_ns = item->deadline_ns;
	op->caller = (struct entry_caller){ item->origin, item->done };
	op->number = item->number;
	err = admission_judge(p, op, &text);
	if (err != 0)
		op_refuse(p, op, err, text);
	else if (op->id == OP_FETCH)
		fetch_submit(p, op);
	else
		proposer_enqueue(p, op);
}

void proposer_submit_own(struct proposer *p, uint32_t op, struct str body)
{
	proposer_enqueue(p,
			 op_new((struct rpc_req){ 0 }, op, 0, STR_NULL, body));
}

void put_own(struct proposer *p, uint32_t id, struct str body,
	     struct list *into, size_t *n)
{
	struct op *op = op_new((struct rpc_req){ 0 }, id, 0, STR_NULL, body);

	list_push_back(into, &op->node);
	proposer_count(p, op);
	(*n)++;
}

void proposer_renew(struct proposer *p)
{
	p->renew_due = true;
}

/* --- entries --- */

static uint64_t entry_now(struct proposer *p)
{
	p->clock.last_ns = proposer_now(p);
	return p->clock.last_ns;
}

static void batch_refuse(struct proposer *p, struct batch *b, int err)
{
	LIST_FOREACH_SAFE (it, &b->ops)
		op_refuse(p, list_entry(it, struct op, node), err,
			  err_text(err));
}

/* The entry was not taken, or may be applied yet, by whoever leads now. */
static void batch_fail(struct proposer *p, struct batch *b, int err)
{
	uncount(p, b);
	fences_pass_on(p, &b->fences, ERR_LEADER_UNAVAILABLE);
	LIST_FOREACH_SAFE (it, &b->ops)
		if (!pass_on(p, list_entry(it, struct op, node), err))
			op_refuse(p, list_entry(it, struct op, node), err,
				  err_text(err));
}

static void batch_end(struct batch *b)
{
	fences_pass_on(b->p, &b->fences, ERR_STORAGE_ERROR);
	if (b->has_clock)
		b->p->clock_inflight = false;
	b->p->inflight_n--;
	list_remove(&b->node);
	free(b);
}

/* An entry that was taken and not applied here may be applied yet. */
static void on_proposed(void *ctx, int err _unused_)
{
	struct batch *b = ctx;

	if (!b->applied)
		batch_fail(b->p, b, ERR_OUTCOME_UNKNOWN);
	batch_end(b);
}

/* may_be_empty: the entry itself is what is needed. */
static int propose_one(struct proposer *p, bool may_be_empty)
{
	struct batch *b = xcalloc(1, sizeof(*b));
	uint64_t now = clock_mono_ns();
	int r;

	b->p = p;
	list_init(&b->ops);
	list_init(&b->fences);
	entry_take(p, b, now);
	if (b->n == 0 && !may_be_empty) { /* all of them were too late */
		free(b);
		return 0;
	}
	list_move_all(&p->fences, &b->fences);
	b->now_ns = entry_now(p);
	entry_encode(p, b, b->now_ns);
	b->proposed_ns = now;
	LIST_FOREACH (it, &b->ops) {
		struct op *op = list_entry(it, struct op, node);

		/* some of ours came into being with this entry */
		hist_add(&p->stats.queue_time, &hist_short,
			 now - MIN(now, op->arrived_ns));
	}
	list_push_back(&p->inflight, &b->node);
	p->inflight_n++;
	p->stats.entries++;
	p->stats.ops += b->n;
	p->stats.crowded += p->stats.pending >= CROWD;
	r = node_propose(p->node, buf_str(&p->entry), &b->tag, on_proposed, b);
	if (r < 0) {
		if (b->has_clock)
			time_not_taken(p);
		batch_fail(p, b, -r);
		batch_end(b);
	}
	buf_shrink(&p->entry, ENTRY_KEEP_BYTES);
	return r;
}

/* True while apply_batch_min_wait asks for patience; arms its timer. */
static bool should_gather(struct proposer *p)
{
	const struct settings *s = p->c.settings;
	struct op *first = list_entry(p->pending.next, struct op, node);
	uint64_t age;

	if (s->apply_batch_min_wait == 0 || p->renew_due || time_is_due(p) ||
	    list_empty(&p->pending) || p->stats.pending >= s->apply_batch_max)
		return false;
	age = clock_mono_ns() - first->arrived_ns;
	if (age >= s->apply_batch_min_wait)
		return false;
	loop_timer_arm(p->min_wait, s->apply_batch_min_wait - age);
	return true;
}

/*
 * While there is little room, leases that were extended stay in memory:
 * nothing takes them back then.
 */
static bool has_work(const struct proposer *p)
{
	return !list_empty(&p->pending) || time_is_due(p) ||
	       (p->renew_due && p->stats.disk_ok);
}

static void fill_pipeline(struct proposer *p)
{
	bool fenced;

	if (p->node == NULL)
		return;
	if (node_is_frozen(p->node))
		admission_end(p);
	time_lead(p, node_is_ready(p->node));
	/* a leader that hands over takes no entries; it may lead on */
	if (!node_is_ready(p->node) || node_is_handing_over(p->node))
		return;
	if (p->unsure)
		fetch_look_again(p);
	fenced = fences_want(p); /* who is alone needs no room for them */
	if (!admission_has_room(p))
		return;
	while ((fenced || has_work(p)) &&
	       p->inflight_n < p->c.settings->apply_inflight) {
		if (should_gather(p) || admission_must_wait(p))
			return;
		if (propose_one(p, fenced) < 0 && list_empty(&p->pending))
			return; /* what is ours is tried again later */
		fenced = false; /* they are in that one */
	}
	if (p->inflight_n == 0 && p->stats.disk_ok && node_wants_entry(p->node))
		(void)propose_one(p, true);
}

void proposer_pump(struct proposer *p)
{
	/* no entry might come, by which it would freeze and hand over */
	if (p->node != NULL && fsm_is_broken(p->c.fsm))
		node_break(p->node);
	fill_pipeline(p);
	if (p->late_armed || list_empty(&p->pending))
		return;
	p->late_armed = true;
	loop_timer_arm(p->late, LATE_LOOK_NS);
}

/* --- apply --- */

struct answer_ctx {
	struct proposer *p;
	struct list *next; /* op the next reply belongs to */
	struct list again; /* those the entry had no room for */
	size_t done;
};

/* What is left of it goes into a later entry. */
static void op_again(struct op *op, struct str rest, struct list *into)
{
	char *p;

	op->again = true;
	if (!str_eq(rest, op->body)) {
		p = xmalloc(rest.n);
		memcpy(p, rest.p, rest.n);
		free(op->rest);
		op->rest = p;
		op->deadline_ns = 0;       /* what was begun is finished */
		op->flags |= FRAME_RESEND; /* by a second try, maybe */
		op->body = str_of(p, rest.n);
	}
	list_remove(&op->node);
	list_push_back(into, &op->node);
}

/*
 * They come first in the next entry, in their order. Entries take fewer ops as
 * long as they have no room for all, or most would be logged again and again.
 */
static void put_again(struct proposer *p, struct answer_ctx *a)
{
	if (list_empty(&a->again)) {
		p->ops_max = MAX(p->ops_max, p->ops_max * 2);
		return;
	}
	p->ops_max = MAX(a->done, (size_t)1);
	while (!list_empty(&a->again)) {
		struct op *op = list_entry(a->again.prev, struct op, node);

		list_remove(&op->node);
		list_push_front(&p->pending, &op->node);
		proposer_count(p, op);
	}
}

static void on_item(void *ctx, size_t item _unused_, int err, uint64_t seq,
		    struct str body)
{
	struct answer_ctx *a = ctx;
	struct op *op = list_entry(a->next, struct op, node);

	a->next = a->next->next;
	if (err == FSM_AGAIN) {
		op_again(op, body, &a->again);
		return;
	}
	a->done++;
	if (op->fetch != NULL) {
		fetch_applied(a->p, op, err, seq, body);
		return;
	}
	/* what was undone is the last part of it, and others were done */
	if (err == ERR_INTERNAL_ERROR && op->rest != NULL) {
		op_refuse(a->p, op, err, err_text(err));
		return;
	}
	op_reply(op, err, seq, body);
	op_free(a->p, op);
}

static void on_woken(void *ctx, struct str queue)
{
	fetch_wake(ctx, queue);
}

/* The one that is applied next, if it is ours. */
static struct batch *batch_of(struct proposer *p, const void *tag)
{
	if (tag == NULL || list_empty(&p->inflight))
		return NULL;
	LIST_FOREACH (it, &p->inflight) {
		struct batch *b = list_entry(it, struct batch, node);

		if (!b->applied)
			return b->tag == tag ? b : NULL;
	}
	return NULL;
}

uint64_t proposer_reclaims_upto(const struct proposer *p)
{
	uint64_t upto_ns = 0;

	LIST_FOREACH (it, &p->inflight) {
		const struct batch *b = list_entry(it, struct batch, node);

		if (b->reclaims && !b->applied)
			upto_ns = MAX(upto_ns, b->now_ns);
	}
	return upto_ns;
}

int proposer_apply(struct proposer *p, uint64_t raft_index, const void *tag,
		   struct str entry)
{
	uint64_t before = fsm_last_seq(p->c.fsm);
	struct batch *b = batch_of(p, tag);
	int r;

	if (b == NULL) {
		r = fsm_apply(p->c.fsm, raft_index, entry, NULL, NULL);
		admission_note_foreign(p, fsm_last_seq(p->c.fsm) - before);
	} else {
		struct answer_ctx a = { .p = p, .next = b->ops.next };
		uint64_t began_ns = clock_mono_ns(), now_ns;

		list_init(&a.again);
		b->applied = true;
		uncount(p, b);
		r = fsm_apply(p->c.fsm, raft_index, entry, on_item, &a);
		now_ns = clock_mono_ns();
		weight_took(&p->weight, b->weight, now_ns - began_ns);
		put_again(p, &a);
		if (r < 0) /* it is in the log, and may be applied yet */
			batch_refuse(p, b, ERR_OUTCOME_UNKNOWN);
		else
			fences_answer(p, &b->fences);
		hist_add(&p->stats.apply_time, &hist_short,
			 now_ns - b->proposed_ns);
	}
	fsm_take_woken(p->c.fsm, on_woken, p);
	fetch_arm_look(p);
	return r;
}

/* --- the rest --- */

void proposer_drain(struct proposer *p)
{
	p->draining = true;
	fetch_drain(p);
}

bool proposer_is_idle(const struct proposer *p)
{
	return list_empty(&p->pending) && p->inflight_n == 0 &&
	       list_empty(&p->fences);
}

const struct proposer_stats *proposer_stats(struct proposer *p)
{
	p->stats.parked = p->lot.parked;
	p->stats.clock_forward = p->clock.forward;
	p->stats.clock_back = p->clock.back;
	admission_look_at_disk(p);
	return &p->stats;
}
