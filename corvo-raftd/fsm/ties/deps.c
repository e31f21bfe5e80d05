/*
 * Jobs that wait for jobs: what a request may ask for, and the ties between a
 * new job (the child) and those it waits for (its parents). ties/release.c
 * tells children of their parents' ends.
 *
 * A child has one d| key per parent that has not ended, as many as its
 * waiting_on says, and is in state BLOCKED while there are any. The parent's
 * live record says that it has dependents, so that the end of any other job
 * costs nothing.
 *
 * depends_on is hostile: ids that are none, any number of them, cycles. Parents
 * may be large and many, so each is read once per request and in place; memory
 * is the item's arena.
 */
#include "fsm/ties/deps.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/job.h"
#include "fsm/order/queue.h"
#include "fsm/order/window.h"

/* Live records of parents that one request may make us write again. */
#define PARENTS_BYTES_MAX (32u << 20)

/* A job that jobs of this request wait for, as it was before the request. */
struct parent {
	enum job_state state; /* terminal: it has ended; else of no meaning */
	bool exists;          /* not: it is of this request */
	bool linked;          /* its record says that it has dependents */
	size_t bytes;         /* of its live record */
};

static bool is_position(struct str id)
{
	return id.n > 0 && id.p[0] == '#';
}

/* --- parents --- */

static int read_parent(struct fsm *f, struct str id, struct parent *ret)
{
	struct m_job_live live;
	struct str raw;
	struct key k;
	int r;

	ret->state = JOB_PENDING;
	if (id.n == 0 || id.n > LIMIT_JOB_ID_BYTES)
		return 0;
	key_live(&k, id);
	r = txn_get(f->txn, key_str(&k), &raw);
	if (r > 0) {
		if (msg_decode(&msg_job_live, raw, &f->item_arena, &live) < 0)
			return fsm_fail(f, -ERR_INTERNAL_ERROR);
		ret->state = live.state;
		ret->linked = live.dependents;
		ret->bytes = raw.n;
	} else if (r == 0) {
		key_job(&k, id);
		r = txn_get(f->txn, key_str(&k), &raw);
	}
	if (r < 0)
		return fsm_fail(f, r);
	ret->exists = r > 0;
	return 0;
}

/* Known to this item, or read. 0 or -ERR_*. */
static int get_parent(struct fsm *f, struct str id, struct parent **ret)
{
	int r;

	*ret = hmap_get(&f->deps.parents, id);
	if (*ret != NULL)
		return 0;
	*ret = arena_zalloc(&f->item_arena, sizeof(**ret));
	r = read_parent(f, id, *ret);
	if (r == 0)
		hmap_put(&f->deps.parents, id, *ret);
	return r;
}

/* --- checks --- */

struct check {
	const struct m_enqueue *ops;
	size_t n;
	size_t all;     /* dependencies of all jobs so far */
	size_t most;    /* there may be */
	size_t bytes;   /* of parents' live records */
	bool positions; /* some depend on others of the request */
};

/* The member a refusal is about. */
static struct str where(struct fsm *f, const struct check *c, size_t i)
{
	if (c->n == 1)
		return STR("depends_on");
	return arena_printf(&f->item_arena, "jobs[%zu].depends_on", i);
}

static int check_position(struct fsm *f, struct check *c, size_t i,
			  struct str id)
{
	uint64_t n;

	c->positions = true;
	if (!str_parse_u64(str_skip(id, 1), &n) || n >= c->n)
		return fsm_refuse(
		    f, ERR_VALIDATION_ERROR,
		    "%.*s: \"%.*s\" is no job of this request; they are #0 to "
		    "#%zu",
		    STR_ARG(where(f, c, i)), STR_ARG(id), c->n - 1);
	if (n == i)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "%.*s: \"%.*s\" is the job itself",
				  STR_ARG(where(f, c, i)), STR_ARG(id));
	return 0;
}

static int check_id(struct fsm *f, struct check *c, size_t i, struct str id)
{
	bool known = hmap_get(&f->deps.parents, id) != NULL;
	struct parent *p;
	int r = get_parent(f, id, &p);

	if (r < 0)
		return r;
	if (!p->exists)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "%.*s: job \"%.*s\" not found",
				  STR_ARG(where(f, c, i)), STR_ARG(id));
	if (!known)
		c->bytes += p->bytes;
	if (c->bytes > PARENTS_BYTES_MAX)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "%.*s: the jobs named so far are too large "
				  "together; send fewer jobs in one request",
				  STR_ARG(where(f, c, i)));
	return 0;
}

static int check_one(struct fsm *f, struct check *c, size_t i)
{
	const struct m_enqueue *op = &c->ops[i];
	int r = 0;

	if (op->depends_on_n > LIMIT_DEPENDENCIES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "%.*s: must have at most %d items",
				  STR_ARG(where(f, c, i)), LIMIT_DEPENDENCIES);
	c->all += op->depends_on_n;
	if (c->all > c->most)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "%.*s: one request may have at most %zu "
				  "dependencies; send fewer jobs at once",
				  STR_ARG(where(f, c, i)), c->most);
	for (size_t k = 0; r == 0 && k < op->depends_on_n; k++) {
		struct str id = op->depends_on[k];

		r = is_position(id) ? check_position(f, c, i, id)
				    : check_id(f, c, i, id);
	}
	return r;
}

