/*
 * Batches against the jobs that name them: what is not counted yet is there
 * and has not ended, an ended batch has counted all, and ended and open ones
 * have their keys.
 */
#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/ties/batch.h"
#include "fsm_fixture.h"
#include "proto/job.h"

struct batch_check {
	struct kv *kv;
	const struct fsm *f;
	struct arena arena;
	struct hmap waiting; /* batch -> jobs and batches not counted: size_t */
	size_t ended, ends;  /* b| with an end, bt| */
	size_t open, opens;  /* b| not sealed, bo| */
};

typedef void each_fn(struct batch_check *c, struct str key, struct str value);

static void each(struct batch_check *c, const char *kind, each_fn *fn)
{
	struct key from, upto;
	struct kv_iter *it;

	key_prefix(&from, kind);
	key_prefix_end(&from, &upto);
	it = kv_iter_new(c->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it))
		fn(c, str_skip(kv_iter_key(it), from.n),
		   arena_copy(&c->arena, kv_iter_value(it)));
	assert_int_equal(kv_iter_error(it), 0);
	kv_iter_free(it);
}

static bool get(struct batch_check *c, const struct key *k, struct str *ret)
{
	struct buf b = BUF_INIT(0);
	int r = kv_get(c->kv, key_str(k), &b);

	assert_true(r >= 0);
	*ret = arena_copy(&c->arena, b.n > 0 ? buf_str(&b) : STR(""));
	buf_done(&b);
	return r > 0;
}

static size_t *waiting_of(struct batch_check *c, struct str id)
{
	size_t *n = hmap_get(&c->waiting, id);

	if (n == NULL) {
		n = arena_zalloc(&c->arena, sizeof(*n));
		hmap_put(&c->waiting, id, n);
	}
	return n;
}

static void on_job(struct batch_check *c, struct str id, struct str value)
{
	struct m_job_live l = { 0 };
	struct m_job_doc d;
	struct str raw;
	struct key k;

	assert_int_equal(msg_decode(&msg_job_doc, value, &c->arena, &d), 0);
	if (d.batch_id.n == 0)
		return;
	key_live(&k, id);
	if (get(c, &k, &raw))
		assert_int_equal(msg_decode(&msg_job_live, raw, &c->arena, &l),
				 0);
	if (l.counted)
		return;
	assert_false(job_state_is_terminal(l.state));
	++*waiting_of(c, d.batch_id);
}

static void on_nested(struct batch_check *c, struct str id _unused_,
		      struct str value)
{
	struct m_batch_doc d;

	assert_int_equal(msg_decode(&msg_batch_doc, value, &c->arena, &d), 0);
	if (d.parent_id.n > 0 && d.ended_at == 0)
		++*waiting_of(c, d.parent_id);
}

static void on_batch(struct batch_check *c, struct str id, struct str value)
{
	size_t *waiting = hmap_remove(&c->waiting, id);
	struct m_batch_doc d;
	struct str raw;
	struct key k;

	assert_int_equal(msg_decode(&msg_batch_doc, value, &c->arena, &d), 0);
	assert_int_equal(d.succeeded + d.failed + (waiting ? *waiting : 0),
			 d.total);
	assert_true(d.depth >= 1 && d.depth <= LIMIT_BATCH_DEPTH);
	assert_int_equal(d.ended_at != 0, d.sealed && waiting == NULL);
	assert_int_equal(d.listed_at != 0, !d.sealed);
	assert_int_equal(d.changed_at != 0, !d.sealed);
	if (!d.sealed) {
		c->open++;
		key_batch_open(&k, d.listed_at, id);
		assert_true(get(c, &k, &raw));
	}
	if (d.ended_at == 0)
		return;
	c->ended++;
	key_batch_end(&k, d.ended_at, id);
	assert_true(get(c, &k, &raw));
	key_batch_payload(&k, id);
	assert_false(get(c, &k, &raw));
}

static void on_end(struct batch_check *c, struct str key,
		   struct str value _unused_)
{
	c->ends++;
	assert_true(c->f->batches_from <= get_be64(key.p));
}

static void on_open(struct batch_check *c, struct str key,
		    struct str value _unused_)
{
	c->opens++;
	assert_true(c->f->open_from <= get_be64(key.p));
}

static void on_payload(struct batch_check *c, struct str id,
		       struct str value _unused_)
{
	struct str raw;
	struct key k;

	key_batch(&k, id);
	assert_true(get(c, &k, &raw));
}

void fx_check_batches(const struct fx_side *side)
{
	struct batch_check c = { .kv = side->kv, .f = side->f };

	each(&c, "j|", on_job);
	each(&c, "b|", on_nested);
	each(&c, "b|", on_batch);
	each(&c, "bt|", on_end);
	each(&c, "bo|", on_open);
	each(&c, "bp|", on_payload);
	assert_int_equal(c.ends, c.ended);
	assert_int_equal(c.opens, c.open);
	assert_int_equal(c.waiting.n, 0); /* every batch named is there */
	hmap_done(&c.waiting);
	arena_done(&c.arena);
}
