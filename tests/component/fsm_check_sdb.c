/*
 * Scheduled-DB: its numbers are those of the jobs and schedules there are, in
 * memory and in the store.
 */
#include "fsm/core/state.h"
#include "fsm_fixture.h"
#include "proto/scheddb.h"

struct sum {
	struct fsm_sdb n;
	uint64_t ends;
};

static void add_job(const struct fx_side *side, struct str id,
		    const struct m_job_doc *d, struct arena *a, struct sum *s)
{
	struct m_job_live live = { 0 };
	struct buf raw = BUF_INIT(0);
	struct key k;
	int r;

	key_live(&k, id);
	r = kv_get(side->kv, key_str(&k), &raw);
	assert_true(r >= 0);
	if (r > 0)
		assert_int_equal(msg_decode(&msg_job_live,
					    arena_copy(a, buf_str(&raw)), a,
					    &live),
				 0);
	else
		live.state = job_state_at_creation(d);
	buf_done(&raw);
	s->n.by[live.sdb_status]++;
	if (d->scheduled_db->size == 0 ||
	    job_state_is_terminal((enum job_state)live.state))
		return;
	s->n.bytes += d->scheduled_db->size;
	s->n.jobs++;
}

static void add_schedule(const struct m_schedule *m, struct sum *s)
{
	if (m->job == NULL || m->job->scheduled_db == NULL)
		return;
	assert_int_equal(m->ended, m->job->scheduled_db->ended_at != 0);
	s->ends += m->ended;
	if (m->ended)
		return;
	s->n.bytes += m->job->scheduled_db->size;
	s->n.jobs++;
	s->n.recurring++;
}

static void add_all(const struct fx_side *side, const char *kind, struct sum *s)
{
	bool jobs = strcmp(kind, "j|") == 0;
	struct arena a = ARENA_INIT;
	struct key from, upto;
	struct kv_iter *it;

	if (jobs)
		key_prefix(&from, kind);
	else
		key_prefix_space(&from, kind, SPACE_DEFAULT);
	key_prefix_end(&from, &upto);
	it = kv_iter_new(side->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it)) {
		struct m_job_doc d;
		struct m_schedule m;

		if (!jobs) {
			assert_int_equal(msg_decode(&msg_schedule,
						    kv_iter_value(it), &a, &m),
					 0);
			add_schedule(&m, s);
			continue;
		}
		assert_int_equal(
		    msg_decode(&msg_job_doc, kv_iter_value(it), &a, &d), 0);
		if (d.scheduled_db != NULL)
			add_job(side, str_skip(kv_iter_key(it), from.n), &d, &a,
				s);
	}
	kv_iter_free(it);
	arena_done(&a);
}

static void check_stored(const struct fx_side *side)
{
	const struct fsm_sdb *n = &side->f->sdb;
	struct arena a = ARENA_INIT;
	struct buf raw = BUF_INIT(0);
	struct m_sdb_numbers m = { 0 };
	struct key k;

	key_sdb(&k);
	if (kv_get(side->kv, key_str(&k), &raw) > 0)
		assert_int_equal(
		    msg_decode(&msg_sdb_numbers, buf_str(&raw), &a, &m), 0);
	assert_int_equal(m.bytes, n->bytes);
	assert_int_equal(m.jobs, n->jobs);
	assert_int_equal(m.recurring, n->recurring);
	assert_int_equal(m.pending, n->by[SDB_PENDING]);
	assert_int_equal(m.timeout, n->by[SDB_TIMEOUT]);
	assert_int_equal(m.last_executed_at, n->executed_ns);
	buf_done(&raw);
	arena_done(&a);
}

void fx_check_sdb(const struct fx_side *side)
{
	const struct fsm_sdb *n = &side->f->sdb;
	struct sum s = { 0 };

	add_all(side, "j|", &s);
	add_all(side, "sc|", &s);
	assert_int_equal(n->bytes, s.n.bytes);
	assert_int_equal(n->jobs, s.n.jobs);
	assert_int_equal(n->recurring, s.n.recurring);
	assert_int_equal(n->ends.n, s.ends);
	for (size_t i = 0; i < SDB_STATUSES; i++)
		assert_int_equal(n->by[i], s.n.by[i]);
	check_stored(side);
}
