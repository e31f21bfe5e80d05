/*
 * One job: finding it, moving it between states with everything that hangs
 * on its state, recording what happened to it.
 */
#include "fsm_impl.h"

/* --- finding --- */

static bool id_fits(struct str id)
{
	return id.n > 0 && id.n <= LIMIT_JOB_ID_BYTES;
}

static int job_find_active(struct fsm *f, struct fsm_active *a, struct job *ret)
{
	struct str raw;
	struct key k;
	int r = 1;

	ret->active = a;
	ret->q = a->q;
	ret->prio = a->prio;
	ret->max_retries = a->max_retries;
	ret->expire_at = a->expire_at;
	if (a->live == NULL) {
		key_live(&k, a->id);
		r = fsm_read(f, &k, &msg_job_live, &ret->live);
	} else {
		raw = arena_copy(&f->item_arena, str_of(a->live, a->live_n));
		CHECK(msg_decode(&msg_job_live, raw, &f->item_arena,
				 &ret->live) == 0);
	}
	CHECK(r < 0 || ret->live.state == JOB_ACTIVE);
	return r;
}

static int job_from_doc(struct fsm *f, struct job *j)
{
	const struct m_job_doc *d = &j->doc;

	j->has_doc = true;
	j->q = queue_find(f, d->queue);
	CHECK(j->q != NULL);
	CHECK(d->priority < PRIORITIES);
	j->prio = (uint8_t)d->priority;
	j->max_retries = d->max_retries;
	j->expire_at = d->expire_at;
	return 1;
}

static void live_as_created(const struct m_job_doc *d, struct m_job_live *l)
{
	*l = (struct m_job_live){ 0 };
	MSG_SET(l, job_live, state,
		d->scheduled_at ? JOB_SCHEDULED : JOB_PENDING);
	MSG_SET(l, job_live, seq, d->seq);
	MSG_SET(l, job_live, event, d->event);
	if (d->scheduled_at)
		MSG_SET(l, job_live, scheduled_at, d->scheduled_at);
}

static int read_doc(struct fsm *f, struct str id, struct m_job_doc *ret)
{
	struct key k;

	key_job(&k, id);
	return fsm_read(f, &k, &msg_job_doc, ret);
}

int job_find_as_created(struct fsm *f, struct str id, struct str doc,
			struct job *ret)
{
	int r = 1;

	*ret = (struct job){ .id = id };
	if (doc.n == 0)
		r = read_doc(f, id, &ret->doc);
	else
		CHECK(msg_decode(&msg_job_doc, doc, &f->item_arena,
				 &ret->doc) == 0);
	if (r <= 0)
		return r;
	live_as_created(&ret->doc, &ret->live);
	return job_from_doc(f, ret);
}

int job_find(struct fsm *f, struct str id, struct job *ret)
{
	struct fsm_active *a;
	struct m_job_live live;
	struct key k;
	int r;

	if (!id_fits(id))
		return 0;
	a = active_find(f, id);
	if (a != NULL) {
		*ret = (struct job){ .id = id };
		return job_find_active(f, a, ret);
	}
	r = job_find_as_created(f, id, STR_NULL, ret);
	if (r <= 0)
		return r;
	key_live(&k, id);
	r = fsm_read(f, &k, &msg_job_live, &live);
	if (r < 0)
		return r;
	if (r > 0) {
		ret->live = live;
		if (live.no_expiry)
			ret->expire_at = 0;
	}
	CHECK(ret->live.state != JOB_ACTIVE);
	return 1;
}

int job_need_doc(struct fsm *f, struct job *j)
{
	int r;

	if (j->has_doc)
		return 0;
	r = read_doc(f, j->id, &j->doc);
	if (r < 0)
		return r;
	CHECK(r > 0);
	j->has_doc = true;
	return 0;
}

/* --- moving --- */

static void due_key(struct key *k, const struct job *j)
{
	if (j->live.state == JOB_SCHEDULED)
		key_scheduled(k, j->q->name, j->live.scheduled_at, j->id);
	else
		key_retrying(k, j->q->name, j->live.scheduled_at, j->id);
}

/* Takes the job out of the index of its present state. */
static void leave_state(struct fsm *f, struct job *j)
{
	struct key k;

	queue_count(f, j->q, j->live.state, -1);
	switch ((enum job_state)j->live.state) {
	case JOB_PENDING:
		key_pending(&k, j->q->name, j->prio, j->live.seq);
		fsm_delete(f, &k);
		if (!j->taken)
			queue_forget(f, j->q, j->prio, j->live.seq);
		break;
	case JOB_ACTIVE:
		key_active(&k, j->q->name, j->id);
		fsm_delete(f, &k);
		active_remove(f, j->active);
		j->active = NULL;
		break;
	case JOB_SCHEDULED:
	case JOB_RETRYING:
		due_key(&k, j);
		fsm_delete(f, &k);
		break;
	case JOB_HELD:
	case JOB_COMPLETED:
	case JOB_DEAD:
	case JOB_CANCELLED:
	case JOB_STATE_MAX:
		break;
	}
}

static void enter_active(struct fsm *f, struct job *j)
{
	uint64_t expires;
	struct key k;
	char v[16];

	if (__builtin_add_overflow(f->now_ns, j->live.lease_ns, &expires))
		expires = NEVER - 1;
	put_be64(v, expires);
	put_be64(v + 8, j->live.lease_token);
	key_active(&k, j->q->name, j->id);
	txn_put_new(f->txn, key_str(&k), str_of(v, sizeof(v)));
	j->active = active_add(f, j, expires);
}

