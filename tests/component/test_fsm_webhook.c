/*
 * Webhooks: setting them, how far they are, what waits for another try, what a
 * log keeps, and when failures disable one.
 */
#include "fsm/core/state.h"
#include "fsm/ties/webhook.h"
#include "fsm_fixture.h"

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

static struct m_set_webhook some(const char *id)
{
	struct m_set_webhook m = { 0 };

	MSG_SET(&m, set_webhook, id, str_from(id));
	MSG_SET(&m, set_webhook, url, STR("http://127.0.0.1/x"));
	return m;
}

static const struct fsm_webhook *hook(struct fx *x, const char *id)
{
	return webhook_find(x->side[FX_MEM].f, str_from(id));
}

static uint64_t last_seq(struct fx *x)
{
	return fsm_last_seq(x->side[FX_MEM].f);
}

/* So many more events. */
static void happen(struct fx *x, const char *id, int n)
{
	struct m_webhook_ref m = { 0 };

	MSG_SET(&m, webhook_ref, id, str_from(id));
	for (int i = 0; i < n; i++)
		assert_int_equal(fx_do(x, OP_TEST_WEBHOOK, &m, NULL), 0);
}

static struct m_delivery tried(uint64_t seq, uint32_t attempt, uint32_t state)
{
	struct m_delivery d = { 0 };

	MSG_SET(&d, delivery, seq, seq);
	MSG_SET(&d, delivery, attempt, attempt);
	MSG_SET(&d, delivery, state, state);
	MSG_SET(&d, delivery, at, 7);
	if (state != DELIVERY_DELIVERED)
		MSG_SET(&d, delivery, error, STR("no"));
	if (state == DELIVERY_RETRYING)
		MSG_SET(&d, delivery, next_at, 99);
	return d;
}

static struct m_webhook_report from(struct fx *x, const char *id, uint64_t n)
{
	const struct fsm_webhook *w = hook(x, id);
	struct m_webhook_report m = { 0 };

	MSG_SET(&m, webhook_report, id, str_from(id));
	MSG_SET(&m, webhook_report, number, w->m.number);
	MSG_SET(&m, webhook_report, from, w->st.position);
	MSG_SET(&m, webhook_report, to, w->st.position + n);
	return m;
}

static void report(struct fx *x, struct m_webhook_report *m,
		   struct m_delivery *list, size_t n)
{
	MSG_SET_LIST(m, webhook_report, deliveries, list, n);
	assert_int_equal(fx_do(x, OP_WEBHOOK_REPORT, m, NULL), 0);
}

static void one(struct fx *x, uint64_t move, struct m_delivery d)
{
	struct m_webhook_report m = from(x, "w", move);

	report(x, &m, &d, 1);
}

static void test_it_begins_with_what_happens_after_it(void **state)
{
	struct fx *x = *state;
	struct m_set_webhook m = some("w");
	struct m_webhook got;

	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	happen(x, "w", 3);
	m = some("v");
	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, &got), 0);
	assert_int_equal(got.position, last_seq(x));
	assert_int_equal(got.retry_limit, 3);
	assert_int_equal(got.events_n, 1);
	assert_str_is(got.events[0], "*");
	assert_true(got.enabled);
	assert_int_equal(got.lag, 0);
}

static void test_places_and_tries(void **state)
{
	struct fx *x = *state;
	struct m_set_webhook m = some("w");
	struct m_delivery d[3];
	struct m_webhook_report r;
	uint64_t at;

	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	at = hook(x, "w")->st.position;
	happen(x, "w", 5);
	r = from(x, "w", 3);
	d[0] = tried(at + 1, 1, DELIVERY_DELIVERED);
	d[1] = tried(at + 2, 1, DELIVERY_RETRYING);
	d[2] = tried(at + 3, 1, DELIVERY_FAILED);
	report(x, &r, d, 3);
	assert_int_equal(hook(x, "w")->st.position, at + 3);
	assert_int_equal(hook(x, "w")->tries_n, 1);
	assert_int_equal(hook(x, "w")->tries[0].seq, at + 2);
	/* it comes again: the place is another one now, and so is the try */
	report(x, &r, d, 3);
	assert_int_equal(hook(x, "w")->st.delivered, 1);
	assert_int_equal(hook(x, "w")->st.failed, 1);
	assert_int_equal(hook(x, "w")->st.log_next, 4);
	fx_restart(x, FX_MEM);
	assert_int_equal(hook(x, "w")->tries_n, 1);
	one(x, 0, tried(at + 2, 3, DELIVERY_DELIVERED)); /* not the next */
	assert_int_equal(hook(x, "w")->tries_n, 1);
	one(x, 0, tried(at + 2, 2, DELIVERY_DELIVERED));
	assert_int_equal(hook(x, "w")->tries_n, 0);
	assert_int_equal(hook(x, "w")->st.delivered, 2);
	assert_int_equal(hook(x, "w")->st.position, at + 3);
}

