/*
 * clear_queue, delete_queue: the jobs of a queue go, a portion per entry; who
 * asks repeats the operation while there is more. Both go through the indexes
 * along a cursor: what was deleted is not met again, nor what stays.
 *
 * Clear goes through them once and leaves what came after it began. A job
 * that is promoted or released meanwhile moves to an index that is still to
 * come, never to one behind. Jobs of groups do, when settings change: then it
 * begins anew. One that waits for a deleted job would fail of it, and stay: it
 * is deleted when it is told, if that is before its turn comes.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/portion.h"
#include "fsm/ops/maintain.h"
#include "fsm/ops/ops.h"
#include "fsm/order/queue.h"
#include "fsm/ties/deps.h"
#include "store/format.h"

/* Where an index has the id of its job. */
enum id_place { AFTER_QUEUE, AFTER_TIME, IN_VALUE };

struct index {
	const char *prefix;
	enum id_place id;
};

/* What clear deletes comes first. */
static const struct index indexes[] = {
	{ "bl|", AFTER_QUEUE },      { "s|", AFTER_TIME },
	{ "r|", AFTER_TIME },        { "p|", IN_VALUE },
	{ "group-jobs|", IN_VALUE }, { "a|", AFTER_QUEUE },
	{ "h|", AFTER_QUEUE },       { "t|", AFTER_TIME },
};

#define INDEXES_WAITING 5

struct entry_key {
	struct str key, id;
};

/* Keys of one index, in order, at most max. */
struct sweep {
	struct arena *arena;
	const struct index *index;
	size_t prefix_n;
	struct entry_key *keys;
	size_t n, max;
	bool more;
};

static struct str id_of(const struct sweep *s, struct str key, struct str value)
{
	struct pending p;

	switch (s->index->id) {
	case AFTER_QUEUE:
		return str_skip(key, s->prefix_n);
	case AFTER_TIME:
		return str_skip(key, s->prefix_n + 8);
	case IN_VALUE:
		lane_value(value, &p);
		return p.id;
	}
	return STR_NULL;
}

static bool sweep_add(void *ctx, struct str key, struct str value)
{
	struct sweep *s = ctx;

	if (s->n == s->max) {
		s->more = true;
		return false;
	}
	s->keys[s->n].key = arena_copy(s->arena, key);
	s->keys[s->n].id = arena_copy(s->arena, id_of(s, key, value));
	s->n++;
	return true;
}

/* What is left of the portion, from the key after `cursor` on. */
static int sweep_scan(struct fsm *f, const struct index *index,
		      const struct fsm_queue *q, struct str cursor,
		      struct sweep *s)
{
	struct key prefix, from, upto;
	int r;

	key_prefix_queue(&prefix, index->prefix, q->space, q->name);
	from = prefix;
	if (cursor.n > 0) {
		memcpy(from.p, cursor.p, cursor.n);
		from.p[cursor.n] = '\0'; /* the next key there can be */
		from.n = cursor.n + 1;
	}
	key_prefix_end(&prefix, &upto);
	s->arena = &f->item_arena;
	s->index = index;
	s->prefix_n = prefix.n;
	s->n = 0;
	s->more = false;
	r = txn_scan_first(f->txn, key_str(&from), key_str(&upto), s->max + 1,
			   sweep_add, s);
	return r < 0 ? fsm_fail(f, r) : 0;
}

/*
 * Goes on with one index; *last: the last key looked at. 1: there may be more
 * keys in it, 0: none, or -ERR_*.
 */
static int sweep_index(struct fsm *f, const struct index *index,
		       const struct fsm_queue *q,
		       const struct m_clear_queue *op, struct portion *p,
		       struct str *last)
{
	struct sweep s = { .max = budget_jobs_left(f) };
	size_t i = 0;
	int r;

	s.keys = arena_alloc(&f->item_arena, s.max * sizeof(*s.keys));
	r = sweep_scan(f, index, q, *last, &s);
	for (; r == 0 && i < s.n && !portion_is_full(f, p); i++) {
		r = portion_delete(f, p, s.keys[i].id, op->upto_seq,
				   EVENT_DELETED);
		*last = s.keys[i].key;
	}
	return r < 0 ? r : i < s.n || s.more;
}

static bool cursor_is_in(struct str cursor, const struct index *index,
			 const struct fsm_queue *q)
{
	struct key prefix;

	key_prefix_queue(&prefix, index->prefix, q->space, q->name);
	return cursor.n < KEY_MAX && str_starts(cursor, key_str(&prefix));
}

/* Cursors of format 1 were keys of format 1. */
static struct str cursor_now(struct fsm *f, struct str cursor)
{
	struct key *k;

	if (f->entry_format > 1 || cursor.n == 0)
		return cursor;
	k = arena_alloc(&f->item_arena, sizeof(*k));
	return format_key_of_1(cursor, k) ? key_str(k) : cursor;
}

/*
 * Goes on with the first n indexes where op's cursor stands; *ret: the last
 * key looked at, empty when the end is reached. 0 or -ERR_*.
 */
