/*
 * Push queues in the state machine: their settings, what receivers answered,
 * and jobs that are given back when whoever called is gone.
 */
#include "fsm/core/state.h"
#include "fsm/order/queue.h"
#include "fsm_fixture.h"

static int set(struct fx *x, const char *queue, struct m_push *p)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, queue, str_from(queue));
	MSG_SET(&m, set_queue, push, p);
	return fx_do(x, OP_SET_QUEUE, &m, NULL);
}

static void set_url(struct fx *x, const char *queue, const char *url)
{
	struct m_push p = { 0 };

	MSG_SET(&p, push, url, str_from(url));
	assert_int_equal(set(x, queue, &p), 0);
}

static const struct m_push *push_of(struct fx *x, const char *queue)
{
	return queue_find(x->side[FX_MEM].f, str_from(queue))->set->push;
}

static void test_members_are_changed_one_by_one(void **state)
{
	struct fx *x = *state;
	struct m_push p = { 0 };
	struct str gone[] = { STR("secret"), STR("rate") };

	MSG_SET(&p, push, url, STR("http://example.com/"));
	MSG_SET(&p, push, credentials, STR("a:b"));
	MSG_SET(&p, push, secret, STR("0123456789abcdef"));
	MSG_SET(&p, push, rate, 5);
	assert_int_equal(set(x, "q", &p), 0);
	p = (struct m_push){ 0 };
	MSG_SET(&p, push, concurrency, 3);
	MSG_SET_LIST(&p, push, remove, gone, 2);
	assert_int_equal(set(x, "q", &p), 0);
	assert_str_is(push_of(x, "q")->url, "http://example.com/");
	assert_str_is(push_of(x, "q")->credentials, "a:b");
	assert_int_equal(push_of(x, "q")->concurrency, 3);
	assert_false(MSG_HAS(push_of(x, "q"), push, secret));
	assert_false(MSG_HAS(push_of(x, "q"), push, rate));
	/* another URL has no credentials of the old one */
	set_url(x, "q", "http://example.org/");
	assert_false(MSG_HAS(push_of(x, "q"), push, credentials));
	fx_restart(x, FX_MEM);
	assert_str_is(push_of(x, "q")->url, "http://example.org/");
	assert_int_equal(push_of(x, "q")->concurrency, 3);
}

static void refused(struct fx *x, struct m_push *p, const char *text)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, queue, STR("bad"));
	MSG_SET(&m, set_queue, push, p);
	fx_refused(x, OP_SET_QUEUE, &m, ERR_VALIDATION_ERROR, text);
	assert_null(queue_find(x->side[FX_MEM].f, STR("bad")));
}

static void test_what_cannot_be_is_refused(void **state)
{
	struct fx *x = *state;
	struct m_push p = { 0 };

	MSG_SET(&p, push, concurrency, 3);
	refused(x, &p, "push.url: is required");
	MSG_SET(&p, push, url, STR("gopher://a"));
	refused(x, &p, "push.url: must begin with http:// or https://");
	MSG_SET(&p, push, url, STR("http://u:p@a"));
	refused(x, &p, "push.url: has credentials where there can be none");
	MSG_SET(&p, push, url, STR("http://a"));
	MSG_SET(&p, push, headers, STR("{\"A\":\"b\\r\\nC: d\"}"));
	refused(x, &p,
		"push.headers: \"A\" has a value that a header cannot "
		"have");
}

static void test_versions_and_lists(void **state)
{
	struct fx *x = *state;
	struct fsm *f = x->side[FX_MEM].f;
	struct arena a = ARENA_INIT;
	struct m_push_queue *queues;
	struct m_set_queue m = { 0 };
	struct str gone[] = { STR("push") };
	uint64_t first, second;

	assert_int_equal(fsm_push_n(f), 0);
	set_url(x, "b", "http://b/");
	first = fsm_push_version(f);
	set_url(x, "a", "http://a/");
	second = fsm_push_version(f);
	assert_true(second > first);
	assert_int_equal(fsm_push_queues(f, STR_NULL, 9, &a, &queues), 2);
	assert_str_is(queues[0].queue, "a");
	assert_str_is(queues[1].push->url, "http://b/");
	assert_int_equal(fsm_push_queues(f, STR("a"), 9, &a, &queues), 1);
	assert_str_is(queues[0].queue, "b");
	MSG_SET(&m, set_queue, queue, STR("a"));
	MSG_SET_LIST(&m, set_queue, remove, gone, 1);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &m, NULL), 0);
	assert_true(fsm_push_version(f) > second);
	assert_int_equal(fsm_push_n(f), 1);
	second = fsm_push_version(f);
	fx_queue_op(x, OP_PAUSE, "b");
	assert_int_equal(fsm_push_version(f), second);
	arena_done(&a);
}