static void enter_state(struct fsm *f, struct job *j)
{
	struct pending p = { .seq = j->live.seq, .id = j->id };
	struct key k;

	queue_count(f, j->q, j->live.state, 1);
	switch ((enum job_state)j->live.state) {
	case JOB_PENDING:
		queue_add_pending(f, j->q, j->prio, &p);
		break;
	case JOB_ACTIVE:
		enter_active(f, j);
		break;
	case JOB_SCHEDULED:
	case JOB_RETRYING:
		due_key(&k, j);
		txn_put(f->txn, key_str(&k), STR(""));
		queue_add_due(f, j->q, j->live.state, j->live.scheduled_at);
		break;
	case JOB_HELD:
	case JOB_COMPLETED:
	case JOB_DEAD:
	case JOB_CANCELLED:
	case JOB_STATE_MAX:
		break;
	}
}

static void drop_expiry(struct fsm *f, const struct job *j)
{
	struct key k;

	if (j->expire_at == 0)
		return;
	key_expiry(&k, j->expire_at, j->id);
	fsm_delete(f, &k);
}

void job_move(struct fsm *f, struct job *j, enum job_state to)
{
	CHECK(job_can_move(j->live.state, to));
	leave_state(f, j);
	MSG_SET(&j->live, job_live, state, to);
	enter_state(f, j);
	if (job_state_is_terminal(to))
		drop_expiry(f, j);
}

void job_unlink(struct fsm *f, struct job *j)
{
	if (!job_state_is_terminal(j->live.state))
		drop_expiry(f, j);
	leave_state(f, j);
}

void job_save(struct fsm *f, struct job *j)
{
	struct key k;

	key_live(&k, j->id);
	fsm_put(f, &k, &msg_job_live, &j->live);
	if (j->active != NULL) {
		j->active->cancel_requested = j->live.cancel_requested;
		active_keep_live(j->active, buf_str(&f->scratch));
	}
}

/* --- recording --- */

uint64_t job_event(struct fsm *f, struct job *j, enum event_type type,
		   struct str data)
{
	struct m_event e = { 0 };
	uint64_t seq;

	MSG_SET(&e, event, type, type);
	MSG_SET(&e, event, job_id, j->id);
	MSG_SET(&e, event, queue, j->q->name);
	MSG_SET(&e, event, prev, j->live.event);
	if (j->live.attempt > 0)
		MSG_SET(&e, event, attempt, j->live.attempt);
	if (j->live.state == JOB_ACTIVE && j->live.worker_id.n > 0)
		MSG_SET(&e, event, worker_id, j->live.worker_id);
	if (data.n > 0)
		MSG_SET(&e, event, data, data);
	seq = fsm_event(f, &e);
	MSG_SET(&j->live, job_live, event, seq);
	return seq;
}

void job_record_error(struct fsm *f, struct job *j, struct str error,
		      struct str backtrace)
{
	struct m_job_error e = { 0 };
	struct m_job_live *l = &j->live;
	struct key k;

	MSG_SET(l, job_live, errors, l->errors + 1);
	MSG_SET(&e, job_error, attempt, l->attempt);
	MSG_SET(&e, job_error, error, error);
	MSG_SET(&e, job_error, at, f->now_ns);
	if (backtrace.n > 0)
		MSG_SET(&e, job_error, backtrace, backtrace);
	if (l->state == JOB_ACTIVE && l->worker_id.n > 0)
		MSG_SET(&e, job_error, worker_id, l->worker_id);
	if (l->state == JOB_ACTIVE && l->hostname.n > 0)
		MSG_SET(&e, job_error, hostname, l->hostname);
	key_error(&k, j->id, l->errors);
	fsm_put(f, &k, &msg_job_error, &e);
	if (l->errors > LIMIT_JOB_ERRORS) {
		key_error(&k, j->id, l->errors - LIMIT_JOB_ERRORS);
		fsm_delete(f, &k);
	}
	MSG_SET(l, job_live, failed_at, f->now_ns);
	if (l->state == JOB_ACTIVE) {
		j->q->failed++;
		queue_touch(f, j->q);
	}
}

/* --- ends of a life --- */

/* What only means something while a worker has the job, or it waits. */
static void forget_waiting(struct job *j)
{
	j->live.scheduled_at = 0;
	MSG_UNSET(&j->live, job_live, scheduled_at);
	j->live.cancel_requested = false;
	MSG_UNSET(&j->live, job_live, cancel_requested);
}

void job_end_cancelled(struct fsm *f, struct job *j)
{
	job_event(f, j, EVENT_CANCELLED, STR_NULL);
	job_move(f, j, JOB_CANCELLED);
	forget_waiting(j);
	MSG_SET(&j->live, job_live, cancelled_at, f->now_ns);
	job_save(f, j);
}

void job_end_dead(struct fsm *f, struct job *j, const char *reason)
{
	job_event(f, j, EVENT_DEAD,
		  fsm_event_text(f, "reason", str_from(reason)));
	job_move(f, j, JOB_DEAD);
	forget_waiting(j);
	MSG_SET(&j->live, job_live, failed_at, f->now_ns);
	job_save(f, j);
}

void job_end_expired(struct fsm *f, struct job *j)
{
	job_record_error(f, j, STR("job expired"), STR_NULL);
	job_event(f, j, EVENT_EXPIRED, STR_NULL);
	job_end_dead(f, j, "job expired");
	f->counters.expired++;
}

void job_back_to_pending(struct fsm *f, struct job *j)
{
	job_move(f, j, JOB_PENDING);
	forget_waiting(j);
	job_save(f, j);
}
