/*
 * Bulk operations: each action from each state, in one entry and step by step;
 * pause, resume, cancel, rate, what is kept and for how long.
 */
#include "bulk_world.h"

#define IN(state) (1u << (JOB_##state))

static const enum job_state states[] = {
	JOB_PENDING, JOB_ACTIVE,    JOB_COMPLETED, JOB_RETRYING,
	JOB_DEAD,    JOB_CANCELLED, JOB_SCHEDULED, JOB_HELD,
};

/* States each action serves. */
static const unsigned served[] = {
	[BULK_RETRY] = IN(COMPLETED) | IN(DEAD) | IN(CANCELLED) | IN(SCHEDULED),
	[BULK_DELETE] = ~0u,
	[BULK_CANCEL] = IN(PENDING) | IN(ACTIVE) | IN(RETRYING) | IN(SCHEDULED),
	[BULK_MOVE] = ~0u,
	[BULK_REQUEUE] = IN(DEAD),
	[BULK_CHANGE_PRIORITY] =
	    IN(PENDING) | IN(RETRYING) | IN(SCHEDULED) | IN(HELD),
	[BULK_HOLD] = IN(PENDING) | IN(ACTIVE) | IN(RETRYING) | IN(SCHEDULED),
	[BULK_APPROVE] = IN(HELD),
	[BULK_REJECT] = IN(HELD),
};

/* --- short forms --- */

static struct m_bulk_act act_of(enum bulk_action a, struct str *ids, size_t n)
{
	struct m_bulk_act m = { 0 };

	MSG_SET(&m, bulk_act, action, a);
	MSG_SET_LIST(&m, bulk_act, job_ids, ids, n);
	if (a == BULK_MOVE)
		MSG_SET(&m, bulk_act, move_to_queue, STR("r"));
	if (a == BULK_CHANGE_PRIORITY)
		MSG_SET(&m, bulk_act, priority, PRIORITY_HIGH);
	return m;
}

static void expect_act(struct fx *x, const struct m_bulk_act *m,
		       uint64_t affected, uint64_t skipped)
{
	struct m_bulk_result r;

	assert_int_equal(fx_do(x, OP_BULK_ACT, m, &r), 0);
	assert_int_equal(r.affected, affected);
	assert_int_equal(r.skipped, skipped);
	assert_int_equal(r.total, affected + skipped);
}

/* --- in one entry --- */

struct one_case {
	struct m_bulk_act op; /* on job_1 */
	enum job_state state; /* which is in this one */
	bool serves;
};

typedef void case_fn(struct fx *x, const struct one_case *c);

/* Each action from each state. */
static void each_case(struct fx *x, case_fn *fn)
{
	struct str id = STR("job_1");

	for (size_t a = 0; a < ARRAY_SIZE(served); a++) {
		for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
			struct one_case c = {
				.op = act_of(a, &id, 1),
				.state = states[i],
				.serves = (served[a] & 1u << states[i]) != 0,
			};

			fx_make(x, "job_1", c.state);
			fn(x, &c);
			if (fx_job_exists(x, "job_1"))
				fx_job_op(x, OP_DELETE, "job_1", "deleted");
		}
	}
}

static void acts(struct fx *x, const struct one_case *c)
{
	expect_act(x, &c->op, c->serves, !c->serves);
	expect_act(x, &c->op, 0, 1); /* it is so already */
}

static void test_each_action_serves_its_states_and_skips_the_others(void **s)
{
	each_case(*s, acts);
}

static void only_judges(struct fx *x, const struct one_case *c)
{
	uint64_t seq = fsm_last_seq(x->side[FX_MEM].f);
	struct m_bulk_act op = c->op;

	MSG_SET(&op, bulk_act, dry_run, true);
	expect_act(x, &op, c->serves, !c->serves);
	assert_int_equal(fsm_last_seq(x->side[FX_MEM].f), seq);
	fx_expect_state(x, "job_1", c->state);
}

static void test_a_dry_run_judges_the_same_and_changes_nothing(void **s)
{
	each_case(*s, only_judges);
}

static void test_unknown_and_repeated_ids_are_skipped(void **s)
{
	struct str ids[] = { STR("job_1"), STR("none"), STR(""), STR("job_1") };
	struct m_bulk_act m = act_of(BULK_RETRY, ids, ARRAY_SIZE(ids));
	struct fx *x = *s;

	fx_make(x, "job_1", JOB_DEAD);
	expect_act(x, &m, 1, 3);
	fx_timeline(x, "job_1", "enqueued started failed dead retried");
}

