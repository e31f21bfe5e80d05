/*
 * set_schedule, delete_schedule, pause_schedule, run_schedule, fire.
 *
 * No time is computed here, because zone files may differ between replicas:
 * it comes with the operation. A plan that was made for another state of the
 * schedule, told by its version and due time, is void.
 *
 * fire creates the job and sets the next time in one entry. So a crash at
 * any moment can neither lose a run nor double it.
 */
#include "fsm/ties/schedule.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/create.h"
#include "fsm/job/job.h"
#include "fsm/ops/hand.h"
#include "fsm/ops/ops.h"
#include "fsm/ops/schedule.h"
#include "fsm/order/queue.h"
#include "fsm/order/roster.h"
#include "fsm/ties/backlog.h"
#include "fsm/ties/unique.h"

static int must_find(struct fsm *f, struct str ref, struct m_schedule *ret)
{
	int r = schedule_find(f, ref, ret);

	if (r == 0)
		return fsm_refuse(f, ERR_NOT_FOUND,
				  "schedule \"%.*s\" not found", STR_ARG(ref));
	return MIN(r, 0);
}

static bool is_used_up(const struct m_schedule *s)
{
	return s->max_runs != 0 && s->runs >= s->max_runs;
}

/* Of Scheduled-DB: from its end on its history is kept for a while. */
static void note_end(struct fsm *f, struct m_schedule *s)
{
	struct m_sdb *d = schedule_own_sdb(f, s);

	if (d == NULL)
		return;
	d->ended_at = d->cancelled_at = 0;
	MSG_UNSET(d, sdb, ended_at);
	MSG_UNSET(d, sdb, cancelled_at);
	MSG_UNSET(d, sdb, reason);
	if (s->ended)
		MSG_SET(d, sdb, ended_at, f->now_ns);
}

/* Its next time, or that there is none. */
static void set_next(struct fsm *f, struct m_schedule *s, uint64_t next_ns)
{
	s->next_run = 0;
	MSG_UNSET(s, schedule, next_run);
	s->set_back_ns = 0;
	MSG_UNSET(s, schedule, set_back_ns);
	s->ended = false;
	MSG_UNSET(s, schedule, ended);
	if (!s->paused && next_ns != 0 && !is_used_up(s))
		MSG_SET(s, schedule, next_run, next_ns);
	else if (!s->paused)
		MSG_SET(s, schedule, ended, true);
	note_end(f, s);
	if (s->ended)
		schedule_event(f, EVENT_SCHEDULE_ENDED, s, NULL);
}

void schedule_end(struct fsm *f, struct m_schedule *s)
{
	MSG_SET(s, schedule, paused, false);
	set_next(f, s, 0);
}

/* --- set --- */

static int check_set(struct fsm *f, const struct m_schedule *op)
{
	if (op->id.n == 0 || op->id.n > LIMIT_SCHED_NAME_BYTES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "id: must have 1 to %d bytes",
				  LIMIT_SCHED_NAME_BYTES);
	if (op->name.n == 0 || op->name.n > LIMIT_SCHED_NAME_BYTES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "name: must have 1 to %d bytes",
				  LIMIT_SCHED_NAME_BYTES);
	if (!queue_name_fits(op->queue))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "queue: must have 1 to %d bytes",
				  LIMIT_QUEUE_NAME_BYTES);
	return 0;
}

static int refuse_name(struct fsm *f, struct str name)
{
	return fsm_refuse(f, ERR_CONFLICT,
			  "a schedule named \"%.*s\" exists already",
			  STR_ARG(name));
}

/* What it is to Scheduled-DB is not for others to change. */
static void keep_sdb(struct fsm *f, const struct m_schedule *old,
		     struct m_schedule *ret)
{
	struct m_schedule_job *job;

	if (old->job == NULL || old->job->scheduled_db == NULL)
		return;
	job = arena_zalloc(&f->item_arena, sizeof(*job));
	if (ret->job != NULL)
		*job = *ret->job;
	MSG_SET(job, schedule_job, scheduled_db, old->job->scheduled_db);
	MSG_SET(ret, schedule, job, job);
}

/* The definition of op in the place of that of *s. */
static void replace(struct fsm *f, const struct m_schedule *op,
		    struct m_schedule *s)
{
	struct m_schedule n = *op;

