/*
 * Approval policies in the state machine: bounds of what they cost, deadlines
 * in portions, links, what older nodes see; that nothing of it is lost by a
 * start.
 */
#include "fsm/core/state.h"
#include "fsm/ties/policy.h"
#include "fsm_fixture.h"

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

/* A reply lasts until the next one; these texts as long as the program. */
static struct str keep(struct str s)
{
	static char texts[16][512];
	static size_t n;
	char *p = texts[n++ % ARRAY_SIZE(texts)];

	assert_true(s.n < sizeof(texts[0]));
	memcpy(p, s.p, s.n);
	return str_of(p, s.n);
}

static struct m_policy some(const char *name, const char *at)
{
	struct m_policy m = { 0 };
	static struct str points[1];

	points[0] = str_from(at);
	MSG_SET(&m, policy, name, str_from(name));
	MSG_SET(&m, policy, queue, STR("q"));
	MSG_SET_LIST(&m, policy, at, points, 1);
	return m;
}

static void set(struct fx *x, const struct m_policy *m)
{
	assert_int_equal(fx_do(x, OP_SET_POLICY, m, NULL), 0);
}

static void restart_both(struct fx *x)
{
	fx_restart(x, FX_MEM);
	fx_check_same(x);
}

static void test_a_start_forgets_nothing(void **state)
{
	struct fx *x = *state;
	struct m_policy m = some("in", "enqueue");

	MSG_SET(&m, policy, deadline, 10 * NS_PER_S);
	set(x, &m);
	m = some("out", "fetch");
	set(x, &m);
	fx_enqueue(x, "job_1", "q");
	fx_expect_state(x, "job_1", JOB_HELD);
	restart_both(x);
	fx_enqueue(x, "job_2", "q");
	fx_expect_state(x, "job_2", JOB_HELD);
	fx_job_op(x, OP_APPROVE, "job_1", "pending");
	fx_expect_none(x, "q");
	assert_int_equal(fx_job(x, "job_1")->held->at, POINT_FETCH);
	fx_job_op(x, OP_APPROVE, "job_1", "pending");
	restart_both(x);
	fx_expect(x, "q", "job_1");
	fx_timeline(x, "job_1", "enqueued held approved held approved started");
	x->now_ns += 10 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_DEADLINE, 0, NULL), 1);
	assert_true(fx_job(x, "job_2")->held->escalated);
	/* once */
	assert_int_equal(fx_maintain(x, OP_DEADLINE, 0, NULL), 0);
	restart_both(x);
	assert_int_equal(fx_maintain(x, OP_DEADLINE, 0, NULL), 0);
}

/* Looking at tags is work, as looking at payloads is. */
static void test_tags_that_are_looked_at_are_weighed(void **state)
{
	struct fx *x = *state;
	static char text[4000];
	struct m_enqueue job = fx_new("job_1", "q");
	uint64_t before, n = 0;

	memset(text, 'x', sizeof(text));
	memcpy(text, "{\"a\":\"", 6);
	memcpy(text + sizeof(text) - 2, "\"}", 2);
	MSG_SET(&job, enqueue, tags, str_of(text, sizeof(text)));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &job, NULL), 0);
	before = fsm_entry_weight(x->side[FX_MEM].f);
	for (; n < 8; n++) {
		char name[16];
		struct m_policy m;

		(void)snprintf(name, sizeof(name), "p%d", (int)n);
		m = some(name, "enqueue");
		MSG_SET(&m, policy, mode, POLICY_ALL);
		MSG_SET(&m, policy, tag_key, STR("none"));
		set(x, &m);
	}
	MSG_SET(&job, enqueue, job_id, STR("job_2"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &job, NULL), 0);
	assert_true(fsm_entry_weight(x->side[FX_MEM].f) >=
		    before + n * sizeof(text));
	fx_expect_state(x, "job_2", JOB_PENDING);
}