/* Its place moves on, and its end counts once. */
static void test_one_that_takes_long_waits_beside_the_others(void **state)
{
	struct fx *x = *state;
	struct m_set_webhook m = some("w");
	uint64_t at;

	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	at = hook(x, "w")->st.position;
	happen(x, "w", 2);
	one(x, 2, tried(at + 1, 0, DELIVERY_RETRYING));
	assert_int_equal(hook(x, "w")->tries_n, 1);
	assert_int_equal(hook(x, "w")->st.log_next, 0); /* nothing to tell */
	one(x, 0, tried(at + 1, 1, DELIVERY_DELIVERED));
	assert_int_equal(hook(x, "w")->tries_n, 0);
	assert_int_equal(hook(x, "w")->st.delivered, 1);
}

static void test_what_is_not_its_place_does_not_count(void **state)
{
	struct fx *x = *state;
	struct m_set_webhook m = some("w");
	struct m_webhook_report r;
	struct m_delivery d;
	uint64_t at;

	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	at = hook(x, "w")->st.position;
	happen(x, "w", 2);
	d = tried(at + 1, 1, DELIVERY_DELIVERED);
	r = from(x, "w", 2);
	r.from++;
	report(x, &r, &d, 1);
	r = from(x, "w", 100); /* events that never were */
	report(x, &r, &d, 1);
	assert_int_equal(hook(x, "w")->st.position, at);
	assert_int_equal(hook(x, "w")->st.delivered, 0);
	r = from(x, "w", 2);
	r.number++;
	fx_refused(x, OP_WEBHOOK_REPORT, &r, ERR_NOT_FOUND,
		   "there is no such webhook");
}

