/*
 * Queues in memory: settings, counts, windows of pending jobs, and bounds of
 * what is due. Names come from clients; queue_name_fits guards the keys.
 */
#include <stdlib.h>

#include "fsm_impl.h"
#include "store/record.h"

#define REFILL_STEPS      4 /* over the records of other jobs */
#define REFILL_MISSES_MAX 8 /* in a row */

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
	q->name = str_of(p, name.n);
	q->created_at = doc->created_at;
	q->paused = doc->paused;
	q->scheduled_from = q->retrying_from = q->ended_from = NEVER;
	settings_keep(f, q, doc->settings);
	/* Equal on all replicas: it decides whose jobs are promoted first. */
	q->due.tie = q->purge.tie = hash_bytes(name.p, name.n);
	list_init(&q->dirty);
	list_init(&q->woken);
	CHECK(hmap_put(&f->queues, name, q) == NULL);
	return q;
}

void queue_free(struct fsm_queue *q)
{
	for (int i = 0; i < PRIORITIES; i++)
		window_done(&q->windows[i]);
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
	if (q->set->has != 0)
		MSG_SET(ret, queue_doc, settings,
			(struct m_set_queue *)q->set); /* only read */
}

void queue_write_doc(struct fsm *f, const struct fsm_queue *q)
{
	struct m_queue_doc doc;
	struct key k;

	fill_doc(q, &doc);
	key_queue(&k, q->name);
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
		window_reset(&q->windows[i], true);
	queue_write_doc(f, q);
	queue_touch(f, q);
	queue_event(f, q, EVENT_QUEUE_CREATED, STR_NULL);
	return q;
}

void queue_set_paused(struct fsm *f, struct fsm_queue *q, bool paused)
{
	if (q->paused == paused)
		return;
	q->paused = paused;
	queue_write_doc(f, q);
	queue_event(f, q, paused ? EVENT_QUEUE_PAUSED : EVENT_QUEUE_RESUMED,
		    STR_NULL);
	if (!paused && q->counts[JOB_PENDING] > 0)
		queue_wake(f, q);
}

/* --- counts --- */

void queue_touch(struct fsm *f, struct fsm_queue *q)
{
	if (list_empty(&q->dirty))
		list_push_back(&f->dirty, &q->dirty);
}

void queue_count(struct fsm *f, struct fsm_queue *q, enum job_state s,
		 int change)
{
	CHECK(change > 0 || q->counts[s] > 0);
	q->counts[s] += (uint64_t)(int64_t)change;
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
	key_counts(&k, q->name);
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
	while (!list_empty(&f->dirty)) {
		struct fsm_queue *q =
		    list_entry(f->dirty.next, struct fsm_queue, dirty);

		list_remove(&q->dirty);
		write_counts(f, q);
	}
}

void queue_wake(struct fsm *f, struct fsm_queue *q)
{
	if (!q->paused && list_empty(&q->woken))
		list_push_back(&f->woken, &q->woken);
}

/* --- windows --- */

/* So that ten thousand deep queues together stay bounded too. */
static uint32_t window_max(const struct fsm *f)
{
	return f->window_jobs < WINDOWS_TOTAL_MAX ? WINDOW_JOBS_MAX
						  : WINDOW_JOBS_MIN;
}

/* Runs a change of a window and keeps the totals true. */
#define WINDOW_CHANGE(f, w, change)                 \
	do {                                        \
		(f)->window_jobs -= window_size(w); \
		(f)->window_docs -= (w)->doc_bytes; \
		change;                             \
		(f)->window_jobs += window_size(w); \
		(f)->window_docs += (w)->doc_bytes; \
	} while (0)

/* is_new: the store does not have the key. */
static void write_pending(struct fsm *f, const struct fsm_queue *q,
			  uint8_t prio, const struct pending *p, bool is_new)
{
	char value[1 + LIMIT_JOB_ID_BYTES];
	struct key k;

	CHECK(p->id.n <= LIMIT_JOB_ID_BYTES);
	value[0] = (char)p->as_created;
	memcpy(value + 1, p->id.p, p->id.n);
	key_pending(&k, q->name, prio, p->seq);
	if (is_new)
		txn_put_new(f->txn, key_str(&k), str_of(value, 1 + p->id.n));
	else
		txn_put(f->txn, key_str(&k), str_of(value, 1 + p->id.n));
}

void queue_add_pending(struct fsm *f, struct fsm_queue *q, uint8_t prio,
		       const struct pending *p)
{
	struct window *w = &q->windows[prio];
	struct pending kept = *p;

	write_pending(f, q, prio, p, true);
	if (p->doc.n > WINDOW_DOC_BYTES ||
	    f->window_docs + p->doc.n > WINDOWS_DOCS_MAX)
		kept.doc = STR_NULL;
	WINDOW_CHANGE(f, w, window_insert(w, &kept, window_max(f)));
	queue_wake(f, q);
}

void queue_set_changed(struct fsm *f, struct fsm_queue *q, uint8_t prio,
		       const struct pending *p)
{
	struct window *w = &q->windows[prio];

	CHECK(!p->as_created);
	write_pending(f, q, prio, p, false);
	WINDOW_CHANGE(f, w, window_changed(w, p->seq));
}

struct refill {
	struct window *w;
	uint32_t left;
	bool more;
};

static bool refill_add(void *ctx, struct str key, struct str value)
{
	struct refill *r = ctx;
	struct pending p = {
		.seq = get_be64(key.p + key.n - 8),
		.id = str_skip(value, 1),
		.as_created = value.p[0] != 0,
	};

	if (r->left == 0) {
		r->more = true;
		return false;
	}
	r->left--;
	window_fill(r->w, &p);
	return true;
}

