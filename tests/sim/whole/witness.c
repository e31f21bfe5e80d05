#include "witness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "component/fsm_fixture.h"
#include "fetches.h"
#include "proto/msg_json.h"
#include "store/digest.h"
#include "util/clock.h"
#include "util/hash.h"
#include "whole.h"

#define CHECK_EVERY 500 /* entries between looks at the whole store */
#define LIFE_MEAN   80  /* entries until it is loaded anew */

/* What an entry was, and what came of it. */
struct seen {
	uint64_t bytes, answers, weight;
};

/* What became of a request of a client. */
struct outcome {
	bool is_answered; /* it is in an entry, and was not put off */
	bool is_begun;    /* a part of it is done */
	bool is_refused;  /* its client was told that nothing was done */
	bool is_told;     /* its client was told the answer */
	int err;
	uint64_t seq, body;
};

struct witness {
	struct whole *w;
	struct fx x; /* only the side in memory */
	struct entry_origin origin;
	struct seen *seen; /* by index */
	size_t seen_n;
	uint64_t index;
	struct hmap outcomes;
	struct fetches *fetches;
	struct arena arena;
	uint64_t entries, life, check_every;
	struct rng rng; /* what the world does is not to depend on it */
};

static struct fx_side *side(struct witness *x)
{
	return &x->x.side[FX_MEM];
}

static void load(struct witness *x)
{
	struct fx_side *s = side(x);

	fsm_free(s->f);
	s->f = fsm_new(s->kv);
	CHECK(fsm_load(s->f) == 0);
	x->life = 1 + rng_below(&x->rng, 2 * LIFE_MEAN);
}

struct witness *witness_new(struct whole *w)
{
	struct witness *x = xcalloc(1, sizeof(*x));
	const char *every = getenv("CORVO_TEST_CHECK");

	x->w = w;
	x->fetches = fetches_new(w);
	x->check_every = CHECK_EVERY;
	if (every != NULL)
		CHECK(str_parse_u64(str_from(every), &x->check_every));
	rng_seed(&x->rng, w->sim->seed);
	side(x)->kv = kv_mem_new();
	load(x);
	return x;
}

void witness_begin_with(struct witness *x, struct kv *kv)
{
	kv_close(side(x)->kv);
	side(x)->kv = kv;
	load(x);
	x->index = x->x.raft_index = fsm_applied_index(side(x)->f);
}

void witness_free(struct witness *x)
{
	struct str key;
	size_t pos = 0;
	void *v;

	while (hmap_next(&x->outcomes, &pos, &key, &v))
		free(v);
	hmap_done(&x->outcomes);
	fetches_free(x->fetches);
	fsm_free(side(x)->f);
	kv_close(side(x)->kv);
	arena_done(&x->arena);
	free(x->seen);
	free(x);
}

struct fx *witness_fx(struct witness *x)
{
	x->x.now_ns = MAX(clock_wall_ns(), x->x.last_ns);
	return &x->x;
}

uint64_t witness_seq(const struct witness *x)
{
	return fsm_last_seq(x->x.side[FX_MEM].f);
}

uint64_t witness_first_seq(const struct witness *x)
{
	return fsm_first_seq(x->x.side[FX_MEM].f);
}

struct fsm *witness_fsm(struct witness *x)
{
	return side(x)->f;
}

bool witness_job(struct witness *x, struct str job_id, struct arena *a,
		 struct m_job *ret)
{
	return record_job(side(x)->kv, job_id, 0, a, ret) > 0;
}

static uint64_t event_hash(const struct m_event *e)
{
	struct buf b = BUF_INIT(0);
	uint64_t ret;

	msg_encode(&msg_event, e, &b);
	ret = hash_stable(b.p, b.n);
	buf_done(&b);
	return ret;
}

struct fetches *witness_fetches(struct witness *x)
{
	return x->fetches;
}

void witness_look_at_events(struct witness *x, uint64_t after_seq,
			    const struct m_events_reply *m)
{
	struct arena a = ARENA_INIT;
	struct m_events_reply own;
	uint64_t first = witness_first_seq(x);
	size_t at = 0;

	CHECK(record_events(side(x)->kv, after_seq, (uint32_t)m->events_n, &a,
			    &own) == 0);
	for (size_t i = 0; i < m->events_n; i++) {
		const struct m_event *e = &m->events[i];

		if (e->seq < first)
			continue; /* it is not kept any more */
		if (at == own.events_n || own.events[at].seq != e->seq ||
		    event_hash(&own.events[at++]) != event_hash(e))
			whole_fail(x->w,
				   "event %" PRIu64 " is another one than in "
				   "the log",
				   e->seq);
	}
	arena_done(&a);
}

