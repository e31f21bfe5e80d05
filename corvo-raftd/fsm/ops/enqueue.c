/*
 * enqueue, enqueue_batch: new jobs. Ids were chosen before the entry was
 * proposed and are new.
 *
 * First everything that may be refused is checked for all jobs of a request;
 * then it is decided which of them are duplicates of earlier ones; then the
 * others are created; then they are tied to those they depend on, which may
 * stand further down in the same request.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/create.h"
#include "fsm/ops/hand.h"
#include "fsm/ops/ops.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm/order/roster.h"
#include "fsm/ties/agent.h"
#include "fsm/ties/backlog.h"
#include "fsm/ties/batch.h"
#include "fsm/ties/chain.h"
#include "fsm/ties/deps.h"
#include "fsm/ties/idempotency.h"
#include "fsm/ties/purse.h"
#include "fsm/ties/unique.h"

/* The jobs of one request. */
struct request {
	const struct m_enqueue *ops;
	size_t n;
	struct str batch_id;       /* of the whole request; or empty */
	struct str callback_queue; /* of that batch; or empty */
	struct str *ids;           /* of a duplicate, that of the earlier job */
	bool *duplicate;
	struct deps *deps;
	struct m_enqueue_reply *replies;
};

static void request_init(struct fsm *f, struct request *r)
{
	struct arena *a = &f->item_arena;

	r->ids = arena_zalloc(a, r->n * sizeof(*r->ids));
	r->duplicate = arena_zalloc(a, r->n * sizeof(*r->duplicate));
	r->deps = arena_zalloc(a, r->n * sizeof(*r->deps));
}

/* What the keys of the store rely on. */
static int check_names(struct fsm *f, const struct m_enqueue *op)
{
	if (op->job_id.n == 0 || op->job_id.n > LIMIT_JOB_ID_BYTES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "job_id: must have 1 to %d bytes",
				  LIMIT_JOB_ID_BYTES);
	if (!queue_name_fits(op->queue))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "queue: must have 1 to %d bytes",
				  LIMIT_QUEUE_NAME_BYTES);
	if (op->group.n > 0 && !group_name_fits(op->group))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "group: must have 1 to %d bytes and no NUL",
				  LIMIT_GROUP_BYTES);
	if (op->unique_key.n > LIMIT_UNIQUE_KEY_BYTES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "unique_key: must have at most %d bytes",
				  LIMIT_UNIQUE_KEY_BYTES);
	return 0;
}

/* --- checks --- */

static int check_batch(struct fsm *f, const struct request *q, size_t i)
{
	struct str id = q->ops[i].batch_id;

	if (id.n == 0 || (i > 0 && str_eq(id, q->ops[i - 1].batch_id)))
		return 0;
	if (q->batch_id.n > 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "jobs[%zu].batch_id: the jobs become a batch "
				  "of their own by the member batch; give "
				  "either",
				  i);
	return batch_check(f, id);
}

static int check_job(struct fsm *f, const struct request *q, size_t i)
{
	const struct m_enqueue *op = &q->ops[i];
	int r = check_names(f, op);

	if (r == 0)
		r = job_refuse_resend(f, op->job_id);
	if (r == 0 && MSG_HAS(op, enqueue, chain))
		r = chain_check(f, op);
	if (r == 0 && op->expected.n > 0)
		r = purse_check_expected(f, op);
	if (r == 0 && MSG_HAS(op, enqueue, agent))
		r = agent_check(f, op->agent, "agent.");
	return r < 0 ? r : check_batch(f, q, i);
}

/* Queues a request may name: its own and those of its chain. */
static size_t names_of(const struct m_enqueue *op, struct str *ret)
{
	const struct m_chain *c = op->chain;
	size_t n = 0;

	ret[n++] = op->queue;
	if (!MSG_HAS(op, enqueue, chain))
		return n;
	for (size_t i = 0; i < c->steps_n; i++)
		ret[n++] = c->steps[i].queue;
	if (c->on_failure != NULL)
		ret[n++] = c->on_failure->queue;
	if (c->on_exit != NULL)
		ret[n++] = c->on_exit->queue;
	return n;
}

