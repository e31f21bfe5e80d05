/*
 * Schedules in the state machine: what is kept, what a fire does and what it
 * may not do twice. Times come with the operations, so any number will do.
 */
#include "schedule_world.h"
#include "store/record.h"

static void expect_fire_ns(struct fx *x, uint64_t ns)
{
	for (int i = 0; i < FX_SIDES; i++) {
		struct m_due_reply r = { 0 };

		fsm_due(x->side[i].f, &r);
		assert_int_equal(r.fire_ns, ns);
	}
}

/* --- definitions --- */

static void test_create_and_change(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "daily report"), s;

	expect_fire_ns(x, 0);
	create(x, &m);
	expect_fire_ns(x, FX_START_NS + STEP);
	last_events(x, 1, "schedule_set");
	s = get(x, "daily report");
	assert_str_is(s.id, "sch_1");
	assert_int_equal(s.created_at, FX_START_NS);
	assert_false(s.create);
	fx_restart(x, FX_ROCKS);
	fire(x, "sch_1", "job_1");
	/* the definition is replaced, what happened is kept */
	x->now_ns += 5;
	MSG_UNSET(&m, schedule, create);
	MSG_SET(&m, schedule, id, STR("daily report"));
	MSG_SET(&m, schedule, name, STR("nightly"));
	MSG_SET(&m, schedule, cron, STR("@daily"));
	MSG_SET(&m, schedule, next_run, x->now_ns + 7);
	create(x, &m);
	s = get(x, "nightly");
	assert_str_is(s.id, "sch_1");
	assert_str_is(s.cron, "@daily");
	assert_int_equal(s.runs, 1);
	assert_str_is(s.last_job_id, "job_1");
	assert_int_equal(s.created_at, FX_START_NS);
	assert_int_equal(s.updated_at, x->now_ns);
	expect_fire_ns(x, x->now_ns + 7);
	assert_int_equal(
	    fsm_schedule(x->side[0].f, STR("daily report"), &x->arena, &s), 0);
}

static void test_names_are_unique(void **state)
{
	struct fx *x = *state;
	struct m_schedule a = definition("sch_a", "a");
	struct m_schedule b = definition("sch_b", "b");
	struct m_schedule again = definition("sch_c", "a");

	create(x, &a);
	create(x, &b);
	fx_refused(x, OP_SET_SCHEDULE, &again, ERR_CONFLICT,
		   "a schedule named \"a\" exists already");
	MSG_UNSET(&b, schedule, create);
	MSG_SET(&b, schedule, name, STR("a"));
	fx_refused(x, OP_SET_SCHEDULE, &b, ERR_CONFLICT,
		   "a schedule named \"a\" exists already");
	/* not even that of its id */
	MSG_SET(&b, schedule, name, STR("sch_a"));
	fx_refused(x, OP_SET_SCHEDULE, &b, ERR_CONFLICT,
		   "a schedule named \"sch_a\" exists already");
	MSG_SET(&b, schedule, id, STR("sch_x"));
	fx_refused(x, OP_SET_SCHEDULE, &b, ERR_NOT_FOUND,
		   "schedule \"sch_x\" not found");
}

static void test_create_sent_again(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a"), r;

	create(x, &m);
	assert_int_equal(fx_resend(x, OP_SET_SCHEDULE, &m, &r), 0);
	assert_str_is(r.id, "sch_1");
	assert_int_equal(r.version, 1);
}

static void test_delete(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");
	struct m_schedule_ref ref = { 0 };
	struct m_fire f;

	create(x, &m);
	f = plan(x, "a", "job_1");
	MSG_SET(&ref, schedule_ref, id, STR("a"));
	assert_int_equal(fx_do(x, OP_DELETE_SCHEDULE, &ref, NULL), 0);
	last_events(x, 1, "schedule_deleted");
	expect_fire_ns(x, 0);
	assert_int_equal(fx_resend(x, OP_DELETE_SCHEDULE, &ref, NULL), 0);
	fx_refused(x, OP_DELETE_SCHEDULE, &ref, ERR_NOT_FOUND,
		   "schedule \"a\" not found");
	expect_fire(x, &f, "void", "");
	create(x, &m); /* the name is free again */
}

static struct m_schedule set_paused(struct fx *x, bool paused, uint64_t next)
{
	struct m_pause_schedule m = { 0 };
	struct m_schedule r;