void witness_tell(struct witness *x, struct str job_id, struct buf *ret)
{
	static const struct json_style style;
	struct json_writer jw = JSON_WRITER(ret);
	struct arena a = ARENA_INIT;
	struct m_job j;

	if (record_job(side(x)->kv, job_id, RECORD_ALL, &a, &j) > 0)
		msg_to_json(&msg_job, &j, &style, &jw);
	arena_done(&a);
}

/* --- requests --- */

static struct outcome *outcome_of(struct witness *x, uint64_t origin,
				  uint64_t number)
{
	uint64_t key[2] = { origin, number };
	struct str k = str_of(key, sizeof(key));
	struct outcome *o = hmap_get(&x->outcomes, k);

	if (o == NULL) {
		o = xcalloc(1, sizeof(*o));
		(void)hmap_put(&x->outcomes, k, o);
	}
	return o;
}

static bool is_unknown(int err)
{
	return err == ERR_OUTCOME_UNKNOWN || err == ERR_INTERNAL_ERROR;
}

static uint64_t hash_of(struct str s)
{
	return s.n > 0 ? hash_stable(s.p, s.n) : 0;
}

/* One that comes again is answered as it was the first time. */
static void note_again(struct witness *x, const struct outcome *o,
		       const struct entry_item *i, int err, uint64_t seq,
		       struct str body)
{
	if (err == FSM_AGAIN || is_unknown(err))
		return;
	if (o->err != err || o->seq != seq || o->body != hash_of(body))
		whole_fail(x->w,
			   "%s comes again, and is carried out again: %s at "
			   "event %" PRIu64 ", before it was %s at %" PRIu64,
			   op_info(i->op)->name, err ? err_code(err) : "done",
			   seq, o->err ? err_code(o->err) : "done", o->seq);
}

static void note_answer(struct witness *x, const struct entry *e,
			const struct entry_item *i, int err, uint64_t seq,
			struct str body)
{
	struct outcome *o;

	if (i->caller == 0)
		return;
	o = outcome_of(x, e->callers[i->caller - 1].origin, i->id);
	if (o->is_answered) {
		note_again(x, o, i, err, seq, body);
		return;
	}
	if (err == FSM_AGAIN) {
		o->is_begun = o->is_begun || !str_eq(body, i->body);
		return;
	}
	if (is_unknown(err))
		return;
	if (o->is_refused && err == 0)
		whole_fail(x->w, "%s was refused, and is done all the same",
			   op_info(i->op)->name);
	*o = (struct outcome){ .is_answered = true,
			       .err = err,
			       .seq = seq,
			       .body = hash_of(body) };
}

/* Answered from memory. */
static bool needs_no_entry(unsigned op)
{
	return op == OP_HEARTBEAT;
}

/* What a node may say by itself; all else is an answer of the log. */
static bool needs_no_word(int err)
{
	return err == ERR_LEADER_UNAVAILABLE || err == ERR_STORAGE_FULL ||
	       err == ERR_STORAGE_ERROR || err == ERR_SHUTTING_DOWN ||
	       err == ERR_OVERLOADED || err == ERR_UNSUPPORTED ||
	       err == ERR_REQUEST_TIMEOUT;
}

static void hear_refusal(struct witness *x, const struct witness_call *c,
			 struct outcome *o, int err)
{
	if (o->is_begun || (o->is_answered && o->err == 0))
		whole_fail(x->w, "%s is refused (%s), and %s",
			   op_info(c->op)->name, err_code(err),
			   o->is_begun ? "a part of it is done" : "it is done");
	if (!needs_no_word(err) && (!o->is_answered || o->err != err))
		whole_fail(x->w, "%s is refused (%s), and the log says %s",
			   op_info(c->op)->name, err_code(err),
			   o->is_answered ? err_code(o->err) : "nothing");
	o->is_refused = true;
}

