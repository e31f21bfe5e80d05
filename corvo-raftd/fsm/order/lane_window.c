/*
 * The windows of a lane and its keys in the store: what is pending is written
 * here, and read back when a window runs dry.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/order/queue.h"
#include "fsm/order/window.h"

#define REFILL_STEPS      4 /* over the records of other jobs */
#define REFILL_MISSES_MAX 8 /* in a row */

/* First byte of what stands under a pending job's key. */
#define VALUE_AS_CREATED 1
#define VALUE_HAS_GROUP  2 /* it follows the id, and its length: one byte */

/* So that ten thousand deep queues or groups together stay bounded too. */
static uint32_t window_max(const struct fsm *f, const struct fsm_lane *l)
{
	if (f->window_jobs < WINDOWS_TOTAL_MAX)
		return window_jobs_max;
	return l->group.n > 0 ? WINDOW_GROUP_JOBS_MIN : WINDOW_JOBS_MIN;
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

void lane_key(struct key *k, const struct fsm_lane *l, uint8_t prio,
	      uint64_t seq)
{
	if (l->group.n == 0)
		key_pending(k, l->q->space, l->q->name, prio, seq);
	else
		key_group_pending(k, l->q->space, l->q->name, l->group, prio,
				  seq);
}

void lane_write(struct fsm *f, const struct fsm_lane *l, uint8_t prio,
		const struct pending *p, bool is_new)
{
	char value[1 + LIMIT_JOB_ID_BYTES + LIMIT_GROUP_BYTES + 1];
	size_t n = 1 + p->id.n;
	struct key k;

	MUST(f, p->id.n > 0 && p->id.n <= LIMIT_JOB_ID_BYTES &&
		    p->group.n <= LIMIT_GROUP_BYTES);
	value[0] = (char)(p->as_created ? VALUE_AS_CREATED : 0);
	memcpy(value + 1, p->id.p, p->id.n);
	if (l->group.n == 0 && p->group.n > 0) {
		value[0] |= VALUE_HAS_GROUP;
		memcpy(value + n, p->group.p, p->group.n);
		n += p->group.n;
		value[n++] = (char)p->group.n;
	}
	lane_key(&k, l, prio, p->seq);
	if (is_new)
		txn_put_new(f->txn, key_str(&k), str_of(value, n));
	else
		txn_put(f->txn, key_str(&k), str_of(value, n));
}

void lane_value(struct str value, struct pending *ret)
{
	size_t n;

	CHECK(value.n > 0);
	*ret = (struct pending){ .as_created =
				     (value.p[0] & VALUE_AS_CREATED) != 0 };
	if ((value.p[0] & VALUE_HAS_GROUP) != 0) {
		n = (unsigned char)value.p[--value.n];
		CHECK(value.n > n);
		value.n -= n;
		ret->group = str_of(value.p + value.n, n);
	}
	ret->id = str_skip(value, 1);
}

void lane_insert(struct fsm *f, struct fsm_lane *l, uint8_t prio,
		 const struct pending *p)
{
	struct window *w = &l->windows[prio];
	struct pending kept = *p;

	lane_write(f, l, prio, p, true);
	if (p->doc.n > WINDOW_DOC_BYTES ||
	    f->window_docs + p->doc.n > WINDOWS_DOCS_MAX)
		kept.doc = STR_NULL;
	WINDOW_CHANGE(f, w, window_insert(w, &kept, window_max(f, l)));
}

/*
 * It may come before jobs that are there already, where nobody would look for
 * one that is as created. Who moves it to the base lane has that forget all.
 */
void lane_adopt(struct fsm *f, struct fsm_lane *l, uint8_t prio,
		const struct pending *p)
{
	struct window *w = &l->windows[prio];
	struct pending kept = *p;

	lane_write(f, l, prio, p, false);
	kept.as_created = false;
	if (l->group.n > 0)
		WINDOW_CHANGE(f, w, window_insert(w, &kept, window_max(f, l)));
}

struct refill {
	struct window *w;
	uint32_t left;
	bool more;
};

static bool refill_add(void *ctx, struct str key, struct str value)
{
	struct refill *r = ctx;
	struct pending p;

	if (r->left == 0) {
		r->more = true;
		return false;
	}
	r->left--;
	lane_value(value, &p);
	p.seq = get_be64(key.p + key.n - 8);
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
 * a get. Gives up where other jobs lie between, and where one cannot be read:
 * that is for whoever takes the job.
 */
static void refill_docs(struct fsm *f, struct window *w)
{
	const struct window_job *j = window_filled_at(w, 0);
	struct kv_iter *it;
	struct key k, kind, upto;
	uint32_t missed = 0;

	if (j == NULL)
		return;
	key_prefix(&kind, "j|");
	key_prefix_end(&kind, &upto);
	key_job(&k, str_of(j->id, j->id_n));
	it = kv_iter_first(f->kv, key_str(&k), key_str(&upto),
			   (size_t)w->n * REFILL_STEPS);
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
		/* records too large to be kept are not worth the steps */
		missed = c == 0 && kv_iter_value(it).n <= WINDOW_DOC_BYTES
			     ? 0
			     : missed + 1;
	}
	kv_iter_free(it);
}

static int window_refill(struct fsm *f, struct fsm_lane *l, uint8_t prio)
{
	struct window *w = &l->windows[prio];
	struct refill fill = {
		.w = w,
		.left =
		    MIN(MAX(window_max(f, l) / 2, 1u), (uint32_t)WINDOW_REFILL),
	};
	struct key from, upto;
	int r;

	lane_key(&from, l, prio, w->frontier);
	lane_key(&upto, l, prio + 1, 0);
	r = txn_scan_first(f->txn, key_str(&from), key_str(&upto),
			   fill.left + 1, refill_add, &fill);
	if (r < 0) {
		window_reset(w, false);
		return fsm_fail(f, r);
	}
	refill_docs(f, w);
	window_filled(w, fill.more);
	f->window_jobs += window_size(w);
	f->window_docs += w->doc_bytes;
	return 0;
}

int lane_fill(struct fsm *f, struct fsm_lane *l, uint8_t prio)
{
	return window_is_dry(&l->windows[prio]) ? window_refill(f, l, prio) : 0;
}

static void reset_windows(struct fsm *f, struct fsm_lane *l, bool complete)
{
	for (int i = 0; i < PRIORITIES; i++) {
		struct window *w = &l->windows[i];

		WINDOW_CHANGE(f, w, window_reset(w, complete));
	}
}

void lane_forget(struct fsm *f, struct fsm_lane *l)
{
	reset_windows(f, l, false);
	lane_refresh(f, l);
}

void lane_clear(struct fsm *f, struct fsm_lane *l)
{
	reset_windows(f, l, true);
}

void lane_pop(struct fsm *f, struct fsm_lane *l, uint8_t prio,
	      struct window_job *ret)
{
	struct window *w = &l->windows[prio];

	WINDOW_CHANGE(f, w, window_pop(w, ret));
}

void lane_changed(struct fsm *f, struct fsm_lane *l, uint8_t prio, uint64_t seq)
{
	struct window *w = &l->windows[prio];

	WINDOW_CHANGE(f, w, window_changed(w, seq));
}

void lane_put_back(struct fsm *f, struct fsm_lane *l, uint8_t prio,
		   const struct pending *p)
{
	struct window *w = &l->windows[prio];

	WINDOW_CHANGE(f, w, window_insert(w, p, window_max(f, l)));
	lane_refresh(f, l);
}
