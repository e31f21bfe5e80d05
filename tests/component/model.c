/*
 * Jobs and what follows from their ends. See model.h.
 */
#include "model.h"

struct model *model_new(void)
{
	struct model *m = xcalloc(1, sizeof(*m));

	m->arena.block_size = 64u << 10;
	return m;
}

void model_done(struct model *m)
{
	arena_done(&m->arena);
	free(m);
}

void model_begin(struct model *m, uint64_t now)
{
	m->now = now;
	m->errs_n = 0;
	MODEL_EACH(m, j)
	{
		j->unnamed = j->placed = j->touched = false;
		j->delay_max = 0;
	}
}

void model_refuse(struct model *m, int err)
{
	m->errs[m->errs_n++] = err;
}

struct str model_copy(struct model *m, struct str s)
{
	return s.n > 0 ? arena_copy(&m->arena, s) : STR_NULL;
}

/* --- looking --- */

struct model_job *model_find(struct model *m, struct str id)
{
	MODEL_EACH(m, j)
	{
		if (!j->unnamed && str_eq(j->id, id))
			return j;
	}
	return NULL;
}

bool model_has_queue(const struct model *m, struct str name)
{
	for (size_t i = 0; i < MODEL_QUEUES; i++) {
		if (m->queues[i].used && str_eq(m->queues[i].name, name))
			return true;
	}
	return false;
}

/* It is made when it is not there, as every mention does. */
struct model_queue *model_queue(struct model *m, struct str name)
{
	struct model_queue *free = NULL;

	for (size_t i = 0; i < MODEL_QUEUES; i++) {
		struct model_queue *q = &m->queues[i];

		if (q->used && str_eq(q->name, name))
			return q;
		if (!q->used && free == NULL)
			free = q;
	}
	assert_non_null(free);
	*free = (struct model_queue){ .used = true };
	free->name = model_copy(m, name);
	return free;
}

struct model_batch *model_find_batch(struct model *m, struct str id)
{
	for (size_t i = 0; i < MODEL_BATCHES; i++) {
		if (m->batches[i].used && str_eq(m->batches[i].id, id))
			return &m->batches[i];
	}
	return NULL;
}

struct model_job *model_lock_holder(struct model *m, struct str queue,
				    struct str key)
{
	MODEL_EACH(m, j)
	{
		if (j->key_until > m->now && str_eq(j->key, key) &&
		    str_eq(j->key_queue, queue))
			return j;
	}
	return NULL;
}

bool model_is_waiting(const struct model_job *j)
{
	return j->state != JOB_ACTIVE && !job_state_is_terminal(j->state);
}

uint32_t model_unmet(const struct model_job *j)
{
	uint32_t n = 0;

	for (size_t i = 0; i < j->deps_n; i++)
		n += !j->deps[i].met;
	return n;
}

/* Active jobs of the queue, or of one of its groups. */
size_t model_active(struct model *m, struct str queue, const struct str *group)
{
	size_t n = 0;

	MODEL_EACH(m, j)
	{
		n += j->state == JOB_ACTIVE && str_eq(j->queue, queue) &&
		     (group == NULL || str_eq(j->group, *group));
	}
	return n;
}

/* --- the life of a job --- */

struct str model_tag(struct str tags, struct str name)
{
	char start[32];
	size_t n = (size_t)snprintf(start, sizeof(start), "\"%.*s\":\"",
				    STR_ARG(name));
	const char *at = memmem(tags.p, tags.n, start, n);
	const char *end;

	if (at == NULL)
		return STR_NULL;
	at += n;
	end = memchr(at, '"', (size_t)(tags.p + tags.n - at));
	return str_of(at, (size_t)(end - at));
}

struct model_job *model_add(struct model *m)
{
	for (struct model_job *j = m->jobs; j < m->jobs + MODEL_JOBS; j++) {
		if (j->used)
			continue;
		*j = (struct model_job){ .used = true, .touched = true };
		m->top = MAX(m->top, (size_t)(j - m->jobs) + 1);
		j->placed = true;
		j->seq = UINT64_MAX / 2 + m->made++;
		j->created_at = m->now;
		return j;
	}
	fail_msg("the model has no room for a job");
	return NULL;
}

void model_leave(struct model_job *j)
{
	j->lease_end = 0;
	j->timeout_at = 0;
	j->cancel_requested = false;
}

void model_to_pending(struct model *m, struct model_job *j)
{
	(void)m;
	model_leave(j);
	j->state = JOB_PENDING;
	j->scheduled_at = 0;
	j->touched = true;
}

void model_error(struct model *m, struct model_job *j, struct str text)
{
	j->errors++;
	j->failed_at = m->now;
	j->last_error = model_copy(m, text);
	j->touched = true;
}

void model_expire_job(struct model *m, struct model_job *j)
{
	model_error(m, j, STR("job expired"));
	model_end(m, j, JOB_DEAD);
}

/* max_retries 0 and 1 both mean one attempt. */
uint32_t model_attempts_left(const struct model_job *j)
{
	uint32_t total = MAX(j->max_retries, 1u);

	return j->attempt < total ? total - j->attempt : 0;
}

/* Bounds of base * f(attempt), capped, times (1 - jitter, 1]. */
static void draw_delay(struct model_job *j, uint64_t *min, uint64_t *max)
{
	double d = (double)j->base;

	if (j->backoff == BACKOFF_NONE)
		d = 0;
	else if (j->backoff == BACKOFF_LINEAR)
		d *= j->attempt;
	else if (j->backoff == BACKOFF_EXPONENTIAL)
		for (uint32_t i = 1; i < j->attempt && d < 1e18; i++)
			d *= 2;
	if (d > (double)j->cap)
		d = (double)j->cap;
	*max = (uint64_t)d;
	*min = (uint64_t)(d * (1 - j->jitter));
}