static struct m_fetched take(struct fx *x, const char *id)
{
	struct m_fetched job;

	fx_enqueue(x, id, "q");
	assert_true(fx_fetch(x, "q", &job));
	return job;
}

static void test_what_receivers_answered_is_kept(void **state)
{
	struct fx *x = *state;
	struct m_fetched job = take(x, "j1");
	struct m_fail fail = { 0 };
	struct m_ack ack = { 0 };
	const struct m_job *seen;

	MSG_SET(&fail, fail, job_id, STR("j1"));
	MSG_SET(&fail, fail, lease_token, job.lease_token);
	MSG_SET(&fail, fail, error, STR("no"));
	MSG_SET(&fail, fail, response, STR("{\"status\":500}"));
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	seen = fx_job(x, "j1");
	assert_str_is(seen->response, "{\"status\":500}");
	assert_str_is(seen->errors[0].response, "{\"status\":500}");
	x->now_ns += 3600 * NS_PER_S;
	fx_maintain(x, OP_PROMOTE, 10, NULL);
	assert_true(fx_fetch(x, "q", &job));
	/* the next attempt has none yet */
	assert_false(MSG_HAS(fx_job(x, "j1"), job, response));
	MSG_SET(&ack, ack, job_id, STR("j1"));
	MSG_SET(&ack, ack, response, STR("{\"status\":200}"));
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	seen = fx_job(x, "j1");
	assert_str_is(seen->response, "{\"status\":200}");
	assert_str_is(seen->errors[0].response, "{\"status\":500}");
}

static void test_who_is_gone_gives_back_but_what_was_accepted(void **state)
{
	struct fx *x = *state;
	struct arena a = ARENA_INIT;
	struct m_fetched j1 = take(x, "j1"), j2 = take(x, "j2"), *held;
	struct m_heartbeat m = { 0 };
	struct m_beat b = { 0 };

	MSG_SET(&b, beat, job_id, STR("j2"));
	MSG_SET(&b, beat, lease_token, j2.lease_token);
	MSG_SET(&b, beat, response, STR("{\"status\":202}"));
	MSG_SET_LIST(&m, heartbeat, jobs, &b, 1);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, NULL), 0);
	assert_str_is(fx_job(x, "j2")->response, "{\"status\":202}");
	fx_restart(x, FX_MEM);
	for (int side = 0; side < FX_SIDES; side++) {
		struct fsm *f = x->side[side].f;

		assert_int_equal(fsm_push_held(f, STR("w1"), 9, &a, &held), 1);
		assert_str_is(held[0].job_id, "j1");
		assert_int_equal(held[0].lease_token, j1.lease_token);
		assert_int_equal(fsm_push_held(f, STR("w2"), 9, &a, &held), 0);
	}
	arena_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    test_members_are_changed_one_by_one, fx_setup_level,
		    fx_teardown),
		cmocka_unit_test_setup_teardown(test_what_cannot_be_is_refused,
						fx_setup_level, fx_teardown),
		cmocka_unit_test_setup_teardown(test_versions_and_lists,
						fx_setup_level, fx_teardown),
		cmocka_unit_test_setup_teardown(
		    test_what_receivers_answered_is_kept, fx_setup_level,
		    fx_teardown),
		cmocka_unit_test_setup_teardown(
		    test_who_is_gone_gives_back_but_what_was_accepted,
		    fx_setup_level, fx_teardown),
	};

	return cmocka_run_group_tests_name("fsm_push", tests, NULL, NULL);
}
