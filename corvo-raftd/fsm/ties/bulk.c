/*
 * See ties/bulk.h. Ids of jobs come from clients and may be of anything; ids of
 * operations are our own, those that are asked for are looked up in memory
 * before a key is made of them.
 *
 * The ids an operation is to act on lie in parts of LIMIT_BULK_STEP, so that a
 * step reads no more than it may do. Each page that arrives has numbers for
 * PAGE_PARTS of them; those it does not need stay free.
 */
#include "fsm/ties/bulk.h"

#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/job/portion.h"
#include "util/json.h"

#define PAGE_PARTS (LIMIT_BULK_PAGE / LIMIT_BULK_STEP)
#define FREE_PARTS LIMIT_MAINTAIN_JOBS /* freed at a time */

/* --- in memory --- */

bool bulk_has_ended(const struct m_bulk *m)
{
	return m->status == BULK_COMPLETED || m->status == BULK_CANCELLED ||
	       m->status == BULK_FAILED;
}

static uint32_t parts_end(const struct m_bulk *m)
{
	return m->pages * PAGE_PARTS;
}

bool bulk_has_leftovers(const struct m_bulk *m)
{
	return bulk_has_ended(m) && m->next_part < parts_end(m);
}

/* When time alone does something to it; 0: never. */
static uint64_t ends_at(const struct m_bulk *m)
{
	if (m->status == BULK_COLLECTING)
		return time_after(m->created_at,
				  LIMIT_BULK_COLLECT_S * NS_PER_S);
	if (bulk_has_ended(m) && !bulk_has_leftovers(m))
		return time_after(m->finished_at, LIMIT_BULK_KEEP_S * NS_PER_S);
	return 0;
}

static void place(struct heap *h, struct heap_node *n, uint64_t key)
{
	if (key == 0)
		heap_remove(h, n);
	else
		heap_update(h, n, key);
}

static struct fsm_bulk *keep(struct fsm *f, const struct m_bulk *m)
{
	struct fsm_bulk *b = hmap_get(&f->bulks.by_id, m->id);

	if (b == NULL) {
		b = xcalloc(1, sizeof(*b) + m->id.n);
		memcpy(b + 1, m->id.p, m->id.n);
		b->id = str_of(b + 1, m->id.n);
		b->due.tie = b->ends.tie = m->created_seq;
		hmap_put(&f->bulks.by_id, b->id, b);
	}
	b->status = m->status;
	place(&f->bulks.due, &b->due,
	      m->status == BULK_RUNNING || bulk_has_leftovers(m) ? m->due_ns
								 : 0);
	place(&f->bulks.ends, &b->ends, ends_at(m));
	return b;
}

static int load_bulk(struct fsm *f, struct str key, struct str value)
{
	struct m_bulk m;

	if (msg_decode(&msg_bulk, value, &f->item_arena, &m) < 0 ||
	    !str_eq(m.id, key))
		return -ERR_INTERNAL_ERROR;
	keep(f, &m);
	return 0;
}

static int load_canary(struct fsm *f, struct str key, struct str value)
{
	struct str id, job_id;
	struct fsm_bulk *b;

	(void)value;
	if (!str_split(key, '\0', &id, &job_id))
		return -ERR_INTERNAL_ERROR;
	b = hmap_get(&f->bulks.by_id, id);
	if (b == NULL)
		return -ERR_INTERNAL_ERROR;
	hmap_put(&f->bulks.canaries, job_id, b);
	return 0;
}

int bulks_load(struct fsm *f)
{
	int r = load_all(f, "bk|", load_bulk);

	return r < 0 ? r : load_all(f, "bc|", load_canary);
}

void bulks_free(struct fsm *f)
{
	struct str key;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->bulks.by_id, &pos, &key, &v))
		free(v);
	hmap_done(&f->bulks.by_id);
	hmap_done(&f->bulks.canaries);
	heap_done(&f->bulks.due);
	heap_done(&f->bulks.ends);
}

/* --- records --- */

