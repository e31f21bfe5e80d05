/*
 * Unique keys: at most one job that has not ended per queue and key. Keys are
 * hostile texts of a limited length, checked before they get here.
 *
 * A lock u|queue\0key names the job that holds it and when its period is over;
 * from then on it counts as free, and the next job with the key overwrites it.
 * The queue is the one the job was created in: a move takes no lock along.
 *
 * Locks need no sweep. A job frees its lock at every end and when it is
 * deleted, unless another job has taken it over meanwhile. So every lock names
 * a job that has not ended, and there are never more locks than such jobs.
 *
 * Owns nothing; slices live in the item's arena.
 */
#include "fsm/ties/unique.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/create.h"
#include "fsm/job/job.h"
#include "fsm/ties/policy.h"
#include "store/record.h"

#define UNIQUE_PERIOD_NS (3600 * NS_PER_S) /* of jobs that name none */
#define LOCK_HEAD_BYTES  8
/* Records that one request may make us write again. */
#define REPLACED_BYTES_MAX (LIMIT_ENTRY_BYTES / 2)

/* 1: there is a lock, perhaps one whose period is over; 0: none; -ERR_*. */
static int lock_read(struct fsm *f, struct str queue, struct str key,
		     struct m_unique_lock *ret)
{
	struct str raw;
	struct key k;
	int r;

	key_unique(&k, SPACE_DEFAULT, queue, key);
	r = fsm_get(f, &k, &raw);
	if (r <= 0)
		return r;
	if (!record_lock(queue, key, raw, ret))
		return fsm_fail(f, -ERR_INTERNAL_ERROR);
	return 1;
}

int unique_find(struct fsm *f, struct str queue, struct str key,
		struct str *holder)
{
	struct m_unique_lock l;
	int r = lock_read(f, queue, key, &l);

	if (r <= 0 || l.expires_at <= f->now_ns)
		return MIN(r, 0);
	*holder = l.job_id;
	return 1;
}

void unique_take(struct fsm *f, struct str queue, struct str key, struct str id,
		 uint64_t period)
{
	char value[LOCK_HEAD_BYTES + LIMIT_JOB_ID_BYTES];
	struct key k;

	MUST(f, key.n > 0 && id.n > 0 && id.n <= LIMIT_JOB_ID_BYTES);
	if (period == 0)
		period = UNIQUE_PERIOD_NS;
	put_be64(value, fsm_later(f, period));
	memcpy(value + LOCK_HEAD_BYTES, id.p, id.n);
	key_unique(&k, SPACE_DEFAULT, queue, key);
	txn_put(f->txn, key_str(&k), str_of(value, LOCK_HEAD_BYTES + id.n));
}

void unique_release(struct fsm *f, struct job *j)
{
	struct m_unique_lock l;
	struct key k;

	/* A store that fails has set f->fatal: the entry is not committed. */
	if (job_need_doc(f, j) < 0 ||
	    lock_read(f, j->doc.queue, j->doc.unique_key, &l) <= 0)
		return;
	if (!str_eq(l.job_id, j->id))
		return; /* its period was over, and another job took it */
	key_unique(&k, SPACE_DEFAULT, j->doc.queue, j->doc.unique_key);
	fsm_delete(f, &k);
}

int unique_check(struct fsm *f, struct job *j)
{
	const struct m_job_doc *d = &j->doc;
	struct str holder;
	int r = job_need_doc(f, j);

	if (r == 0)
		r = unique_find(f, d->queue, d->unique_key, &holder);
	if (r > 0 && !str_eq(holder, j->id))
		return fsm_refuse(f, ERR_UNIQUE_CONFLICT,
				  "job \"%.*s\" holds the unique key \"%.*s\"; "
				  "try again when it has ended",
				  STR_ARG(holder), STR_ARG(d->unique_key));
	return MIN(r, 0);
}

int unique_retake(struct fsm *f, struct job *j)
{
	const struct m_job_doc *d = &j->doc;
	int r = unique_check(f, j);

	if (r == 0)
		unique_take(f, d->queue, d->unique_key, j->id,
			    d->unique_period);
	return r;
}

/* --- a duplicate --- */

/* A worker has what an active job was created with: it is left alone. */
static bool can_be_replaced(const struct job *j)
{
	return j->live.state != JOB_ACTIVE &&
	       !job_state_is_terminal(j->live.state);
}

/* Postpones a job that waits for its time; others keep their place. */
static void replace_time(struct fsm *f, struct job *j, uint64_t ns)
{
	enum job_state s = j->live.state;

	if (s == JOB_SCHEDULED && ns <= f->now_ns) {
		job_event(f, j, EVENT_PROMOTED, STR_NULL);
		job_back_to_pending(f, j);
	} else if (s == JOB_SCHEDULED) {
		job_reschedule(f, j, ns);
	} else if (s == JOB_BLOCKED && ns <= f->now_ns) {
		j->live.scheduled_at = 0;
		MSG_UNSET(&j->live, job_live, scheduled_at);
	} else if (s == JOB_BLOCKED) {
		MSG_SET(&j->live, job_live, scheduled_at, ns);
	}
}

