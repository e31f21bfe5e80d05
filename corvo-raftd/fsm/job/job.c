/*
 * One job: finding it, moving it between states with everything that hangs
 * on its state, recording what happened to it.
 */
#include "fsm/job/job.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/checkpoint.h"
#include "fsm/job/iteration.h"
#include "fsm/job/log.h"
#include "fsm/job/sdb.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm/order/retention.h"
#include "fsm/order/window.h"
#include "util/json.h"

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
	ret->group = arena_copy(&f->item_arena, a->group);
	ret->prio = a->prio;
	ret->extras = a->extras;
	ret->max_retries = a->max_retries;
	ret->expire_at = a->expire_at;
	if (a->live == NULL) {
		key_live(&k, a->id);
		r = fsm_read(f, &k, &msg_job_live, &ret->live);
	} else {
		budget_take(f, a->live_n); /* as if it had been read */
		raw = arena_copy(&f->item_arena, str_of(a->live, a->live_n));
		MUST(f, msg_decode(&msg_job_live, raw, &f->item_arena,
				   &ret->live) == 0);
	}
	MUST(f, r < 0 || ret->live.state == JOB_ACTIVE);
	return r;
}

static uint8_t extras_of(const struct m_job_doc *d)
{
	return (uint8_t)((d->unique_key.n > 0 ? EXTRA_UNIQUE : 0) |
			 (d->batch_id.n > 0 ? EXTRA_BATCH : 0) |
			 (MSG_HAS(d, job_doc, chain) ? EXTRA_CHAIN : 0) |
			 (d->expected_cost > 0 || d->expected.n > 0
			      ? EXTRA_EXPECTED
			      : 0) |
			 (MSG_HAS(d, job_doc, agent) ? EXTRA_AGENT : 0) |
			 (d->checkpoint_apart ? EXTRA_APART : 0) |
			 (d->scheduled_db != NULL ? EXTRA_SDB : 0));
}

void job_compose(struct fsm *f, struct job *j)
{
	const struct m_job_doc *d = &j->doc;
	const struct m_job_live *l = &j->live;
	uint32_t prio =
	    MSG_HAS(l, job_live, priority) ? l->priority : d->priority;

	j->has_doc = true;
	j->q = queue_find(f, l->queue.n > 0 ? l->queue : d->queue);
	MUST(f, j->q != NULL);
	MUST(f, prio < PRIORITIES);
	j->group = d->group;
	j->prio = (uint8_t)prio;
	j->max_retries = d->max_retries;
	j->expire_at = l->no_expiry ? 0 : d->expire_at;
	j->extras = extras_of(d);
}

void job_live_as_created(const struct m_job_doc *d, struct m_job_live *l)
{
	*l = (struct m_job_live){ 0 };
	MSG_SET(l, job_live, state, job_state_at_creation(d));
	MSG_SET(l, job_live, seq, d->seq);
	MSG_SET(l, job_live, event, d->event);
	if (d->scheduled_at)
		MSG_SET(l, job_live, scheduled_at, d->scheduled_at);
	if (d->waiting_on)
		MSG_SET(l, job_live, waiting_on, d->waiting_on);
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
	if (doc.n == 0) {
		r = read_doc(f, id, &ret->doc);
	} else {
		budget_take(f, doc.n); /* as if it had been read */
		MUST(f, msg_decode(&msg_job_doc, doc, &f->item_arena,
				   &ret->doc) == 0);
	}
	if (r <= 0)
		return r;
	job_live_as_created(&ret->doc, &ret->live);
	job_compose(f, ret);
	return 1;
}

int job_find(struct fsm *f, struct str id, struct job *ret)
{
	struct fsm_active *a;
	struct key k;
	int r;

	if (!id_fits(id))
		return 0;
	a = active_find(f, id);
	if (a != NULL) {
		*ret = (struct job){ .id = id };
		return job_find_active(f, a, ret);
	}
	*ret = (struct job){ .id = id };
	r = read_doc(f, id, &ret->doc);
	if (r <= 0)
		return r;
	key_live(&k, id);
	r = fsm_read(f, &k, &msg_job_live, &ret->live);
	if (r < 0)
		return r;
	if (r == 0)
		job_live_as_created(&ret->doc, &ret->live);
	job_compose(f, ret);
	MUST(f, ret->live.state != JOB_ACTIVE);
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
	MUST(f, r > 0);
	j->has_doc = true;
	return 0;
}

