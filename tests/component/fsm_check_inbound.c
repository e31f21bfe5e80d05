/*
 * Inbound webhooks: what is in memory is in the store.
 */
#include "fsm/core/state.h"
#include "fsm/ties/inbound.h"
#include "fsm_fixture.h"

void fx_check_hooks(const struct fx_side *side)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct str name;
	size_t pos = 0;
	void *v;

	assert_int_equal(side->f->inbound.n, fx_count_keys(side, "hk|"));
	while (hmap_next(&side->f->inbound, &pos, &name, &v)) {
		struct key k;
		struct buf stored = BUF_INIT(0);

		key_hook(&k, SPACE_DEFAULT, name);
		assert_int_equal(kv_get(side->kv, key_str(&k), &stored), 1);
		buf_clear(&b);
		msg_encode(&msg_hook, inbound_find(side->f, name), &b);
		assert_true(str_eq(buf_str(&b), buf_str(&stored)));
		buf_done(&stored);
	}
}
