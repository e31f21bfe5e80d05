/*
 * The registry of workers: who took a job, from where, and when it was last
 * seen. The map mirrors the w| records exactly, so what is written and what
 * is forgotten is the same on all replicas. A record is rewritten at most
 * every WORKER_REFRESH_NS; there are at most WORKERS_MAX.
 */
#include "fsm/job/worker.h"

#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/state.h"

#define WORKERS_MAX       LIMIT_WORKERS
#define WORKER_FORGET_NS  (LIMIT_WORKER_IDLE_S * NS_PER_S)
#define WORKER_REFRESH_NS (5 * NS_PER_S)
#include "util/hash.h"
#include "util/json.h"

/* Workers choose their names: a NUL in one does not end it. */
static struct str own(struct str s)
{
	char *p = xmalloc(s.n);

	if (s.n > 0)
		memcpy(p, s.p, s.n);
	return str_of(p, s.n);
}

static void disown(struct str s)
{
	free((char *)s.p);
}

static void replace(struct str *s, struct str by)
{
	if (str_eq(*s, by))
		return;
	disown(*s);
	*s = own(by);
}

void fsm_worker_free(struct fsm_worker *w)
{
	disown(w->id);
	disown(w->hostname);
	disown(w->queues);
	free(w->names);
	free(w);
}

static int cmp_seen(const struct heap_node *a, const struct heap_node *b)
{
	return str_cmp(container_of(a, struct fsm_worker, seen)->id,
		       container_of(b, struct fsm_worker, seen)->id);
}

void workers_order(struct fsm *f)
{
	f->seen.cmp = cmp_seen;
}

/* --- its queues --- */

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool is_list(struct str list)
{
	struct json_error e;

	return json_validate(list, LIMIT_JSON_DEPTH, &e) &&
	       json_type_of(json_root(list)) == JSON_ARRAY;
}

static bool has_list(const struct fsm_worker *w, struct str list)
{
	return w->list_n == list.n &&
	       w->list_hash == hash_stable(list.p, list.n);
}

/* list: JSON, as it is stored. */
static void set_list(struct fsm *f, struct fsm_worker *w, struct str list)
{
	_cleanup_(buf_done) struct buf shown = BUF_INIT(0);
	struct json_writer j = JSON_WRITER(&shown);
	size_t bytes = 0, cap = 0;
	struct json_iter it;
	struct json v;

	w->list_n = list.n;
	w->list_hash = hash_stable(list.p, list.n);
	w->names_n = 0;
	jw_array(&j);
	it = json_iter(json_root(is_list(list) ? list : STR("[]")));
	while (json_next_item(&it, &v)) {
		struct str name = json_string(v, &f->item_arena);

		if (w->names_n == cap) {
			cap = MAX(2 * cap, (size_t)4);
			w->names = xrealloc(w->names, cap * sizeof(*w->names));
		}
		w->names[w->names_n++] = hash_stable(name.p, name.n);
		bytes += 1 + name.n;
		if (bytes <= LIMIT_WORKER_QUEUES)
			jw_str(&j, name);
	}
	jw_array_end(&j);
	if (w->names_n > 0)
		qsort(w->names, w->names_n, sizeof(*w->names), by_number);
	replace(&w->queues, buf_str(&shown));
}

bool worker_names(const struct fsm_worker *w, struct str queue)
{
	uint64_t name = hash_stable(queue.p, queue.n);

	return w->names_n > 0 && bsearch(&name, w->names, w->names_n,
					 sizeof(*w->names), by_number) != NULL;
}

/* --- records --- */

struct fsm_worker *worker_add(struct fsm *f, const struct m_worker *m)
{
	struct fsm_worker *w = xcalloc(1, sizeof(*w));

	w->id = own(m->id);
	w->hostname = own(m->hostname);
	w->queues = own(STR_NULL);
	set_list(f, w, m->queues);
	w->started_at = m->started_at;
	w->seen.key = m->last_heartbeat;
	w->seen.tie = hash_stable(m->id.p, m->id.n);
	heap_insert(&f->seen, &w->seen);
	MUST(f, hmap_put(&f->workers, w->id, w) == NULL);
	return w;
}