/* --- moving --- */

static void due_key(struct key *k, const struct job *j)
{
	if (j->live.state == JOB_SCHEDULED)
		key_scheduled(k, j->q->space, j->q->name, j->live.scheduled_at,
			      j->id);
	else
		key_retrying(k, j->q->space, j->q->name, j->live.scheduled_at,
			     j->id);
}

/* False: no budget has set it aside. */
static bool aside_key(struct key *k, const struct job *j)
{
	if (j->live.aside.n == 0)
		return false;
	key_aside(k, j->live.aside, j->id);
	return true;
}

/* False: none that is to come. */
static bool deadline_key(struct key *k, const struct job *j)
{
	const struct m_hold_state *h = j->live.held;

	if (h == NULL || h->deadline == 0 || h->escalated)
		return false;
	key_deadline(k, h->deadline, j->id);
	return true;
}

void job_enter_held(struct fsm *f, const struct job *j)
{
	struct key k;

	key_held(&k, j->q->space, j->q->name, j->id);
	txn_put(f->txn, key_str(&k), STR(""));
	if (!deadline_key(&k, j))
		return;
	txn_put(f->txn, key_str(&k), STR(""));
	f->deadline_from = MIN(f->deadline_from, j->live.held->deadline);
}

void job_leave_held(struct fsm *f, const struct job *j)
{
	struct key k;

	key_held(&k, j->q->space, j->q->name, j->id);
	fsm_delete(f, &k);
	if (deadline_key(&k, j))
		fsm_delete(f, &k);
}

/* Takes the job out of the index of its present state. */
static void leave_state(struct fsm *f, struct job *j)
{
	struct key k;

	MUST(f, (j->live.state == JOB_ACTIVE) == (j->active != NULL));
	queue_count(f, j->q, j->live.state, -1);
	if (j->extras & EXTRA_SDB)
		sdb_leave(f, j);
	switch ((enum job_state)j->live.state) {
	case JOB_PENDING:
		if (!j->taken)
			queue_forget(f, j->q, j->group, j->prio, j->live.seq);
		queue_remove_pending(f, j->q, j->group, j->prio, j->live.seq);
		break;
	case JOB_ACTIVE:
		if (j->extras & EXTRA_EXPECTED)
			f->hooks->handed(f, j, -1);
		key_active(&k, j->q->space, j->q->name, j->id);
		fsm_delete(f, &k);
		active_remove(f, j->active);
		j->active = NULL;
		break;
	case JOB_SCHEDULED:
	case JOB_RETRYING:
		due_key(&k, j);
		fsm_delete(f, &k);
		if (aside_key(&k, j))
			fsm_delete(f, &k);
		bounds_leave(f, j->q, j->live.state, j->live.scheduled_at);
		break;
	case JOB_HELD:
		job_leave_held(f, j);
		break;
	case JOB_BLOCKED:
		key_blocked(&k, j->q->space, j->q->name, j->id);
		fsm_delete(f, &k);
		break;
	case JOB_COMPLETED:
	case JOB_DEAD:
	case JOB_CANCELLED:
		key_ended(&k, j->q->space, j->q->name, j->live.ended_at, j->id);
		fsm_delete(f, &k);
		bounds_leave(f, j->q, j->live.state, j->live.ended_at);
		break;
	case JOB_STATE_MAX:
		break;
	}
}

static void enter_active(struct fsm *f, struct job *j, uint64_t expires)
{
	struct key k;
	char v[16];

	MUST(f, j->active == NULL && j->live.lease_token > 0);
	put_be64(v, expires);
	put_be64(v + 8, j->live.lease_token);
	key_active(&k, j->q->space, j->q->name, j->id);
	txn_put_new(f->txn, key_str(&k), str_of(v, sizeof(v)));
	j->active = active_add(f, j, expires);
	MUST(f, j->active->lane->active <= j->q->counts[JOB_ACTIVE]);
	if (j->extras & EXTRA_EXPECTED)
		f->hooks->handed(f, j, 1);
}