static void test_deadlines_in_portions(void **state)
{
	struct fx *x = *state;
	struct m_policy m = some("in", "enqueue");
	struct m_due_reply due = { 0 };
	bool more;

	MSG_SET(&m, policy, deadline, NS_PER_S);
	MSG_SET(&m, policy, on_deadline, DEADLINE_APPROVE);
	set(x, &m);
	for (int i = 0; i < 5; i++) {
		char id[16];

		snprintf(id, sizeof(id), "job_%d", i);
		fx_enqueue(x, id, "q");
	}
	fsm_due(x->side[FX_MEM].f, &due);
	assert_int_equal(due.deadline_ns, fx_job(x, "job_0")->held->deadline);
	x->now_ns += NS_PER_S - 1;
	assert_int_equal(fx_maintain(x, OP_DEADLINE, 2, &more), 0);
	x->now_ns += NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_DEADLINE, 2, &more), 2);
	assert_true(more);
	fx_job_op(x, OP_DELETE, "job_4", "deleted");
	assert_int_equal(fx_maintain(x, OP_DEADLINE, 2, &more), 2);
	assert_false(more);
	assert_int_equal(fx_count_keys(&x->side[FX_MEM], "hd|"), 0);
	fx_expect(x, "q", "job_0");
	fsm_due(x->side[FX_MEM].f, &due);
	assert_int_equal(due.deadline_ns, 0);
}

/* A job that is moved keeps its deadline, and one that expires loses it. */
static void test_other_ways_out_of_a_hold(void **state)
{
	struct fx *x = *state;
	struct m_policy m = some("in", "enqueue");
	struct m_enqueue e = fx_new("job_1", "q");
	struct m_move move = { 0 };

	MSG_SET(&m, policy, deadline, 10 * NS_PER_S);
	set(x, &m);
	MSG_SET(&e, enqueue, expire_after, NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	MSG_SET(&move, move, job_id, STR("job_1"));
	MSG_SET(&move, move, queue, STR("other"));
	assert_int_equal(fx_do(x, OP_MOVE, &move, NULL), 0);
	assert_int_equal(fx_count_keys(&x->side[FX_MEM], "hd|"), 1);
	x->now_ns += NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_EXPIRE, 0, NULL), 1);
	fx_expect_state(x, "job_1", JOB_DEAD);
	assert_null(fx_job(x, "job_1")->held);
	assert_int_equal(fx_count_keys(&x->side[FX_MEM], "hd|"), 0);
	fx_check_same(x);
}