static void test_failures_disable_it(void **state)
{
	struct fx *x = *state;
	struct m_set_webhook m = some("w");
	uint64_t at, before;

	MSG_SET(&m, set_webhook, disable_after, 10 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	at = hook(x, "w")->st.position;
	happen(x, "w", 9);
	one(x, 1, tried(at + 1, 1, DELIVERY_FAILED));
	x->now_ns += 9 * NS_PER_S;
	one(x, 1, tried(at + 2, 1, DELIVERY_DELIVERED)); /* it begins anew */
	one(x, 1, tried(at + 3, 1, DELIVERY_RETRYING));
	x->now_ns += 9 * NS_PER_S;
	one(x, 0, tried(at + 3, 2, DELIVERY_RETRYING));
	assert_true(hook(x, "w")->m.enabled);
	x->now_ns += NS_PER_S;
	one(x, 1, (struct m_delivery){ 0 }); /* a place alone changes nothing */
	assert_true(hook(x, "w")->m.enabled);
	before = last_seq(x);
	one(x, 0, tried(at + 3, 3, DELIVERY_RETRYING));
	assert_false(hook(x, "w")->m.enabled);
	assert_int_equal(last_seq(x), before + 1); /* an event tells */
	assert_int_equal(fsm_webhooks_version(x->side[FX_MEM].f), before + 1);
	fx_restart(x, FX_MEM);
	assert_false(hook(x, "w")->m.enabled);
	assert_int_equal(hook(x, "w")->tries_n, 1);
	/* as a whole, and it counts from the beginning */
	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	one(x, 0, tried(at + 3, 4, DELIVERY_RETRYING));
	assert_true(hook(x, "w")->m.enabled);
}

static void test_a_log_has_an_end(void **state)
{
	struct fx *x = *state;
	struct m_set_webhook m = some("w");
	struct m_deliveries_ask ask = { 0 };
	struct m_delivery_list list = { 0 };
	uint64_t at;

	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	at = hook(x, "w")->st.position;
	x->unchecked = true;
	for (uint64_t i = 1; i <= LIMIT_WEBHOOK_LOG + 20; i++) {
		happen(x, "w", 1);
		one(x, 1, tried(at + i, 1, DELIVERY_DELIVERED));
	}
	x->unchecked = false;
	one(x, 0, (struct m_delivery){ 0 });
	MSG_SET(&ask, deliveries_ask, id, STR("w"));
	MSG_SET(&ask, deliveries_ask, limit, LIMIT_WEBHOOK_LOG);
	assert_int_equal(
	    fsm_deliveries(x->side[FX_MEM].f, &ask, &x->arena, &list), 1);
	assert_int_equal(list.deliveries_n, LIMIT_WEBHOOK_LOG);
	assert_int_equal(list.deliveries[0].n, LIMIT_WEBHOOK_LOG + 20);
	assert_int_equal(list.deliveries[LIMIT_WEBHOOK_LOG - 1].n, 21);
	assert_false(MSG_HAS(&list, delivery_list, next));
}

static void test_what_waits_has_an_end(void **state)
{
	struct fx *x = *state;
	struct m_set_webhook m = some("w");
	struct m_replay_webhook again = { 0 };
	uint64_t at;

	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	at = hook(x, "w")->st.position;
	x->unchecked = true;
	for (uint64_t i = 1; i <= LIMIT_WEBHOOK_TRIES; i++) {
		happen(x, "w", 1);
		one(x, 1, tried(at + i, 1, DELIVERY_RETRYING));
	}
	x->unchecked = false;
	happen(x, "w", 1);
	one(x, 1, tried(last_seq(x), 1, DELIVERY_RETRYING));
	assert_int_equal(hook(x, "w")->tries_n, LIMIT_WEBHOOK_TRIES);
	assert_int_equal(hook(x, "w")->st.failed, 1); /* instead */
	MSG_SET(&again, replay_webhook, id, STR("w"));
	MSG_SET(&again, replay_webhook, from_seq, at);
	MSG_SET(&again, replay_webhook, one, true);
	fx_refused(x, OP_REPLAY_WEBHOOK, &again, ERR_CONFLICT,
		   "500 deliveries wait for another try, which is as many as "
		   "there may be");
}

static void test_replays(void **state)
{
	struct fx *x = *state;
	struct m_set_webhook m = some("w");
	struct m_replay_webhook again = { 0 };
	struct m_webhook_report r;
	struct m_delivery d;
	uint64_t at;

	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	at = hook(x, "w")->st.position;
	happen(x, "w", 6);
	r = from(x, "w", 4);
	report(x, &r, NULL, 0);
	MSG_SET(&again, replay_webhook, id, STR("w"));
	MSG_SET(&again, replay_webhook, from_seq, at + 2);
	MSG_SET(&again, replay_webhook, to_seq, at + 100);
	assert_int_equal(fx_do(x, OP_REPLAY_WEBHOOK, &again, NULL), 0);
	assert_int_equal(hook(x, "w")->st.replay_at, at + 1);
	assert_int_equal(hook(x, "w")->st.replay_to, at + 4);
	again.to_seq--;
	assert_int_equal(fx_do(x, OP_REPLAY_WEBHOOK, &again, NULL),
			 ERR_CONFLICT);
	r = from(x, "w", 0);
	MSG_SET(&r, webhook_report, replay_id, hook(x, "w")->st.replay_id);
	MSG_SET(&r, webhook_report, replay_at, at + 4);
	d = tried(at + 2, 1, DELIVERY_RETRYING);
	MSG_SET(&d, delivery, replayed, true);
	report(x, &r, &d, 1);
	assert_int_equal(hook(x, "w")->st.replay_id, 0);
	assert_int_equal(hook(x, "w")->tries_n, 1);
	report(x, &r, &d, 1); /* it is over */
	assert_int_equal(hook(x, "w")->st.log_next, 2);
	MSG_SET(&again, replay_webhook, one, true);
	MSG_SET(&again, replay_webhook, from_seq, at + 6);
	assert_int_equal(fx_do(x, OP_REPLAY_WEBHOOK, &again, NULL),
			 ERR_CONFLICT);
	MSG_SET(&again, replay_webhook, from_seq, last_seq(x) + 1);
	assert_int_equal(fx_do(x, OP_REPLAY_WEBHOOK, &again, NULL),
			 ERR_NOT_FOUND);
}

static void test_there_are_so_many_at_most(void **state)
{
	struct fx *x = *state;
	struct m_set_webhook m;
	char id[16];

	x->unchecked = true;
	for (int i = 0; i < LIMIT_WEBHOOKS; i++) {
		(void)snprintf(id, sizeof(id), "h%d", i);
		m = some(id);
		assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	}
	x->unchecked = false;
	m = some("one");
	fx_refused(x, OP_SET_WEBHOOK, &m, ERR_VALIDATION_ERROR,
		   "there are 100 webhooks, which is as many as there may be; "
		   "delete some");
	m = some("h7");
	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
}

/* Only the record of the webhook has it. */
static void test_a_secret_stands_in_one_place(void **state)
{
	struct fx *x = *state;
	struct m_set_webhook m = some("w");
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	struct m_webhook_list list = { 0 };
	const struct str secret = STR("wordless-42-wordless");
	const char *at, *end;
	size_t n = 0;

	MSG_SET(&m, set_webhook, secret, secret);
	assert_int_equal(fx_do(x, OP_SET_WEBHOOK, &m, NULL), 0);
	fx_dump(x->side[FX_MEM].kv, &all);
	end = all.p + all.n;
	for (at = all.p;
	     (at = memmem(at, (size_t)(end - at), secret.p, secret.n)) != NULL;
	     at++)
		n++;
	assert_int_equal(n, 1);
	fsm_webhooks(x->side[FX_MEM].f, &x->arena, &list);
	assert_int_equal(list.webhooks_n, 1);
	assert_int_equal(list.webhooks[0].secrets, 1);
	assert_false(MSG_HAS(&list.webhooks[0], webhook, secret));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_it_begins_with_what_happens_after_it),
		TEST(test_places_and_tries),
		TEST(test_one_that_takes_long_waits_beside_the_others),
		TEST(test_what_is_not_its_place_does_not_count),
		TEST(test_failures_disable_it),
		TEST(test_a_log_has_an_end),
		TEST(test_what_waits_has_an_end),
		TEST(test_replays),
		TEST(test_there_are_so_many_at_most),
		TEST(test_a_secret_stands_in_one_place),
	};

	return cmocka_run_group_tests_name("fsm_webhook", tests, NULL, NULL);
}