	MSG_SET(&n, schedule, id, s->id);
	MSG_UNSET(&n, schedule, create);
	if (!MSG_HAS(op, schedule, paused))
		MSG_SET(&n, schedule, paused, s->paused);
	MSG_SET(&n, schedule, runs, s->runs);
	if (s->last_run != 0) {
		MSG_SET(&n, schedule, last_run, s->last_run);
		MSG_SET(&n, schedule, last_job_id, s->last_job_id);
	}
	MSG_SET(&n, schedule, created_at, s->created_at);
	MSG_SET(&n, schedule, updated_at, f->now_ns);
	MSG_SET(&n, schedule, version, s->version + 1);
	keep_sdb(f, s, &n);
	schedule_event(f, EVENT_SCHEDULE_SET, &n, NULL);
	set_next(f, &n, op->next_run);
	schedule_save(f, &n);
	*s = n;
}

static int create(struct fsm *f, const struct m_schedule *op,
		  struct m_schedule *ret)
{
	int r = 0;

	if (fsm_is_old_resend(f))
		r = schedule_find(f, op->id, ret);
	if (r != 0)
		return MIN(r, 0);
	if (schedule_exists(f, op->name))
		return refuse_name(f, op->name);
	if (f->schedules.n >= LIMIT_SCHEDULES)
		return fsm_refuse(f, ERR_SCHEDULE_ERROR,
				  "there are %d schedules already; delete some",
				  LIMIT_SCHEDULES);
	r = roster_check(f, &op->queue, 1);
	if (r < 0)
		return r;
	MSG_SET(ret, schedule, id, op->id);
	MSG_SET(ret, schedule, created_at, f->now_ns);
	replace(f, op, ret);
	return 0;
}

int apply_set_schedule(struct fsm *f, const struct m_schedule *op,
		       struct m_schedule *ret)
{
	int r = check_set(f, op);

	if (r < 0)
		return r;
	if (op->create)
		return create(f, op, ret);
	r = must_find(f, op->id, ret);
	if (r == 0)
		r = roster_check(f, &op->queue, 1);
	if (r < 0)
		return r;
	if (!str_eq(ret->name, op->name) && schedule_exists(f, op->name))
		return refuse_name(f, op->name);
	replace(f, op, ret);
	return 0;
}

/* --- delete, pause, resume --- */

int apply_delete_schedule(struct fsm *f, const struct m_schedule_ref *op,
			  struct m_status_reply *ret)
{
	struct m_schedule s;
	int r = must_find(f, op->id, &s);

	MSG_SET(ret, status_reply, status, STR("deleted"));
	if (r < 0)
		return r;
	schedule_event(f, EVENT_SCHEDULE_DELETED, &s, NULL);
	schedule_remove(f, &s);
	return 0;
}

int apply_pause_schedule(struct fsm *f, const struct m_pause_schedule *op,
			 struct m_schedule *ret)
{
	int r = must_find(f, op->id, ret);

	if (r < 0 || ret->paused == op->paused)
		return r;
	if (!op->paused && op->version != ret->version)
		return fsm_refuse(f, ERR_CONFLICT,
				  "the schedule was changed meanwhile; try "
				  "again");
	MSG_SET(ret, schedule, paused, op->paused);
	MSG_SET(ret, schedule, version, ret->version + 1);
	MSG_SET(ret, schedule, updated_at, f->now_ns);
	schedule_event(
	    f, op->paused ? EVENT_SCHEDULE_PAUSED : EVENT_SCHEDULE_RESUMED, ret,
	    NULL);
	set_next(f, ret, op->next_ns);
	schedule_save(f, ret);
	return 0;
}

/* --- jobs --- */

#define COPY(field)                                             \
	do {                                                    \
		if (MSG_HAS(j, schedule_job, field))            \
			MSG_SET(ret, enqueue, field, j->field); \
	} while (0)

/* A run counts for nothing: the recurrente does. */
static void fill_sdb(struct fsm *f, const struct m_sdb *from,
		     struct m_enqueue *ret)
{
	struct m_sdb *d = arena_alloc(&f->item_arena, sizeof(*d));

