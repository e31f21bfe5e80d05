/*
 * Webhooks: what is in memory is in the store, their logs have no gaps and an
 * end, and nothing is left of those that are gone.
 */
#include "fsm/core/state.h"
#include "fsm/ties/webhook.h"
#include "fsm_fixture.h"

static void check_record(const struct fx_side *side, const struct key *k,
			 const struct msg_desc *d, const void *m)
{
	_cleanup_(buf_done) struct buf stored = BUF_INIT(0);
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	assert_int_equal(kv_get(side->kv, key_str(k), &stored), 1);
	msg_encode(d, m, &b);
	assert_true(str_eq(buf_str(&b), buf_str(&stored)));
}

static size_t check_log(const struct fx_side *side, const struct fsm_webhook *w)
{
	uint64_t next = MAX(w->st.log_next, (uint64_t)1);
	uint64_t first =
	    next > LIMIT_WEBHOOK_LOG ? next - LIMIT_WEBHOOK_LOG : 1;
	struct key k;

	for (uint64_t n = first; n < next; n++) {
		_cleanup_(buf_done) struct buf stored = BUF_INIT(0);

		key_webhook_log(&k, w->m.number, n);
		assert_int_equal(kv_get(side->kv, key_str(&k), &stored), 1);
	}
	return (size_t)(next - first);
}

void fx_check_webhooks(const struct fx_side *side)
{
	const struct hmap *all = &side->f->webhooks.by_id;
	size_t pos = 0, tries = 0, lines = 0;
	struct str id;
	void *v;

	while (hmap_next(all, &pos, &id, &v)) {
		const struct fsm_webhook *w = v;
		struct key k;

		key_webhook(&k, SPACE_DEFAULT, id);
		check_record(side, &k, &msg_webhook, &w->m);
		key_webhook_state(&k, w->m.number);
		check_record(side, &k, &msg_webhook_state, &w->st);
		for (size_t i = 0; i < w->tries_n; i++) {
			key_webhook_try(&k, w->m.number, w->tries[i].seq);
			check_record(side, &k, &msg_webhook_try, &w->tries[i]);
			assert_true(i == 0 ||
				    w->tries[i - 1].seq < w->tries[i].seq);
		}
		tries += w->tries_n;
		lines += check_log(side, w);
		assert_true(w->st.position <= side->f->last_seq);
	}
	assert_int_equal(all->n, fx_count_keys(side, "wh|"));
	assert_int_equal(all->n, fx_count_keys(side, "ws|"));
	assert_int_equal(tries, fx_count_keys(side, "wt|"));
	assert_int_equal(lines, fx_count_keys(side, "wl|"));
}
