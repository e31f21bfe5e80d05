/*
 * Schedules: each record is in memory by id and by name, and by its next time
 * when it has one; nothing else is.
 */
#include "fsm/core/state.h"
#include "fsm_fixture.h"

void fx_check_schedules(const struct fx_side *side)
{
	const struct fsm *f = side->f;
	struct arena a = ARENA_INIT;
	uint64_t n = 0, due = 0, first = NEVER;
	struct key from, upto;
	struct kv_iter *it;

	key_prefix_space(&from, "sc|", SPACE_DEFAULT);
	key_prefix_end(&from, &upto);
	it = kv_iter_new(side->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it)) {
		struct str id = str_skip(kv_iter_key(it), from.n);
		struct m_schedule m;

		assert_int_equal(
		    msg_decode(&msg_schedule, kv_iter_value(it), &a, &m), 0);
		assert_true(str_eq(m.id, id));
		assert_non_null(hmap_get(&f->schedules, id));
		assert_ptr_equal(hmap_get(&f->schedules, id),
				 hmap_get(&f->schedule_names, m.name));
		/* it runs, is paused or has ended */
		assert_int_equal((m.next_run != 0) + m.paused + m.ended, 1);
		n++;
		due += m.next_run != 0;
		if (m.next_run != 0)
			first = MIN(first, m.set_back_ns != 0 ? 1 : m.next_run);
	}
	assert_int_equal(kv_iter_error(it), 0);
	kv_iter_free(it);
	assert_int_equal(f->schedules.n, n);
	assert_int_equal(f->schedule_names.n, n);
	assert_int_equal(f->fires.n, due);
	if (due > 0)
		assert_int_equal(heap_min(&f->fires)->key, first);
	arena_done(&a);
}