/* Those of a chain come into being later, but nobody is asked then. */
static int check_queues(struct fsm *f, const struct request *q)
{
	size_t max = 1, n = 0;
	struct str *names;

	for (size_t i = 0; i < q->n; i++)
		max += MSG_HAS(&q->ops[i], enqueue, chain)
			   ? q->ops[i].chain->steps_n + 3
			   : 1;
	if (roster_has_room(f, max))
		return 0;
	names = arena_alloc(&f->item_arena, max * sizeof(*names));
	for (size_t i = 0; i < q->n; i++)
		n += names_of(&q->ops[i], names + n);
	if (q->callback_queue.n > 0)
		names[n++] = q->callback_queue;
	return roster_check(f, names, n);
}

static int request_check(struct fsm *f, const struct request *q)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < q->n; i++)
		r = check_job(f, q, i);
	if (r == 0)
		r = check_queues(f, q);
	if (r == 0)
		r = unique_check_all(f, q->ops, q->n);
	if (r == 0)
		r = deps_check(f, q->ops, q->n);
	if (r == 0)
		r = backlog_check(f, q->ops, q->n);
	return r;
}

/* --- creation --- */

static int find_duplicate(struct fsm *f, struct request *q, size_t i)
{
	const struct m_enqueue *op = &q->ops[i];
	int r;

	q->ids[i] = op->job_id;
	if (op->unique_key.n == 0)
		return 0;
	r = unique_find(f, op->queue, op->unique_key, &q->ids[i]);
	if (r > 0)
		q->duplicate[i] = true;
	if (r == 0) {
		q->ids[i] = op->job_id;
		unique_take(f, op->queue, op->unique_key, op->job_id,
			    op->unique_period);
	}
	return MIN(r, 0);
}

static int create(struct fsm *f, struct request *q, size_t i)
{
	struct m_enqueue op = q->ops[i];
	struct deps *d = &q->deps[i];
	struct new_job n = { .op = &op };
	int r;

	if (q->duplicate[i])
		return unique_answer(f, &op, q->ids[i], &q->replies[i]);
	if (op.depends_on_n > 0) {
		r = deps_resolve(f, &op, q->ids, d);
		if (r < 0)
			return r;
		MSG_SET_LIST(&op, enqueue, depends_on, d->ids, d->n);
		n.waiting_on = d->waiting_on;
	}
	if (q->batch_id.n > 0)
		MSG_SET(&op, enqueue, batch_id, q->batch_id);
	job_create(f, &n, &q->replies[i]);
	d->seq = f->last_job_seq;
	return 0;
}

/*
 * The batches hear of new jobs before anything may end them. Jobs of the same
 * batch mostly stand together.
 */
static void count_in_batches(struct fsm *f, const struct request *q)
{
	struct str id = q->batch_id;
	uint32_t n = 0;

	for (size_t i = 0; i < q->n; i++) {
		struct str own = q->ops[i].batch_id;

		if (q->duplicate[i] || (q->batch_id.n == 0 && own.n == 0))
			continue;
		if (q->batch_id.n == 0 && !str_eq(own, id)) {
			if (n > 0)
				batch_add(f, id, n);
			id = own;
			n = 0;
		}
		n++;
	}
	if (n > 0 || q->batch_id.n > 0)
		batch_add(f, id, n);
}

/* The jobs exist: what counts them or waits for them hears of it. */
static int request_link(struct fsm *f, const struct request *q)
{
	int r = 0;

	count_in_batches(f, q);
	for (size_t i = 0; r == 0 && i < q->n; i++) {
		if (q->duplicate[i] || q->deps[i].n == 0)
			continue;
		r = deps_link(f, q->ids[i], &q->deps[i]);
		if (r == 0 && q->deps[i].failed.n > 0)
			MSG_SET(&q->replies[i], enqueue_reply, status,
				JOB_DEAD);
	}
	return r;
}

