/*
 * sdb_create, sdb_cancel, sdb_delete: jobs of Scheduled-DB. A unico is a job of
 * the queue scheduled-db, a recurrente a schedule of it; an id is that of
 * either, never of both. Ids, URLs and expressions come from clients; the node
 * that took the request has looked at what they say, here they are looked at
 * for what keys rely on. Ids that clients choose and ids that are made here or
 * in corvo-httpd never meet: those of the latter form are refused.
 */
#include "fsm/job/sdb.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/create.h"
#include "fsm/ops/ops.h"
#include "fsm/ops/schedule.h"
#include "fsm/order/roster.h"
#include "fsm/ties/backlog.h"
#include "fsm/ties/schedule.h"
#include "proto/scheddb.h"
#include "util/id.h"

/* What an id is of. */
struct found {
	bool is_job, is_schedule;
	struct job job;
	struct m_schedule schedule;
};

/* Of a schedule; NULL: it is none of ours. */
static const struct m_sdb *sdb_of(const struct m_schedule *s)
{
	return s->job != NULL ? s->job->scheduled_db : NULL;
}

static int refuse_id(struct fsm *f)
{
	return fsm_refuse(f, ERR_VALIDATION_ERROR,
			  "id: it is that of something else, which is not of "
			  "Scheduled-DB");
}

/* 1 found, 0 absent, -ERR_*; strange: whether it is of something else. */
static int find(struct fsm *f, struct str id, struct found *ret, bool *strange)
{
	int r;

	*ret = (struct found){ 0 };
	*strange = false;
	r = job_find(f, id, &ret->job);
	if (r > 0)
		r = job_need_doc(f, &ret->job) < 0 ? f->fatal : 1;
	if (r < 0)
		return r;
	if (r > 0) {
		*strange = ret->job.doc.scheduled_db == NULL ||
			   ret->job.doc.scheduled_db->size == 0;
		ret->is_job = !*strange;
		return !*strange;
	}
	if (!schedule_exists(f, id))
		return 0;
	r = schedule_find(f, id, &ret->schedule);
	if (r <= 0)
		return r;
	*strange =
	    sdb_of(&ret->schedule) == NULL || !str_eq(ret->schedule.id, id);
	ret->is_schedule = !*strange;
	return !*strange;
}

static int must_find(struct fsm *f, struct str id, struct found *ret)
{
	bool strange;
	int r = find(f, id, ret, &strange);

	return r == 0 ? fsm_refuse(f, ERR_NOT_FOUND, "Job not found")
		      : MIN(r, 0);
}

/* --- ends --- */

/* An attempt that is under way ends here; who makes it hears of that. */
static void cancel_job(struct fsm *f, struct job *j, struct str reason)
{
	if (j->live.state == JOB_HELD)
		job_move(f, j, JOB_PENDING); /* from where it may end */
	if (reason.n > 0)
		MSG_SET(&j->live, job_live, cancel_reason, reason);
	if (j->live.state == JOB_ACTIVE)
		job_abort(f, j, STR("cancelled: the job was cancelled"));
	else
		job_end_cancelled(f, j);
}

/* 1: its last run had not ended; 0; -ERR_*. */
static int cancel_run(struct fsm *f, const struct m_schedule *s,
		      struct str reason)
{
	struct job j;
	int r;

	if (s->last_job_id.n == 0)
		return 0;
	r = job_find(f, s->last_job_id, &j);
	if (r <= 0 || job_state_is_terminal((enum job_state)j.live.state) ||
	    !(j.extras & EXTRA_SDB))
		return MIN(r, 0);
	r = j.live.state == JOB_ACTIVE;
	cancel_job(f, &j, reason);
	return r;
}

static int delete_found(struct fsm *f, struct found *x)
{
	int r;

	if (x->is_job) {
		job_delete(f, &x->job, EVENT_DELETED);
		return 0;
	}
	r = cancel_run(f, &x->schedule, STR_NULL);
	if (r < 0)
		return r;
	schedule_event(f, EVENT_SCHEDULE_DELETED, &x->schedule, NULL);
	schedule_remove(f, &x->schedule);
	return 0;
}

int apply_sdb_delete(struct fsm *f, const struct m_sdb_ref *op,
		     struct m_status_reply *ret)
{
	struct found x;
	int r = must_find(f, op->id, &x);

	if (r == 0)
		r = delete_found(f, &x);
	if (r == 0)
		f->counters.sdb_deleted++;
	MSG_SET(ret, status_reply, status, STR("deleted"));
	return r;
}

