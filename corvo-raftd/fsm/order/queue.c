/*
 * Queues in memory: settings, counts, the way to their lanes, and bounds of
 * what is due. Names come from clients; queue_name_fits guards the keys.
 */
#include "fsm/order/queue.h"

#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/core/watch.h"
#include "fsm/order/lane.h"
#include "fsm/order/retention.h"
#include "fsm/order/roster.h"
#include "fsm/order/settings.h"
#include "fsm/order/window.h"
#include "store/record.h"
#include "util/hash.h"

#define QUEUE_CMP(a, b, node)                                  \
	str_cmp(container_of(a, struct fsm_queue, node)->name, \
		container_of(b, struct fsm_queue, node)->name)

static int cmp_due(const struct heap_node *a, const struct heap_node *b)
{
	return QUEUE_CMP(a, b, bounds.due);
}

static int cmp_purge(const struct heap_node *a, const struct heap_node *b)
{
	return QUEUE_CMP(a, b, bounds.purge);
}

static int cmp_idle(const struct heap_node *a, const struct heap_node *b)
{
	return QUEUE_CMP(a, b, idle);
}

static int cmp_regroup(const struct heap_node *a, const struct heap_node *b)
{
	return QUEUE_CMP(a, b, lanes.regroup);
}

void queues_order(struct fsm *f)
{
	f->regroup.cmp = cmp_regroup;
	f->due.cmp = cmp_due;
	f->purge_own.cmp = f->purge_default.cmp = cmp_purge;
	f->idle_queues.cmp = cmp_idle;
	f->idle.cmp = lane_cmp_idle;
}

bool queue_name_fits(struct str name)
{
	return name.n > 0 && name.n <= LIMIT_QUEUE_NAME_BYTES &&
	       memchr(name.p, '\0', name.n) == NULL;
}

struct fsm_queue *queue_find(struct fsm *f, struct str name)
{
	return hmap_get(&f->queues, name);
}

struct fsm_queue *queue_add(struct fsm *f, struct str name,
			    const struct m_queue_doc *doc)
{
	struct fsm_queue *q = xcalloc(1, sizeof(*q) + name.n);
	char *p = (char *)(q + 1);

	memcpy(p, name.p, name.n);
	q->space = SPACE_DEFAULT;
	q->name = str_of(p, name.n);
	q->created_at = doc->created_at;
	q->paused = doc->paused;
	q->swept = doc->swept;
	settings_keep(f, q, doc->settings);
	bounds_init(q, hash_stable(name.p, name.n));
	q->idle.tie = q->bounds.due.tie;
	list_init(&q->dirty);
	list_init(&q->woken);
	lanes_init(f, q);
	q->lanes.regroups = doc->regroups;
	MUST(f, hmap_put(&f->queues, name, q) == NULL);
	return q;
}

void queue_free(struct fsm_queue *q)
{
	lanes_done(q);
	arena_done(&q->set_arena);
	free(q);
}

void queue_event(struct fsm *f, const struct fsm_queue *q, enum event_type type,
		 struct str data)
{
	struct m_event e = { 0 };

	MSG_SET(&e, event, type, type);
	MSG_SET(&e, event, queue, q->name);
	if (data.n > 0)
		MSG_SET(&e, event, data, data);
	fsm_event(f, &e);
}

static void fill_doc(const struct fsm_queue *q, struct m_queue_doc *ret)
{
	*ret = (struct m_queue_doc){ 0 };
	MSG_SET(ret, queue_doc, created_at, q->created_at);
	MSG_SET(ret, queue_doc, paused, q->paused);
	if (q->lanes.regroups > 0)
		MSG_SET(ret, queue_doc, regroups, q->lanes.regroups);
	if (q->set->has != 0)
		MSG_SET(ret, queue_doc, settings,
			(struct m_set_queue *)q->set); /* only read */
	if (q->swept > 0)
		MSG_SET(ret, queue_doc, swept, q->swept);
}

void queue_write_doc(struct fsm *f, const struct fsm_queue *q)
{
	struct m_queue_doc doc;
	struct key k;

	fill_doc(q, &doc);
	key_queue(&k, q->space, q->name);
	fsm_put(f, &k, &msg_queue_doc, &doc);
}