int bulk_find(struct fsm *f, struct str id, struct m_bulk *ret)
{
	const struct fsm_bulk *b = hmap_get(&f->bulks.by_id, id);
	struct key k;
	int r;

	if (b == NULL)
		return 0;
	key_bulk(&k, b->id);
	r = fsm_read(f, &k, &msg_bulk, ret);
	MUST(f, r != 0);
	return r;
}

int bulk_must_find(struct fsm *f, struct str id, struct m_bulk *ret)
{
	int r = bulk_find(f, id, ret);

	if (r == 0)
		return fsm_refuse(f, ERR_NOT_FOUND,
				  "bulk operation \"%.*s\" not found",
				  STR_ARG(id));
	return MIN(r, 0);
}

void bulk_save(struct fsm *f, const struct m_bulk *m)
{
	struct key k;

	key_bulk(&k, m->id);
	fsm_put(f, &k, &msg_bulk, m);
	keep(f, m);
}

static void bulk_remove(struct fsm *f, struct fsm_bulk *b)
{
	struct key k;

	key_bulk(&k, b->id);
	fsm_delete(f, &k);
	heap_remove(&f->bulks.due, &b->due);
	heap_remove(&f->bulks.ends, &b->ends);
	MUST(f, hmap_remove(&f->bulks.by_id, b->id) == b);
	free(b);
}

static bool goes_before(const struct heap_node *a, const struct heap_node *b)
{
	return a->key != b->key ? a->key < b->key : a->tie < b->tie;
}

/* Ended long ago; the answer may not depend on the order of the map. */
bool bulk_make_room(struct fsm *f)
{
	struct fsm_bulk *oldest = NULL;
	struct str id;
	size_t pos = 0;
	void *v;

	if (f->bulks.by_id.n < LIMIT_BULKS)
		return true;
	while (hmap_next(&f->bulks.by_id, &pos, &id, &v)) {
		struct fsm_bulk *b = v;

		if (b->ends.pos == 0 || b->status == BULK_COLLECTING)
			continue;
		if (oldest == NULL || goes_before(&b->ends, &oldest->ends))
			oldest = b;
	}
	if (oldest == NULL)
		return false;
	bulk_remove(f, oldest);
	return true;
}

static void put_number(struct json_writer *w, const char *name, uint64_t n)
{
	jw_key(w, name);
	jw_u64(w, n);
}

void bulk_event(struct fsm *f, enum event_type type, struct m_bulk *m)
{
	struct json_writer w = JSON_WRITER(&f->data);
	struct m_event e = { 0 };

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "status");
	jw_cstr(&w, enum_text(&enum_bulk_status, m->status));
	jw_key(&w, "action");
	jw_cstr(&w, enum_text(&enum_bulk_action, m->action));
	put_number(&w, "total", m->total);
	put_number(&w, "processed", m->processed);
	put_number(&w, "affected", m->affected);
	put_number(&w, "skipped", m->skipped);
	if (m->error.n > 0) {
		jw_key(&w, "error");
		jw_str(&w, m->error);
	}
	jw_object_end(&w);
	MSG_SET(&e, event, type, type);
	MSG_SET(&e, event, bulk_id, m->id);
	MSG_SET(&e, event, data, buf_str(&f->data));
	MSG_SET(m, bulk, event, fsm_event(f, &e));
	MSG_SET(m, bulk, updated_at, f->now_ns);
}

/* --- ids --- */

void bulk_add_page(struct fsm *f, const struct m_bulk *m, uint32_t page,
		   struct str *ids, size_t n)
{
	uint32_t number = page * PAGE_PARTS;
	struct key k;

	MUST(f, n <= LIMIT_BULK_PAGE);
	for (size_t at = 0; at < n; at += LIMIT_BULK_STEP) {
		struct m_job_ids part = { 0 };

		MSG_SET_LIST(&part, job_ids, job_ids, ids + at,
			     MIN(n - at, (size_t)LIMIT_BULK_STEP));
		key_bulk_part(&k, m->id, number++);
		fsm_put(f, &k, &msg_job_ids, &part);
	}
}

struct part_scan {
	struct arena *arena;
	uint32_t number;
	struct str raw;
};