static void refill_doc(struct fsm *f, struct window *w, uint32_t i,
		       struct str doc)
{
	if (!window_filled_at(w, i)->as_created || doc.n == 0 ||
	    doc.n > WINDOW_DOC_BYTES ||
	    f->window_docs + w->doc_bytes + doc.n > WINDOWS_DOCS_MAX)
		return;
	window_fill_doc(w, i, doc);
}

/*
 * Reads records of the jobs just filled in, along one iterator: jobs of a deep
 * queue were mostly created one after the other, and a step costs a tenth of
 * a get. Gives up where other jobs lie between.
 */
static int refill_docs(struct fsm *f, struct window *w)
{
	const struct window_job *j = window_filled_at(w, 0);
	struct kv_iter *it;
	struct key k;
	uint32_t missed = 0;
	int r;

	if (j == NULL)
		return 0;
	key_job(&k, str_of(j->id, j->id_n));
	it = kv_iter_new(f->kv, key_str(&k), STR_NULL);
	for (uint32_t i = 0;
	     missed < REFILL_MISSES_MAX && (j = window_filled_at(w, i)) != NULL;
	     i++) {
		struct str id = str_of(j->id, j->id_n);
		int c = -1;

		key_job(&k, id);
		for (int steps = 0; kv_iter_valid(it) && steps < REFILL_STEPS;
		     steps++) {
			c = str_cmp(kv_iter_key(it), key_str(&k));
			if (c >= 0)
				break;
			kv_iter_next(it);
		}
		/* an id may have been deleted and used again since */
		if (c == 0 && !txn_has(f->txn, key_str(&k)))
			refill_doc(f, w, i, kv_iter_value(it));
		missed = c == 0 ? 0 : missed + 1;
	}
	r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

static int window_refill(struct fsm *f, struct fsm_queue *q, uint8_t prio)
{
	struct window *w = &q->windows[prio];
	struct refill fill = {
		.w = w, .left = MIN(window_max(f) / 2, (uint32_t)WINDOW_REFILL)
	};
	struct key from, upto;
	int r;

	key_pending(&from, q->name, prio, w->frontier);
	key_pending(&upto, q->name, prio + 1, 0);
	r = txn_scan(f->txn, key_str(&from), key_str(&upto), refill_add, &fill);
	if (r == 0)
		r = refill_docs(f, w);
	if (r < 0)
		return fsm_fail(f, r);
	window_filled(w, fill.more);
	f->window_jobs += window_size(w);
	f->window_docs += w->doc_bytes;
	return 0;
}

/* What is left in the windows of a queue without pending jobs is stale. */
static void windows_clear(struct fsm *f, struct fsm_queue *q)
{
	for (int i = 0; i < PRIORITIES; i++) {
		struct window *w = &q->windows[i];

		WINDOW_CHANGE(f, w, window_reset(w, true));
	}
}

const struct window_job *queue_first(struct fsm *f, struct fsm_queue *q,
				     uint8_t prio)
{
	struct window *w = &q->windows[prio];

	if (q->counts[JOB_PENDING] == 0) {
		windows_clear(f, q);
		return NULL;
	}
	if (window_is_dry(w) && window_refill(f, q, prio) < 0)
		return NULL;
	return window_first(w);
}

void queue_pop(struct fsm *f, struct fsm_queue *q, uint8_t prio,
	       struct window_job *ret)
{
	struct window *w = &q->windows[prio];

	WINDOW_CHANGE(f, w, window_pop(w, ret));
}

void queue_forget(struct fsm *f, struct fsm_queue *q, uint8_t prio,
		  uint64_t seq)
{
	struct window *w = &q->windows[prio];

	WINDOW_CHANGE(f, w, window_changed(w, seq));
}

/* --- due --- */

static void queue_update_due(struct fsm *f, struct fsm_queue *q)
{
	uint64_t first = MIN(q->scheduled_from, q->retrying_from);

	if (first == NEVER)
		heap_remove(&f->due, &q->due);
	else if (q->due.pos == 0 || q->due.key != first)
		heap_update(&f->due, &q->due, first);
}

void queue_add_due(struct fsm *f, struct fsm_queue *q, enum job_state s,
		   uint64_t ns)
{
	uint64_t *from =
	    s == JOB_SCHEDULED ? &q->scheduled_from : &q->retrying_from;

	if (ns >= *from)
		return;
	*from = ns;
	queue_update_due(f, q);
}

void queue_set_due(struct fsm *f, struct fsm_queue *q, uint64_t scheduled,
		   uint64_t retrying)
{
	q->scheduled_from = scheduled;
	q->retrying_from = retrying;
	queue_update_due(f, q);
}

/* --- the end --- */

void queue_remove(struct fsm *f, struct fsm_queue *q)
{
	struct key k;

	for (int i = 0; i < JOB_STATE_MAX; i++)
		CHECK(q->counts[i] == 0);
	key_queue(&k, q->name);
	fsm_delete(f, &k);
	key_counts(&k, q->name);
	fsm_delete(f, &k);
	queue_event(f, q, EVENT_QUEUE_DELETED, STR_NULL);
	settings_keep(f, q, NULL);
	lanes_delete(f, q);
	purge_forget(f, q);
	windows_clear(f, q);
	heap_remove(&f->due, &q->due);
	list_remove(&q->dirty);
	list_remove(&q->woken);
	CHECK(hmap_remove(&f->queues, q->name) == q);
	queue_free(q);
}