/* --- cycles --- */

/* The jobs of a request as a graph; edges lead from a job to its children. */
struct graph {
	const struct m_enqueue *ops;
	uint32_t n;
	uint32_t *same;    /* the job a duplicate in the request stands for */
	uint32_t *parents; /* how many each job has */
	uint32_t *from;    /* n + 1: where its children begin in `to` */
	uint32_t *to;
};

/*
 * Two jobs with the same key are one: the second is answered with the first.
 * Should an earlier job hold the key, both are that one, which waits for none
 * of these: a cycle by way of it is refused all the same.
 */
static void graph_find_same(struct graph *g)
{
	struct hmap keys = { 0 };

	for (uint32_t i = 0; i < g->n; i++) {
		const struct m_enqueue *op = &g->ops[i];
		const uint32_t *first;
		struct key k;

		g->same[i] = i;
		if (op->unique_key.n == 0)
			continue;
		key_unique(&k, SPACE_DEFAULT, op->queue, op->unique_key);
		first = hmap_get(&keys, key_str(&k));
		if (first != NULL)
			g->same[i] = *first;
		else
			hmap_put(&keys, key_str(&k), &g->same[i]);
	}
	hmap_done(&keys);
}

/* The job of the request that this dependency is; n: none of them. */
static uint32_t graph_parent(const struct graph *g, struct str id)
{
	uint64_t i;

	if (!is_position(id) || !str_parse_u64(str_skip(id, 1), &i))
		return g->n;
	return g->same[i];
}

/* Runs `body` for each edge p -> i. */
#define GRAPH_EACH_EDGE(g, p, i, body)                                     \
	for (uint32_t i = 0; i < (g)->n; i++) {                            \
		const struct m_enqueue *op_ = &(g)->ops[i];                \
		for (size_t k_ = 0;                                        \
		     (g)->same[i] == i && k_ < op_->depends_on_n; k_++) {  \
			uint32_t p = graph_parent(g, op_->depends_on[k_]); \
			if (p < (g)->n) {                                  \
				body;                                      \
			}                                                  \
		}                                                          \
	}

static void graph_init(struct fsm *f, struct graph *g, size_t edges)
{
	struct arena *a = &f->item_arena;
	uint32_t *at;

	g->same = arena_alloc(a, g->n * sizeof(*g->same));
	g->parents = arena_zalloc(a, g->n * sizeof(*g->parents));
	g->from = arena_zalloc(a, (g->n + 1) * sizeof(*g->from));
	g->to = arena_alloc(a, edges * sizeof(*g->to));
	at = arena_alloc(a, g->n * sizeof(*at));
	graph_find_same(g);
	GRAPH_EACH_EDGE(g, p, i, g->from[p + 1]++)
	for (uint32_t i = 0; i < g->n; i++)
		g->from[i + 1] += g->from[i];
	memcpy(at, g->from, g->n * sizeof(*at));
	GRAPH_EACH_EDGE(g, p, i, {
		g->to[at[p]++] = i;
		g->parents[i]++;
	})
}

/* Takes away jobs without parents until none is left, or only cycles are. */
static int check_cycles(struct fsm *f, const struct check *c)
{
	struct graph g = { .ops = c->ops, .n = (uint32_t)c->n };
	uint32_t *ready, n = 0, done = 0;

	graph_init(f, &g, c->all);
	ready = arena_alloc(&f->item_arena, g.n * sizeof(*ready));
	for (uint32_t i = 0; i < g.n; i++)
		if (g.parents[i] == 0)
			ready[n++] = i;
	for (; done < n; done++) {
		uint32_t p = ready[done];

		for (uint32_t k = g.from[p]; k < g.from[p + 1]; k++)
			if (--g.parents[g.to[k]] == 0)
				ready[n++] = g.to[k];
	}
	for (uint32_t i = 0; n < g.n && i < g.n; i++)
		if (g.parents[i] > 0)
			return fsm_refuse(f, ERR_VALIDATION_ERROR,
					  "%.*s: the job would wait for ever: "
					  "its dependencies form a cycle",
					  STR_ARG(where(f, c, i)));
	return 0;
}

int deps_check(struct fsm *f, const struct m_enqueue *ops, size_t n)
{
	struct check c = { .ops = ops, .n = n, .most = LIMIT_REQUEST_DEPS };
	int r = 0;

	/* Jobs of a request are created together: what they wait for cannot
	 * be left to a later entry, only what comes after them. */
	if (f->cluster.level >= 2)
		c.most = LIMIT_REQUEST_DEPS_2;
	for (size_t i = 0; r == 0 && i < n; i++)
		if (ops[i].depends_on_n > 0)
			r = check_one(f, &c, i);
	if (f->cluster.level >= 2)
		budget_take_records(f, (uint32_t)MIN(c.all, c.most));
	return r == 0 && c.positions ? check_cycles(f, &c) : r;
}