static void show_cancelled(struct fsm *f, bool was_active,
			   struct m_sdb_cancelled *ret)
{
	MSG_SET(ret, sdb_cancelled, status, SDB_CANCELLED);
	MSG_SET(ret, sdb_cancelled, cancelled_at, f->now_ns / NS_PER_S);
	if (was_active)
		MSG_SET(ret, sdb_cancelled, message,
			STR("Job was in progress; its execution is aborted"));
}

static void cancel_once(struct fsm *f, struct job *j, struct str reason,
			struct m_sdb_cancelled *ret)
{
	bool was_active = j->live.state == JOB_ACTIVE;

	if (job_state_is_terminal((enum job_state)j->live.state)) {
		MSG_SET(ret, sdb_cancelled, status, j->live.sdb_status);
		return;
	}
	cancel_job(f, j, reason);
	show_cancelled(f, was_active, ret);
}

/* It has ended, and says so until its history is forgotten. */
static int cancel_recurring(struct fsm *f, struct m_schedule *s,
			    struct str reason, struct m_sdb_cancelled *ret)
{
	const struct m_sdb *was = sdb_of(s);
	struct m_sdb *d;
	int r = 0;

	MUST(f, was != NULL);
	if (s->ended) {
		MSG_SET(ret, sdb_cancelled, status,
			was->cancelled_at != 0 ? SDB_CANCELLED : SDB_COMPLETED);
		return 0;
	}
	r = cancel_run(f, s, reason);
	if (r < 0)
		return r;
	schedule_end(f, s);
	d = schedule_own_sdb(f, s);
	MSG_SET(d, sdb, cancelled_at, f->now_ns);
	if (reason.n > 0)
		MSG_SET(d, sdb, reason, reason);
	schedule_save(f, s);
	show_cancelled(f, r > 0, ret);
	return 0;
}

int apply_sdb_cancel(struct fsm *f, const struct m_sdb_cancel *op,
		     struct m_sdb_cancelled *ret)
{
	struct found x;
	int r = must_find(f, op->id, &x);

	if (r < 0)
		return r;
	MSG_SET(ret, sdb_cancelled, job_id, op->id);
	MSG_SET(ret, sdb_cancelled, cancelled_at, 0);
	if (x.is_schedule)
		return cancel_recurring(f, &x.schedule, op->reason, ret);
	cancel_once(f, &x.job, op->reason, ret);
	return 0;
}

/* --- creation --- */

static bool is_id(struct str id)
{
	for (size_t i = 0; i < id.n; i++)
		if ((unsigned char)id.p[i] < ' ' || id.p[i] == 0x7f)
			return false;
	return id.n > 0 && id.n <= LIMIT_JOB_ID_BYTES;
}

static int check(struct fsm *f, const struct m_sdb_create *op)
{
	if (!is_id(op->id))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "id: must have 1 to %d bytes, and no control "
				  "characters",
				  LIMIT_JOB_ID_BYTES);
	if (id_is_valid(op->id, "job_") || id_is_valid(op->id, "sch_"))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "id: looks like one that Corvo makes itself; "
				  "choose another form");
	if (op->type > SDB_RECURRING)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "type: must be unico or recurrente");
	if (op->type == SDB_ONCE && op->timestamp == 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "timestamp is required for unico jobs");
	if (op->type == SDB_RECURRING &&
	    (op->cron_expression.n == 0 || op->next_ns == 0))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "cron_expression is required for recurrente "
				  "jobs");
	if (op->run_id.n > LIMIT_JOB_ID_BYTES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "run_id: must have at most %d bytes",
				  LIMIT_JOB_ID_BYTES);
	return 0;
}

static struct m_sdb *make_sdb(struct fsm *f, const struct m_sdb_create *op)
{
	struct m_sdb *s = arena_zalloc(&f->item_arena, sizeof(*s));

	MSG_SET(s, sdb, type, op->type);
	if (op->webhook_url.n > 0)
		MSG_SET(s, sdb, webhook_url, op->webhook_url);
	if (op->credentials.n > 0)
		MSG_SET(s, sdb, credentials, op->credentials);
	if (op->timestamp != 0)
		MSG_SET(s, sdb, timestamp, op->timestamp);
	if (op->cron_expression.n > 0)
		MSG_SET(s, sdb, cron_expression, op->cron_expression);
	if (op->last_date != 0)
		MSG_SET(s, sdb, last_date, op->last_date);
	MSG_SET(s, sdb, size, sdb_size(op->id, s, op->payload));
	return s;
}

