/*
 * Operations on many jobs: those done in one entry, and those that go on step
 * by step in the background. What is done to each job is in ops/act.c; a job
 * it cannot be done to is skipped. Ids are hostile. Counts are changed in the
 * same entry as the jobs they count, so they are exact whatever crashes.
 */
#include "fsm/ties/bulk.h"
#include "fsm/job/portion.h"
#include "fsm/ops/act.h"
#include "fsm/ops/ops.h"
#include "fsm/order/roster.h"
#include "fsm/ties/idempotency.h"

/* --- what is the same of all --- */

/* The queue jobs are to be moved to, if that is asked for, can be made. */
static int check_room(struct fsm *f, uint32_t action, struct str queue)
{
	return action == BULK_MOVE ? roster_check(f, &queue, 1) : 0;
}

static int check_act(struct fsm *f, const struct act *a)
{
	if (a->action > BULK_REJECT)
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "action: is not known to this node");
	if (a->action == BULK_MOVE && !queue_name_fits(a->queue))
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "move_to_queue: must have 1 to %d bytes",
				  LIMIT_QUEUE_NAME_BYTES);
	if (a->action == BULK_CHANGE_PRIORITY && a->priority >= PRIORITIES)
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "priority: must be critical, high or normal");
	return 0;
}

/* 1 acted, 0 skipped, -ERR_* of a store that fails. */
static int act_or_skip(struct fsm *f, const struct act *a, struct str id,
		       struct portion *p)
{
	struct job j = { 0 };
	int r = act_on(f, a, id, &j);

	budget_take_job(f);
	p->jobs++;
	if (f->fatal < 0)
		return f->fatal;
	return r > 0;
}

/* --- in one entry --- */

static int act_on_all(struct fsm *f, const struct act *a,
		      const struct m_bulk_act *op, struct m_bulk_result *ret)
{
	struct portion p = { .max = LIMIT_BULK_STEP };
	size_t i = 0;
	int r;

	for (; i < op->job_ids_n && !portion_is_full(f, &p); i++) {
		r = act_or_skip(f, a, op->job_ids[i], &p);
		if (r < 0)
			return r;
		ret->affected += (uint64_t)r;
	}
	MSG_SET(ret, bulk_result, affected, ret->affected);
	MSG_SET(ret, bulk_result, skipped, i - ret->affected);
	MSG_SET(ret, bulk_result, total, i);
	return 0;
}

/*
 * As 0.4.0 did, whose entries name no caller: kept as an answer to a request
 * sent twice, under a name no client can give: a header has no line break in
 * it.
 */
static struct str kept_as(struct fsm *f, const struct m_bulk_act *op)
{
	return arena_printf(&f->item_arena, "bulk\n%.*s",
			    STR_ARG(op->request_id));
}

int apply_bulk_act(struct fsm *f, const struct m_bulk_act *op,
		   struct m_bulk_result *ret)
{
	struct act a = { .action = op->action,
			 .queue = op->move_to_queue,
			 .priority = op->priority,
			 .reason = op->reason,
			 .dry_run = op->dry_run };
	bool keeps = op->request_id.n > 0 && !op->dry_run;
	int r = check_act(f, &a);

	if (r < 0)
		return r;
	if (op->request_id.n > LIMIT_JOB_ID_BYTES)
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "request_id: must have at most %d bytes",
				  LIMIT_JOB_ID_BYTES);
	if (keeps && fsm_is_old_resend(f)) {
		r = idempotency_find(f, kept_as(f, op), 0, &msg_bulk_result,
				     ret);
		if (r != 0)
			return MIN(r, 0);
	}
	r = check_room(f, op->action, op->move_to_queue);
	if (r == 0)
		r = act_on_all(f, &a, op, ret);
	if (r == 0 && keeps)
		idempotency_keep(f, kept_as(f, op), 0, &msg_bulk_result, ret);
	return r;
}

/* --- in the background: beginning --- */

static int check_create(struct fsm *f, const struct m_bulk_create *op)
{
	struct act a = { .action = op->action,
			 .queue = op->move_to_queue,
			 .priority = op->priority };

	if (op->bulk_id.n == 0 || op->bulk_id.n > LIMIT_JOB_ID_BYTES ||
	    memchr(op->bulk_id.p, '\0', op->bulk_id.n) != NULL)
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "bulk_id: must have 1 to %d bytes",
				  LIMIT_JOB_ID_BYTES);
	if (op->canary > LIMIT_BULK_CANARY)
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "canary: must be at most %d",
				  LIMIT_BULK_CANARY);
	if (op->canary > 0 && op->action != BULK_RETRY &&
	    op->action != BULK_REQUEUE)
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "canary: is for retry and requeue, whose "
				  "jobs can fail again");
	return check_act(f, &a);
}