/* What a job waits for beside an approval it goes on waiting for. */
static void test_of_jobs_that_wait(void **state)
{
	struct fx *x = *state;
	struct m_policy m = some("in", "enqueue");
	struct m_enqueue e = fx_new("child", "q");
	struct str parent = STR("parent");

	fx_enqueue(x, "parent", "p");
	set(x, &m);
	MSG_SET_LIST(&e, enqueue, depends_on, &parent, 1);
	MSG_SET(&e, enqueue, delay, 5 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	fx_expect_state(x, "child", JOB_HELD);
	fx_job_op(x, OP_APPROVE, "child", "pending");
	assert_true(fx_job(x, "child")->blocked);
	fx_expect(x, "p", "parent");
	fx_job_op(x, OP_DELETE, "parent", "deleted");
	assert_int_equal(fx_job(x, "child")->state, JOB_DEAD);
	/* the parent ends while the child is held */
	fx_enqueue(x, "parent", "p");
	MSG_SET(&e, enqueue, job_id, STR("child2"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	fx_expect(x, "p", "parent");
	{
		struct m_ack ack = { 0 };

		MSG_SET(&ack, ack, job_id, STR("parent"));
		assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	}
	fx_expect_state(x, "child2", JOB_HELD);
	fx_job_op(x, OP_APPROVE, "child2", "scheduled");
	fx_expect_none(x, "q");
	x->now_ns += 5 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_PROMOTE, 0, NULL), 1);
	fx_expect(x, "q", "child2");
}

/* --- providers --- */

/* An attempt fails by the provider's fault; five of them are enough. */
static void fail_by(struct fx *x, const char *provider)
{
	for (int i = 0; i < 5; i++) {
		struct m_fail m = { 0 };

		fx_enqueue(x, "victim", "v");
		fx_expect(x, "v", "victim");
		MSG_SET(&m, fail, job_id, STR("victim"));
		MSG_SET(&m, fail, retry, false);
		MSG_SET(&m, fail, provider, str_from(provider));
		assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
		fx_job_op(x, OP_DELETE, "victim", "deleted");
	}
}

static void turn(struct fx *x, const char *id, const char *provider)
{
	struct m_usage u = { 0 };
	struct m_ack m = { 0 };

	fx_expect(x, "q", id);
	MSG_SET(&u, usage, input_tokens, 1);
	MSG_SET(&u, usage, provider, str_from(provider));
	MSG_SET(&m, ack, job_id, str_from(id));
	MSG_SET(&m, ack, agent_status, AGENT_CONTINUE);
	MSG_SET(&m, ack, usage, &u);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

static void test_a_provider_that_fails(void **state)
{
	struct fx *x = *state;
	struct m_policy m = some("care", "continue");
	struct m_enqueue e = fx_new("job_1", "q");
	struct m_agent agent = { 0 };

	MSG_SET(&m, policy, mode, POLICY_ALL);
	MSG_SET(&m, policy, provider_state, PROVIDER_FAILING);
	set(x, &m);
	MSG_SET(&e, enqueue, agent, &agent);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	turn(x, "job_1", "acme");
	fx_expect_state(x, "job_1", JOB_PENDING);
	fail_by(x, "acme");
	turn(x, "job_1", "zeta"); /* another one works */
	fx_expect_state(x, "job_1", JOB_PENDING);
	turn(x, "job_1", "acme");
	fx_expect_state(x, "job_1", JOB_HELD);
	assert_str_is(fx_job(x, "job_1")->held->by, "care");
}

/* --- bounds --- */

static struct m_enqueue large(const char *id, size_t n)
{
	struct m_enqueue e = fx_new(id, "q");
	static char payload[1 << 18];

	memset(payload, 'x', n);
	payload[0] = payload[n - 1] = '"';
	MSG_SET(&e, enqueue, payload, str_of(payload, n));
	return e;
}

static void test_what_is_looked_at_is_weighed(void **state)
{
	struct fx *x = *state;
	struct m_enqueue e = large("job_1", 1 << 17);
	struct m_policy m = some("in", "enqueue");
	uint64_t without;

	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	without = fsm_entry_weight(x->side[FX_MEM].f);
	MSG_SET(&m, policy, mode, POLICY_ALL);
	MSG_SET(&m, policy, payload_jq, STR(".a == 1 or .b == 1 or .c == 1"));
	set(x, &m);
	e = large("job_2", 1 << 17);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	assert_in_range(fsm_entry_weight(x->side[FX_MEM].f),
			without + 4 * (1 << 17) - 1000,
			without + 5 * (1 << 17));
	/* what is for another queue is not looked at */
	MSG_SET(&e, enqueue, queue, STR("elsewhere"));
	MSG_SET(&e, enqueue, job_id, STR("job_3"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &e, NULL), 0);
	assert_true(fsm_entry_weight(x->side[FX_MEM].f) < without + (1 << 17));
}

/* A fetch that meets many jobs to hold does so in several entries. */
static void test_a_fetch_holds_in_portions(void **state)
{
	struct fx *x = *state;
	struct m_policy m = some("out", "fetch");
	struct m_fetch fetch = { 0 };
	struct str q = STR("q");
	uint64_t held = 0, entries = 0;

	for (int i = 0; i < 300; i++) {
		char id[16];

		snprintf(id, sizeof(id), "job_%03d", i);
		fx_enqueue(x, id, "q");
	}
	set(x, &m);
	fx_set_budget(x, 20000);
	MSG_SET_LIST(&fetch, fetch, queues, &q, 1);
	for (; held < 300; entries++) {
		fx_begin(x);
		fx_add(x, OP_FETCH, 0, &fetch);
		fx_commit(x);
		assert_true(fx_count_keys(&x->side[FX_MEM], "h|") > held);
		held = fx_count_keys(&x->side[FX_MEM], "h|");
	}
	assert_true(entries > 3);
	fx_expect_none(x, "q");
}

#define MANY       12
#define MANY_BYTES 100000
#define MANY_OTHER 7 /* no policy is for it */

/* As many places are looked at as may be, and the last one is what counts. */
static void set_dear_policies(struct fx *x)
{
	struct m_policy m = some("p", "enqueue");
	char name[16];

	MSG_SET(&m, policy, mode, POLICY_ALL);
	for (int i = 0; i < LIMIT_POLICY_TESTS; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		MSG_SET(&m, policy, name, str_from(name));
		MSG_SET(&m, policy, priority, LIMIT_POLICY_TESTS - i);
		MSG_SET(&m, policy, payload_jq,
			i + 1 < LIMIT_POLICY_TESTS ? STR(".a == 5")
						   : STR(".a == 1"));
		set(x, &m);
	}
}

static void enqueue_many(struct fx *x)
{
	static struct m_enqueue jobs[MANY];
	static char ids[MANY][16], payloads[MANY][MANY_BYTES];
	struct m_enqueue_batch b = { 0 };

	for (int i = 0; i < MANY; i++) {
		char *p = payloads[i];

		snprintf(ids[i], sizeof(ids[i]), "job_%02d", i);
		memset(p, ' ', MANY_BYTES);
		memcpy(p, i == MANY_OTHER ? "{\"a\":2" : "{\"a\":1", 6);
		p[MANY_BYTES - 1] = '}';
		jobs[i] = fx_new(ids[i], "q");
		MSG_SET(&jobs[i], enqueue, payload, str_of(p, MANY_BYTES));
	}
	MSG_SET_LIST(&b, enqueue_batch, jobs, jobs, MANY);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &b, NULL), 0);
}

