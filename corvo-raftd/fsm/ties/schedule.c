/*
 * Schedules: records sc|id in the store; in memory only their ids, names and
 * next times. What they create is in ops/schedule.c.
 */
#include "fsm/ties/schedule.h"

#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/job/sdb.h"
#include "util/hash.h"
#include "util/json.h"

/* Behind the struct: the id. */
struct fsm_schedule {
	struct str id;
	struct str name;      /* its own memory */
	struct heap_node due; /* in f->fires, while it has a next time */
	/* Of Scheduled-DB: bytes it counts for, 0: none, it has ended; and
	 * then its place in f->sdb.ends. */
	uint64_t room;
	struct heap_node end;
};

/* --- in memory --- */

static struct fsm_schedule *find(const struct fsm *f, struct str ref)
{
	struct fsm_schedule *s = hmap_get(&f->schedules, ref);

	return s != NULL ? s : hmap_get(&f->schedule_names, ref);
}

static void set_name(struct fsm *f, struct fsm_schedule *s, struct str name)
{
	if (str_eq(s->name, name))
		return;
	if (s->name.p != NULL)
		hmap_remove(&f->schedule_names, s->name);
	free((char *)s->name.p);
	s->name = str_dup(name);
	hmap_put(&f->schedule_names, s->name, s);
}

static struct fsm_schedule *add(struct fsm *f, struct str id)
{
	struct fsm_schedule *s = xcalloc(1, sizeof(*s) + id.n);

	memcpy(s + 1, id.p, id.n);
	s->id = str_of(s + 1, id.n);
	s->due.tie = s->end.tie = hash_stable(id.p, id.n);
	hmap_put(&f->schedules, s->id, s);
	return s;
}

/* Of Scheduled-DB, or NULL. */
static const struct m_sdb *sdb_of(const struct m_schedule *m)
{
	return m->job != NULL ? m->job->scheduled_db : NULL;
}

/* Its room is taken while it goes on; while loading that is known already. */
static void keep_room(struct fsm *f, struct fsm_schedule *s,
		      const struct m_schedule *m, bool loading)
{
	const struct m_sdb *d = sdb_of(m);
	uint64_t room = d != NULL && !m->ended ? d->size : 0;

	if (!loading && s->room > 0)
		sdb_release(f, s->room, true);
	if (!loading && room > 0)
		sdb_take(f, room, true);
	s->room = room;
	if (d != NULL && m->ended)
		heap_update(&f->sdb.ends, &s->end, d->ended_at);
	else
		heap_remove(&f->sdb.ends, &s->end);
}

static void keep(struct fsm *f, const struct m_schedule *m, bool loading)
{
	struct fsm_schedule *s = hmap_get(&f->schedules, m->id);

	if (s == NULL)
		s = add(f, m->id);
	set_name(f, s, m->name);
	keep_room(f, s, m, loading);
	if (m->next_run != 0)
		heap_update(&f->fires, &s->due,
			    m->set_back_ns != 0 ? SCHEDULE_AT_ONCE
						: m->next_run);
	else
		heap_remove(&f->fires, &s->due);
}

static void schedule_free(struct fsm_schedule *s)
{
	free((char *)s->name.p);
	free(s);
}

static int load_schedule(struct fsm *f, struct str id, struct str value)
{
	struct m_schedule m;

	if (msg_decode(&msg_schedule, value, &f->item_arena, &m) < 0 ||
	    !str_eq(m.id, id))
		return -ERR_INTERNAL_ERROR;
	keep(f, &m, true);
	return 0;
}

int schedules_load(struct fsm *f)
{
	return load_all_named(f, "sc|", load_schedule);
}

void schedules_free(struct fsm *f)
{
	struct str key;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->schedules, &pos, &key, &v))
		schedule_free(v);
	hmap_done(&f->schedules);
	hmap_done(&f->schedule_names);
	heap_done(&f->fires);
	heap_done(&f->sdb.ends);
}

/* --- records --- */

bool schedule_exists(const struct fsm *f, struct str ref)
{
	return find(f, ref) != NULL;
}

int schedule_find(struct fsm *f, struct str ref, struct m_schedule *ret)
{
	const struct fsm_schedule *s = find(f, ref);
	struct key k;
	int r;

	if (s == NULL)
		return 0;
	key_schedule(&k, SPACE_DEFAULT, s->id);
	r = fsm_read(f, &k, &msg_schedule, ret);
	MUST(f, r != 0);
	return r;
}

void schedule_save(struct fsm *f, const struct m_schedule *m)
{
	struct key k;

	key_schedule(&k, SPACE_DEFAULT, m->id);
	fsm_put(f, &k, &msg_schedule, m);
	keep(f, m, false);
}

