/*
 * New jobs: what may be refused, duplicates, dependencies, batches. See
 * model.h.
 */
#include "model.h"

/* --- what a queue gives to jobs that do not say --- */

enum {
	NAMED_ATTEMPTS = 1,
	NAMED_BACKOFF = 2,
	NAMED_BASE = 4,
	NAMED_CAP = 8,
	NAMED_JITTER = 16,
};

void model_defaults(struct model *m, struct model_job *j, unsigned named)
{
	const struct m_set_queue *s = &model_queue(m, j->queue)->set;

	if (!(named & NAMED_ATTEMPTS))
		j->max_retries =
		    MSG_HAS(s, set_queue, max_retries) ? s->max_retries : 3;
	if (!(named & NAMED_BACKOFF))
		j->backoff = MSG_HAS(s, set_queue, retry_backoff)
				 ? s->retry_backoff
				 : BACKOFF_EXPONENTIAL;
	if (!(named & NAMED_BASE))
		j->base = MSG_HAS(s, set_queue, retry_base_delay)
			      ? s->retry_base_delay
			      : 5 * NS_PER_S;
	if (!(named & NAMED_CAP))
		j->cap = MSG_HAS(s, set_queue, retry_max_delay)
			     ? s->retry_max_delay
			     : 600 * NS_PER_S;
	if (!(named & NAMED_JITTER))
		j->jitter =
		    MSG_HAS(s, set_queue, retry_jitter) ? s->retry_jitter : 0;
	if (j->group.n == 0 && s->group_tag.n > 0 && j->tags.n > 0)
		j->group = model_tag(j->tags, s->group_tag);
}

/* --- what is refused --- */

/*
 * The item that stands for item p in the end: of two with the same key the
 * first. Also should a job that was there before have the key: a cycle is
 * refused without a look at what else there is.
 */
static int stands_for(const struct m_enqueue *ops, int p)
{
	for (int i = 0; i < p && ops[p].unique_key.n > 0; i++) {
		if (str_eq(ops[i].queue, ops[p].queue) &&
		    str_eq(ops[i].unique_key, ops[p].unique_key))
			return i;
	}
	return p;
}

/* Of a job that was there before, or of one further up in the request. */
static bool is_duplicate(struct model *m, const struct m_enqueue *ops, size_t i)
{
	return stands_for(ops, (int)i) != (int)i ||
	       (ops[i].unique_key.n > 0 &&
		model_lock_holder(m, ops[i].queue, ops[i].unique_key) != NULL);
}

uint64_t model_room(struct model *m, struct str queue)
{
	uint64_t max = 0, have = 0;

	if (model_has_queue(m, queue))
		max = model_queue(m, queue)->set.max_backlog;
	if (max == 0)
		return UINT64_MAX;
	MODEL_EACH(m, j)
	{
		have += str_eq(j->queue, queue) &&
			(j->state == JOB_PENDING || j->state == JOB_SCHEDULED ||
			 j->state == JOB_RETRYING);
	}
	return max > have ? max - have : 0;
}

static void check_backlog(struct model *m, const struct m_enqueue *ops,
			  size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t asked = 0;

		for (size_t k = 0; k <= i; k++)
			asked += str_eq(ops[k].queue, ops[i].queue) &&
				 !is_duplicate(m, ops, k);
		if (!is_duplicate(m, ops, i) &&
		    asked > model_room(m, ops[i].queue)) {
			model_refuse(m, ERR_QUEUE_FULL);
			return;
		}
	}
}

/* "#3" is 3; -1: no such thing; -2: an id. */
static int position(struct str s, size_t n)
{
	uint64_t v;

	if (s.n == 0 || s.p[0] != '#')
		return -2;
	if (!str_parse_u64(str_skip(s, 1), &v) || v >= n || n == 1)
		return -1;
	return (int)v;
}

/* Whether item `from` comes back to itself; small batches only. */
static bool has_cycle(const struct m_enqueue *ops, size_t n, size_t from)
{
	bool seen[64] = { false };
	size_t todo[64], todo_n = 0;

	assert_true(n <= 64);
	if (stands_for(ops, (int)from) != (int)from)
		return false;
	todo[todo_n++] = from;
	while (todo_n > 0) {
		const struct m_enqueue *op = &ops[todo[--todo_n]];

		for (size_t i = 0; i < op->depends_on_n; i++) {
			int p = position(op->depends_on[i], n);

			if (p >= 0)
				p = stands_for(ops, p);
			if (p < 0)
				continue;
			if ((size_t)p == from)
				return true;
			if (!seen[p])
				todo[todo_n++] = (size_t)p;
			seen[p] = true;
		}
	}
	return false;
}