	MSG_SET(&m, pause_schedule, id, STR("a"));
	MSG_SET(&m, pause_schedule, paused, paused);
	MSG_SET(&m, pause_schedule, version, get(x, "a").version);
	MSG_SET(&m, pause_schedule, next_ns, next);
	assert_int_equal(fx_do(x, OP_PAUSE_SCHEDULE, &m, &r), 0);
	assert_int_equal(r.paused, paused);
	return r;
}

static void test_pause_and_resume(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a"), s;
	struct m_pause_schedule p = { 0 };
	struct m_fire f;

	create(x, &m);
	f = plan(x, "a", "job_1");
	set_paused(x, true, 0);
	last_events(x, 1, "schedule_paused");
	expect_fire_ns(x, 0);
	fx_restart(x, FX_ROCKS);
	expect_fire_ns(x, 0);
	expect_fire(x, &f, "void", ""); /* planned before the pause */
	s = set_paused(x, true, 0);     /* already */
	/* a plan for another state of it */
	MSG_SET(&p, pause_schedule, id, STR("a"));
	MSG_SET(&p, pause_schedule, version, s.version - 1);
	fx_refused(x, OP_PAUSE_SCHEDULE, &p, ERR_CONFLICT,
		   "the schedule was changed meanwhile; try again");
	set_paused(x, false, FX_START_NS + 9);
	last_events(x, 1, "schedule_resumed");
	expect_fire_ns(x, FX_START_NS + 9);
	/* a change leaves it paused, unless it says otherwise */
	set_paused(x, true, 0);
	MSG_UNSET(&m, schedule, create);
	create(x, &m);
	assert_true(get(x, "a").paused);
	MSG_SET(&m, schedule, paused, false);
	create(x, &m);
	expect_fire_ns(x, FX_START_NS + STEP);
}

/* --- firing --- */

static void test_fire_creates_the_job_and_advances(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");
	struct m_schedule_job job = { 0 };
	const struct m_job *j;
	struct m_fire f;

	MSG_SET(&job, schedule_job, payload, STR("{\"n\":1}"));
	MSG_SET(&job, schedule_job, priority, PRIORITY_HIGH);
	MSG_SET(&job, schedule_job, tags, STR("{\"t\":\"a\"}"));
	MSG_SET(&job, schedule_job, max_retries, 9);
	MSG_SET(&job, schedule_job, expire_after, 3600 * NS_PER_S);
	MSG_SET(&job, schedule_job, group, STR("g"));
	MSG_SET(&m, schedule, job, &job);
	create(x, &m);
	f = plan(x, "a", "job_1");
	x->now_ns = FX_START_NS + STEP + 3;
	expect_fire(x, &f, "created", "");
	expect_fire_ns(x, FX_START_NS + 2 * STEP);
	j = fx_job(x, "job_1");
	assert_int_equal(j->state, JOB_PENDING);
	assert_str_is(j->payload, "{\"n\":1}");
	assert_str_is(j->tags, "{\"t\":\"a\"}");
	assert_str_is(j->group, "g");
	assert_int_equal(j->priority, PRIORITY_HIGH);
	assert_int_equal(j->max_retries, 9);
	assert_str_is(j->schedule_id, "sch_1");
	assert_int_equal(j->scheduled_for, FX_START_NS + STEP);
	assert_int_equal(j->expire_at, x->now_ns + 3600 * NS_PER_S);
	assert_int_equal(get(x, "a").last_run, x->now_ns);
	assert_str_is(last_events(x, 1, "schedule_fired"),
		      "{\"schedule_id\":\"sch_1\",\"name\":\"a\",\"job_id\":"
		      "\"job_1\",\"scheduled_for\":\"2023-11-14T22:14:20Z\"}");
	/* whatever was planned for that time is void */
	MSG_SET(&f, fire, job_id, STR("job_2"));
	expect_fire(x, &f, "void", "");
	fx_restart(x, FX_ROCKS);
	expect_fire(x, &f, "void", "");
	assert_false(fx_job_exists(x, "job_2"));
	assert_int_equal(get(x, "a").runs, 1);
}

static void test_fire_planned_for_another_version_is_void(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");
	struct m_fire f;

	create(x, &m);
	f = plan(x, "a", "job_1");
	MSG_UNSET(&m, schedule, create);
	create(x, &m); /* the same time, another definition */
	expect_fire(x, &f, "void", "");
	assert_false(fx_job_exists(x, "job_1"));
}