static bool take_first(void *ctx, struct str key, struct str value)
{
	struct part_scan *s = ctx;

	s->number = get_be32(key.p + key.n - 4);
	s->raw = arena_copy(s->arena, value);
	return false;
}

int bulk_next_part(struct fsm *f, const struct m_bulk *m, uint32_t *ret_n,
		   struct m_job_ids *ret)
{
	struct part_scan s = { .arena = &f->item_arena };
	struct key from, upto;
	int r;

	key_bulk_part(&from, m->id, m->next_part);
	key_bulk_part(&upto, m->id, parts_end(m));
	r = txn_scan_first(f->txn, key_str(&from), key_str(&upto), 1,
			   take_first, &s);
	if (r < 0)
		return fsm_fail(f, r);
	MUST(f, s.raw.n > 0); /* as long as not all are processed */
	if (msg_decode(&msg_job_ids, s.raw, &f->item_arena, ret) < 0)
		return fsm_fail(f, -ERR_INTERNAL_ERROR);
	*ret_n = s.number;
	return 0;
}

static void free_parts(struct fsm *f, struct m_bulk *m)
{
	uint32_t upto = MIN(parts_end(m), m->next_part + FREE_PARTS);
	struct key k;

	for (uint32_t i = m->next_part; i < upto; i++) {
		key_bulk_part(&k, m->id, i);
		fsm_delete(f, &k);
	}
	MSG_SET(m, bulk, next_part, upto);
	MSG_SET(m, bulk, part_at, 0);
}

void bulk_free_some(struct fsm *f, struct m_bulk *m)
{
	MUST(f, bulk_has_ended(m));
	free_parts(f, m);
	MSG_SET(m, bulk, due_ns, f->now_ns);
	bulk_save(f, m);
}

/* --- canaries --- */

void canary_add(struct fsm *f, const struct m_bulk *m, struct str job_id)
{
	struct fsm_bulk *b = hmap_get(&f->bulks.by_id, m->id);
	struct key k;

	MUST(f, b != NULL && m->canary > 0);
	key_canary(&k, m->id, job_id);
	txn_put(f->txn, key_str(&k), STR(""));
	hmap_put(&f->bulks.canaries, job_id, b);
}

bool canary_exists(const struct fsm *f, struct str job_id)
{
	return hmap_get(&f->bulks.canaries, job_id) != NULL;
}

static void canary_remove(struct fsm *f, struct str id, struct str job_id)
{
	struct key k;

	key_canary(&k, id, job_id);
	fsm_delete(f, &k);
	hmap_remove(&f->bulks.canaries, job_id);
}

struct canary_list {
	struct arena *arena;
	size_t prefix_n;
	struct str ids[LIMIT_BULK_CANARY];
	size_t n;
};

static bool add_canary(void *ctx, struct str key, struct str value)
{
	struct canary_list *l = ctx;

	(void)value;
	CHECK(l->n < LIMIT_BULK_CANARY);
	l->ids[l->n++] = arena_copy(l->arena, str_skip(key, l->prefix_n));
	return true;
}

/* The operation is over: what becomes of them is no matter. */
static void canaries_forget(struct fsm *f, const struct m_bulk *m)
{
	struct canary_list *l;
	struct key from, upto;
	int r;

	if (m->canary == 0)
		return;
	l = arena_zalloc(&f->item_arena, sizeof(*l));
	key_canary(&from, m->id, STR_NULL);
	key_prefix_end(&from, &upto);
	l->arena = &f->item_arena;
	l->prefix_n = from.n;
	r = txn_scan(f->txn, key_str(&from), key_str(&upto), add_canary, l);
	if (r < 0)
		(void)fsm_fail(f, r);
	for (size_t i = 0; i < l->n; i++)
		canary_remove(f, m->id, l->ids[i]);
}

/* The operation of a canary; false when it is none, or the store failed. */
static bool bulk_of(struct fsm *f, const struct job *j, struct m_bulk *ret)
{
	const struct fsm_bulk *b = hmap_get(&f->bulks.canaries, j->id);

	return b != NULL && bulk_find(f, b->id, ret) > 0;
}

