/*
 * max_backlog. See ties/backlog.h.
 */
#include "fsm/ties/backlog.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/order/queue.h"
#include "fsm/ties/unique.h"

/* 0, or QUEUE_FULL: with these more, and without those that leave. */
static int refuse_over(struct fsm *f, const struct fsm_queue *q, uint64_t asked,
		       uint64_t leaving)
{
	uint64_t waiting = q->counts[JOB_PENDING] + q->counts[JOB_SCHEDULED] +
			   q->counts[JOB_RETRYING];

	if (q->set->max_backlog == 0 ||
	    waiting - leaving + asked <= q->set->max_backlog)
		return 0;
	return fsm_refuse(f, ERR_QUEUE_FULL,
			  "queue \"%.*s\" is full: %llu jobs wait and "
			  "max_backlog is %llu; try again after "
			  "retry_after_ms",
			  STR_ARG(q->name), (unsigned long long)waiting,
			  (unsigned long long)q->set->max_backlog);
}

/*
 * 1: the job is new to the queue; 0: its key is held by an earlier one, or
 * asked for by one before it in the request; those are in *keys.
 */
static int counts_as_new(struct fsm *f, const struct m_enqueue *op,
			 struct hmap *keys)
{
	struct str holder;
	struct key k;
	int r;

	if (op->unique_key.n == 0)
		return 1;
	r = unique_find(f, op->queue, op->unique_key, &holder);
	if (r != 0)
		return MIN(r, 0);
	key_unique(&k, SPACE_DEFAULT, op->queue, op->unique_key);
	return hmap_put(keys, key_str(&k), keys) == NULL;
}

static int check_room(struct fsm *f, const struct m_enqueue *op,
		      struct hmap *keys)
{
	struct fsm_queue *q = queue_find(f, op->queue);
	int r;

	if (q == NULL || q->set->max_backlog == 0)
		return 0;
	r = counts_as_new(f, op, keys);
	return r <= 0 ? r : refuse_over(f, q, ++q->asked, 0);
}

int backlog_check(struct fsm *f, const struct m_enqueue *ops, size_t n)
{
	struct hmap keys = { 0 };
	int r = 0;

	if (f->capped == 0)
		return 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = check_room(f, &ops[i], &keys);
	for (size_t i = 0; i < n; i++) {
		struct fsm_queue *q = queue_find(f, ops[i].queue);

		if (q != NULL)
			q->asked = 0;
	}
	hmap_done(&keys);
	return r;
}

int backlog_check_swap(struct fsm *f, struct str name,
		       const struct job *leaving)
{
	const struct fsm_queue *q = queue_find(f, name);
	bool waits = leaving != NULL && leaving->q == q &&
		     (leaving->live.state == JOB_PENDING ||
		      leaving->live.state == JOB_SCHEDULED ||
		      leaving->live.state == JOB_RETRYING);

	return q == NULL ? 0 : refuse_over(f, q, 1, waits);
}