static void test_times_of_one_entry_in_order(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");
	struct m_fire f;

	create(x, &m);
	f = plan(x, "a", "job_1");
	x->now_ns += 10 * STEP;
	fx_begin(x);
	fx_add(x, OP_FIRE, 0, &f);
	MSG_SET(&f, fire, due_ns, f.next_ns);
	MSG_SET(&f, fire, next_ns, f.next_ns + STEP);
	MSG_SET(&f, fire, job_id, STR("job_2"));
	fx_add(x, OP_FIRE, 0, &f);
	fx_commit(x);
	assert_int_equal(get(x, "a").runs, 2);
	assert_int_equal(fx_job(x, "job_2")->scheduled_for,
			 FX_START_NS + 2 * STEP);
	expect_fire_ns(x, FX_START_NS + 3 * STEP);
}

static void test_missed_times_are_skipped_and_counted(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");
	struct m_fire f;

	create(x, &m);
	f = plan(x, "a", "job_1");
	MSG_SET(&f, fire, skip, true);
	MSG_SET(&f, fire, missed, 4);
	expect_fire(x, &f, "skipped", "missed");
	assert_str_is(last_events(x, 1, "schedule_skipped"),
		      "{\"schedule_id\":\"sch_1\",\"name\":\"a\","
		      "\"scheduled_for\":\"2023-11-14T22:14:20Z\","
		      "\"reason\":\"missed\",\"missed\":4}");
	assert_false(fx_job_exists(x, "job_1"));
	/* some are left out and the last is made up for */
	f = plan(x, "a", "job_1");
	MSG_SET(&f, fire, missed, 2);
	MSG_SET(&f, fire, at_ns, f.due_ns + 2 * STEP);
	MSG_SET(&f, fire, next_ns, f.due_ns + 3 * STEP);
	expect_fire(x, &f, "created", "");
	last_events(x, 4,
		    "schedule_skipped queue_created enqueued schedule_fired");
	assert_int_equal(fx_job(x, "job_1")->scheduled_for,
			 FX_START_NS + 4 * STEP);
	assert_int_equal(get(x, "a").runs, 1);
}

/* --- ends --- */

static void test_max_runs_ends_it(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");

	MSG_SET(&m, schedule, max_runs, 2);
	create(x, &m);
	fire(x, "a", "job_1");
	assert_false(get(x, "a").ended);
	fire(x, "a", "job_2");
	last_events(x, 1, "schedule_ended");
	assert_true(get(x, "a").ended);
	expect_fire_ns(x, 0);
	/* with more runs it goes on */
	MSG_UNSET(&m, schedule, create);
	MSG_SET(&m, schedule, max_runs, 3);
	MSG_SET(&m, schedule, next_run, x->now_ns + STEP);
	create(x, &m);
	assert_false(get(x, "a").ended);
	fire(x, "a", "job_3");
	assert_true(get(x, "a").ended);
}

static void test_no_next_time_ends_it(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");
	struct m_fire f;

	create(x, &m);
	f = plan(x, "a", "job_1");
	MSG_SET(&f, fire, next_ns, 0);
	expect_fire(x, &f, "created", "");
	last_events(x, 2, "schedule_fired schedule_ended");
	assert_true(get(x, "a").ended);
	expect_fire_ns(x, 0);
}

/* --- by hand --- */