struct fsm_queue *queue_get(struct fsm *f, struct str name)
{
	struct fsm_queue *q = queue_find(f, name);
	struct m_queue_doc doc = { .created_at = f->now_ns };

	if (q != NULL)
		return q;
	q = queue_add(f, name, &doc);
	for (int i = 0; i < PRIORITIES; i++)
		window_reset(&q->lanes.base.windows[i], true);
	queue_write_doc(f, q);
	queue_touch(f, q);
	queue_event(f, q, EVENT_QUEUE_CREATED, STR_NULL);
	return q;
}

void queue_close(struct fsm *f, struct fsm_queue *q, uint64_t until)
{
	q->closed_ns = until;
	heap_update(&f->looks, &q->lanes.look, until);
}

void queue_open(struct fsm *f, struct fsm_queue *q)
{
	q->closed_ns = 0;
	if (q->counts[JOB_PENDING] > 0)
		queue_wake(f, q);
}

void queue_set_paused(struct fsm *f, struct fsm_queue *q, bool paused)
{
	if (q->paused == paused)
		return;
	q->paused = paused;
	queue_touch(f, q);
	queue_write_doc(f, q);
	queue_event(f, q, paused ? EVENT_QUEUE_PAUSED : EVENT_QUEUE_RESUMED,
		    STR_NULL);
	if (!paused && q->counts[JOB_PENDING] > 0)
		queue_wake(f, q);
	lanes_look(f, q);
}

/* --- counts --- */

void queue_touch(struct fsm *f, struct fsm_queue *q)
{
	if (!list_empty(&q->dirty))
		return;
	list_push_back(&f->dirty, &q->dirty);
	heap_remove(&f->idle_queues, &q->idle); /* roster_settle looks again */
}

void queue_count(struct fsm *f, struct fsm_queue *q, enum job_state s,
		 int change)
{
	MUST(f, s < JOB_STATE_MAX && (change == 1 || change == -1));
	MUST(f, change > 0 || q->counts[s] > 0);
	MUST(f, f->jobs[s] >= q->counts[s]); /* it is the sum of all queues */
	q->counts[s] += (uint64_t)(int64_t)change;
	f->jobs[s] += (uint64_t)(int64_t)change;
	queue_touch(f, q);
}

static void count_fields(const struct fsm_queue *q, struct m_queue *m)
{
#define COUNT(state, field) MSG_SET(m, queue, field, q->counts[state])
	COUNT(JOB_PENDING, pending);
	COUNT(JOB_ACTIVE, active);
	COUNT(JOB_HELD, held);
	COUNT(JOB_COMPLETED, completed);
	COUNT(JOB_DEAD, dead);
	COUNT(JOB_SCHEDULED, scheduled);
	COUNT(JOB_RETRYING, retrying);
	COUNT(JOB_CANCELLED, cancelled);
	COUNT(JOB_BLOCKED, blocked);
#undef COUNT
	MSG_SET(m, queue, failed, q->failed);
}

static void write_counts(struct fsm *f, const struct fsm_queue *q)
{
	struct m_queue m = { 0 };
	struct key k;

	count_fields(q, &m);
	if (q->idle.pos > 0)
		MSG_SET(&m, queue, idle_since, q->idle.key);
	key_counts(&k, q->space, q->name);
	fsm_put(f, &k, &msg_queue, &m);
}

void queue_show(const struct fsm_queue *q, struct m_queue *ret)
{
	struct m_queue_doc doc;
	uint64_t all = 0;

	fill_doc(q, &doc);
	record_queue(q->name, &doc, ret);
	count_fields(q, ret);
	for (int i = 0; i < JOB_STATE_MAX; i++)
		all += q->counts[i];
	MSG_SET(ret, queue, pending,
		q->counts[JOB_PENDING] + q->counts[JOB_BLOCKED]);
	MSG_SET(ret, queue, enqueued, all);
	if (doc.settings != NULL)
		MSG_SET(ret, queue, settings, doc.settings);
}