/* What is free when the one that is replaced has gone. */
static void room_of(struct fsm *f, const struct found *x, uint64_t *bytes,
		    uint64_t *jobs)
{
	*bytes = *jobs = 0;
	if (x->is_job &&
	    !job_state_is_terminal((enum job_state)x->job.live.state)) {
		*bytes = x->job.doc.scheduled_db->size;
		*jobs = 1;
	} else if (x->is_schedule && !x->schedule.ended) {
		const struct m_sdb *d = sdb_of(&x->schedule);

		MUST(f, d != NULL);
		*bytes = d->size;
		*jobs = 1;
	}
}

/* False: there is no room, and the answer says which. */
static bool has_room(struct fsm *f, const struct m_sdb_create *op,
		     const struct found *x, uint64_t size,
		     struct m_sdb_job *ret)
{
	struct m_sdb_refusal *no;
	uint64_t bytes, jobs;
	bool fits, has_place;

	room_of(f, x, &bytes, &jobs);
	bytes = f->sdb.bytes - bytes;
	jobs = f->sdb.jobs - jobs;
	fits = op->limit_bytes == 0 ||
	       (size <= op->limit_bytes && bytes <= op->limit_bytes - size);
	has_place = op->limit_jobs == 0 || jobs < op->limit_jobs;
	if (fits && has_place)
		return true;
	no = arena_zalloc(&f->item_arena, sizeof(*no));
	MSG_SET(no, sdb_refusal, type, fits ? STR("job_count") : STR("memory"));
	MSG_SET(no, sdb_refusal, current, fits ? jobs : bytes);
	MSG_SET(no, sdb_refusal, limit,
		fits ? op->limit_jobs : op->limit_bytes);
	MSG_SET(no, sdb_refusal, requested, fits ? 0 : size);
	MSG_SET(ret, sdb_job, refusal, no);
	if (fits)
		f->counters.sdb_no_place++;
	else
		f->counters.sdb_no_memory++;
	return false;
}

/* --- the queue --- */

static bool is_same(const struct m_sdb_settings *a,
		    const struct m_sdb_settings *b)
{
	return a->history_retention == b->history_retention &&
	       a->execution_timeout == b->execution_timeout &&
	       a->inprogress_timeout == b->inprogress_timeout &&
	       a->max_attempts == b->max_attempts &&
	       a->concurrency == b->concurrency;
}

/*
 * The queue is given what flags say when they say something new, and when it
 * makes no calls of ours (any more); what people set for it stays otherwise.
 */
static int set_up_queue(struct fsm *f, const struct m_sdb_settings *s)
{
	struct fsm_queue *q = queue_find(f, STR(SDB_QUEUE));
	bool is_new = q == NULL || q->set->push == NULL ||
		      q->set->push->format != PUSH_SCHEDDB;
	struct m_set_queue set = { 0 };
	struct m_push push = { 0 };
	struct m_queue shown = { 0 };
	int r;

	if (s == NULL || (!is_new && is_same(s, &f->sdb.set)))
		return 0;
	MSG_SET(&set, set_queue, queue, STR(SDB_QUEUE));
	MSG_SET(&set, set_queue, retention, s->history_retention);
	MSG_SET(&set, set_queue, lease_duration, s->inprogress_timeout);
	MSG_SET(&set, set_queue, max_retries, s->max_attempts);
	MSG_SET(&push, push, format, PUSH_SCHEDDB);
	MSG_SET(&push, push, timeout, s->execution_timeout);
	MSG_SET(&push, push, concurrency, s->concurrency);
	if (is_new) {
		MSG_SET(&push, push, redirects, true);
		MSG_SET(&set, set_queue, fairness, FAIRNESS_GROUP);
		MSG_SET(&set, set_queue, group_max_concurrency,
			SDB_ENDPOINT_CALLS);
	}
	MSG_SET(&set, set_queue, push, &push);
	r = apply_set_queue(f, &set, &shown);
	if (r < 0)
		return r;
	f->sdb.set = *s;
	f->sdb.dirty = true;
	return 0;
}

/* --- of either type --- */

static struct str payload_of(const struct m_sdb_create *op)
{
	return op->payload.n > 0 ? op->payload : STR("null");
}

static void create_once(struct fsm *f, const struct m_sdb_create *op,
			struct m_sdb *s)
{
	struct m_enqueue e = { 0 };
	struct new_job n = { .op = &e };
	struct m_enqueue_reply reply = { 0 };