void model_retry_or_die(struct model *m, struct model_job *j,
			const uint64_t *delay)
{
	uint64_t min, max;

	if (model_attempts_left(j) == 0) {
		model_end(m, j, JOB_DEAD);
		return;
	}
	draw_delay(j, &min, &max);
	if (delay != NULL)
		min = max = *delay;
	if (max == 0) {
		model_to_pending(m, j);
		return;
	}
	model_leave(j);
	j->state = JOB_RETRYING;
	j->scheduled_at = m->now + max;
	j->delay_min = m->now + min;
	j->delay_max = m->now + max;
	j->touched = true;
}

/* --- batches --- */

static void batch_callback(struct model *m, struct model_batch *b)
{
	struct model_job *j;

	if (b->callback_queue.n == 0)
		return;
	j = model_add(m);
	j->unnamed = true;
	j->queue = b->callback_queue;
	j->prio = PRIORITY_NORMAL;
	j->state = JOB_PENDING;
	model_defaults(m, j, 0);
	j->holds[0] = arena_printf(
	    &m->arena,
	    "\"batch\":{\"id\":\"%.*s\",\"total\":%llu,\"succeeded\":%llu,"
	    "\"failed\":%llu}",
	    STR_ARG(b->id), (unsigned long long)b->total,
	    (unsigned long long)b->succeeded, (unsigned long long)b->failed);
	b->callback = j;
	(void)model_policy_hold(m, j, POINT_ENQUEUE);
}

/* Sealed and all counted: it ends, and its parent counts it as one job. */
void model_batch_look(struct model *m, struct model_batch *b)
{
	while (b != NULL && b->sealed && b->ended_at == 0 &&
	       b->succeeded + b->failed == b->total) {
		struct model_batch *up = model_find_batch(m, b->parent);

		b->ended_at = m->now;
		batch_callback(m, b);
		if (up != NULL)
			up->changed_at = m->now;
		if (up != NULL && b->failed == 0)
			up->succeeded++;
		else if (up != NULL)
			up->failed++;
		b = up;
	}
}

static void batch_count(struct model *m, struct model_job *j,
			enum job_state how)
{
	struct model_batch *b = model_find_batch(m, j->batch);

	if (j->batch.n == 0 || j->counted)
		return;
	assert_non_null(b);
	b->changed_at = m->now;
	j->counted = true;
	if (how == JOB_COMPLETED)
		b->succeeded++;
	else
		b->failed++;
	model_batch_look(m, b);
}

/* --- dependencies --- */

void model_release(struct model *m, struct model_job *j)
{
	uint64_t at = j->scheduled_at;

	model_to_pending(m, j);
	if (at <= m->now)
		return;
	j->state = JOB_SCHEDULED;
	j->scheduled_at = at;
}

static void tell(struct model *m, struct model_job *c, struct model_dep *d,
		 enum job_state how)
{
	c->touched = true;
	d->met = true;
	if (how != JOB_COMPLETED && c->policy == DEPENDENCY_FAIL) {
		model_error(m, c, STR_NULL);
		model_end(m, c, JOB_DEAD);
	} else if (c->state == JOB_BLOCKED && model_unmet(c) == 0) {
		model_release(m, c);
	}
}

/* Those that wait for the job, which ended like this. */
static void tell_dependents(struct model *m, struct str id, enum job_state how)
{
	MODEL_EACH(m, c)
	{
		for (size_t i = 0; i < c->deps_n; i++) {
			struct model_dep *d = &c->deps[i];

			if (!d->met && str_eq(d->id, id) &&
			    !job_state_is_terminal(c->state))
				tell(m, c, d, how);
		}
	}
}

void model_settle(struct model *m)
{
	for (size_t i = 0; i < m->ended_n; i++)
		tell_dependents(m, m->ended[i].id, m->ended[i].how);
	m->ended_n = 0;
}

/* --- ends --- */

/* A callback deleted by the op that made it has no id to be learnt. */
static void forget_callback(struct model *m, const struct model_job *j)
{
	for (size_t i = 0; i < MODEL_BATCHES; i++) {
		struct model_batch *b = &m->batches[i];

		if (b->callback != j)
			continue;
		b->callback = NULL;
		b->callback_lost = true;
	}
}

/* The job ends; with MODEL_DELETED its record goes too. */
void model_end(struct model *m, struct model_job *j, enum job_state how)
{
	bool again = job_state_is_terminal(j->state); /* only deleted so */

	j->touched = true;
	model_leave(j);
	j->scheduled_at = 0;
	j->hold_reason = STR_NULL;
	j->key_until = 0;
	if (how == JOB_DEAD)
		j->failed_at = m->now;
	if (how == JOB_CANCELLED)
		j->cancelled_at = m->now;
	if (how == JOB_COMPLETED)
		j->completed_at = m->now;
	j->state = how == MODEL_DELETED ? JOB_DEAD : how;
	j->ended_at = m->now;
	if (!again) {
		for (size_t i = 0; i < j->deps_n; i++)
			j->deps[i].met = true;
		batch_count(m, j, how);
		if (j->chain != NULL)
			model_chain_end(m, j, how);
		assert_true(m->ended_n < MODEL_JOBS);
		m->ended[m->ended_n++] = (struct model_ended){ j->id, how };
	}
	if (how == MODEL_DELETED) {
		forget_callback(m, j);
		j->used = false;
	}
}
