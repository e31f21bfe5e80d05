/*
 * Children hear that a job they wait for has ended. No recursion: the end only
 * puts the parent on a list, in the store (dr|) and for the present item in
 * memory, and the list is worked off after the item. A child that dies of it
 * is put on the list in turn.
 *
 * One entry tells as many children as its budget allows. What is left is found
 * by its dr| keys, and goes on with RELEASE: where the last portion ended, also
 * after a restart.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/job/portion.h"
#include "fsm/order/queue.h"
#include "fsm/ties/deps.h"

#define RELEASE_BYTES   9 /* outcome:1 from:8 */
#define SWEEP_BYTES     8 /* then upto:8 queue, of a job that was swept */
#define OUTCOME_DELETED 0 /* others are states */

/* A job that ended in this item, while others wait for it. */
struct deps_end {
	struct deps_end *next;
	struct str id;
};

/* A dr| key. */
struct release {
	struct str parent;
	uint64_t upto, from;
	unsigned outcome;
	struct fsm_sweep sweep;
};

/* --- ends --- */

/* What stands under the key; v: RELEASE_BYTES + SWEEP_BYTES and a name. */
static struct str release_value(const struct release *r, char *v)
{
	size_t n = RELEASE_BYTES;

	CHECK(r->sweep.queue.n <= LIMIT_QUEUE_NAME_BYTES);
	v[0] = (char)r->outcome;
	put_be64(v + 1, r->from);
	if (r->sweep.queue.n > 0) {
		put_be64(v + n, r->sweep.upto);
		n += SWEEP_BYTES;
		memcpy(v + n, r->sweep.queue.p, r->sweep.queue.n);
		n += r->sweep.queue.n;
	}
	return str_of(v, n);
}

#define VALUE_MAX (RELEASE_BYTES + SWEEP_BYTES + LIMIT_QUEUE_NAME_BYTES)

static void put_release(struct fsm *f, const struct release *r)
{
	char v[VALUE_MAX];
	struct key k;

	key_release(&k, r->parent, r->upto);
	txn_put(f->txn, key_str(&k), release_value(r, v));
}

void deps_add_release(struct fsm *f, struct str id, enum job_state end)
{
	struct release r = {
		.parent = id,
		.upto = f->last_job_seq,
		.outcome = end == JOB_STATE_MAX ? OUTCOME_DELETED : end,
		.sweep = f->deps.sweep,
	};
	char v[VALUE_MAX];
	struct deps_end *e;
	struct str old;
	struct key k;
	int err;

	MUST(f, end == JOB_STATE_MAX || job_state_is_terminal(end));
	key_release(&k, id, r.upto);
	err = txn_get(f->txn, key_str(&k), &old);
	if (err < 0)
		(void)fsm_fail(f, err);
	if (err != 0) /* there already: for another child of this request */
		return;
	ended_add(f, &k, release_value(&r, v));
	e = arena_zalloc(&f->item_arena, sizeof(*e));
	e->id = arena_copy(&f->item_arena, id);
	if (f->deps.first == NULL)
		f->deps.ended = &f->deps.first;
	*f->deps.ended = e;
	f->deps.ended = &e->next;
}

void deps_on_end(struct fsm *f, struct job *j, enum job_state end)
{
	deps_add_release(f, j->id, end);
	j->live.dependents = false;
	MSG_UNSET(&j->live, job_live, dependents);
}

/* --- one child --- */

static const char *outcome_text(unsigned outcome)
{
	if (outcome == OUTCOME_DELETED)
		return "deleted";
	return enum_text(&enum_job_state, outcome);
}

static void child_fails(struct fsm *f, struct job *j, const struct release *r)
{
	struct str why =
	    arena_printf(&f->item_arena, "dependency %.*s failed: %s",
			 STR_ARG(r->parent), outcome_text(r->outcome));

	job_record_error(f, j, why, STR_NULL);
	job_event(f, j, EVENT_DEPENDENCY_FAILED,
		  fsm_event_text(f, "dependency", r->parent));
	job_end_dead(f, j, arena_cstr(&f->item_arena, why));
}