/* Deterministic, and later ones are greater. */
static uint64_t place_of(const struct fsm *f)
{
	return f->entry_index << 20 | (f->item & 0xfffff);
}

static void fill(struct fsm *f, const struct m_bulk_create *op,
		 struct m_bulk *m)
{
	MSG_SET(m, bulk, id, op->bulk_id);
	MSG_SET(m, bulk, status, BULK_COLLECTING);
	MSG_SET(m, bulk, action, op->action);
	MSG_SET(m, bulk, created_at, f->now_ns);
	MSG_SET(m, bulk, updated_at, f->now_ns);
	MSG_SET(m, bulk, created_seq, place_of(f));
	if (op->action == BULK_MOVE)
		MSG_SET(m, bulk, move_to_queue, op->move_to_queue);
	if (op->action == BULK_CHANGE_PRIORITY)
		MSG_SET(m, bulk, priority, op->priority);
	if (op->reason.n > 0)
		MSG_SET(m, bulk, reason, op->reason);
	if (op->rate > 0)
		MSG_SET(m, bulk, rate, op->rate);
	if (op->canary > 0)
		MSG_SET(m, bulk, canary, op->canary);
}

int apply_bulk_create(struct fsm *f, const struct m_bulk_create *op,
		      struct m_bulk *ret)
{
	int r = check_create(f, op);

	if (r == 0)
		r = bulk_find(f, op->bulk_id, ret);
	if (r != 0)
		return MIN(r, 0);
	r = check_room(f, op->action, op->move_to_queue);
	if (r < 0)
		return r;
	if (!bulk_make_room(f))
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "there are %d bulk operations that have not "
				  "ended; cancel one, or wait",
				  LIMIT_BULKS);
	fill(f, op, ret);
	bulk_save(f, ret);
	return 0;
}

static void start(struct fsm *f, struct m_bulk *m)
{
	MSG_SET(m, bulk, status, BULK_RUNNING);
	MSG_SET(m, bulk, due_ns, f->now_ns);
	bulk_event(f, EVENT_BULK_STARTED, m);
	if (m->total == 0)
		bulk_end(f, m, BULK_COMPLETED, STR_NULL);
}

int apply_bulk_add(struct fsm *f, const struct m_bulk_add *op,
		   struct m_bulk *ret)
{
	int r = bulk_must_find(f, op->bulk_id, ret);

	if (r < 0 || ret->status != BULK_COLLECTING || op->page < ret->pages)
		return r;
	if (op->page > ret->pages)
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "page: %u must come before %u", ret->pages,
				  op->page);
	if (op->job_ids_n > LIMIT_BULK_PAGE ||
	    ret->total + op->job_ids_n > LIMIT_BULK_JOBS)
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "one operation may act on at most %d jobs; "
				  "narrow the filter",
				  LIMIT_BULK_JOBS);
	bulk_add_page(f, ret, op->page, op->job_ids, op->job_ids_n);
	MSG_SET(ret, bulk, total, ret->total + op->job_ids_n);
	MSG_SET(ret, bulk, pages, ret->pages + 1);
	if (op->last)
		start(f, ret);
	bulk_save(f, ret);
	return 0;
}

/* --- pause, resume, cancel --- */

static int refuse_control(struct fsm *f, const struct m_bulk *m,
			  const char *done)
{
	return fsm_refuse(
	    f, ERR_BULK_ERROR, "bulk operation \"%.*s\" cannot be %s: it is %s",
	    STR_ARG(m->id), done, enum_text(&enum_bulk_status, m->status));
}

static int pause_bulk(struct fsm *f, struct m_bulk *m)
{
	if (m->status == BULK_PAUSED)
		return 0;
	if (m->status != BULK_RUNNING && m->status != BULK_CANARY)
		return refuse_control(f, m, "paused");
	MSG_SET(m, bulk, resume_as, m->status);
	MSG_SET(m, bulk, status, BULK_PAUSED);
	bulk_event(f, EVENT_BULK_PAUSED, m);
	bulk_save(f, m);
	return 0;
}

static int resume_bulk(struct fsm *f, struct m_bulk *m)
{
	if (m->status == BULK_RUNNING || m->status == BULK_CANARY)
		return 0;
	if (m->status != BULK_PAUSED)
		return refuse_control(f, m, "resumed");
	MSG_SET(m, bulk, status, m->resume_as);
	MSG_SET(m, bulk, due_ns, f->now_ns);
	bulk_event(f, EVENT_BULK_RESUMED, m);
	bulk_save(f, m);
	return 0;
}

static int cancel_bulk(struct fsm *f, struct m_bulk *m)
{
	if (bulk_has_ended(m))
		return refuse_control(f, m, "cancelled");
	bulk_end(f, m, BULK_CANCELLED, STR_NULL);
	return 0;
}