/* However many jobs a request has, so much of them is looked at in its entry;
 * the others are looked at before anybody gets them. */
static void test_a_large_request_is_looked_at_in_parts(void **state)
{
	struct fx *x = *state;
	struct m_fetch fetch = { 0 };
	struct str q = STR("q");
	size_t now = 0;
	char id[16];

	set_dear_policies(x);
	enqueue_many(x);
	assert_true(fsm_entry_weight(x->side[FX_MEM].f) <
		    LIMIT_POLICY_LOOKED + LIMIT_ENTRY_BYTES +
			4 * MANY * MANY_BYTES);
	now = fx_count_keys(&x->side[FX_MEM], "h|");
	assert_in_range(now, 1, MANY - 2);
	restart_both(x);
	MSG_SET_LIST(&fetch, fetch, queues, &q, 1);
	snprintf(id, sizeof(id), "job_%02d", MANY_OTHER);
	while (fx_job(x, id)->state != JOB_ACTIVE) {
		fx_begin(x);
		fx_add(x, OP_FETCH, 0, &fetch);
		fx_commit(x);
		assert_true(fx_count_keys(&x->side[FX_MEM], "h|") > now ||
			    fx_job(x, id)->state == JOB_ACTIVE);
		now = fx_count_keys(&x->side[FX_MEM], "h|");
	}
	fx_timeline(x, id, "enqueued started");
	for (int i = 0; i < MANY_OTHER; i++) {
		snprintf(id, sizeof(id), "job_%02d", i);
		fx_timeline(x, id, "enqueued held");
		assert_int_equal(fx_job(x, id)->held->at, POINT_ENQUEUE);
	}
	/* what was approved counts there as anywhere */
	fx_job_op(x, OP_APPROVE, id, "pending");
	restart_both(x);
	fx_expect(x, "q", id);
	fx_timeline(x, id, "enqueued held approved started");
}

static void test_there_are_so_many_at_most(void **state)
{
	struct fx *x = *state;
	struct m_policy m = some("p0", "fetch");
	char name[16];

	MSG_SET(&m, policy, payload_jq, STR(".a == 1"));
	for (int i = 0; i < LIMIT_POLICY_TESTS; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		MSG_SET(&m, policy, name, str_from(name));
		set(x, &m);
	}
	MSG_SET(&m, policy, name, STR("more"));
	fx_refused(x, OP_SET_POLICY, &m, ERR_VALIDATION_ERROR,
		   "payload_jq: all policies together may look at 64 places "
		   "of a payload; with this one it would be 65");
	/* one that is there may have another condition in its place */
	MSG_SET(&m, policy, name, STR("p3"));
	MSG_SET(&m, policy, payload_jq, STR(".b == 1"));
	set(x, &m);
	MSG_UNSET(&m, policy, payload_jq);
	m.payload_jq = STR_NULL;
	for (int i = LIMIT_POLICY_TESTS; i < LIMIT_POLICIES; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		MSG_SET(&m, policy, name, str_from(name));
		set(x, &m);
	}
	MSG_SET(&m, policy, name, STR("more"));
	fx_refused(x, OP_SET_POLICY, &m, ERR_VALIDATION_ERROR,
		   "name: there are 100 approval policies, which is as many as "
		   "there may be; delete some");
	restart_both(x);
}

static void test_an_id_is_no_name(void **state)
{
	struct fx *x = *state;
	struct m_policy m = some("one", "fetch"), made;

	assert_int_equal(fx_do(x, OP_SET_POLICY, &m, &made), 0);
	MSG_SET(&m, policy, name, keep(made.id));
	fx_refused(x, OP_SET_POLICY, &m, ERR_VALIDATION_ERROR,
		   "name: is the id of another approval policy");
}