static void check_deps(struct model *m, const struct m_enqueue *ops, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < ops[i].depends_on_n; k++) {
			int p = position(ops[i].depends_on[k], n);

			if (p == -1 || p == (int)i ||
			    (p == -2 &&
			     model_find(m, ops[i].depends_on[k]) == NULL)) {
				model_refuse(m, ERR_VALIDATION_ERROR);
				return;
			}
		}
		if (has_cycle(ops, n, i)) {
			model_refuse(m, ERR_VALIDATION_ERROR);
			return;
		}
	}
}

static void check_batch(struct model *m, struct str id)
{
	const struct model_batch *b = model_find_batch(m, id);

	if (b == NULL)
		model_refuse(m, ERR_NOT_FOUND);
	else if (b->sealed)
		model_refuse(m, ERR_BATCH_ERROR);
}

/* Also those a chain or a callback will need. */
static void check_names(struct model *m, const struct m_enqueue *ops, size_t n,
			const struct m_batch_options *batch)
{
	struct str names[MODEL_JOBS];
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		const struct m_chain *c = ops[i].chain;

		names[k++] = ops[i].queue;
		for (size_t s = 0; c != NULL && s < c->steps_n; s++)
			names[k++] = c->steps[s].queue;
		if (c != NULL && c->on_failure != NULL)
			names[k++] = c->on_failure->queue;
		if (c != NULL && c->on_exit != NULL)
			names[k++] = c->on_exit->queue;
	}
	if (batch != NULL && batch->callback_queue.n > 0)
		names[k++] = batch->callback_queue;
	assert_true(k <= MODEL_JOBS);
	(void)model_may_name(m, names, k);
}

static void check_all(struct model *m, const struct m_enqueue *ops, size_t n,
		      const struct m_batch_options *batch)
{
	for (size_t i = 0; i < n && m->errs_n == 0; i++) {
		if (ops[i].batch_id.n > 0 && batch != NULL)
			model_refuse(m, ERR_VALIDATION_ERROR);
		else if (ops[i].batch_id.n > 0)
			check_batch(m, ops[i].batch_id);
	}
	if (batch != NULL && batch->parent_id.n > 0)
		check_batch(m, batch->parent_id);
	check_deps(m, ops, n);
	check_backlog(m, ops, n);
	check_names(m, ops, n, batch);
}

/* --- creation --- */

static const struct m_chain *copy_chain(struct model *m,
					const struct m_chain *c)
{
	struct m_chain *ret = arena_alloc(&m->arena, sizeof(*ret));
	struct buf b = BUF_INIT(0);

	msg_encode(&msg_chain, c, &b);
	assert_int_equal(msg_decode(&msg_chain,
				    arena_copy(&m->arena, buf_str(&b)),
				    &m->arena, ret),
			 0);
	buf_done(&b);
	return ret;
}

static void fill_rules(struct model *m, const struct m_enqueue *op,
		       struct model_job *j)
{
	unsigned named = 0;

	j->max_retries = op->max_retries;
	j->backoff = op->retry_backoff;
	j->base = op->retry_base_delay;
	j->cap = op->retry_max_delay;
	j->jitter = op->retry_jitter;
	named |= MSG_HAS(op, enqueue, max_retries) ? NAMED_ATTEMPTS : 0;
	named |= MSG_HAS(op, enqueue, retry_backoff) ? NAMED_BACKOFF : 0;
	named |= MSG_HAS(op, enqueue, retry_base_delay) ? NAMED_BASE : 0;
	named |= MSG_HAS(op, enqueue, retry_max_delay) ? NAMED_CAP : 0;
	named |= MSG_HAS(op, enqueue, retry_jitter) ? NAMED_JITTER : 0;
	model_defaults(m, j, named);
}

/* When the job is to run; what is past means now. */
static uint64_t due(const struct model *m, const struct m_enqueue *op)
{
	return op->delay > 0 ? m->now + op->delay : op->scheduled_at;
}

static struct model_job *create(struct model *m, const struct m_enqueue *op)
{
	struct model_job *j = model_add(m);

