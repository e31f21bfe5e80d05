/*
 * How providers do: counted by ack and fail, over the last ten minutes.
 */
#include "fsm/core/state.h"
#include "fsm/ties/provider.h"
#include "fsm_fixture.h"

#define MINUTE (60 * NS_PER_S)

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

/* --- short forms --- */

static void take(struct fx *x, const char *id)
{
	fx_enqueue(x, id, "q");
	fx_expect(x, "q", id);
}

static void works(struct fx *x, const char *provider, uint64_t latency)
{
	struct m_ack m = { 0 };

	take(x, "job_1");
	MSG_SET(&m, ack, job_id, STR("job_1"));
	MSG_SET(&m, ack, provider, str_from(provider));
	if (latency > 0)
		MSG_SET(&m, ack, latency, latency);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
}

static void fails(struct fx *x, const char *provider, const char *error)
{
	struct m_fail m = { 0 };

	take(x, "job_1");
	MSG_SET(&m, fail, job_id, STR("job_1"));
	MSG_SET(&m, fail, error, str_from(error));
	MSG_SET(&m, fail, retry, false);
	MSG_SET(&m, fail, provider, str_from(provider));
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
}

static const struct m_provider *shown(struct fx *x, const char *name)
{
	struct m_provider_list list = { 0 };

	fsm_providers(x->side[FX_MEM].f, x->now_ns, &x->arena, &list);
	for (size_t i = 0; i < list.providers_n; i++)
		if (str_is(list.providers[i].name, name))
			return &list.providers[i];
	return NULL;
}

static void state_is(struct fx *x, const char *name, enum provider_state s)
{
	assert_non_null(shown(x, name));
	assert_int_equal(shown(x, name)->state, s);
	assert_int_equal(
	    provider_state_at(x->side[FX_ROCKS].f, str_from(name), x->now_ns),
	    s);
}

/* --- what is counted --- */

static void test_reports_are_counted(void **state)
{
	struct fx *x = *state;
	const struct m_provider *p;

	works(x, "acme", 1 * NS_PER_S);
	works(x, "acme", 3 * NS_PER_S);
	works(x, "acme", 0);
	fails(x, "acme", "503 from upstream");
	p = shown(x, "acme");
	assert_int_equal(p->succeeded, 3);
	assert_int_equal(p->failed, 1);
	assert_true(p->failure_rate == 0.25);
	assert_int_equal(p->latency, 2 * NS_PER_S);
	assert_int_equal(p->latency_max, 3 * NS_PER_S);
	assert_true(str_is(p->last_error, "503 from upstream"));
	assert_int_equal(p->last_failure_at, x->now_ns);
	assert_int_equal(p->state, PROVIDER_UNKNOWN); /* of four */
	works(x, "acme", 0);
	state_is(x, "acme", PROVIDER_DEGRADED);
	assert_null(shown(x, "zeta"));
}