static void enqueue_unique(struct fx *x, const char *id)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, unique_key, STR("k"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static void test_a_job_whose_unique_key_another_holds_is_skipped(void **s)
{
	struct str ids[] = { STR("old"), STR("new") };
	struct m_bulk_act m = act_of(BULK_RETRY, ids, 1);
	struct fx *x = *s;

	enqueue_unique(x, "old");
	fx_job_op(x, OP_CANCEL, "old", "cancelled");
	enqueue_unique(x, "new");
	expect_act(x, &m, 0, 1);
	MSG_SET(&m, bulk_act, dry_run, true);
	expect_act(x, &m, 0, 1);
	fx_expect_state(x, "old", JOB_CANCELLED);
	fx_job_op(x, OP_CANCEL, "new", "cancelled");
	m = act_of(BULK_RETRY, ids, 2); /* one of them can have it */
	expect_act(x, &m, 1, 1);
	fx_expect_state(x, "old", JOB_PENDING);
}

static void test_a_resend_is_answered_as_the_first_time(void **s)
{
	struct str ids[] = { STR("job_1"), STR("job_2") };
	struct m_bulk_act m = act_of(BULK_RETRY, ids, 2);
	struct m_bulk_result r;
	struct fx *x = *s;

	fx_make(x, "job_1", JOB_DEAD);
	fx_make(x, "job_2", JOB_PENDING);
	expect_act(x, &m, 1, 1);
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fx_resend(x, OP_BULK_ACT, &m, &r), 0);
	assert_int_equal(r.affected, 1);
	assert_int_equal(r.skipped, 1);
	assert_int_equal(r.total, 2);
}

/* Its entries name no caller; the request has a name instead. */
static void test_a_resend_of_0_4_0_is_answered_as_the_first_time(void **s)
{
	struct str id = STR("job_1");
	struct m_bulk_act m = act_of(BULK_RETRY, &id, 1);
	struct fx *x = *s;
	struct m_bulk_result r;

	fx_make(x, "job_1", JOB_DEAD);
	MSG_SET(&m, bulk_act, request_id, STR("req_1"));
	assert_int_equal(fx_do_old(x, OP_BULK_ACT, 0, &m), 0);
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fx_do_old(x, OP_BULK_ACT, FRAME_RESEND, &m), 0);
	assert_int_equal(
	    msg_decode(&msg_bulk_result, x->replies[0].body, &x->arena, &r), 0);
	assert_int_equal(r.affected, 1);
}

static void test_what_an_action_needs_is_asked_for(void **s)
{
	struct str id = STR("job_1");
	struct m_bulk_act m = act_of(BULK_MOVE, &id, 1);
	struct m_bulk_create c = create_of(BULK_DELETE);
	struct fx *x = *s;

	fx_make(x, "job_1", JOB_PENDING);
	MSG_UNSET(&m, bulk_act, move_to_queue);
	fx_refused(x, OP_BULK_ACT, &m, ERR_BULK_ERROR,
		   "move_to_queue: must have 1 to 255 bytes");
	MSG_SET(&c, bulk_create, canary, 1);
	fx_refused(x, OP_BULK_CREATE, &c, ERR_BULK_ERROR,
		   "canary: is for retry and requeue, whose jobs can fail "
		   "again");
}

/* --- in the background --- */

static void test_steps_go_through_all_pages_with_exact_counts(void **s)
{
	struct m_bulk_create c = create_of(BULK_RETRY);
	struct fx *x = *s;
	struct str *ids = make_dead(x, 30);
	struct m_bulk_add first = add_of(0, ids, 10, false);
	struct m_bulk_add last = add_of(1, ids + 10, 20, true);

	fx_job_op(x, OP_DELETE, "job_003", "deleted");
	assert_int_equal(fx_do(x, OP_BULK_CREATE, &c, NULL), 0);
	assert_int_equal(fx_do(x, OP_BULK_CREATE, &c, NULL), 0); /* again */
	assert_int_equal(fx_do(x, OP_BULK_ADD, &first, NULL), 0);
	assert_int_equal(fx_resend(x, OP_BULK_ADD, &first, NULL), 0);
	assert_int_equal(due(x), 0);
	expect_bulk(x, BULK_COLLECTING, 0, 0);
	assert_int_equal(fx_do(x, OP_BULK_ADD, &last, NULL), 0);
	assert_int_equal(fx_resend(x, OP_BULK_ADD, &last, NULL), 0);
	assert_int_equal(bulk_now(x).total, 30);
	assert_true(due(x) != 0);
	step(x, 7);
	expect_bulk(x, BULK_RUNNING, 6, 1);
	step_from(x, 0, 7); /* sent twice: changes nothing */
	expect_bulk(x, BULK_RUNNING, 6, 1);
	restart(x);
	while (bulk_now(x).status == BULK_RUNNING)
		step(x, 7);
	expect_bulk(x, BULK_COMPLETED, 29, 1);
	assert_int_equal(due(x), 0);
	for (size_t i = 0; i < 30; i++)
		if (i != 3)
			fx_expect_state(x, ids[i].p, JOB_PENDING);
	free_ids(ids, 30);
}