static void fail_again(struct fsm *f, struct m_bulk *m)
{
	MSG_SET(m, bulk, canary_failed, m->canary_failed + 1);
	bulk_end(f, m, BULK_FAILED,
		 arena_printf(&f->item_arena, "canary: %u of %u failed again",
			      m->canary_failed, m->canary));
}

void canary_on_error(struct fsm *f, const struct job *j)
{
	struct m_bulk m;

	if (bulk_of(f, j, &m))
		fail_again(f, &m);
}

void canary_on_end(struct fsm *f, const struct job *j, enum job_state end)
{
	struct m_bulk m;

	if (!bulk_of(f, j, &m))
		return;
	if (end != JOB_COMPLETED) {
		fail_again(f, &m);
		return;
	}
	canary_remove(f, m.id, j->id);
	MSG_SET(&m, bulk, canary_completed, m.canary_completed + 1);
	if (m.canary_completed == m.canary && m.status == BULK_CANARY) {
		MSG_SET(&m, bulk, status, BULK_RUNNING);
		MSG_SET(&m, bulk, due_ns, f->now_ns);
		bulk_event(f, EVENT_BULK_PROGRESS, &m);
	} else if (m.canary_completed == m.canary && m.status == BULK_PAUSED) {
		MSG_SET(&m, bulk, resume_as, BULK_RUNNING);
	}
	bulk_save(f, &m);
}

/* --- ends --- */

void bulk_end(struct fsm *f, struct m_bulk *m, enum bulk_status how,
	      struct str error)
{
	MUST(f, !bulk_has_ended(m));
	MSG_SET(m, bulk, status, how);
	MSG_SET(m, bulk, finished_at, f->now_ns);
	if (error.n > 0)
		MSG_SET(m, bulk, error, error);
	bulk_event(f, EVENT_BULK_ENDED, m);
	canaries_forget(f, m);
	bulk_free_some(f, m);
}

uint64_t bulks_purge_from(const struct fsm *f)
{
	const struct heap_node *n = heap_min(&f->bulks.ends);

	return n == NULL ? NEVER : n->key;
}

int bulks_purge(struct fsm *f, struct portion *p)
{
	while (bulks_purge_from(f) <= f->now_ns && !portion_is_full(f, p)) {
		struct fsm_bulk *b = container_of(heap_min(&f->bulks.ends),
						  struct fsm_bulk, ends);
		struct m_bulk m;
		int r;

		p->jobs++;
		if (b->status != BULK_COLLECTING) {
			bulk_remove(f, b);
			continue;
		}
		r = bulk_find(f, b->id, &m);
		if (r < 0)
			return r;
		bulk_end(f, &m, BULK_FAILED,
			 STR("its jobs were not named completely"));
	}
	return 0;
}

/* --- what the leader asks --- */

int fsm_bulk(struct fsm *f, struct str id, struct arena *a, struct m_bulk *ret)
{
	const struct fsm_bulk *b = hmap_get(&f->bulks.by_id, id);
	struct str raw;
	struct key k;
	int r;

	if (b == NULL)
		return 0;
	key_bulk(&k, b->id);
	r = txn_get(f->txn, key_str(&k), &raw);
	if (r < 0)
		return r;
	MUST(f, r > 0);
	return msg_decode(&msg_bulk, arena_copy(a, raw), a, ret) < 0
		   ? -ERR_INTERNAL_ERROR
		   : 1;
}

size_t fsm_due_bulks(struct fsm *f, uint64_t now_ns, struct str *ids,
		     size_t max)
{
	struct heap_node *due[FSM_DUE_BULKS];
	size_t n;

	CHECK(max <= ARRAY_SIZE(due));
	n = heap_upto(&f->bulks.due, now_ns, due, max);
	for (size_t i = 0; i < n; i++)
		ids[i] = container_of(due[i], struct fsm_bulk, due)->id;
	return n;
}

int fsm_each_bulk(struct fsm *f, fsm_bulk_fn *fn, void *ctx)
{
	struct key from, upto;

	key_prefix(&from, "bk|");
	key_prefix_end(&from, &upto);
	return txn_scan(f->txn, key_str(&from), key_str(&upto), fn, ctx);
}