void witness_hear(struct witness *x, const struct witness_call *c,
		  const struct rpc_reply *r)
{
	struct outcome *o;

	if (is_unknown(r->err) || (needs_no_entry(c->op) && r->err == 0))
		return;
	o = outcome_of(x, c->origin, c->number);
	if (r->err != 0) {
		hear_refusal(x, c, o, r->err);
		return;
	}
	if (!o->is_answered)
		whole_fail(x->w, "%s is answered, and is in no entry",
			   op_info(c->op)->name);
	if (o->err != 0)
		whole_fail(x->w, "%s is answered, and was refused (%s)",
			   op_info(c->op)->name, err_code(o->err));
	if (o->seq != r->seq || o->body != hash_of(r->body))
		whole_fail(x->w,
			   "%s is answered otherwise than it was in the log, "
			   "at event %" PRIu64 " instead of %" PRIu64,
			   op_info(c->op)->name, r->seq, o->seq);
	if (o->is_told)
		whole_fail(x->w, "%s is answered twice", op_info(c->op)->name);
	o->is_told = true;
	x->w->acked = MAX(x->w->acked, r->seq);
}

/* --- entries --- */

int __real_fsm_apply(struct fsm *f, uint64_t index, struct str entry,
		     fsm_reply_fn *fn, void *ctx);
void __real_fsm_set_origin(struct fsm *f, const struct entry_origin *o);
int __wrap_fsm_apply(struct fsm *f, uint64_t index, struct str entry,
		     fsm_reply_fn *fn, void *ctx);
void __wrap_fsm_set_origin(struct fsm *f, const struct entry_origin *o);

static struct seen *seen_at(struct witness *x, uint64_t index)
{
	size_t n = x->seen_n;

	if (index >= n) {
		x->seen_n = MAX(2 * n, (size_t)index + 1024);
		x->seen = xrealloc(x->seen, x->seen_n * sizeof(*x->seen));
		memset(x->seen + n, 0, (x->seen_n - n) * sizeof(*x->seen));
	}
	return &x->seen[index];
}

/* Passes answers on, and makes a number of all of them. */
struct listener {
	fsm_reply_fn *fn;
	void *ctx;
	uint64_t hash;
	struct witness *x;     /* of its own answers; else NULL */
	const struct entry *e; /* the same */
};

static void on_reply(void *ctx, size_t item, int err, uint64_t seq,
		     struct str body)
{
	struct listener *l = ctx;
	uint64_t parts[] = { l->hash, item, (uint64_t)err, seq, hash_of(body) };

	l->hash = hash_stable(parts, sizeof(parts));
	if (l->x != NULL && err != FSM_AGAIN)
		whole_count(l->x->w, l->e->items[item].op, err);
	if (l->x != NULL)
		note_answer(l->x, l->e, &l->e->items[item], err, seq, body);
	if (l->x != NULL && err == 0 && l->e->items[item].op == OP_FETCH)
		fetches_note(l->x->fetches, l->e->items[item].body, body);
	if (l->fn != NULL)
		l->fn(l->ctx, item, err, seq, body);
}

static void on_fault(void *ctx, const struct fsm_fault *fault)
{
	struct witness *x = ctx;

	whole_fail(x->w, "%s fails a check at %s:%d: %s",
		   op_info(fault->op)->name, fault->file, fault->line,
		   fault->what);
}

static void pass_time(struct witness *x, uint64_t now_ns)
{
	struct fx_side *s = side(x);

	s->latest_ns = MAX(s->latest_ns, now_ns);
	s->back_ns += x->x.last_ns - MIN(x->x.last_ns, now_ns);
	x->x.last_ns = now_ns;
}

/* The first time that anybody applies it. */
static void take(struct witness *x, uint64_t index, struct str raw)
{
	struct seen *s = seen_at(x, index);
	struct listener l = { .x = x };
	struct entry e;
	int r;

	x->index = x->x.raft_index = index;
	arena_reset(&x->arena);
	if (entry_decode(raw, &x->arena, &e) < 0)
		whole_fail(x->w, "entry %" PRIu64 " cannot be read", index);
	l.e = &e;
	if (--x->life == 0)
		load(x);
	__real_fsm_set_origin(side(x)->f, &x->origin);
	r = __real_fsm_apply(side(x)->f, index, raw, on_reply, &l);
	if (r < 0)
		whole_fail(x->w, "entry %" PRIu64 " cannot be applied: %d",
			   index, r);
	fsm_each_fault(side(x)->f, on_fault, x);
	pass_time(x, e.now_ns);
	*s = (struct seen){ .bytes = hash_of(raw) | 1,
			    .answers = l.hash,
			    .weight = fsm_entry_weight(side(x)->f) };
	if (++x->entries % x->check_every == 0)
		witness_check(x);
}