static void worker_write(struct fsm *f, const struct fsm_worker *w,
			 struct str list)
{
	struct m_worker m = { 0 };
	struct m_event e = { 0 };
	struct key k;

	MSG_SET(&m, worker, hostname, w->hostname);
	MSG_SET(&m, worker, queues, list);
	MSG_SET(&m, worker, last_heartbeat, w->seen.key);
	MSG_SET(&m, worker, started_at, w->started_at);
	key_worker(&k, SPACE_DEFAULT, w->id);
	fsm_put(f, &k, &msg_worker, &m);
	MSG_SET(&e, event, type, EVENT_WORKER_SEEN);
	MSG_SET(&e, event, worker_id, w->id);
	fsm_event(f, &e);
}

/* Makes room for one more: those not seen for long, then the oldest. */
static void forget_workers(struct fsm *f)
{
	struct heap_node *n;

	while ((n = heap_min(&f->seen)) != NULL &&
	       (n->key + WORKER_FORGET_NS <= f->now_ns ||
		f->workers.n >= WORKERS_MAX)) {
		struct fsm_worker *w = container_of(n, struct fsm_worker, seen);
		struct key k;

		key_worker(&k, SPACE_DEFAULT, w->id);
		fsm_delete(f, &k);
		heap_remove(&f->seen, n);
		MUST(f, hmap_remove(&f->workers, w->id) == w);
		fsm_worker_free(w);
	}
}

static bool is_stale(const struct fsm *f, const struct fsm_worker *w)
{
	/* One seen later than now was so before the clock was set back. */
	return f->now_ns < w->seen.key ||
	       f->now_ns >= w->seen.key + WORKER_REFRESH_NS;
}

static void worker_refresh(struct fsm *f, struct fsm_worker *w, struct str list)
{
	heap_update(&f->seen, &w->seen, f->now_ns);
	worker_write(f, w, list);
}

static struct str queues_json(struct fsm *f, const struct m_fetch *op)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_array(&w);
	for (size_t i = 0; i < op->queues_n; i++)
		jw_str(&w, op->queues[i]);
	jw_array_end(&w);
	return buf_str(&f->data);
}

void worker_seen(struct fsm *f, const struct m_fetch *op)
{
	struct fsm_worker *w;
	struct m_worker m = { 0 };

	if (op->worker_id.n == 0 || op->worker_id.n > LIMIT_WORKER_ID_BYTES)
		return;
	m.id = op->worker_id;
	m.hostname = op->hostname;
	m.queues = queues_json(f, op);
	m.started_at = m.last_heartbeat = f->now_ns;
	w = hmap_get(&f->workers, m.id);
	if (w == NULL) {
		forget_workers(f);
		worker_write(f, worker_add(f, &m), m.queues);
		return;
	}
	if (!is_stale(f, w) && str_eq(w->hostname, m.hostname) &&
	    has_list(w, m.queues))
		return;
	replace(&w->hostname, m.hostname);
	if (!has_list(w, m.queues))
		set_list(f, w, m.queues);
	worker_refresh(f, w, m.queues);
}

/* What its record has; not weighed: it is written again, which is. */
static struct str stored_list(struct fsm *f, const struct fsm_worker *w)
{
	struct m_worker m = { 0 };
	struct str raw;
	struct key k;
	int r;

	key_worker(&k, SPACE_DEFAULT, w->id);
	r = txn_get(f->txn, key_str(&k), &raw);
	if (r > 0 && msg_decode(&msg_worker, arena_copy(&f->item_arena, raw),
				&f->item_arena, &m) < 0)
		r = -ERR_INTERNAL_ERROR;
	if (r <= 0)
		(void)fsm_fail(f, r < 0 ? r : -ERR_INTERNAL_ERROR);
	return m.queues;
}

void worker_touch(struct fsm *f, struct str id)
{
	struct fsm_worker *w = id.n > 0 ? hmap_get(&f->workers, id) : NULL;

	if (w != NULL && is_stale(f, w))
		worker_refresh(f, w, stored_list(f, w));
}