static void test_run_now(void **state)
{
	struct fx *x = *state;
	struct m_schedule m = definition("sch_1", "a");
	struct m_fire f = { 0 };
	struct m_fire_reply r;

	MSG_SET(&m, schedule, max_runs, 2);
	create(x, &m);
	MSG_SET(&f, fire, id, STR("a"));
	MSG_SET(&f, fire, job_id, STR("job_1"));
	x->now_ns += 5;
	assert_int_equal(fx_do(x, OP_RUN_SCHEDULE, &f, &r), 0);
	assert_str_is(r.status, "created");
	assert_str_is(r.job_id, "job_1");
	assert_int_equal(fx_job(x, "job_1")->scheduled_for, x->now_ns);
	/* beside its times */
	expect_fire_ns(x, FX_START_NS + STEP);
	assert_int_equal(get(x, "a").last_run, x->now_ns);
	/* sent again it is the same job */
	assert_int_equal(fx_resend(x, OP_RUN_SCHEDULE, &f, &r), 0);
	assert_str_is(r.job_id, "job_1");
	assert_int_equal(get(x, "a").runs, 1);
	/* it counts, and works when paused or ended too */
	MSG_SET(&f, fire, job_id, STR("job_2"));
	assert_int_equal(fx_do(x, OP_RUN_SCHEDULE, &f, &r), 0);
	assert_true(get(x, "a").ended);
	MSG_SET(&f, fire, job_id, STR("job_3"));
	assert_int_equal(fx_do(x, OP_RUN_SCHEDULE, &f, &r), 0);
	assert_int_equal(get(x, "a").runs, 3);
	MSG_SET(&f, fire, id, STR("b"));
	fx_refused(x, OP_RUN_SCHEDULE, &f, ERR_NOT_FOUND,
		   "schedule \"b\" not found");
}

/* --- several --- */

static void test_due_in_order(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	static const uint64_t at[] = { 30, 10, 20, 40 };
	struct fx *x = *state;
	struct str ids[FSM_DUE_SCHEDULES];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct m_schedule m = definition(names[i], names[i]);
		char id[8];

		(void)snprintf(id, sizeof(id), "sch_%s", names[i]);
		MSG_SET(&m, schedule, id, str_from(id));
		MSG_SET(&m, schedule, next_run, FX_START_NS + at[i]);
		create(x, &m);
	}
	fx_restart(x, FX_ROCKS);
	for (int i = 0; i < FX_SIDES; i++) {
		struct fsm *f = x->side[i].f;

		assert_int_equal(fsm_due_schedules(f, FX_START_NS + 9, ids, 10),
				 0);
		assert_int_equal(
		    fsm_due_schedules(f, FX_START_NS + 30, ids, 10), 3);
		assert_str_is(ids[0], "sch_b");
		assert_str_is(ids[1], "sch_c");
		assert_str_is(ids[2], "sch_a");
		assert_int_equal(fsm_due_schedules(f, FX_START_NS + 30, ids, 2),
				 2);
		expect_fire_ns(x, FX_START_NS + 10);
	}
}

static struct m_schedule_list page_of(struct fx *x, enum fx_side_id side,
				      const char *after, uint32_t limit,
				      struct arena *a)
{
	struct m_schedule_list page;

	assert_int_equal(fsm_flush(x->side[side].f), 0);
	assert_int_equal(record_schedules(x->side[side].kv, str_from(after),
					  limit, a, &page),
			 0);
	return page;
}

static void test_list_in_pages(void **state)
{
	struct arena a = ARENA_INIT;
	struct m_schedule_list page;
	struct fx *x = *state;

	for (int i = 1; i <= 3; i++) {
		char id[16], name[2] = { (char)('z' - i), '\0' };
		struct m_schedule m;

		(void)snprintf(id, sizeof(id), "sch_%d", i);
		m = definition(id, name);
		create(x, &m);
	}
	page = page_of(x, FX_MEM, "", 2, &a);
	assert_int_equal(page.schedules_n, 2);
	assert_str_is(page.schedules[0].id, "sch_1");
	assert_str_is(page.schedules[1].id, "sch_2");
	assert_str_is(page.next, "sch_2");
	page = page_of(x, FX_ROCKS, "sch_2", 0, &a);
	assert_int_equal(page.schedules_n, 1);
	assert_str_is(page.schedules[0].id, "sch_3");
	assert_false(MSG_HAS(&page, schedule_list, next));
	arena_done(&a);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_create_and_change),
		TEST(test_names_are_unique),
		TEST(test_create_sent_again),
		TEST(test_delete),
		TEST(test_pause_and_resume),
		TEST(test_fire_creates_the_job_and_advances),
		TEST(test_fire_planned_for_another_version_is_void),
		TEST(test_times_of_one_entry_in_order),
		TEST(test_missed_times_are_skipped_and_counted),
		TEST(test_max_runs_ends_it),
		TEST(test_no_next_time_ends_it),
		TEST(test_run_now),
		TEST(test_due_in_order),
		TEST(test_list_in_pages),
	};

	return cmocka_run_group_tests_name("fsm_schedule", tests, NULL, NULL);
}
