/*
 * Bulk operations: each record is in memory and where its status puts it; what
 * is left of its ids is what it has not processed; canaries are jobs that have
 * not ended, of an operation that waits for them.
 */
#include "fsm/ties/bulk.h"
#include "fsm_check.h"

struct bulk_check {
	struct check *c;
	uint64_t n, due, ends, canaries, ids, ids_due;
};

typedef void bulk_key_fn(struct bulk_check *b, struct str key, struct str v);

static void each(struct bulk_check *b, const char *kind, bulk_key_fn *fn)
{
	struct key from, upto;
	struct kv_iter *it;

	key_prefix(&from, kind);
	key_prefix_end(&from, &upto);
	it = kv_iter_new(b->c->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it))
		fn(b, str_skip(kv_iter_key(it), from.n), kv_iter_value(it));
	assert_int_equal(kv_iter_error(it), 0);
	kv_iter_free(it);
}

static void read_bulk(struct bulk_check *b, struct str id, struct m_bulk *ret)
{
	struct key k;

	key_bulk(&k, id);
	assert_true(check_read_msg(b->c, &k, &msg_bulk, ret));
}

static void check_bulk(struct bulk_check *b, struct str id, struct str v)
{
	const struct fsm_bulk *kept = hmap_get(&b->c->f->bulks.by_id, id);
	bool ended;
	struct m_bulk m;

	(void)v;
	read_bulk(b, id, &m);
	ended = bulk_has_ended(&m);
	assert_non_null(kept);
	assert_true(str_eq(m.id, id));
	assert_int_equal(kept->status, m.status);
	assert_int_equal(m.affected + m.skipped, m.processed);
	assert_true(m.processed <= m.total);
	assert_int_equal(m.finished_at != 0, ended);
	if (m.status == BULK_COMPLETED)
		assert_int_equal(m.processed, m.total);
	assert_int_equal(kept->due.pos > 0,
			 m.status == BULK_RUNNING || bulk_has_leftovers(&m));
	if (kept->due.pos > 0)
		assert_int_equal(kept->due.key, m.due_ns);
	assert_int_equal(kept->ends.pos > 0,
			 m.status == BULK_COLLECTING ||
			     (ended && !bulk_has_leftovers(&m)));
	b->n++;
	b->due += kept->due.pos > 0;
	b->ends += kept->ends.pos > 0;
	if (!ended)
		b->ids_due += m.total - m.processed;
}

static void check_part(struct bulk_check *b, struct str key, struct str v)
{
	uint32_t n = get_be32(key.p + key.n - 4);
	struct m_job_ids part;
	struct m_bulk m;

	read_bulk(b, str_of(key.p, key.n - 5), &m);
	assert_true(n >= m.next_part);
	assert_int_equal(msg_decode(&msg_job_ids, arena_copy(&b->c->arena, v),
				    &b->c->arena, &part),
			 0);
	assert_in_range(part.job_ids_n, 1, LIMIT_BULK_STEP);
	if (bulk_has_ended(&m))
		return;
	b->ids += part.job_ids_n - (n == m.next_part ? m.part_at : 0);
}

static void check_canary(struct bulk_check *b, struct str key, struct str v)
{
	struct m_job_live l;
	struct str id, job_id;
	struct m_bulk m;
	struct key k;

	(void)v;
	assert_true(str_split(key, '\0', &id, &job_id));
	read_bulk(b, id, &m);
	assert_false(bulk_has_ended(&m));
	assert_ptr_equal(hmap_get(&b->c->f->bulks.canaries, job_id),
			 hmap_get(&b->c->f->bulks.by_id, id));
	key_live(&k, job_id);
	assert_true(check_read_msg(b->c, &k, &msg_job_live, &l));
	assert_false(job_state_is_terminal(l.state));
	b->canaries++;
}

void fx_check_bulks(const struct fx_side *side)
{
	struct check c = { .kv = side->kv, .f = side->f };
	struct bulk_check b = { .c = &c };
	const struct fsm_bulks *all = &side->f->bulks;

	each(&b, "bk|", check_bulk);
	each(&b, "bi|", check_part);
	each(&b, "bc|", check_canary);
	assert_int_equal(all->by_id.n, b.n);
	assert_int_equal(all->due.n, b.due);
	assert_int_equal(all->ends.n, b.ends);
	assert_int_equal(all->canaries.n, b.canaries);
	assert_int_equal(b.ids, b.ids_due);
	arena_done(&c.arena);
}