/* An ack says so by its usage; a fail only when it is the provider's fault. */
static void test_usage_names_the_provider_of_an_ack(void **state)
{
	struct fx *x = *state;
	struct m_usage u = { 0 };
	struct m_ack ack = { 0 };
	struct m_fail fail = { 0 };

	MSG_SET(&u, usage, input_tokens, 1);
	MSG_SET(&u, usage, provider, STR("acme"));
	take(x, "job_1");
	MSG_SET(&fail, fail, job_id, STR("job_1"));
	MSG_SET(&fail, fail, usage, &u);
	MSG_SET(&fail, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	assert_null(shown(x, "acme"));
	fx_expect(x, "q", "job_1");
	MSG_SET(&ack, ack, job_id, STR("job_1"));
	MSG_SET(&ack, ack, usage, &u);
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	assert_int_equal(shown(x, "acme")->succeeded, 1);
	/* given back, and not for nothing */
	take(x, "job_2");
	MSG_SET(&fail, fail, job_id, STR("job_2"));
	MSG_SET(&fail, fail, provider, STR("acme"));
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	assert_int_equal(fx_resend(x, OP_FAIL, &fail, NULL), 0);
	assert_int_equal(shown(x, "acme")->failed, 1);
}

static void test_the_window_rolls(void **state)
{
	struct fx *x = *state;

	x->now_ns -= x->now_ns % MINUTE;
	for (int i = 0; i < 5; i++)
		fails(x, "acme", "down");
	state_is(x, "acme", PROVIDER_FAILING);
	for (int i = 0; i < 9; i++) {
		x->now_ns += MINUTE;
		works(x, "acme", 0);
	}
	state_is(x, "acme", PROVIDER_DEGRADED); /* 5 of 14 */
	fx_restart(x, FX_ROCKS);
	x->now_ns += MINUTE;
	state_is(x, "acme", PROVIDER_OK);
	assert_int_equal(shown(x, "acme")->succeeded, 9);
	x->now_ns += 5 * MINUTE;
	state_is(x, "acme", PROVIDER_UNKNOWN);
	x->now_ns += 5 * MINUTE;
	assert_int_equal(shown(x, "acme")->succeeded, 0);
	works(x, "acme", 0);
	assert_int_equal(shown(x, "acme")->succeeded, 1);
	assert_true(str_is(shown(x, "acme")->last_error, "down"));
	/* a clock that is set back counts on where it was */
	x->now_ns -= 30 * MINUTE;
	works(x, "acme", 0);
	assert_int_equal(shown(x, "acme")->succeeded, 2);
}

static void test_a_change_is_told_once(void **state)
{
	struct fx *x = *state;
	struct m_events_reply e;
	struct m_tail_reply r;
	char told[256] = "";

	for (int i = 0; i < 20; i++)
		works(x, "acme", 0);
	for (int i = 0; i < 20; i++)
		fails(x, "acme", "down");
	assert_int_equal(
	    record_events(x->side[FX_MEM].kv, 0, 4096, &x->arena, &e), 0);
	for (size_t i = 0; i < e.events_n; i++)
		if (e.events[i].type == EVENT_PROVIDER_CHANGED)
			(void)snprintf(told + strlen(told),
				       sizeof(told) - strlen(told), "%.*s",
				       STR_ARG(e.events[i].data));
	assert_string_equal(
	    told, "{\"provider\":\"acme\",\"from\":\"unknown\","
		  "\"to\":\"unknown\"}"
		  "{\"provider\":\"acme\",\"from\":\"unknown\",\"to\":\"ok\"}"
		  "{\"provider\":\"acme\",\"from\":\"ok\",\"to\":\"degraded\"}"
		  "{\"provider\":\"acme\",\"from\":\"degraded\","
		  "\"to\":\"failing\"}");
	assert_int_equal(
	    record_feed(x->side[FX_MEM].kv, 0, 4096, &x->arena, &r), 0);
	assert_int_equal(r.providers_n, 1);
	assert_int_equal(r.providers[0].state, PROVIDER_FAILING);
}

/* --- bounds --- */

static void test_there_are_so_many_at_most(void **state)
{
	struct fx *x = *state;
	char name[16];

	x->unchecked = true;
	for (int i = 0; i < LIMIT_PROVIDERS; i++) {
		(void)snprintf(name, sizeof(name), "p%03d", i);
		works(x, name, 0);
		x->now_ns++;
	}
	works(x, "one more", 0);
	fails(x, "and one", "down");
	x->unchecked = false;
	assert_null(shown(x, "one more"));
	assert_int_equal(shown(x, "(other)")->succeeded, 1);
	assert_int_equal(shown(x, "(other)")->failed, 1);
	/* one nobody has spoken of for long makes room */
	x->now_ns += 11 * MINUTE;
	works(x, "p000", 0);
	works(x, "one more", 0);
	assert_non_null(shown(x, "p000"));
	assert_non_null(shown(x, "one more"));
	assert_null(shown(x, "p001"));
	fx_restart(x, FX_MEM);
	assert_non_null(shown(x, "one more"));
}

static void test_what_cannot_be_is_refused(void **state)
{
	struct fx *x = *state;
	struct m_ack_item item = { 0 };
	struct m_ack_batch batch = { 0 };
	struct m_fail fail = { 0 };
	struct m_ack ack = { 0 };
	uint64_t day = 24 * 60 * MINUTE;

	take(x, "job_1");
	MSG_SET(&ack, ack, job_id, STR("job_1"));
	MSG_SET(&ack, ack, latency, day + 1);
	fx_refused(x, OP_ACK, &ack, ERR_VALIDATION_ERROR,
		   "latency: must be at most 24h");
	MSG_SET(&fail, fail, job_id, STR("job_1"));
	MSG_SET(&fail, fail, latency, day + 1);
	fx_refused(x, OP_FAIL, &fail, ERR_VALIDATION_ERROR,
		   "latency: must be at most 24h");
	MSG_SET(&item, ack_item, job_id, STR("job_1"));
	MSG_SET(&item, ack_item, latency, day + 1);
	MSG_SET_LIST(&batch, ack_batch, acks, &item, 1);
	fx_refused(x, OP_ACK_BATCH, &batch, ERR_VALIDATION_ERROR,
		   "latency: must be at most 24h");
}

/* Of an error the beginning is kept, in whole characters. */
static void test_a_long_error_is_cut(void **state)
{
	struct fx *x = *state;
	char error[400];

	for (size_t i = 0; i + 3 < sizeof(error); i += 3)
		memcpy(error + i, "\xe2\x82\xac", 4);
	fails(x, "acme", error);
	assert_int_equal(shown(x, "acme")->last_error.n, 255);
	assert_true(str_is_utf8(shown(x, "acme")->last_error));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_reports_are_counted),
		TEST(test_usage_names_the_provider_of_an_ack),
		TEST(test_the_window_rolls),
		TEST(test_a_change_is_told_once),
		TEST(test_there_are_so_many_at_most),
		TEST(test_what_cannot_be_is_refused),
		TEST(test_a_long_error_is_cut),
	};

	return cmocka_run_group_tests_name("fsm_provider", tests, NULL, NULL);
}