static void compare(struct witness *x, uint64_t index, uint64_t answers,
		    uint64_t weight)
{
	const struct seen *s = seen_at(x, index);
	unsigned node = machine_of_loop(sim_here())->host.number;

	if (s->answers != answers)
		whole_fail(x->w,
			   "node %u answers entry %" PRIu64
			   " otherwise than others",
			   node, index);
	if (s->weight != weight)
		whole_fail(x->w,
			   "entry %" PRIu64 " weighs %" PRIu64
			   " for node %u, and %" PRIu64 " for others",
			   index, weight, node, s->weight);
}

void __wrap_fsm_set_origin(struct fsm *f, const struct entry_origin *o)
{
	if (sim_here() != NULL)
		machine_of_loop(sim_here())->w->witness->origin = *o;
	__real_fsm_set_origin(f, o);
}

int __wrap_fsm_apply(struct fsm *f, uint64_t index, struct str entry,
		     fsm_reply_fn *fn, void *ctx)
{
	struct witness *x = machine_of_loop(sim_here())->w->witness;
	struct listener l = { .fn = fn, .ctx = ctx };
	bool is_new = index > fsm_applied_index(f);
	int r;

	if (index > x->index)
		take(x, index, entry);
	else if (seen_at(x, index)->bytes != (hash_of(entry) | 1))
		whole_fail(x->w, "entry %" PRIu64 " is another one than before",
			   index);
	r = __real_fsm_apply(f, index, entry, on_reply, &l);
	if (r == 0 && is_new)
		compare(x, index, l.hash, fsm_entry_weight(f));
	return r;
}

/* --- the level: how old the oldest node is --- */

uint32_t __real_fsm_level_for(const struct fsm *f, const uint64_t *voters,
			      size_t n, uint64_t self);
uint32_t __wrap_fsm_level_for(const struct fsm *f, const uint64_t *voters,
			      size_t n, uint64_t self);

uint32_t __wrap_fsm_level_for(const struct fsm *f, const uint64_t *voters,
			      size_t n, uint64_t self)
{
	const struct whole *w = machine_of_loop(sim_here())->w;

	if (w->sim->now_ns < w->plan.old_ns)
		return fsm_level(f);
	return __real_fsm_level_for(f, voters, n, self);
}

/* --- its store --- */

/* They end the process when something is wrong. */
static void look_through(struct fx_side *s)
{
	fx_check_side(s);
	fx_check_hooks(s);
	fx_check_sdb(s);
	fx_check_webhooks(s);
	fx_check_policies(s);
}

void witness_check(struct witness *x)
{
	(void)snprintf(x->w->verdict, WHOLE_VERDICT_BYTES,
		       "the state contradicts itself at entry %" PRIu64,
		       x->index);
	look_through(side(x));
	x->w->verdict[0] = '\0';
}

void witness_check_node(struct witness *x, struct machine *m)
{
	struct parts *p = machine_parts(m);
	struct fx_side its = *side(x);
	struct loop *before = sim_enter(&m->host.loop);

	(void)snprintf(x->w->verdict, WHOLE_VERDICT_BYTES,
		       "the state of node %u contradicts itself at entry "
		       "%" PRIu64,
		       m->host.number, x->index);
	its.f = p->fsm;
	its.kv = p->kv;
	CHECK(fsm_flush(its.f) == 0);
	look_through(&its);
	x->w->verdict[0] = '\0';
	(void)sim_enter(before);
}

static void digest(struct kv *kv, struct digest_result *ret)
{
	struct digest *d = digest_new(kv);

	while (digest_step(d, SIZE_MAX) > 0)
		;
	digest_result(d, ret);
	digest_free(d);
}

bool witness_compare(struct witness *x, struct machine *m)
{
	struct parts *p = machine_parts(m);
	struct digest_result mine, its;
	struct loop *before;
	bool can_write;

	if (p == NULL || p->node == NULL ||
	    fsm_applied_index(p->fsm) != fsm_applied_index(side(x)->f))
		return false;
	before = sim_enter(&m->host.loop);
	can_write = fsm_flush(p->fsm) == 0;
	if (can_write)
		digest(p->kv, &its);
	(void)sim_enter(before);
	if (!can_write) /* its disk fails: it is started anew, and then */
		return false;
	digest(side(x)->kv, &mine);
	if (mine.index != its.index || strcmp(mine.text, its.text) != 0)
		whole_fail(x->w,
			   "the store of node %u is not what entry %" PRIu64
			   " makes it",
			   m->host.number, its.index);
	return true;
}