static void test_a_page_must_follow_the_one_before(void **s)
{
	struct m_bulk_create c = create_of(BULK_RETRY);
	struct str id = STR("job_1");
	struct m_bulk_add add = add_of(1, &id, 1, true);
	struct fx *x = *s;

	assert_int_equal(fx_do(x, OP_BULK_CREATE, &c, NULL), 0);
	fx_refused(x, OP_BULK_ADD, &add, ERR_BULK_ERROR,
		   "page: 0 must come before 1");
}

static void test_an_operation_without_jobs_completes_at_once(void **s)
{
	struct m_bulk_create c = create_of(BULK_RETRY);
	struct fx *x = *s;

	begin(x, &c, NULL, 0);
	expect_bulk(x, BULK_COMPLETED, 0, 0);
}

static void test_pause_stops_it_and_resume_lets_it_go_on(void **s)
{
	struct m_bulk_create c = create_of(BULK_DELETE);
	struct fx *x = *s;
	struct str *ids = make_dead(x, 6);

	begin(x, &c, ids, 6);
	step(x, 2);
	control(x, BULK_PAUSED);
	control(x, BULK_PAUSED);
	assert_int_equal(due(x), 0);
	restart(x);
	step(x, 2);
	expect_bulk(x, BULK_PAUSED, 2, 0);
	control(x, BULK_RUNNING);
	control(x, BULK_RUNNING);
	step(x, 10);
	expect_bulk(x, BULK_COMPLETED, 6, 0);
	free_ids(ids, 6);
}

static void test_cancel_ends_it_where_it_is(void **s)
{
	struct m_bulk_control cancel = control_of(BULK_CANCELLED);
	struct m_bulk_control pause = control_of(BULK_PAUSED);
	struct m_bulk_control resume = control_of(BULK_RUNNING);
	struct m_bulk_create c = create_of(BULK_DELETE);
	struct fx *x = *s;
	struct str *ids = make_dead(x, 6);

	begin(x, &c, ids, 6);
	step(x, 2);
	control(x, BULK_CANCELLED);
	step(x, 2);
	expect_bulk(x, BULK_CANCELLED, 2, 0);
	assert_int_equal(due(x), 0);
	assert_false(fx_job_exists(x, "job_001"));
	assert_true(fx_job_exists(x, "job_002"));
	assert_int_equal(fx_resend(x, OP_BULK_CONTROL, &cancel, NULL), 0);
	fx_refused(x, OP_BULK_CONTROL, &cancel, ERR_BULK_ERROR,
		   "bulk operation \"bulk_1\" cannot be cancelled: it is "
		   "cancelled");
	fx_refused(x, OP_BULK_CONTROL, &pause, ERR_BULK_ERROR,
		   "bulk operation \"bulk_1\" cannot be paused: it is "
		   "cancelled");
	fx_refused(x, OP_BULK_CONTROL, &resume, ERR_BULK_ERROR,
		   "bulk operation \"bulk_1\" cannot be resumed: it is "
		   "cancelled");
	MSG_SET(&cancel, bulk_control, bulk_id, STR("none"));
	fx_refused(x, OP_BULK_CONTROL, &cancel, ERR_NOT_FOUND,
		   "bulk operation \"none\" not found");
	free_ids(ids, 6);
}

static void test_a_large_cancelled_operation_frees_its_ids_in_steps(void **s)
{
	struct m_bulk_create c = create_of(BULK_DELETE);
	struct fx *x = *s;
	struct str *ids = make_dead(x, 1);
	uint32_t page = 0;

	/* numbers of 20 parts go with each page, and 1000 are freed at once */
	assert_int_equal(fx_do(x, OP_BULK_CREATE, &c, NULL), 0);
	for (; page < 101; page++) {
		struct m_bulk_add add = add_of(page, ids, 1, page == 100);

		assert_int_equal(fx_do(x, OP_BULK_ADD, &add, NULL), 0);
	}
	control(x, BULK_CANCELLED);
	assert_true(due(x) != 0);
	restart(x);
	step(x, 1);
	assert_true(due(x) != 0);
	step(x, 1);
	assert_int_equal(due(x), 0);
	expect_bulk(x, BULK_CANCELLED, 0, 0);
	free_ids(ids, 1);
}

