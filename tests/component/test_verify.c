/*
 * A comparison of the view with the store, step by step: the store lives on
 * while the view stands still, and the view is brought to it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "check/verify.h"
#include "lib/testlib.h"
#include "view.h"
#include "view_world.h"

#define STEPS 1000

struct fixture {
	struct rng rng;
	struct world w;
	struct view view;
	struct verify task;
	unsigned checkpoints;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	test_rng(&f->rng);
	world_init(&f->w, &f->rng);
	world_open_view(&f->w, &f->view);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	verify_end(&f->task);
	world_close_view(&f->view);
	world_done(&f->w);
	free(f);
	return 0;
}

static int align_view(struct fixture *f)
{
	struct verify_view v = {
		.mirror = f->view.mirror,
		.path = f->view.path,
		.position = f->view.position,
	};
	int r = verify_align(&f->task, &v);

	f->view.position = v.position;
	return r;
}

/* verify_align to how the world is. */
static int align_now(struct fixture *f)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	char name[32];

	(void)snprintf(name, sizeof(name), "checkpoint-%u", f->checkpoints++);
	f->task.checkpoint = xstrdup(world_path(&f->w, name));
	assert_int_equal(kv_checkpoint(f->w.kv, f->task.checkpoint, &why), 0);
	return align_view(f);
}

/* The same when it has gone on. */
static int align(struct fixture *f)
{
	for (unsigned i = 0; i < STEPS; i++)
		world_step(&f->w);
	return align_now(f);
}

static void test_nothing_differs(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 3; i++) {
		uint64_t before = f->view.position;

		assert_int_equal(align(f), 0);
		assert_true(f->view.position > before);
		assert_int_equal(f->view.position, f->task.seq);
		assert_int_equal(verify_compare(&f->task), 0);
		assert_int_equal(verify_text(&f->task, f->view.writer), 0);
		assert_int_equal(f->task.reply.differences, 0);
		assert_true(f->task.reply.rows > 0);
		verify_end(&f->task);
	}
}

/* What is written after the snapshot does not count. */
static void test_the_moment_is_kept(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(align(f), 0);
	assert_int_equal(db_exec(f->view.writer,
				 "INSERT INTO queues(name, created_at)"
				 " VALUES('nobody has it', '')"),
			 0);
	assert_int_equal(verify_compare(&f->task), 0);
	assert_int_equal(f->task.reply.differences, 0);
	verify_end(&f->task);
	assert_int_equal(align(f), 0);
	assert_int_equal(verify_compare(&f->task), 0);
	assert_int_equal(f->task.reply.differences, 1);
	assert_str_is(f->task.reply.first[0].table, "queues");
	assert_str_is(f->task.reply.first[0].key, "nobody has it");
}

/* They are counted; what the first hundred take is all there is. */
static void test_many_differences_take_no_memory(void **state)
{
	static const char foreign[] =
	    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n"
	    " WHERE i<20000) INSERT INTO %s SELECT printf('%%0200d', i), %s"
	    " FROM n";
	struct fixture *f = *state;
	char sql[400];

	assert_int_equal(align(f), 0);
	verify_end(&f->task);
	(void)snprintf(sql, sizeof(sql), foreign, "queues(name, created_at)",
		       "''");
	assert_int_equal(db_exec(f->view.writer, sql), 0);
	(void)snprintf(sql, sizeof(sql), foreign, "queue_stats(queue, pending)",
		       "1");
	assert_int_equal(db_exec(f->view.writer, sql), 0);
	assert_int_equal(align_now(f), 0);
	assert_int_equal(verify_compare(&f->task), 0);
	assert_int_equal(f->task.reply.differences, 40000);
	assert_int_equal(f->task.reply.first_n, 100);
	assert_true(arena_bytes(&f->task.arena) < 128 * 1024);
}

static void test_a_job_that_changed_is_missing(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(align(f), 0);
	verify_end(&f->task);
	assert_int_equal(db_exec(f->view.writer, "DELETE FROM jobs"), 0);
	assert_int_equal(align(f), -ERR_VIEW_UNAVAILABLE);
	assert_str_is(buf_str(&f->task.why),
		      "a job that changed is not in the view, which is made "
		      "anew; try again");
}

/* Nothing is to be written, so only the comparison meets it. */
static void test_altered_tables_are_damage(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(align(f), 0);
	verify_end(&f->task);
	assert_int_equal(
	    db_exec(f->view.writer, "ALTER TABLE jobs RENAME payload TO p"), 0);
	assert_int_equal(align_now(f), 0);
	assert_int_equal(verify_compare(&f->task), -ERR_VIEW_UNAVAILABLE);
	assert_str_is(buf_str(&f->task.why), "no such column: payload");
}

static void test_it_can_be_stopped(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(align(f), 0);
	atomic_store(&f->task.stop, true);
	assert_int_equal(verify_compare(&f->task), -ERR_SHUTTING_DOWN);
	verify_end(&f->task);
	atomic_store(&f->task.stop, true);
	assert_int_equal(align(f), -ERR_SHUTTING_DOWN);
}

static void test_without_a_checkpoint(void **state)
{
	struct fixture *f = *state;

	f->task.checkpoint = xstrdup(world_path(&f->w, "nowhere"));
	assert_true(align_view(f) < 0);
	assert_true(f->task.why.n > 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(test_nothing_differs),
		TEST(test_the_moment_is_kept),
		TEST(test_many_differences_take_no_memory),
		TEST(test_a_job_that_changed_is_missing),
		TEST(test_altered_tables_are_damage),
		TEST(test_it_can_be_stopped),
		TEST(test_without_a_checkpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