int apply_bulk_control(struct fsm *f, const struct m_bulk_control *op,
		       struct m_bulk *ret)
{
	int r = bulk_must_find(f, op->bulk_id, ret);

	if (r < 0)
		return r;
	switch (op->status) {
	case BULK_PAUSED:
		return pause_bulk(f, ret);
	case BULK_RUNNING:
		return resume_bulk(f, ret);
	case BULK_CANCELLED:
		return cancel_bulk(f, ret);
	default:
		return fsm_refuse(f, ERR_BULK_ERROR,
				  "status: must be paused, running or "
				  "cancelled");
	}
}

/* --- a step --- */

/* The first jobs are tried, and it is not known what becomes of them. */
static bool is_trying(const struct m_bulk *m)
{
	return m->canary > 0 && m->canary_completed < m->canary;
}

static bool has_tried_enough(const struct m_bulk *m)
{
	return is_trying(m) && m->affected >= m->canary;
}

/* A job is the canary of one operation at a time, which hears of its end. Most
 * that are cannot be retried; but one that a budget has set aside can. */
static int try_or_skip(struct fsm *f, const struct act *a, struct str id,
		       struct portion *p)
{
	if (f->cluster.level < 2 || !canary_exists(f, id))
		return act_or_skip(f, a, id, p);
	budget_take_job(f);
	p->jobs++;
	return 0;
}

/* Acts on ids of a part; the number of those it got to, or -ERR_*. */
static int64_t act_on_part(struct fsm *f, struct m_bulk *m,
			   const struct m_job_ids *part, uint32_t max)
{
	struct act a = { .action = m->action,
			 .queue = m->move_to_queue,
			 .priority = m->priority,
			 .reason = m->reason };
	struct portion p = { .max = LIMIT_BULK_STEP };
	bool trying = is_trying(m);
	uint32_t n = 0;

	for (size_t i = m->part_at; i < part->job_ids_n && n < max; i++, n++) {
		int r;

		if (portion_is_full(f, &p) || has_tried_enough(m))
			break;
		r = (trying ? try_or_skip : act_or_skip)(f, &a,
							 part->job_ids[i], &p);
		if (r < 0)
			return r;
		MSG_SET(m, bulk, affected, m->affected + (uint64_t)r);
		MSG_SET(m, bulk, skipped, m->skipped + !r);
		if (r > 0 && trying)
			canary_add(f, m, part->job_ids[i]);
	}
	return n;
}

/* n more of its ids are done; one that is used up goes. */
static void advance(struct fsm *f, struct m_bulk *m, uint32_t number,
		    const struct m_job_ids *part, uint32_t n)
{
	struct key k;

	MSG_SET(m, bulk, next_part, number);
	MSG_SET(m, bulk, part_at, m->part_at + n);
	if (m->part_at < part->job_ids_n)
		return;
	key_bulk_part(&k, m->id, number);
	fsm_delete(f, &k);
	MSG_SET(m, bulk, next_part, number + 1);
	MSG_SET(m, bulk, part_at, 0);
}

/* What n more jobs make of it. */
static void go_on(struct fsm *f, struct m_bulk *m, uint64_t n)
{
	MSG_SET(m, bulk, processed, m->processed + n);
	MUST(f, m->processed <= m->total &&
		    m->affected + m->skipped == m->processed);
	MSG_SET(m, bulk, due_ns,
		m->rate > 0 ? fsm_later(f, n * NS_PER_S / m->rate) : f->now_ns);
	if (has_tried_enough(m))
		MSG_SET(m, bulk, status, BULK_CANARY);
	bulk_event(f, EVENT_BULK_PROGRESS, m);
	if (m->processed == m->total)
		bulk_end(f, m, BULK_COMPLETED, STR_NULL);
	else
		bulk_save(f, m);
}

static int take_step(struct fsm *f, struct m_bulk *m, uint32_t max)
{
	struct m_job_ids part;
	uint32_t number;
	int64_t n;
	int r = bulk_next_part(f, m, &number, &part);

	if (r < 0)
		return r;
	n = act_on_part(f, m, &part, MAX(max, 1u));
	if (n < 0)
		return (int)n;
	advance(f, m, number, &part, (uint32_t)n);
	go_on(f, m, (uint64_t)n);
	return 0;
}

int apply_bulk_step(struct fsm *f, const struct m_bulk_step *op,
		    struct m_bulk *ret)
{
	int r = bulk_must_find(f, op->bulk_id, ret);

	if (r < 0 || op->processed != ret->processed)
		return r;
	if (bulk_has_leftovers(ret)) {
		bulk_free_some(f, ret);
		return 0;
	}
	if (ret->status != BULK_RUNNING || ret->due_ns > f->now_ns)
		return 0;
	return take_step(f, ret, op->max);
}