static void replace(struct fsm *f, struct job *j, const struct m_enqueue *op)
{
	j->doc.payload = op->payload;
	if (op->payload.n > 0)
		j->doc.has |= MSG_BIT(job_doc, payload);
	else
		MSG_UNSET(&j->doc, job_doc, payload);
	policy_put_off(f, &j->doc);
	MSG_UNSET(&j->live, job_live, asked);
	job_rewrite(f, j);
	job_event(f, j, EVENT_REPLACED, STR_NULL);
	if (MSG_HAS(op, enqueue, scheduled_at) || MSG_HAS(op, enqueue, delay))
		replace_time(f, j, enqueue_due(f, op));
	policy_on_replace(f, j);
	job_save(f, j);
}

static int replace_holder(struct fsm *f, const struct m_enqueue *op,
			  struct str holder, struct m_enqueue_reply *ret)
{
	struct job j;
	int r = job_find(f, holder, &j);

	if (r < 0)
		return r;
	MUST(f, r > 0); /* a lock goes with its job */
	if (can_be_replaced(&j)) {
		replace(f, &j, op);
		MSG_SET(ret, enqueue_reply, replaced, true);
	}
	MSG_SET(ret, enqueue_reply, status, job_state_shown(j.live.state));
	return 0;
}

/* In place, without a copy of what may be large. */
static int read_state(struct fsm *f, const struct key *k,
		      const struct msg_desc *d, enum job_state *ret)
{
	struct arena a = ARENA_INIT;
	struct m_job_live live = { 0 };
	struct m_job_doc doc = { 0 };
	bool is_live = d == &msg_job_live;
	struct str raw;
	int r = txn_get(f->txn, key_str(k), &raw);

	if (r < 0)
		return fsm_fail(f, r);
	if (r == 0)
		return 0;
	if (msg_decode(d, raw, &a, is_live ? (void *)&live : &doc) < 0)
		r = fsm_fail(f, -ERR_INTERNAL_ERROR);
	else
		*ret = is_live ? live.state : job_state_at_creation(&doc);
	arena_done(&a);
	return r;
}

/* Only its state; 1 found, 0 absent, -ERR_*. */
static int find_state(struct fsm *f, struct str id, enum job_state *ret)
{
	struct key k;
	int r;

	key_live(&k, id);
	r = read_state(f, &k, &msg_job_live, ret);
	if (r != 0)
		return r;
	key_job(&k, id);
	return read_state(f, &k, &msg_job_doc, ret);
}

int unique_answer(struct fsm *f, const struct m_enqueue *op, struct str holder,
		  struct m_enqueue_reply *ret)
{
	enum job_state s;
	int r;

	MSG_SET(ret, enqueue_reply, job_id, holder);
	MSG_SET(ret, enqueue_reply, unique_existing, true);
	if (op->unique_action == UNIQUE_REPLACE)
		return replace_holder(f, op, holder, ret);
	/* Thousands in one request may meet jobs as large as they come. */
	r = find_state(f, holder, &s);
	if (r < 0)
		return r;
	MUST(f, r > 0);
	MSG_SET(ret, enqueue_reply, status, job_state_shown(s));
	return 0;
}

/* --- many of them --- */

/* What a replacement reads and writes again; 0: there is none, or -ERR_*. */
static int64_t replaced_bytes(struct fsm *f, const struct m_enqueue *op)
{
	struct str holder, raw;
	struct key k;
	int r;

	if (op->unique_key.n == 0 || op->unique_action != UNIQUE_REPLACE)
		return 0;
	r = unique_find(f, op->queue, op->unique_key, &holder);
	if (r <= 0)
		return r;
	key_job(&k, holder);
	r = txn_get(f->txn, key_str(&k), &raw);
	if (r < 0)
		return fsm_fail(f, r);
	return r > 0 ? (int64_t)raw.n : 0;
}

int unique_check_all(struct fsm *f, const struct m_enqueue *ops, size_t n)
{
	int64_t all = 0;

	for (size_t i = 0; n > 1 && i < n; i++) {
		int64_t one = replaced_bytes(f, &ops[i]);

		if (one < 0)
			return (int)one;
		all += one;
		if (all > REPLACED_BYTES_MAX)
			return fsm_refuse(f, ERR_VALIDATION_ERROR,
					  "jobs[%zu].unique_action: the jobs "
					  "to replace are too large together; "
					  "send fewer jobs in one request",
					  i);
	}
	return 0;
}