/* --- links --- */

static struct m_approval_links links(struct fx *x, const char *id)
{
	struct m_make_links m = { 0 };
	struct m_approval_links r;

	MSG_SET(&m, make_links, job_id, str_from(id));
	MSG_SET(&m, make_links, salt, STR("salt"));
	assert_int_equal(fx_do(x, OP_MAKE_LINKS, &m, &r), 0);
	r.approve = keep(r.approve);
	r.reject = keep(r.reject);
	return r;
}

static int decide(struct fx *x, struct str token)
{
	struct m_decide m = { 0 };

	MSG_SET(&m, decide, token, token);
	return fx_do(x, OP_DECIDE, &m, NULL);
}

static void test_links(void **state)
{
	struct fx *x = *state;
	struct m_approval_links a, b;
	struct m_link_view view = { 0 };
	struct str why;

	fx_make(x, "job_1", JOB_HELD);
	a = links(x, "job_1");
	b = links(x, "job_1");
	assert_true(str_eq(a.approve, b.approve)); /* it is asked the same */
	assert_false(str_eq(a.approve, a.reject));
	restart_both(x);
	assert_int_equal(fsm_link(x->side[FX_MEM].f, a.reject, x->now_ns,
				  &x->arena, &view, &why),
			 0);
	assert_int_equal(view.decision, VERDICT_REJECTED);
	assert_int_equal(decide(x, STR("nothing")), ERR_LINK_ERROR);
	assert_int_equal(decide(x, a.approve), 0);
	fx_expect_state(x, "job_1", JOB_PENDING);
	assert_int_equal(decide(x, a.approve), ERR_LINK_OVER);
	assert_int_equal(decide(x, a.reject), ERR_LINK_OVER);
	assert_int_equal(fsm_link(x->side[FX_MEM].f, a.reject, x->now_ns,
				  &x->arena, &view, &why),
			 -ERR_LINK_OVER);
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	assert_int_equal(decide(x, b.reject), ERR_LINK_OVER);
}

/* Each byte of it counts. */
static void test_a_link_that_was_changed(void **state)
{
	struct fx *x = *state;
	struct str token;
	char *text;

	fx_make(x, "job_1", JOB_HELD);
	token = links(x, "job_1").approve;
	text = strndup(token.p, token.n);
	for (size_t i = 0; i < token.n; i++) {
		char was = text[i];
		/* the last letter of a part may have bits that mean nothing */
		bool last = i + 1 == token.n || text[i + 1] == '.';

		if (last)
			continue;
		text[i] = was == 'A' ? 'B' : 'A';
		assert_int_equal(decide(x, str_of(text, token.n)),
				 ERR_LINK_ERROR);
		text[i] = was;
	}
	fx_expect_state(x, "job_1", JOB_HELD);
	assert_int_equal(decide(x, str_of(text, token.n)), 0);
	free(text);
}

/* --- nodes that know nothing of it --- */

static void test_at_the_first_level(void **state)
{
	struct fx *x = *state;
	const struct m_job *j;

	fx_make(x, "job_1", JOB_HELD);
	assert_false(MSG_HAS(fx_job(x, "job_1"), job, held));
	fx_raise_level(x);
	/* it can be decided about by a link all the same */
	assert_int_equal(decide(x, links(x, "job_1").reject), 0);
	j = fx_job(x, "job_1");
	assert_int_equal(j->state, JOB_DEAD);
	assert_int_equal(j->decision->via, DECIDED_VIA_LINK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_start_forgets_nothing),
		TEST(test_tags_that_are_looked_at_are_weighed),
		TEST(test_deadlines_in_portions),
		TEST(test_other_ways_out_of_a_hold),
		TEST(test_of_jobs_that_wait),
		TEST(test_a_provider_that_fails),
		TEST(test_what_is_looked_at_is_weighed),
		TEST(test_a_fetch_holds_in_portions),
		TEST(test_a_large_request_is_looked_at_in_parts),
		TEST(test_there_are_so_many_at_most),
		TEST(test_an_id_is_no_name),
		TEST(test_links),
		TEST(test_a_link_that_was_changed),
		cmocka_unit_test_setup_teardown(test_at_the_first_level,
						fx_setup, fx_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