/* It stands where its creation put it, or waits for its time. */
static void child_is_free(struct fsm *f, struct job *j)
{
	job_event(f, j, EVENT_RELEASED, STR_NULL);
	if (j->live.state == JOB_HELD) {
		job_save(f, j);
	} else if (j->live.scheduled_at > f->now_ns) {
		job_move(f, j, JOB_SCHEDULED);
		job_save(f, j);
	} else {
		job_back_to_pending(f, j);
	}
}

/* Readers of events have to hear of each count. */
static void child_waits_on(struct fsm *f, struct job *j,
			   const struct release *r)
{
	if (f->cluster.level >= 2)
		job_event(f, j, EVENT_DEPENDENCY_ENDED,
			  fsm_event_text(f, "dependency", r->parent));
	job_save(f, j);
}

/* It was to be deleted with the job it waits for. */
static bool is_swept(const struct job *j, const struct fsm_sweep *s)
{
	return s->queue.n > 0 && j->live.state == JOB_BLOCKED &&
	       j->live.seq <= s->upto && str_eq(j->q->name, s->queue);
}

static void sweep_child(struct fsm *f, struct job *j)
{
	j->q->swept++;
	j->q->swept_changed = true;
	queue_touch(f, j->q);
	job_delete(f, j, EVENT_DELETED);
}

static int tell_child(struct fsm *f, const struct release *r, uint64_t seq,
		      struct str id)
{
	struct job j;
	struct key k;
	int err;

	key_dependent(&k, r->parent, seq, id);
	fsm_delete(f, &k);
	err = job_find(f, id, &j);
	if (err < 0)
		return err;
	MUST(f, err > 0 && j.live.waiting_on > 0);
	MUST(f, j.live.state == JOB_BLOCKED || j.live.state == JOB_HELD);
	MSG_SET(&j.live, job_live, waiting_on, j.live.waiting_on - 1);
	f->deps.sweep = r->sweep;
	if (is_swept(&j, &r->sweep))
		sweep_child(f, &j);
	else if (r->outcome != JOB_COMPLETED &&
		 j.doc.on_dependency_failure == DEPENDENCY_FAIL)
		child_fails(f, &j, r);
	else if (j.live.waiting_on == 0)
		child_is_free(f, &j);
	else
		child_waits_on(f, &j, r);
	deps_end_sweep(f);
	budget_take_job(f);
	return 0;
}

/* --- the children of one end --- */

struct child {
	uint64_t seq;
	struct str id;
};

struct child_scan {
	struct arena *arena;
	size_t prefix_n;
	struct child *all;
	size_t n, cap, max;
	bool more;
};

static bool child_scan_add(void *ctx, struct str key, struct str value _unused_)
{
	struct child_scan *s = ctx;

	if (s->n == s->max) {
		s->more = true;
		return false;
	}
	s->all = arena_grow(s->arena, s->all, sizeof(*s->all), s->n, &s->cap);
	s->all[s->n].seq = get_be64(key.p + s->prefix_n);
	s->all[s->n++].id =
	    arena_copy(s->arena, str_skip(key, s->prefix_n + 8));
	return true;
}

static int scan_children(struct fsm *f, const struct release *r, size_t max,
			 struct child_scan *ret)
{
	struct key from, upto;
	int err;

	ret->arena = &f->item_arena;
	ret->max = max;
	key_prefix_id(&from, "d|", r->parent);
	ret->prefix_n = from.n;
	key_dependent(&from, r->parent, r->from, STR_NULL);
	key_dependent(&upto, r->parent, r->upto + 1, STR_NULL);
	err = txn_scan_first(f->txn, key_str(&from), key_str(&upto), max + 1,
			     child_scan_add, ret);
	return err < 0 ? fsm_fail(f, err) : 0;
}

