/*
 * See job/sdb.h.
 */
#include "fsm/job/sdb.h"

#include "fsm/core/state.h"
#include "fsm/job/timing.h"
#include "proto/scheddb.h"

_Static_assert(SDB_STATUSES == sizeof(((struct fsm_sdb *)0)->by) /
				   sizeof(((struct fsm_sdb *)0)->by[0]),
	       "one number for each status");
_Static_assert(SDB_FAULTS == sizeof(((struct fsm_counters *)0)->sdb_failures) /
				 sizeof(uint64_t),
	       "one number for each fault");

/* --- the record --- */

int sdb_load(struct fsm *f)
{
	struct fsm_sdb *s = &f->sdb;
	struct m_sdb_numbers m;
	struct key k;
	int r;

	key_sdb(&k);
	arena_reset(&f->item_arena);
	r = fsm_read(f, &k, &msg_sdb_numbers, &m);
	if (r <= 0)
		return r;
	s->bytes = m.bytes;
	s->jobs = m.jobs;
	s->recurring = m.recurring;
	s->by[SDB_PENDING] = m.pending;
	s->by[SDB_IN_PROGRESS] = m.in_progress;
	s->by[SDB_COMPLETED] = m.completed;
	s->by[SDB_FAILED] = m.failed;
	s->by[SDB_CANCELLED] = m.cancelled;
	s->by[SDB_TIMEOUT] = m.timeout;
	s->executed_ns = m.last_executed_at;
	if (m.settings != NULL)
		s->set = *m.settings;
	return 0;
}

void fsm_sdb(const struct fsm *f, struct m_sdb_numbers *ret)
{
	const struct fsm_sdb *s = &f->sdb;

	*ret = (struct m_sdb_numbers){ 0 };
	MSG_SET(ret, sdb_numbers, bytes, s->bytes);
	MSG_SET(ret, sdb_numbers, jobs, s->jobs);
	MSG_SET(ret, sdb_numbers, recurring, s->recurring);
	MSG_SET(ret, sdb_numbers, pending, s->by[SDB_PENDING]);
	MSG_SET(ret, sdb_numbers, in_progress, s->by[SDB_IN_PROGRESS]);
	MSG_SET(ret, sdb_numbers, completed, s->by[SDB_COMPLETED]);
	MSG_SET(ret, sdb_numbers, failed, s->by[SDB_FAILED]);
	MSG_SET(ret, sdb_numbers, cancelled, s->by[SDB_CANCELLED]);
	MSG_SET(ret, sdb_numbers, timeout, s->by[SDB_TIMEOUT]);
	MSG_SET(ret, sdb_numbers, last_executed_at, s->executed_ns);
}

void sdb_write(struct fsm *f)
{
	struct m_sdb_numbers m;
	struct key k;

	if (!f->sdb.dirty)
		return;
	f->sdb.dirty = false;
	fsm_sdb(f, &m);
	if (f->sdb.set.has != 0)
		MSG_SET(&m, sdb_numbers, settings, &f->sdb.set);
	key_sdb(&k);
	fsm_put(f, &k, &msg_sdb_numbers, &m);
}

/* --- by status --- */

/* An attempt is over. */
static void note_end(struct fsm *f, const struct job *j, enum sdb_status s)
{
	struct fsm_counters *c = &f->counters;

	f->sdb.executed_ns = f->now_ns;
	f->sdb.dirty = true;
	c->sdb_ended[s]++;
	hist_add(&c->sdb_time, &hist_long,
		 timing_passed(j->live.started_at, f->now_ns));
}

void sdb_enter(struct fsm *f, struct job *j)
{
	struct m_job_live *l = &j->live;
	enum sdb_status s =
	    sdb_status_of((enum job_state)l->state,
			  l->attempt > 0 && l->errors > 0, l->timed_out);

	MUST(f, s < SDB_STATUSES);
	MSG_SET(l, job_live, sdb_status, s);
	f->sdb.by[s]++;
	f->sdb.dirty = true;
	if (s != SDB_COMPLETED)
		return;
	note_end(f, j, s);
}

/* What it was counted as stands in its record: it may have changed since. */
void sdb_leave(struct fsm *f, const struct job *j)
{
	uint64_t *n = &f->sdb.by[j->live.sdb_status];

	MUST(f, j->live.sdb_status<SDB_STATUSES && * n> 0);
	(*n)--;
	f->sdb.dirty = true;
}

void sdb_error(struct fsm *f, struct job *j, struct m_job_error *e)
{
	struct m_job_live *l = &j->live;
	enum sdb_status s = SDB_FAILED;

	if (l->state != JOB_ACTIVE)
		return;
	if (l->started_at != 0)
		MSG_SET(e, job_error, started_at, l->started_at);
	l->timed_out = sdb_is_timeout(e->error);
	MSG_UNSET(l, job_live, timed_out);
	if (l->timed_out)
		MSG_SET(l, job_live, timed_out, true);
	if (l->timed_out)
		s = SDB_TIMEOUT;
	else if (str_starts(e->error, STR("cancelled")))
		s = SDB_CANCELLED;
	f->counters.sdb_failures[sdb_fault_of(e->error)]++;
	note_end(f, j, s);
}

/* --- room --- */

void sdb_take(struct fsm *f, uint64_t bytes, bool recurring)
{
	f->sdb.bytes += bytes;
	f->sdb.jobs++;
	f->sdb.recurring += recurring;
	f->sdb.dirty = true;
}

void sdb_release(struct fsm *f, uint64_t bytes, bool recurring)
{
	MUST(f, f->sdb.bytes >= bytes && f->sdb.jobs > 0 &&
		    f->sdb.recurring >= recurring);
	f->sdb.bytes -= bytes;
	f->sdb.jobs--;
	f->sdb.recurring -= recurring;
	f->sdb.dirty = true;
}

void sdb_created(struct fsm *f, const struct m_sdb *s)
{
	f->sdb.by[SDB_PENDING]++;
	f->sdb.dirty = true;
	if (s->size > 0)
		sdb_take(f, s->size, false);
}

/* A run of a recurrente takes none of its own: it has no size. */
void sdb_room(struct fsm *f, struct job *j, enum job_state to)
{
	bool had = !job_state_is_terminal((enum job_state)j->live.state);
	bool has = to != JOB_STATE_MAX && !job_state_is_terminal(to);
	uint64_t size;

	if (had == has || job_need_doc(f, j) < 0)
		return;
	MUST(f, j->doc.scheduled_db != NULL);
	size = j->doc.scheduled_db->size;
	if (size == 0)
		return;
	if (has)
		sdb_take(f, size, false);
	else
		sdb_release(f, size, false);
}