static int request_create(struct fsm *f, struct request *q)
{
	int r = 0;

	request_init(f, q);
	for (size_t i = 0; r == 0 && i < q->n; i++)
		r = find_duplicate(f, q, i);
	for (size_t i = 0; r == 0 && i < q->n; i++)
		r = create(f, q, i);
	return r < 0 ? r : request_link(f, q);
}

/* --- the operations --- */

int apply_enqueue(struct fsm *f, const struct m_enqueue *op,
		  struct m_enqueue_reply *ret)
{
	struct request q = { .ops = op, .n = 1, .replies = ret };
	int r = 0;

	if (op->idempotency_key.n > 0)
		r = idempotency_find(f, op->idempotency_key,
				     op->idempotency_hash, &msg_enqueue_reply,
				     ret);
	if (r > 0)
		MSG_SET(ret, enqueue_reply, replayed, true);
	if (r == 0)
		r = request_check(f, &q);
	if (r != 0)
		return MIN(r, 0);
	r = request_create(f, &q);
	if (r == 0 && op->idempotency_key.n > 0)
		idempotency_keep(f, op->idempotency_key, op->idempotency_hash,
				 &msg_enqueue_reply, ret);
	return r;
}

static void fill_batch_reply(struct fsm *f, const struct request *q,
			     struct m_enqueue_batch_reply *ret)
{
	struct str *ids = arena_alloc(&f->item_arena, q->n * sizeof(*ids));

	for (size_t i = 0; i < q->n; i++)
		ids[i] = q->replies[i].job_id;
	MSG_SET_LIST(ret, enqueue_batch_reply, job_ids, ids, q->n);
	MSG_SET_LIST(ret, enqueue_batch_reply, jobs, q->replies, q->n);
	if (q->batch_id.n > 0)
		MSG_SET(ret, enqueue_batch_reply, batch_id, q->batch_id);
}

static int create_batch(struct fsm *f, const struct m_enqueue_batch *op,
			struct request *q)
{
	int r = request_check(f, q);

	if (r == 0 && q->batch_id.n > 0 && fsm_is_resend(f))
		r = batch_exists(f, q->batch_id);
	if (r > 0)
		return fsm_refuse(f, ERR_OUTCOME_UNKNOWN,
				  "batch \"%.*s\" was created already",
				  STR_ARG(q->batch_id));
	if (r == 0 && q->batch_id.n > 0)
		r = batch_create(f, q->batch_id, op->batch, true);
	return r < 0 ? r : request_create(f, q);
}

int apply_enqueue_batch(struct fsm *f, const struct m_enqueue_batch *op,
			struct m_enqueue_batch_reply *ret)
{
	struct request q = { .ops = op->jobs, .n = op->jobs_n };
	int r = 0;

	q.replies = arena_zalloc(&f->item_arena, q.n * sizeof(*q.replies));
	if (MSG_HAS(op, enqueue_batch, batch)) {
		q.batch_id = op->batch_id;
		q.callback_queue = op->batch->callback_queue;
	}
	if (op->idempotency_key.n > 0)
		r = idempotency_find(f, op->idempotency_key,
				     op->idempotency_hash,
				     &msg_enqueue_batch_reply, ret);
	if (r > 0)
		MSG_SET(ret, enqueue_batch_reply, replayed, true);
	if (r != 0)
		return MIN(r, 0);
	r = create_batch(f, op, &q);
	if (r < 0)
		return r;
	fill_batch_reply(f, &q, ret);
	if (op->idempotency_key.n > 0)
		idempotency_keep(f, op->idempotency_key, op->idempotency_hash,
				 &msg_enqueue_batch_reply, ret);
	return 0;
}