/* --- ties --- */

static bool has_id(const struct deps *d, struct str id)
{
	for (size_t i = 0; i < d->n; i++)
		if (str_eq(d->ids[i], id))
			return true;
	return false;
}

int deps_resolve(struct fsm *f, const struct m_enqueue *op,
		 const struct str *ids, struct deps *ret)
{
	bool ignore = op->on_dependency_failure == DEPENDENCY_IGNORE;

	*ret = (struct deps){ 0 };
	ret->ids =
	    arena_alloc(&f->item_arena, op->depends_on_n * sizeof(*ret->ids));
	for (size_t i = 0; i < op->depends_on_n; i++) {
		struct str id = op->depends_on[i];
		struct parent *p;
		uint64_t n;
		int r;

		if (is_position(id) && str_parse_u64(str_skip(id, 1), &n))
			id = ids[n];
		if (has_id(ret, id))
			continue;
		r = get_parent(f, id, &p);
		if (r < 0)
			return r;
		ret->ids[ret->n++] = id;
		if (!job_state_is_terminal(p->state))
			ret->waiting_on++;
		else if (p->state != JOB_COMPLETED && !ignore &&
			 ret->failed.n == 0)
			ret->failed = id;
	}
	if (ret->failed.n > 0) /* of that one it is told at once */
		ret->waiting_on = 1;
	return 0;
}

/* The first record of a job that was as created, with `dependents`. */
static int write_first_live(struct fsm *f, struct str id)
{
	struct pending pending = { .id = id };
	struct m_job_live live;
	struct m_job_doc doc;
	struct fsm_queue *q;
	struct str raw, group;
	struct key k;
	uint8_t prio;
	int r;

	key_job(&k, id);
	r = txn_get(f->txn, key_str(&k), &raw);
	if (r < 0)
		return fsm_fail(f, r);
	MUST(f, r > 0);
	if (msg_decode(&msg_job_doc, raw, &f->item_arena, &doc) < 0)
		return fsm_fail(f, -ERR_INTERNAL_ERROR);
	job_live_as_created(&doc, &live);
	q = queue_find(f, doc.queue);
	prio = (uint8_t)doc.priority;
	group = arena_copy(&f->item_arena, doc.group);
	pending.seq = doc.seq;
	MSG_SET(&live, job_live, dependents, true);
	key_live(&k, id);
	fsm_put(f, &k, &msg_job_live, &live); /* doc is of no use after this */
	if (live.state == JOB_PENDING)
		queue_set_changed(f, q, group, prio, &pending);
	return 0;
}

/* The parent's record says from now on that it has dependents. */
static int mark_parent(struct fsm *f, struct str id)
{
	struct fsm_active *a = active_find(f, id);
	struct m_job_live live;
	struct str raw;
	struct key k;
	int r;

	key_live(&k, id);
	r = txn_get(f->txn, key_str(&k), &raw);
	if (r < 0)
		return fsm_fail(f, r);
	if (r == 0)
		return write_first_live(f, id);
	if (msg_decode(&msg_job_live, raw, &f->item_arena, &live) < 0)
		return fsm_fail(f, -ERR_INTERNAL_ERROR);
	MSG_SET(&live, job_live, dependents, true);
	fsm_put(f, &k, &msg_job_live, &live);
	if (a != NULL)
		active_keep_live(a, buf_str(&f->scratch));
	return 0;
}

static int link_to(struct fsm *f, struct str id, const struct deps *d,
		   struct str parent)
{
	struct parent *p;
	struct key k;
	int r = get_parent(f, parent, &p);

	if (r < 0 || (job_state_is_terminal(p->state) && d->failed.n == 0))
		return r;
	key_dependent(&k, parent, d->seq, id);
	txn_put_new(f->txn, key_str(&k), STR(""));
	if (d->failed.n > 0)
		deps_add_release(f, parent, p->state);
	else if (!p->linked)
		r = mark_parent(f, parent);
	p->linked = true;
	return r;
}

int deps_link(struct fsm *f, struct str id, const struct deps *d)
{
	int r = 0;

	/* its keys stand under its place, which a release looks below */
	MUST(f, d->seq > 0 && d->seq <= f->last_job_seq);
	if (d->failed.n > 0)
		return link_to(f, id, d, d->failed);
	for (size_t i = 0; r == 0 && i < d->n; i++)
		r = link_to(f, id, d, d->ids[i]);
	return r;
}

void deps_unlink(struct fsm *f, struct job *j)
{
	struct key k;

	if (job_need_doc(f, j) < 0)
		return; /* the entry fails */
	for (size_t i = 0; i < j->doc.depends_on_n; i++) {
		key_dependent(&k, j->doc.depends_on[i], j->doc.seq, j->id);
		fsm_delete(f, &k);
	}
	MSG_SET(&j->live, job_live, waiting_on, 0);
}