	MSG_SET(&e, enqueue, job_id, op->id);
	MSG_SET(&e, enqueue, queue, STR(SDB_QUEUE));
	MSG_SET(&e, enqueue, payload, payload_of(op));
	MSG_SET(&e, enqueue, scheduled_at, op->timestamp);
	if (s->webhook_url.n > 0)
		MSG_SET(&e, enqueue, group, sdb_endpoint(s->webhook_url));
	MSG_SET(&e, enqueue, scheduled_db, s);
	job_create(f, &n, &reply);
}

static void fill_schedule(const struct m_sdb_create *op, struct m_sdb *s,
			  struct m_schedule_job *job, struct m_schedule *ret)
{
	MSG_SET(s, sdb, run_of, op->id);
	MSG_SET(job, schedule_job, payload, payload_of(op));
	if (s->webhook_url.n > 0)
		MSG_SET(job, schedule_job, group, sdb_endpoint(s->webhook_url));
	MSG_SET(job, schedule_job, scheduled_db, s);
	MSG_SET(ret, schedule, id, op->id);
	MSG_SET(ret, schedule, name, op->id);
	MSG_SET(ret, schedule, create, true);
	MSG_SET(ret, schedule, queue, STR(SDB_QUEUE));
	MSG_SET(ret, schedule, cron, op->cron_expression);
	if (op->timezone.n > 0)
		MSG_SET(ret, schedule, timezone, op->timezone);
	MSG_SET(ret, schedule, overlap, OVERLAP_SKIP);
	MSG_SET(ret, schedule, catch_up, CATCH_UP_LAST);
	if (op->timestamp != 0)
		MSG_SET(ret, schedule, start_at, op->timestamp);
	if (op->last_date != 0)
		MSG_SET(ret, schedule, end_at, op->last_date);
	MSG_SET(ret, schedule, next_run, op->next_ns);
	MSG_SET(ret, schedule, job, job);
}

static int create_recurring(struct fsm *f, const struct m_sdb_create *op,
			    struct m_sdb *s)
{
	struct m_schedule_job job = { 0 };
	struct m_schedule m = { 0 }, made = { 0 };
	struct m_fire fire = { 0 };
	struct m_fire_reply fired = { 0 };
	int r;

	fill_schedule(op, s, &job, &m);
	r = apply_set_schedule(f, &m, &made);
	if (r < 0 || op->run_id.n == 0)
		return r;
	MSG_SET(&fire, fire, id, op->id);
	MSG_SET(&fire, fire, job_id, op->run_id);
	return apply_run_schedule(f, &fire, &fired);
}

/* Everything that may refuse it, before anything changes. */
static int check_places(struct fsm *f, const struct m_sdb_create *op,
			const struct found *x)
{
	struct str queue = STR(SDB_QUEUE);
	struct job run;
	int r = roster_check(f, &queue, 1);

	if (r == 0 && op->type == SDB_ONCE)
		r = backlog_check_swap(f, queue, x->is_job ? &x->job : NULL);
	if (r == 0 && op->type == SDB_RECURRING && !x->is_schedule &&
	    f->schedules.n >= LIMIT_SCHEDULES)
		r = fsm_refuse(f, ERR_SCHEDULE_ERROR,
			       "there are %d schedules already; delete some",
			       LIMIT_SCHEDULES);
	if (r < 0 || op->run_id.n == 0)
		return r;
	r = job_find(f, op->run_id, &run);
	return r > 0 ? refuse_id(f) : r;
}

int apply_sdb_create(struct fsm *f, const struct m_sdb_create *op,
		     struct m_sdb_job *ret)
{
	struct m_sdb *s;
	struct found x;
	bool strange = false;
	int r = check(f, op);

	if (r < 0)
		return r;
	r = find(f, op->id, &x, &strange);
	if (r < 0)
		return r;
	if (strange)
		return refuse_id(f);
	s = make_sdb(f, op);
	if (!has_room(f, op, &x, s->size, ret))
		return 0;
	r = check_places(f, op, &x);
	if (r == 0)
		r = set_up_queue(f, op->settings);
	if (r == 0 && (x.is_job || x.is_schedule))
		r = delete_found(f, &x);
	if (r < 0)
		return r;
	sdb_show_job(op->id, s, f->now_ns, op->payload, ret);
	f->counters.sdb_created[op->type]++;
	if (op->type == SDB_RECURRING)
		return create_recurring(f, op, s);
	create_once(f, op, s);
	return 0;
}
