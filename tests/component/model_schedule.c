/*
 * Schedules: what their runs create, and which plans are void. The times come
 * with the ops, as in the log. See model.h.
 */
#include "model.h"

struct model_schedule *model_find_schedule(struct model *m, struct str id)
{
	for (size_t i = 0; i < MODEL_SCHEDULES; i++) {
		struct model_schedule *s = &m->schedules[i];

		if (s->used && (str_eq(s->id, id) || str_eq(s->name, id)))
			return s;
	}
	return NULL;
}

static struct model_schedule *must_find(struct model *m, struct str id)
{
	struct model_schedule *s = model_find_schedule(m, id);

	if (s == NULL)
		model_refuse(m, ERR_NOT_FOUND);
	return s;
}

static void set_next(struct model_schedule *s, uint64_t next)
{
	bool used_up = s->max_runs != 0 && s->runs >= s->max_runs;

	s->next_run = s->paused || used_up ? 0 : next;
	s->ended = !s->paused && s->next_run == 0;
}

void model_set_schedule(struct model *m, const struct m_schedule *op)
{
	struct model_schedule *s = model_find_schedule(m, op->name);

	if (op->create && s != NULL) {
		model_refuse(m, ERR_CONFLICT);
		return;
	}
	if (!op->create && must_find(m, op->id) == NULL)
		return;
	if (!model_may_name(m, &op->queue, 1))
		return;
	if (op->create) {
		for (s = m->schedules; s->used; s++)
			assert_true(s + 1 < m->schedules + MODEL_SCHEDULES);
		*s = (struct model_schedule){ .used = true };
		s->id = model_copy(m, op->id);
		s->name = model_copy(m, op->name);
	} else {
		s = must_find(m, op->id);
	}
	s->queue = model_copy(m, op->queue);
	s->overlap = op->overlap;
	s->max_runs = op->max_runs;
	s->paused = MSG_HAS(op, schedule, paused) ? op->paused : s->paused;
	s->has_job = MSG_HAS(op, schedule, job);
	if (s->has_job) {
		s->job = *op->job;
		s->job.payload = model_copy(m, s->job.payload);
		s->job.unique_key = model_copy(m, s->job.unique_key);
	}
	set_next(s, op->next_run);
}

void model_delete_schedule(struct model *m, struct str id)
{
	struct model_schedule *s = must_find(m, id);

	if (s != NULL)
		s->used = false;
}

void model_pause_schedule(struct model *m, const struct m_pause_schedule *op)
{
	struct model_schedule *s = must_find(m, op->id);

	if (s == NULL || s->paused == op->paused)
		return;
	s->paused = op->paused;
	set_next(s, op->next_ns);
}

/* The last job, when it is to go for the next one; or NULL. */
static struct model_job *previous(struct model *m,
				  const struct model_schedule *s)
{
	struct model_job *last = model_find(m, s->last_job_id);

	return s->overlap == OVERLAP_CANCEL_PREVIOUS && last != NULL &&
		       !job_state_is_terminal(last->state) &&
		       last->state != JOB_HELD
		   ? last
		   : NULL;
}

static bool overlaps(struct model *m, const struct model_schedule *s)
{
	const struct model_job *last = model_find(m, s->last_job_id);

	return s->overlap == OVERLAP_SKIP && last != NULL &&
	       !job_state_is_terminal(last->state);
}

/*
 * Cancels the last job for this one. False: the queue has no room or another
 * job has the key, and nothing was cancelled.
 */
static bool make_way(struct model *m, const struct model_schedule *s,
		     const struct m_enqueue *e)
{
	struct model_job *last = previous(m, s), was, *holder = NULL;
	bool fits;

	if (e->unique_key.n > 0)
		holder = model_lock_holder(m, e->queue, e->unique_key);
	if (holder != NULL && holder != last)
		return false;
	if (last == NULL)
		return model_room(m, e->queue) > 0;
	was = *last;
	if (last->state != JOB_ACTIVE)
		last->state = JOB_CANCELLED; /* as if, to look at the room */
	fits = model_room(m, e->queue) > 0;
	*last = was;
	if (!fits)
		return false;
	last->touched = true;
	if (last->state == JOB_ACTIVE)
		last->cancel_requested = true;
	else
		model_end(m, last, JOB_CANCELLED);
	return true;
}

static void fill_job(const struct model_schedule *s, struct str job_id,
		     struct m_enqueue *e)
{
	MSG_SET(e, enqueue, job_id, job_id);
	MSG_SET(e, enqueue, queue, s->queue);
	if (!s->has_job)
		return;
	if (MSG_HAS(&s->job, schedule_job, payload))
		MSG_SET(e, enqueue, payload, s->job.payload);
	if (MSG_HAS(&s->job, schedule_job, priority))
		MSG_SET(e, enqueue, priority, s->job.priority);
	if (MSG_HAS(&s->job, schedule_job, max_retries))
		MSG_SET(e, enqueue, max_retries, s->job.max_retries);
	if (MSG_HAS(&s->job, schedule_job, expire_after))
		MSG_SET(e, enqueue, expire_after, s->job.expire_after);
	if (MSG_HAS(&s->job, schedule_job, as_numbers))
		MSG_SET(e, enqueue, as_numbers, s->job.as_numbers);
	if (MSG_HAS(&s->job, schedule_job, unique_key))
		MSG_SET(e, enqueue, unique_key, s->job.unique_key);
}

/* Creates the job of one time: "created", or "skipped". */
static const char *run(struct model *m, struct model_schedule *s,
		       struct str job_id)
{
	struct m_enqueue e = { 0 };
	struct model_made made;

	fill_job(s, job_id, &e);
	if (!model_may_name(m, &e.queue, 1)) {
		m->errs_n = 0; /* only this time */
		return "skipped";
	}
	if (overlaps(m, s) || !make_way(m, s, &e))
		return "skipped";
	/* A worker may still have the last one, and the key with it. */
	if (e.unique_key.n > 0 &&
	    model_lock_holder(m, e.queue, e.unique_key) != NULL)
		return "skipped";
	model_enqueue(m, &e, 1, STR_NULL, NULL, &made);
	assert_int_equal(m->errs_n, 0);
	model_find(m, made.id)->schedule_id = s->id;
	s->runs++;
	s->last_run = m->now;
	s->last_job_id = made.id;
	return "created";
}

const char *model_run_schedule(struct model *m, const struct m_fire *op)
{
	struct model_schedule *s = must_find(m, op->id);
	const char *status;

	if (s == NULL)
		return "";
	status = run(m, s, op->job_id);
	/* It counts: it may have been the last one. */
	if (s->next_run != 0)
		set_next(s, s->next_run);
	return status;
}

/* is_void: the plan is of another version. */
const char *model_fire(struct model *m, const struct m_fire *op, bool is_void)
{
	struct model_schedule *s = must_find(m, op->id);
	const char *status = "skipped";

	if (s == NULL)
		return "";
	if (is_void || s->next_run == 0 || s->next_run != op->due_ns)
		return "void";
	if (!op->skip)
		status = run(m, s, op->job_id);
	set_next(s, op->next_ns);
	return status;
}