/* lease_end: of an active job. */
static void enter_state(struct fsm *f, struct job *j, uint64_t lease_end)
{
	struct pending p = { .seq = j->live.seq, .id = j->id };
	struct key k;

	queue_count(f, j->q, j->live.state, 1);
	if (j->extras & EXTRA_SDB)
		sdb_enter(f, j);
	switch ((enum job_state)j->live.state) {
	case JOB_PENDING:
		queue_add_pending(f, j->q, j->group, j->prio, &p);
		break;
	case JOB_ACTIVE:
		enter_active(f, j, lease_end);
		break;
	case JOB_SCHEDULED:
	case JOB_RETRYING:
		MUST(f, j->live.scheduled_at > 0);
		due_key(&k, j);
		txn_put(f->txn, key_str(&k), STR(""));
		if (aside_key(&k, j))
			txn_put(f->txn, key_str(&k), STR(""));
		bounds_add(f, j->q, j->live.state, j->live.scheduled_at);
		break;
	case JOB_HELD:
		job_enter_held(f, j);
		break;
	case JOB_BLOCKED:
		key_blocked(&k, j->q->space, j->q->name, j->id);
		txn_put(f->txn, key_str(&k), STR(""));
		break;
	case JOB_COMPLETED:
	case JOB_DEAD:
	case JOB_CANCELLED:
		key_ended(&k, j->q->space, j->q->name, j->live.ended_at, j->id);
		txn_put(f->txn, key_str(&k), STR(""));
		bounds_add(f, j->q, j->live.state, j->live.ended_at);
		break;
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

/* What hangs on the job hears of its end. JOB_STATE_MAX: it is deleted. */
static void job_on_end(struct fsm *f, struct job *j, enum job_state end)
{
	drop_expiry(f, j);
	f->hooks->ended(f, j, end);
}

static void drop_timeout(struct m_job_live *l)
{
	l->timeout_at = 0;
	MSG_UNSET(l, job_live, timeout_at);
}

static void drop_aside(struct m_job_live *l)
{
	l->aside = STR_NULL;
	MSG_UNSET(l, job_live, aside);
}

static void set_pending_since(struct fsm *f, struct job *j, enum job_state to)
{
	struct m_job_live *l = &j->live;

	if (to == JOB_PENDING) {
		MSG_SET(l, job_live, pending_since, f->now_ns);
		queue_rates(f, j->q)->in++;
	} else if (l->state == JOB_PENDING) {
		l->pending_since = 0;
		MSG_UNSET(l, job_live, pending_since);
	}
}

void job_move(struct fsm *f, struct job *j, enum job_state to)
{
	bool ends = job_state_is_terminal(to);

	MUST(f, job_can_move(j->live.state, to));
	if (j->extras & EXTRA_SDB)
		sdb_room(f, j, to);
	leave_state(f, j);
	if (j->live.state == JOB_ACTIVE) /* it was of that attempt */
		drop_timeout(&j->live);
	if (j->live.state == JOB_SCHEDULED) /* it was of that time */
		drop_aside(&j->live);
	set_pending_since(f, j, to);
	MSG_SET(&j->live, job_live, state, to);
	if (ends)
		MSG_SET(&j->live, job_live, ended_at, f->now_ns);
	enter_state(f, j, fsm_later(f, j->live.lease_ns));
	if (ends)
		job_on_end(f, j, to);
}

void job_relink(struct fsm *f, struct job *j, struct fsm_queue *q, uint8_t prio,
		uint64_t seq)
{
	struct m_job_live *l = &j->live;
	uint64_t lease_end = j->active != NULL ? j->active->lease.key : 0;

	MUST(f, prio < PRIORITIES);
	leave_state(f, j);
	if (q != j->q) {
		MSG_SET(l, job_live, queue, q->name);
		if (l->state == JOB_PENDING)
			queue_rates(f, q)->in++;
	}
	if (prio != j->prio)
		MSG_SET(l, job_live, priority, prio);
	MSG_SET(l, job_live, rewritten, true);
	MSG_SET(l, job_live, seq, seq);
	j->q = q;
	j->prio = prio;
	enter_state(f, j, lease_end);
}

void job_rewrite(struct fsm *f, struct job *j)
{
	struct pending p = { .seq = j->live.seq, .id = j->id };
	struct key k;

	CHECK(j->has_doc);
	key_job(&k, j->id);
	fsm_put(f, &k, &msg_job_doc, &j->doc);
	MSG_SET(&j->live, job_live, rewritten, true);
	if (j->live.state == JOB_PENDING)
		queue_set_changed(f, j->q, j->group, j->prio, &p);
}

void job_reschedule(struct fsm *f, struct job *j, uint64_t ns)
{
	MUST(f,
	     j->live.state == JOB_SCHEDULED || j->live.state == JOB_RETRYING);
	leave_state(f, j);
	drop_aside(&j->live); /* whoever chose that time means it */
	MSG_SET(&j->live, job_live, scheduled_at, ns);
	enter_state(f, j, 0);
}

static void delete_records(struct fsm *f, const struct job *j)
{
	uint32_t n = j->live.errors;
	uint32_t first = n > LIMIT_JOB_ERRORS ? n - LIMIT_JOB_ERRORS + 1 : 1;
	struct key k;

	for (uint32_t i = first; i <= n; i++) {
		key_error(&k, j->id, i);
		fsm_delete(f, &k);
	}
	budget_take_records(f, n + 1 - first);
	if (j->live.log_lines > 0)
		log_delete(f, j);
	for (uint32_t i = 1; i <= j->live.scores; i++) {
		key_score(&k, j->id, i);
		fsm_delete(f, &k);
	}
	budget_take_records(f, j->live.scores);
	if (j->extras & EXTRA_AGENT)
		iterations_delete(f, j);
	checkpoint_delete(f, j);
	key_live(&k, j->id);
	fsm_delete(f, &k);
	key_job(&k, j->id);
	fsm_delete(f, &k);
}

/*
 * When the view reads of it, nothing else tells of its batch any more, nor of
 * a key it may have taken over from a job that lives on.
 */
static struct str deletion_data(struct fsm *f, struct job *j)
{
	struct json_writer w = JSON_WRITER(&f->data);
	bool unique = (j->extras & EXTRA_UNIQUE) && f->entry_format > 1;

	if ((!(j->extras & EXTRA_BATCH) && !unique) || job_need_doc(f, j) < 0)
		return STR_NULL;
	buf_clear(&f->data);
	jw_object(&w);
	if (j->extras & EXTRA_BATCH) {
		jw_key(&w, "batch_id");
		jw_str(&w, j->doc.batch_id);
	}
	if (unique) {
		jw_key(&w, "unique_key");
		jw_str(&w, j->doc.unique_key);
		jw_key(&w, "unique_in");
		jw_str(&w, j->doc.queue);
	}
	jw_object_end(&w);
	return buf_str(&f->data);
}

void job_delete(struct fsm *f, struct job *j, enum event_type type)
{
	bool ended = job_state_is_terminal(j->live.state);

	job_event(f, j, type, deletion_data(f, j));
	if (j->extras & EXTRA_SDB)
		sdb_room(f, j, JOB_STATE_MAX);
	leave_state(f, j);
	if (!ended)
		job_on_end(f, j, JOB_STATE_MAX);
	delete_records(f, j);
}

void job_save(struct fsm *f, struct job *j)
{
	struct key k;

	MUST(f, (j->live.state == JOB_ACTIVE) == (j->active != NULL));
	key_live(&k, j->id);
	fsm_put(f, &k, &msg_job_live, &j->live);
	if (j->active != NULL) {
		MUST(f, j->active->token == j->live.lease_token);
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
	if (l->state == JOB_ACTIVE && l->response.n > 0)
		MSG_SET(&e, job_error, response, l->response);
	if (j->extras & EXTRA_SDB)
		sdb_error(f, j, &e);
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
	f->hooks->failed(f, j);
}