void schedule_remove(struct fsm *f, const struct m_schedule *m)
{
	struct fsm_schedule *s = hmap_remove(&f->schedules, m->id);
	struct key k;

	MUST(f, s != NULL);
	MUST(f, hmap_remove(&f->schedule_names, s->name) == s);
	heap_remove(&f->fires, &s->due);
	heap_remove(&f->sdb.ends, &s->end);
	if (s->room > 0)
		sdb_release(f, s->room, true);
	schedule_free(s);
	key_schedule(&k, SPACE_DEFAULT, m->id);
	fsm_delete(f, &k);
}

struct m_sdb *schedule_own_sdb(struct fsm *f, struct m_schedule *m)
{
	struct m_schedule_job *job;
	struct m_sdb *d;

	if (sdb_of(m) == NULL)
		return NULL;
	job = arena_alloc(&f->item_arena, sizeof(*job));
	d = arena_alloc(&f->item_arena, sizeof(*d));
	*job = *m->job;
	*d = *job->scheduled_db;
	MSG_SET(job, schedule_job, scheduled_db, d);
	MSG_SET(m, schedule, job, job);
	return d;
}

/* --- those of Scheduled-DB that have ended --- */

static int by_id(const struct heap_node *a, const struct heap_node *b)
{
	return str_cmp(container_of(a, struct fsm_schedule, end)->id,
		       container_of(b, struct fsm_schedule, end)->id);
}

void schedules_order(struct fsm *f)
{
	f->sdb.ends.cmp = by_id;
}

uint64_t schedules_purge_from(const struct fsm *f)
{
	const struct heap_node *n = heap_min(&f->sdb.ends);

	return n != NULL ? n->key : NEVER;
}

int schedules_purge(struct fsm *f, uint64_t upto_ns, struct portion *p)
{
	int r = 1;

	while (r > 0 && !portion_is_full(f, p) &&
	       schedules_purge_from(f) <= upto_ns) {
		const struct fsm_schedule *s = container_of(
		    heap_min(&f->sdb.ends), struct fsm_schedule, end);
		struct m_schedule m;

		r = schedule_find(f, s->id, &m);
		if (r <= 0)
			return r;
		schedule_event(f, EVENT_SCHEDULE_DELETED, &m, NULL);
		schedule_remove(f, &m);
		budget_take_job(f);
		p->jobs++;
	}
	return 0;
}

void schedule_event(struct fsm *f, enum event_type type,
		    const struct m_schedule *s, const struct schedule_note *n)
{
	struct json_writer w = JSON_WRITER(&f->data);
	struct m_event e = { 0 };

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "schedule_id");
	jw_str(&w, s->id);
	jw_key(&w, "name");
	jw_str(&w, s->name);
	if (n != NULL && n->job_id.n > 0) {
		jw_key(&w, "job_id");
		jw_str(&w, n->job_id);
	}
	if (n != NULL && n->scheduled_for != 0) {
		jw_key(&w, "scheduled_for");
		jw_time(&w, n->scheduled_for);
	}
	if (n != NULL && n->reason != NULL) {
		jw_key(&w, "reason");
		jw_cstr(&w, n->reason);
	}
	if (n != NULL && n->missed > 0) {
		jw_key(&w, "missed");
		jw_u64(&w, n->missed);
	}
	jw_object_end(&w);
	MSG_SET(&e, event, type, type);
	MSG_SET(&e, event, data, buf_str(&f->data));
	fsm_event(f, &e);
}

/* --- what the leader asks --- */

int fsm_schedule(struct fsm *f, struct str ref, struct arena *a,
		 struct m_schedule *ret)
{
	const struct fsm_schedule *s = find(f, ref);
	struct str raw;
	struct key k;
	int r;

	if (s == NULL)
		return 0;
	key_schedule(&k, SPACE_DEFAULT, s->id);
	r = txn_get(f->txn, key_str(&k), &raw);
	if (r < 0)
		return r;
	MUST(f, r > 0);
	return msg_decode(&msg_schedule, arena_copy(a, raw), a, ret) < 0
		   ? -ERR_INTERNAL_ERROR
		   : 1;
}

size_t fsm_due_schedules(struct fsm *f, uint64_t now_ns, struct str *ids,
			 size_t max)
{
	struct heap_node *due[FSM_DUE_SCHEDULES];
	size_t n;

	CHECK(max <= ARRAY_SIZE(due));
	n = heap_upto(&f->fires, now_ns, due, max);
	for (size_t i = 0; i < n; i++)
		ids[i] = container_of(due[i], struct fsm_schedule, due)->id;
	return n;
}