static void test_the_rate_says_when_the_next_step_may_come(void **s)
{
	struct m_bulk_create c = create_of(BULK_DELETE);
	struct fx *x = *s;
	struct str *ids = make_dead(x, 10);

	MSG_SET(&c, bulk_create, rate, 10);
	begin(x, &c, ids, 10);
	step(x, 5);
	assert_int_equal(due(x), x->now_ns + NS_PER_S / 2);
	step(x, 5);
	expect_bulk(x, BULK_RUNNING, 5, 0); /* too early */
	x->now_ns += NS_PER_S / 2;
	step(x, 5);
	expect_bulk(x, BULK_COMPLETED, 10, 0);
	free_ids(ids, 10);
}

/* --- what is kept --- */

static bool exists(struct fx *x)
{
	struct m_bulk m;

	return fsm_bulk(x->side[FX_ROCKS].f, STR(ID), &x->arena, &m) > 0;
}

static void test_an_ended_operation_is_kept_for_a_day(void **s)
{
	struct m_bulk_create c = create_of(BULK_DELETE);
	struct fx *x = *s;

	begin(x, &c, NULL, 0);
	x->now_ns += LIMIT_BULK_KEEP_S * NS_PER_S - 1;
	assert_int_equal(fx_maintain(x, OP_PURGE, 10, NULL), 0);
	assert_true(exists(x));
	x->now_ns += 1;
	assert_true(fsm_purge_due(x->side[FX_ROCKS].f, 0, 0) != 0);
	assert_int_equal(fx_maintain(x, OP_PURGE, 10, NULL), 1);
	assert_false(exists(x));
	assert_int_equal(fsm_purge_due(x->side[FX_ROCKS].f, 0, 0), 0);
}

static void test_one_that_was_never_started_is_given_up_after_an_hour(void **s)
{
	struct m_bulk_create c = create_of(BULK_DELETE);
	struct fx *x = *s;
	struct str *ids = make_dead(x, 2);
	struct m_bulk_add add = add_of(0, ids, 2, false);

	assert_int_equal(fx_do(x, OP_BULK_CREATE, &c, NULL), 0);
	assert_int_equal(fx_do(x, OP_BULK_ADD, &add, NULL), 0);
	x->now_ns += LIMIT_BULK_COLLECT_S * NS_PER_S;
	restart(x);
	assert_int_equal(fx_maintain(x, OP_PURGE, 10, NULL), 1);
	expect_bulk(x, BULK_FAILED, 0, 0);
	assert_str_is(bulk_now(x).error, "its jobs were not named completely");
	assert_true(fx_job_exists(x, "job_000"));
	free_ids(ids, 2);
}

static void create_numbered(struct fx *x, unsigned i, int err)
{
	struct m_bulk_create c = create_of(BULK_DELETE);
	char id[32];

	(void)snprintf(id, sizeof(id), "bulk_%u", i);
	MSG_SET(&c, bulk_create, bulk_id, str_from(id));
	assert_int_equal(fx_do(x, OP_BULK_CREATE, &c, NULL), err);
}

static void test_the_oldest_ended_one_makes_room_for_a_new_one(void **s)
{
	struct m_bulk_create c = create_of(BULK_DELETE);
	struct fx *x = *s;

	x->unchecked = true; /* a thousand times would take long */
	begin(x, &c, NULL, 0);
	for (unsigned i = 2; i <= LIMIT_BULKS; i++)
		create_numbered(x, i, 0);
	assert_true(exists(x));
	create_numbered(x, LIMIT_BULKS + 1, 0);
	assert_false(exists(x));
	create_numbered(x, LIMIT_BULKS + 2, ERR_BULK_ERROR);
	x->unchecked = false;
	fx_maintain(x, OP_PURGE, 1, NULL); /* an entry that is checked */
}

#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_each_action_serves_its_states_and_skips_the_others),
		T(test_a_dry_run_judges_the_same_and_changes_nothing),
		T(test_unknown_and_repeated_ids_are_skipped),
		T(test_a_job_whose_unique_key_another_holds_is_skipped),
		T(test_a_resend_is_answered_as_the_first_time),
		T(test_a_resend_of_0_4_0_is_answered_as_the_first_time),
		T(test_what_an_action_needs_is_asked_for),
		T(test_steps_go_through_all_pages_with_exact_counts),
		T(test_a_page_must_follow_the_one_before),
		T(test_an_operation_without_jobs_completes_at_once),
		T(test_pause_stops_it_and_resume_lets_it_go_on),
		T(test_cancel_ends_it_where_it_is),
		T(test_a_large_cancelled_operation_frees_its_ids_in_steps),
		T(test_the_rate_says_when_the_next_step_may_come),
		T(test_an_ended_operation_is_kept_for_a_day),
		T(test_one_that_was_never_started_is_given_up_after_an_hour),
		T(test_the_oldest_ended_one_makes_room_for_a_new_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