static int sweep(struct fsm *f, const struct fsm_queue *q, size_t n,
		 const struct m_clear_queue *op, struct portion *p,
		 struct str *ret)
{
	size_t i = 0;
	int r = 0;

	*ret = cursor_now(f, op->cursor);
	while (ret->n > 0 && i < n && !cursor_is_in(*ret, &indexes[i], q))
		i++;
	if (i == n)
		return fsm_refuse(f, ERR_BAD_MESSAGE,
				  "the cursor is none of this queue");
	while (i < n) {
		r = sweep_index(f, &indexes[i], q, op, p, ret);
		if (r < 0 || portion_is_full(f, p))
			return MIN(r, 0);
		if (r > 0)
			continue;
		*ret = STR_NULL;
		i++;
	}
	return 0;
}

/* Up to this place, with those that wait for them. */
static int sweep_upto(struct fsm *f, struct fsm_queue *q, size_t n,
		      const struct m_clear_queue *op, uint64_t upto,
		      struct portion *p, struct str *ret)
{
	int r;

	deps_begin_sweep(f, &(struct fsm_sweep){ q->name, upto });
	r = sweep(f, q, n, op, p, ret);
	deps_end_sweep(f);
	if (r < 0 || q->swept == 0)
		return r;
	p->jobs += (uint32_t)q->swept;
	q->swept = 0;
	q->swept_changed = true;
	queue_touch(f, q);
	return 0;
}

static void event_cleared(struct fsm *f, const struct fsm_queue *q,
			  uint32_t count)
{
	buf_clear(&f->data);
	buf_printf(&f->data, "{\"count\":%u}", count);
	queue_event(f, q, EVENT_QUEUE_CLEARED, buf_str(&f->data));
}

static void fill_reply(const struct portion *p, struct str cursor, bool more,
		       struct m_clear_queue_reply *ret)
{
	MSG_SET(ret, clear_queue_reply, count, p->jobs);
	MSG_SET(ret, clear_queue_reply, more, more);
	if (cursor.n > 0)
		MSG_SET(ret, clear_queue_reply, cursor, cursor);
}

static void fill_start(const struct fsm *f, const struct fsm_queue *q,
		       uint64_t upto_seq, struct m_clear_queue_reply *ret)
{
	MSG_SET(ret, clear_queue_reply, upto_seq, upto_seq);
	if (q != NULL && f->cluster.level >= 2)
		MSG_SET(ret, clear_queue_reply, regroups, q->lanes.regroups);
}

int apply_clear_queue(struct fsm *f, const struct m_clear_queue *op,
		      struct m_clear_queue_reply *ret)
{
	struct fsm_queue *q = queue_find(f, op->queue);
	struct portion p = { .max = LIMIT_MAINTAIN_JOBS };
	struct m_clear_queue now = *op;
	struct str last = STR_NULL;
	int r = 0;

	if (now.upto_seq == 0)
		now.upto_seq = f->last_job_seq;
	if (q != NULL && MSG_HAS(op, clear_queue, regroups) &&
	    op->regroups != q->lanes.regroups)
		now.cursor = STR_NULL;
	if (q != NULL && q->lanes.regroup.pos > 0) {
		/* Jobs go from index to index, also to those behind. */
		now.cursor = STR_NULL;
		r = maintain_regroup(f);
		if (r == 0 && q->lanes.regroup.pos > 0) {
			fill_start(f, q, now.upto_seq, ret);
			fill_reply(&p, STR_NULL, true, ret);
			return 0;
		}
	}
	if (r == 0 && q != NULL)
		r = sweep_upto(f, q, INDEXES_WAITING, &now, now.upto_seq, &p,
			       &last);
	if (r < 0)
		return r;
	if (p.jobs > 0)
		event_cleared(f, q, p.jobs);
	fill_start(f, q, now.upto_seq, ret);
	fill_reply(&p, last, last.n > 0, ret);
	return 0;
}

/* --- the queue itself --- */

int apply_delete_queue(struct fsm *f, const struct m_clear_queue *op,
		       struct m_clear_queue_reply *ret)
{
	struct fsm_queue *q = queue_find(f, op->queue);
	struct portion p = { .max = LIMIT_MAINTAIN_JOBS };
	struct m_clear_queue all = *op;
	struct str last;
	bool more;
	int r;

	if (q == NULL && op->cursor.n > 0)
		return 0;
	if (q == NULL)
		return fsm_refuse(f, ERR_NOT_FOUND, "queue \"%.*s\" not found",
				  STR_ARG(op->queue));
	all.upto_seq = 0;
	r = sweep_upto(f, q, ARRAY_SIZE(indexes), &all, f->last_job_seq, &p,
		       &last);
	if (r < 0)
		return r;
	/* Jobs may have come meanwhile, behind the cursor, also with those that
	 * went: a chain's last, a callback. Then it is gone through once more.
	 */
	more = !queue_is_empty(q);
	if (!more) {
		r = queue_remove(f, q);
		if (r < 0)
			return r;
		more = r == 0; /* groups are left */
		last = STR_NULL;
	}
	fill_reply(&p, more ? last : STR_NULL, more, ret);
	return 0;
}