	*d = *from;
	d->size = 0;
	MSG_UNSET(d, sdb, size);
	MSG_UNSET(d, sdb, ended_at);
	MSG_UNSET(d, sdb, cancelled_at);
	MSG_UNSET(d, sdb, reason);
	MSG_SET(ret, enqueue, scheduled_db, d);
}

static void fill_job(struct fsm *f, const struct m_schedule *s,
		     struct str job_id, struct m_enqueue *ret)
{
	const struct m_schedule_job *j = s->job;

	*ret = (struct m_enqueue){ 0 };
	MSG_SET(ret, enqueue, job_id, job_id);
	MSG_SET(ret, enqueue, queue, s->queue);
	if (!MSG_HAS(s, schedule, job))
		return;
	COPY(payload);
	COPY(priority);
	COPY(tags);
	COPY(max_retries);
	COPY(retry_backoff);
	COPY(retry_base_delay);
	COPY(retry_max_delay);
	COPY(retry_jitter);
	COPY(expire_after);
	COPY(timeout);
	COPY(unique_key);
	COPY(unique_period);
	COPY(as_numbers);
	COPY(group);
	COPY(delay);
	if (j->scheduled_db != NULL)
		fill_sdb(f, j->scheduled_db, ret);
}

/* What is known of a new job before it is created, or not. */
struct attempt {
	struct m_enqueue op;
	const char *reason; /* why there is to be none; NULL: nothing is */
	bool cancels;       /* the last one goes for it */
	struct job last;
};

/* A last job in hold stays beside the new one: it waits for a person. */
static int check_overlap(struct fsm *f, const struct m_schedule *s,
			 struct attempt *a)
{
	int r;

	if (s->overlap == OVERLAP_ALLOW || s->last_job_id.n == 0)
		return 0;
	r = job_find(f, s->last_job_id, &a->last);
	if (r <= 0 || job_state_is_terminal(a->last.live.state))
		return MIN(r, 0);
	if (s->overlap == OVERLAP_SKIP)
		a->reason = "overlap";
	else
		a->cancels = a->last.live.state != JOB_HELD;
	return 0;
}

/* It ends as soon as it is cancelled; one a worker has does so later. */
static const struct job *ends_for_it(const struct attempt *a)
{
	return a->cancels && a->last.live.state != JOB_ACTIVE ? &a->last : NULL;
}

/* *own: the key is held by the last job, which keeps it for the moment. */
static int check_unique(struct fsm *f, struct attempt *a, bool *own)
{
	const struct m_enqueue *e = &a->op;
	struct str holder;
	bool by_last;
	int r;

	if (e->unique_key.n == 0 || a->reason != NULL)
		return 0;
	r = unique_find(f, e->queue, e->unique_key, &holder);
	if (r <= 0)
		return r;
	by_last = a->cancels && str_eq(holder, a->last.id);
	if (!by_last)
		a->reason = "unique_key";
	*own = by_last && ends_for_it(a) == NULL;
	return 0;
}

/*
 * Nothing is cancelled for a job that cannot come. A key that the last one
 * itself holds is no such reason: only its end lets the next one come.
 */
static int make_way(struct fsm *f, const struct m_schedule *s,
		    struct attempt *a)
{
	struct m_job_ref ref = { 0 };
	struct m_status_reply status = { 0 };
	bool own = false;
	int r = check_overlap(f, s, a);

	if (r == 0)
		r = check_unique(f, a, &own);
	if (r < 0)
		return r;
	if (a->reason == NULL &&
	    backlog_check_swap(f, a->op.queue, ends_for_it(a)) < 0)
		a->reason = "queue_full";
	if (a->reason == NULL && roster_check(f, &a->op.queue, 1) < 0)
		a->reason = "queue_limit";
	if (a->reason == NULL && a->cancels) {
		MSG_SET(&ref, job_ref, job_id, s->last_job_id);
		r = apply_cancel(f, &ref, &status);
	}
	if (a->reason == NULL && own)
		a->reason = "unique_key";
	return r;
}

static void count_run(struct fsm *f, struct m_schedule *s, struct str job_id)
{
	MSG_SET(s, schedule, runs, s->runs + 1);
	MSG_SET(s, schedule, last_run, f->now_ns);
	MSG_SET(s, schedule, last_job_id, job_id);
}