	j->id = model_copy(m, op->job_id);
	j->queue = model_copy(m, op->queue);
	j->payload = model_copy(m, op->payload);
	j->tags = model_copy(m, op->tags);
	j->group = model_copy(m, op->group);
	j->parent = model_copy(m, op->parent_id);
	j->checkpoint = model_copy(m, op->checkpoint);
	j->prio =
	    MSG_HAS(op, enqueue, priority) ? op->priority : PRIORITY_NORMAL;
	fill_rules(m, op, j);
	j->timeout = op->timeout;
	model_agent_create(j, op->agent);
	if (op->expire_after > 0)
		j->expire_at = m->now + op->expire_after;
	j->as_numbers = op->as_numbers;
	j->state = JOB_PENDING;
	if (due(m, op) > m->now) {
		j->state = JOB_SCHEDULED;
		j->scheduled_at = due(m, op);
	}
	if (op->unique_key.n > 0) {
		j->key = model_copy(m, op->unique_key);
		j->key_queue = j->queue;
		j->key_period =
		    op->unique_period ? op->unique_period : 3600 * NS_PER_S;
		j->key_until = m->now + j->key_period;
	}
	if (MSG_HAS(op, enqueue, chain)) {
		j->chain = copy_chain(m, op->chain);
		j->chain_id = model_copy(m, op->chain_id);
	}
	(void)model_policy_hold(m, j, POINT_ENQUEUE);
	return j;
}

/*
 * A duplicate: the payload of a holder that still waits may be replaced, and
 * its time, if it waits for one.
 */
static bool replace(struct model *m, const struct m_enqueue *op,
		    struct model_job *holder)
{
	bool later = due(m, op) > m->now;

	if (op->unique_action != UNIQUE_REPLACE || !model_is_waiting(holder))
		return false;
	holder->payload = model_copy(m, op->payload);
	holder->touched = true;
	if (MSG_HAS(op, enqueue, scheduled_at) || MSG_HAS(op, enqueue, delay)) {
		if (holder->state == JOB_SCHEDULED && !later)
			model_to_pending(m, holder);
		else if (holder->state == JOB_SCHEDULED ||
			 holder->state == JOB_BLOCKED)
			holder->scheduled_at = later ? due(m, op) : 0;
	}
	model_policy_replace(m, holder);
	return true;
}

static void add_dep(struct model *m, struct model_job *j, struct str id)
{
	for (size_t i = 0; i < j->deps_n; i++) {
		if (str_eq(j->deps[i].id, id))
			return;
	}
	assert_true(j->deps_n < MODEL_DEPS);
	j->deps[j->deps_n++].id = model_copy(m, id);
}

static bool meets(const struct model_job *p, uint32_t policy)
{
	return p->state == JOB_COMPLETED ||
	       (job_state_is_terminal(p->state) && policy == DEPENDENCY_IGNORE);
}

/*
 * Whether the i-th job of a request is blocked from the moment it is made: a
 * duplicate further down meets it so, before it is tied to those it waits for.
 */
static bool is_made_blocked(struct model *m, const struct m_enqueue *ops,
			    size_t n, size_t i)
{
	for (size_t k = 0; k < ops[i].depends_on_n; k++) {
		int at = position(ops[i].depends_on[k], n);
		const struct model_job *p = NULL;

		if (at < 0)
			p = model_find(m, ops[i].depends_on[k]);
		else if (ops[at].unique_key.n > 0)
			p = model_lock_holder(m, ops[at].queue,
					      ops[at].unique_key);
		if (p == NULL || !meets(p, ops[i].on_dependency_failure))
			return true;
	}
	return false;
}

/* Meets what has ended; the job dies of what failed, or waits. */
static void look_at_deps(struct model *m, struct model_job *j)
{
	bool failed = false;

	for (size_t i = 0; i < j->deps_n; i++) {
		const struct model_job *p = model_find(m, j->deps[i].id);

		assert_non_null(p);
		if (!job_state_is_terminal(p->state))
			continue;
		if (meets(p, j->policy))
			j->deps[i].met = true;
		else
			failed = true;
	}
	if (model_unmet(j) == 0) { /* perhaps one of the same request died */
		if (j->state == JOB_BLOCKED)
			model_release(m, j);
		return;
	}
	if (j->state != JOB_HELD)
		j->state = JOB_BLOCKED;
	if (failed) {
		model_error(m, j, STR_NULL);
		model_end(m, j, JOB_DEAD);
	}
}

static void link_deps(struct model *m, const struct m_enqueue *op, size_t n,
		      struct model_job *j, const struct model_made *made)
{
	j->policy = op->on_dependency_failure;
	for (size_t i = 0; i < op->depends_on_n; i++) {
		int p = position(op->depends_on[i], n);

		add_dep(m, j, p >= 0 ? made[p].id : op->depends_on[i]);
	}
	if (j->deps_n > 0)
		look_at_deps(m, j);
}

