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
#include "fsm/ties/deps.h"

#define RELEASE_BYTES   9 /* outcome:1 from:8 */
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
};

/* --- ends --- */

static void put_release(struct fsm *f, const struct release *r)
{
	char v[RELEASE_BYTES];
	struct key k;

	v[0] = (char)r->outcome;
	put_be64(v + 1, r->from);
	key_release(&k, r->parent, r->upto);
	txn_put(f->txn, key_str(&k), str_of(v, sizeof(v)));
}

void deps_add_release(struct fsm *f, struct str id, enum job_state end)
{
	struct release r = {
		.parent = id,
		.upto = f->last_job_seq,
		.outcome = end == JOB_STATE_MAX ? OUTCOME_DELETED : end,
	};
	struct deps_end *e;
	struct str old;
	struct key k;
	int err;

	key_release(&k, id, r.upto);
	err = txn_get(f->txn, key_str(&k), &old);
	if (err < 0)
		(void)fsm_fail(f, err);
	if (err != 0) /* there already: for another child of this request */
		return;
	put_release(f, &r);
	f->deps.releases++;
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
	MSG_SET(&j.live, job_live, waiting_on, j.live.waiting_on - 1);
	if (r->outcome != JOB_COMPLETED &&
	    j.doc.on_dependency_failure == DEPENDENCY_FAIL)
		child_fails(f, &j, r);
	else if (j.live.waiting_on == 0)
		child_is_free(f, &j);
	else
		job_save(f, &j);
	budget_take_job(f);
	return 0;
}

/* --- the children of one end --- */

struct child_scan {
	struct arena *arena;
	size_t prefix_n;
	struct str *ids;
	uint64_t *seqs;
	size_t n, max;
	bool more;
};

static bool child_scan_add(void *ctx, struct str key, struct str value _unused_)
{
	struct child_scan *s = ctx;

	if (s->n == s->max) {
		s->more = true;
		return false;
	}
	s->seqs[s->n] = get_be64(key.p + s->prefix_n);
	s->ids[s->n++] = arena_copy(s->arena, str_skip(key, s->prefix_n + 8));
	return true;
}

static int scan_children(struct fsm *f, const struct release *r, size_t max,
			 struct child_scan *ret)
{
	struct key from, upto;
	int err;

	ret->arena = &f->item_arena;
	ret->max = max;
	ret->ids = arena_alloc(ret->arena, ret->max * sizeof(*ret->ids));
	ret->seqs = arena_alloc(ret->arena, ret->max * sizeof(*ret->seqs));
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
	int err = scan_children(f, r, p->max - p->jobs, &s);

	for (; err == 0 && i < s.n && !portion_is_full(f, p); i++) {
		err = tell_child(f, r, s.seqs[i], s.ids[i]);
		r->from = s.seqs[i] + 1;
		p->jobs++;
	}
	if (err < 0)
		return err;
	if (i < s.n || s.more) {
		put_release(f, r);
		return 0;
	}
	key_release(&k, r->parent, r->upto);
	fsm_delete(f, &k);
	f->deps.releases--;
	return 0;
}

/* --- the list --- */

struct release_scan {
	struct arena *arena;
	struct release *ret;
	bool found;
};

static bool release_scan_add(void *ctx, struct str key, struct str value)
{
	struct release_scan *s = ctx;
	struct str id = str_skip(key, sizeof("dr|") - 1);

	CHECK(id.n > 9 && value.n >= RELEASE_BYTES);
	id.n -= 9;
	*s->ret = (struct release){
		.parent = arena_copy(s->arena, id),
		.upto = get_be64(key.p + key.n - 8),
		.outcome = (unsigned char)value.p[0],
		.from = get_be64(value.p + 1),
	};
	s->found = true;
	return false;
}

/* The first end under the prefix: 1 found, 0 none, -ERR_*. */
static int first_release(struct fsm *f, const struct key *prefix,
			 struct release *ret)
{
	struct release_scan s = { .arena = &f->item_arena, .ret = ret };
	struct key upto;
	int r;

	key_prefix_end(prefix, &upto);
	r = txn_scan_first(f->txn, key_str(prefix), key_str(&upto), 1,
			   release_scan_add, &s);
	return r < 0 ? fsm_fail(f, r) : s.found;
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
	return f->deps.releases > 0;
}

int deps_load(struct fsm *f)
{
	struct kv_iter *it;
	struct key from, upto;
	int r;

	key_prefix(&from, "dr|");
	key_prefix_end(&from, &upto);
	it = kv_iter_new(f->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it))
		f->deps.releases++;
	r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}