/* Creates the job of one time, or says why not. The caller saves *s. */
static int run(struct fsm *f, struct m_schedule *s, struct str job_id,
	       uint64_t scheduled_for, struct m_fire_reply *ret)
{
	struct schedule_note note = { .scheduled_for = scheduled_for };
	struct m_enqueue_reply reply = { 0 };
	struct attempt a = { 0 };
	struct new_job n = { .op = &a.op,
			     .schedule_id = s->id,
			     .scheduled_for = scheduled_for };
	int r;

	fill_job(f, s, job_id, &a.op);
	r = make_way(f, s, &a);
	if (r < 0)
		return r;
	if (a.reason != NULL) {
		note.reason = a.reason;
		schedule_event(f, EVENT_SCHEDULE_SKIPPED, s, &note);
		MSG_SET(ret, fire_reply, status, STR("skipped"));
		MSG_SET(ret, fire_reply, reason, str_from(a.reason));
		return 0;
	}
	if (a.op.unique_key.n > 0)
		unique_take(f, a.op.queue, a.op.unique_key, job_id,
			    a.op.unique_period);
	job_create(f, &n, &reply);
	note.job_id = job_id;
	schedule_event(f, EVENT_SCHEDULE_FIRED, s, &note);
	count_run(f, s, job_id);
	MSG_SET(ret, fire_reply, status, STR("created"));
	MSG_SET(ret, fire_reply, job_id, job_id);
	return 0;
}

static int check_job_id(struct fsm *f, struct str id)
{
	if (id.n > 0 && id.n <= LIMIT_JOB_ID_BYTES)
		return 0;
	return fsm_refuse(f, ERR_VALIDATION_ERROR,
			  "job_id: must have 1 to %d bytes",
			  LIMIT_JOB_ID_BYTES);
}

int apply_run_schedule(struct fsm *f, const struct m_fire *op,
		       struct m_fire_reply *ret)
{
	struct m_schedule s;
	int r = check_job_id(f, op->job_id);

	if (r == 0)
		r = job_refuse_resend(f, op->job_id);
	if (r == 0)
		r = must_find(f, op->id, &s);
	if (r < 0)
		return r;
	r = run(f, &s, op->job_id, f->now_ns, ret);
	if (r < 0)
		return r;
	if (is_used_up(&s) && s.next_run != 0)
		set_next(f, &s, 0);
	schedule_save(f, &s);
	return 0;
}

/* Times the plan leaves out. */
static void skip_missed(struct fsm *f, const struct m_fire *op,
			const struct m_schedule *s)
{
	struct schedule_note note = { .scheduled_for = op->due_ns,
				      .reason = "missed",
				      .missed = op->missed };

	schedule_event(f, EVENT_SCHEDULE_SKIPPED, s, &note);
}

/* The clock was set back: this is its next time now. */
static void take_plan(struct fsm *f, const struct m_fire *op,
		      struct m_schedule *s)
{
	if (op->next_ns != s->next_run)
		schedule_event(f, EVENT_SCHEDULE_SET, s, NULL);
	set_next(f, s, op->next_ns);
	schedule_save(f, s);
}

int apply_fire(struct fsm *f, const struct m_fire *op, struct m_fire_reply *ret)
{
	struct m_schedule s;
	int r = schedule_find(f, op->id, &s);

	if (r < 0)
		return r;
	if (r == 0 || s.version != op->version || s.next_run != op->due_ns ||
	    op->due_ns == 0 || op->again != (s.set_back_ns != 0)) {
		MSG_SET(ret, fire_reply, status, STR("void"));
		return 0;
	}
	if (op->again) {
		take_plan(f, op, &s);
		MSG_SET(ret, fire_reply, status, STR("planned"));
		return 0;
	}
	r = op->skip ? 0 : check_job_id(f, op->job_id);
	if (r < 0)
		return r;
	if (op->skip || op->missed > 0)
		skip_missed(f, op, &s);
	if (op->skip) {
		MSG_SET(ret, fire_reply, status, STR("skipped"));
		MSG_SET(ret, fire_reply, reason, STR("missed"));
	} else {
		r = run(f, &s, op->job_id,
			op->at_ns != 0 ? op->at_ns : op->due_ns, ret);
	}
	if (r < 0)
		return r;
	set_next(f, &s, op->next_ns);
	schedule_save(f, &s);
	return 0;
}