static struct model_batch *add_batch(struct model *m, struct str id,
				     const struct m_batch_options *o,
				     bool sealed)
{
	struct model_batch *b = m->batches, *up;

	while (b < m->batches + MODEL_BATCHES && b->used)
		b++;
	assert_true(b < m->batches + MODEL_BATCHES);
	*b = (struct model_batch){ .used = true, .sealed = sealed };
	b->id = model_copy(m, id);
	b->callback_queue = model_copy(m, o->callback_queue);
	b->callback_payload = model_copy(m, o->callback_payload);
	b->parent = model_copy(m, o->parent_id);
	b->created_at = b->changed_at = m->now;
	up = model_find_batch(m, b->parent);
	if (up != NULL) {
		up->changed_at = m->now;
		up->total++;
	}
	return b;
}

void model_enqueue(struct model *m, const struct m_enqueue *ops, size_t n,
		   struct str batch_id, const struct m_batch_options *batch,
		   struct model_made *ret)
{
	struct model_job *made[64] = { NULL };
	struct model_batch *b = NULL;

	assert_true(n <= 64);
	check_all(m, ops, n, batch);
	if (m->errs_n > 0)
		return;
	if (batch != NULL)
		b = add_batch(m, batch_id, batch, true);
	for (size_t i = 0; i < n; i++) {
		struct model_job *holder = NULL;

		if (ops[i].unique_key.n > 0)
			holder = model_lock_holder(m, ops[i].queue,
						   ops[i].unique_key);
		ret[i].existing = holder != NULL;
		ret[i].replaced = false;
		if (holder != NULL)
			ret[i].replaced = replace(m, &ops[i], holder);
		else
			holder = made[i] = create(m, &ops[i]);
		if (made[i] != NULL && holder->state != JOB_HELD &&
		    is_made_blocked(m, ops, n, i))
			holder->state = JOB_BLOCKED;
		ret[i].id = holder->id;
	}
	for (size_t i = 0; i < n; i++) {
		struct model_batch *in =
		    b ? b : model_find_batch(m, ops[i].batch_id);

		if (made[i] == NULL || in == NULL)
			continue;
		made[i]->batch = in->id;
		in->changed_at = m->now;
		in->total++;
	}
	for (size_t i = 0; i < n; i++) {
		if (made[i] != NULL)
			link_deps(m, &ops[i], n, made[i], ret);
	}
	for (size_t i = 0; i < n; i++)
		ret[i].status = made[i] ? job_state_shown(made[i]->state) : 0;
	if (b != NULL)
		model_batch_look(m, b);
}

/* --- requests sent twice --- */

bool model_replay(struct model *m, const struct m_enqueue *op,
		  struct model_made *ret)
{
	for (size_t i = 0; i < MODEL_KEYS; i++) {
		const struct model_key *k = &m->keys[i];

		if (k->expires_at <= m->now ||
		    !str_eq(k->key, op->idempotency_key))
			continue;
		if (k->hash != op->idempotency_hash)
			model_refuse(m, ERR_IDEMPOTENCY_MISMATCH);
		*ret = (struct model_made){ .id = k->job_id,
					    .existing = k->existing,
					    .replaced = k->replaced,
					    .status = k->status };
		return true;
	}
	return false;
}

void model_keep(struct model *m, const struct m_enqueue *op,
		const struct model_made *made)
{
	struct model_key *k = m->keys;

	while (k < m->keys + MODEL_KEYS && k->expires_at > m->now)
		k++;
	assert_true(k < m->keys + MODEL_KEYS);
	*k = (struct model_key){ .hash = op->idempotency_hash };
	k->key = model_copy(m, op->idempotency_key);
	k->expires_at = m->now + 24 * 3600 * NS_PER_S;
	k->job_id = made->id;
	k->existing = made->existing;
	k->replaced = made->replaced;
	k->status = made->status;
}

/* --- batches by themselves --- */

void model_open_batch(struct model *m, const struct m_open_batch *op)
{
	struct m_batch_options o = { .callback_queue = op->callback_queue,
				     .callback_payload = op->callback_payload,
				     .parent_id = op->parent_id };

	if (op->parent_id.n > 0)
		check_batch(m, op->parent_id);
	if (op->callback_queue.n > 0)
		(void)model_may_name(m, &op->callback_queue, 1);
	if (m->errs_n == 0)
		add_batch(m, op->batch_id, &o, false);
}

void model_seal_batch(struct model *m, const struct m_batch_ref *op)
{
	struct model_batch *b = model_find_batch(m, op->batch_id);

	if (b == NULL) {
		model_refuse(m, ERR_NOT_FOUND);
		return;
	}
	b->sealed = true;
	model_batch_look(m, b);
}