/* Tells children as long as the entry may. */
static int tell_children(struct fsm *f, struct release *r, struct portion *p)
{
	struct child_scan s = { 0 };
	struct key k;
	size_t i = 0;
	int err =
	    scan_children(f, r, MIN(p->max - p->jobs, budget_jobs_left(f)), &s);

	for (; err == 0 && i < s.n && !portion_is_full(f, p); i++) {
		err = tell_child(f, r, s.all[i].seq, s.all[i].id);
		r->from = s.all[i].seq + 1;
		p->jobs++;
	}
	if (err < 0)
		return err;
	if (i < s.n || s.more) {
		put_release(f, r);
		return 0;
	}
	if (s.n == 0 && f->cluster.level >= 2)
		budget_take_job(f); /* looking for them is work as well */
	key_release(&k, r->parent, r->upto);
	ended_remove(f, &k);
	return 0;
}

/* --- the list --- */

/* What stands under a dr| key, which is there. */
static int read_release(struct fsm *f, const struct key *k, struct release *ret)
{
	struct str id = str_skip(key_str(k), sizeof("dr|") - 1), v;
	int r = txn_get(f->txn, key_str(k), &v);

	if (r < 0)
		return fsm_fail(f, r);
	MUST(f, r > 0 && id.n > 9 && v.n >= RELEASE_BYTES);
	id.n -= 9;
	*ret = (struct release){
		.parent = arena_copy(&f->item_arena, id),
		.upto = get_be64(k->p + k->n - 8),
		.outcome = (unsigned char)v.p[0],
		.from = get_be64(v.p + 1),
	};
	v = str_skip(v, RELEASE_BYTES);
	if (v.n > SWEEP_BYTES) {
		ret->sweep.upto = get_be64(v.p);
		ret->sweep.queue =
		    arena_copy(&f->item_arena, str_skip(v, SWEEP_BYTES));
	}
	return 0;
}

/* The first end under the prefix: 1 found, 0 none, -ERR_*. */
static int first_release(struct fsm *f, const struct key *prefix,
			 struct release *ret)
{
	struct key k;
	int r = ended_first(f, prefix, &k);

	if (r > 0 && read_release(f, &k, ret) < 0)
		return f->fatal;
	return r;
}

/* Works off ends under the prefix, the earliest of a parent first. */
static int release_all(struct fsm *f, const struct key *prefix,
		       struct portion *p)
{
	struct release rel;
	int r = 0;

	while (r == 0 && !portion_is_full(f, p)) {
		r = first_release(f, prefix, &rel);
		if (r <= 0)
			return r;
		r = tell_children(f, &rel, p);
	}
	return r;
}

void deps_settle(struct fsm *f)
{
	struct portion p = { .max = LIMIT_MAINTAIN_JOBS };

	for (struct deps_end *e = f->deps.first;
	     e != NULL && !portion_is_full(f, &p) && f->fatal == 0;
	     e = e->next) {
		struct key k;

		key_prefix_id(&k, "dr|", e->id);
		(void)release_all(f, &k, &p); /* f->fatal says if it failed */
	}
	f->deps.first = NULL;
	hmap_done(&f->deps.parents);
}

int deps_release(struct fsm *f, struct portion *p)
{
	struct key k;

	key_prefix(&k, "dr|");
	return release_all(f, &k, p);
}

bool deps_is_due(const struct fsm *f)
{
	return f->deps.ends.n > 0;
}

/* --- sweeps --- */

void deps_begin_sweep(struct fsm *f, const struct fsm_sweep *s)
{
	MUST(f, f->deps.sweep.queue.n == 0); /* one at a time */
	/* a node of level 1 knows nothing of it */
	if (f->cluster.level >= 2)
		f->deps.sweep = *s;
}

void deps_end_sweep(struct fsm *f)
{
	f->deps.sweep = (struct fsm_sweep){ 0 };
}