void queue_write_dirty(struct fsm *f)
{
	lanes_write_dirty(f);
	while (!list_empty(&f->dirty)) {
		struct fsm_queue *q =
		    list_entry(f->dirty.next, struct fsm_queue, dirty);

		list_remove(&q->dirty);
		roster_settle(f, q);
		write_counts(f, q);
		watch_note(f, q->name);
		if (q->swept_changed)
			queue_write_doc(f, q);
		q->swept_changed = false;
		if (!q->lanes.plain) {
			lanes_write_limiter(f, q);
			lanes_look(f, q);
		}
	}
}

void queue_wake(struct fsm *f, struct fsm_queue *q)
{
	if (!q->paused && list_empty(&q->woken))
		list_push_back(&f->woken, &q->woken);
}

/* --- pending jobs --- */

void queue_add_pending(struct fsm *f, struct fsm_queue *q, struct str group,
		       uint8_t prio, const struct pending *p)
{
	struct fsm_lane *l = lane_to_join(f, q, group);
	struct pending here = *p;

	MUST(f, prio < PRIORITIES);
	MUST(f, p->seq > 0 && p->seq <= f->last_job_seq);
	here.group = group;
	lane_insert(f, l, prio, &here);
	lane_count_pending(f, l, 1);
	queue_wake(f, q);
}

void queue_remove_pending(struct fsm *f, struct fsm_queue *q, struct str group,
			  uint8_t prio, uint64_t seq)
{
	struct fsm_lane *l = lane_of_pending(f, q, group, prio, seq);
	struct key k;

	MUST(f, seq > 0 && seq <= f->last_job_seq);
	lane_key(&k, l, prio, seq);
	fsm_delete(f, &k);
	lane_count_pending(f, l, -1);
}

void queue_set_changed(struct fsm *f, struct fsm_queue *q, struct str group,
		       uint8_t prio, const struct pending *p)
{
	struct fsm_lane *l = lane_of_pending(f, q, group, prio, p->seq);
	struct pending here = *p;

	MUST(f, !p->as_created);
	here.group = group;
	lane_write(f, l, prio, &here, false);
	lane_changed(f, l, prio, p->seq);
}

void queue_forget(struct fsm *f, struct fsm_queue *q, struct str group,
		  uint8_t prio, uint64_t seq)
{
	struct fsm_lane *l = lane_find(q, group);

	if (l != NULL)
		lane_changed(f, l, prio, seq);
	if (group.n > 0 && q->lanes.mixed)
		lane_changed(f, &q->lanes.base, prio, seq);
}

const struct window_job *queue_first(struct fsm *f, struct fsm_queue *q,
				     uint8_t prio, struct fsm_lane **ret)
{
	struct fsm_lane *l = &q->lanes.base;

	if (!q->lanes.plain) {
		l = lane_next(f, q, prio);
	} else if (q->counts[JOB_PENDING] == 0) {
		lane_clear(f, l);
		return NULL;
	} else if (lane_fill(f, l, prio) < 0) {
		return NULL;
	}
	*ret = l;
	return l == NULL ? NULL : window_first(&l->windows[prio]);
}

/* --- the end --- */

bool queue_is_empty(const struct fsm_queue *q)
{
	for (int i = 0; i < JOB_STATE_MAX; i++)
		if (q->counts[i] > 0)
			return false;
	return true;
}

int queue_remove(struct fsm *f, struct fsm_queue *q)
{
	struct key k;
	int r;

	MUST(f, queue_is_empty(q));
	r = lanes_delete(f, q); /* reads the settings */
	if (r <= 0)
		return r;
	key_queue(&k, q->space, q->name);
	fsm_delete(f, &k);
	key_counts(&k, q->space, q->name);
	fsm_delete(f, &k);
	queue_event(f, q, EVENT_QUEUE_DELETED, STR_NULL);
	settings_keep(f, q, NULL);
	bounds_done(f, q);
	heap_remove(&f->idle_queues, &q->idle);
	heap_remove(&f->regroup, &q->lanes.regroup);
	list_remove(&q->dirty);
	list_remove(&q->woken);
	watch_note(f, q->name);
	MUST(f, hmap_remove(&f->queues, q->name) == q);
	queue_free(q);
	return 1;
}
