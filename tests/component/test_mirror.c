/*
 * The mirror against the truth: a store that lives through thousands of
 * random operations, its feed written to SQLite in answers of random size,
 * and then every row compared with what the store says.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check/rebuild.h"
#include "db/schema.h"
#include "lib/testlib.h"
#include "rt/file.h"
#include "store/key.h"
#include "store/record.h"
#include "util/hmap.h"
#include "view.h"
#include "view_rows.h"
#include "view_world.h"

#define STEPS 3000

struct fixture {
	struct db *second;
	struct mirror *mirror; /* of it */
	struct rng rng;
	struct world w;
	struct view view;
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

	world_close_view(&f->view);
	world_done(&f->w);
	free(f);
	return 0;
}

/* --- feeding --- */

/* One answer after *pos; false when there is nothing left. */
static bool feed_once(struct fixture *f, struct mirror *m, uint64_t *pos,
		      uint32_t limit, unsigned times)
{
	struct arena a = ARENA_INIT;
	struct m_tail_reply r;
	bool more;

	assert_int_equal(record_feed(f->w.kv, *pos, limit, &a, &r), 0);
	assert_false(r.lost);
	more = r.last_seq > *pos;
	for (unsigned i = 0; more && i < times; i++)
		assert_int_equal(mirror_apply(m, &r), 0);
	*pos = r.last_seq;
	arena_done(&a);
	return more;
}

static void feed_all(struct fixture *f, struct mirror *m, uint64_t *pos,
		     unsigned times)
{
	uint32_t limit = 1 + (uint32_t)rng_below(&f->rng, 300);

	while (feed_once(f, m, pos, limit, times))
		;
}

/* The world lives, and the mirror follows at its own pace. */
static void live(struct fixture *f, uint64_t *pos)
{
	for (unsigned i = 0; i < STEPS; i++) {
		world_step(&f->w);
		if (rng_below(&f->rng, 20) == 0)
			(void)feed_once(f, f->view.mirror, pos,
					1 + (uint32_t)rng_below(&f->rng, 100),
					1);
	}
	feed_all(f, f->view.mirror, pos, 1);
}

/* --- tests --- */

static size_t count_keys(struct kv *kv, const char *kind)
{
	struct key from, upto;
	struct kv_iter *it;
	size_t n = 0;

	key_prefix(&from, kind);
	key_prefix_end(&from, &upto);
	it = kv_iter_new(kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it); kv_iter_next(it))
		n++;
	kv_iter_free(it);
	return n;
}

/* As many rows as keys; test_rebuild_equals_feed compares what they say. */
static void assert_count(struct fixture *f, const char *table,
			 const char *prefix)
{
	_cleanup_(buf_done) struct buf sql = BUF_INIT(0);

	buf_printf(&sql, "SELECT count(*) FROM %s%c", table, '\0');
	assert_int_equal(number(f->view.writer, sql.p),
			 count_keys(f->w.kv, prefix));
}

static void test_rows_equal_store(void **state)
{
	struct fixture *f = *state;
	struct arena a = ARENA_INIT;
	uint64_t pos = 0, jobs = 0;
	struct db_stmt *s;

	live(f, &pos);
	assert_consistent(f->view.writer);
	assert_int_equal(db_prepare(f->view.writer,
				    "SELECT id, state, attempt, seq,"
				    " last_error, queue, priority FROM jobs",
				    &s),
			 0);
	for (; db_step(s) == 1; jobs++) {
		struct m_job job;

		assert_int_equal(
		    record_job(f->w.kv, db_text(s, 0), RECORD_ERRORS, &a, &job),
		    1);
		assert_str_is(db_text(s, 1),
			      enum_text(&enum_job_state, job.state));
		assert_int_equal(db_i64(s, 2), job.attempt);
		assert_int_equal(db_i64(s, 3), job.seq);
		assert_true(str_eq(db_text(s, 4), job.last_error));
		assert_true(str_eq(db_text(s, 5), job.queue));
		assert_int_equal(db_i64(s, 6), job.priority);
		arena_reset(&a);
	}
	db_finalize(s);
	arena_done(&a);
	assert_true(jobs > 100);
	assert_int_equal(jobs, count_keys(f->w.kv, "j|"));
	assert_count(f, "batches", "b|");
	assert_count(f, "schedules", "sc|");
	assert_count(f, "unique_locks", "u|");
	assert_count(f, "job_scores", "so|");
	assert_count(f, "job_iterations", "it|");
	assert_count(f, "providers", "pv|");
	assert_count(f, "webhooks", "wh|");
}

/* Told late and in portions: the store has the newest thousand only. */
static void test_iterations_are_rows_and_the_oldest_go(void **state)
{
	struct fixture *f = *state;
	uint64_t pos = 0;

	world_loop(&f->w, LIMIT_ITERATIONS_KEPT / 2);
	feed_all(f, f->view.mirror, &pos, 1);
	assert_rows(f->view.writer,
		    "SELECT count(*), min(iteration), max(iteration)"
		    " FROM job_iterations WHERE status='continue'",
		    3, "500|1|500\n");
	world_loop(&f->w, LIMIT_ITERATIONS_KEPT / 2 + 30);
	feed_all(f, f->view.mirror, &pos, 2);
	assert_rows(f->view.writer,
		    "SELECT count(*), min(iteration), max(iteration),"
		    " max(agent_iteration) FROM job_iterations JOIN jobs"
		    " ON jobs.id=job_id",
		    4, "1000|31|1030|1031\n");
	assert_count(f, "job_iterations", "it|");
}

/* Whatever happened to a job, it is told of once, and as a whole; and once that
 * it is gone, or was before another one got its id. */
static void test_lifecycles_in_one_answer_are_one_row_each(void **state)
{
	struct fixture *f = *state;
	struct arena a = ARENA_INIT;
	struct hmap seen = { 0 }, gone = { 0 };
	struct m_tail_reply r;

	while (f->w.jobs_n < 200)
		world_step(&f->w);
	assert_int_equal(record_feed(f->w.kv, 0, LIMIT_TAIL_EVENTS, &a, &r), 0);
	assert_int_equal(r.last_seq, r.head_seq);
	assert_true(r.records_n >= 100 && r.last_seq > r.records_n);
	for (size_t i = 0; i < r.records_n; i++) {
		assert_null(hmap_put(&seen, r.records[i].id, &r));
		assert_true(MSG_HAS(&r.records[i], job_record, doc));
	}
	for (size_t i = 0; i < r.jobs_n; i++) {
		assert_null(hmap_put(&gone, r.jobs[i].id, &r));
		assert_true(r.jobs[i].deleted);
		/* of Scheduled-DB, whose ids are short */
		assert_true(hmap_get(&seen, r.jobs[i].id) == NULL ||
			    r.jobs[i].id.n == 2);
	}
	assert_int_equal(mirror_apply(f->view.mirror, &r), 0);
	assert_int_equal(number(f->view.writer, "SELECT count(*) FROM jobs"),
			 count_keys(f->w.kv, "j|"));
	assert_consistent(f->view.writer);
	hmap_done(&seen);
	hmap_done(&gone);
	arena_done(&a);
}

static struct mirror *open_second(struct fixture *f)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	const char *path = world_path(&f->w, "second.db");

	assert_int_equal(db_open(path, DB_WRITE, &f->second, &why), 0);
	assert_int_equal(schema_make_tables(f->second), 0);
	assert_int_equal(schema_make_indexes(f->second), 0);
	assert_int_equal(mirror_new(f->second, &f->mirror), 0);
	return f->mirror;
}

static void assert_second_is_same(struct fixture *f)
{
	assert_same_rows(f->view.writer, f->second);
	assert_consistent(f->second);
}

static void close_second(struct fixture *f)
{
	mirror_free(f->mirror);
	db_close(f->second);
}

/* Late, in other pieces, and every answer twice: the same rows. */
static void test_replay_gives_same_rows(void **state)
{
	struct fixture *f = *state;
	uint64_t pos = 0, again = 0;

	live(f, &pos);
	feed_all(f, open_second(f), &again, 2);
	assert_second_is_same(f);
	/* All of it once more, from the start. */
	again = 0;
	feed_all(f, f->mirror, &again, 1);
	assert_second_is_same(f);
	assert_int_equal(again, pos);
	close_second(f);
}

/* Half of it, and then all in one answer: jobs with a row, and without. */
static void test_an_answer_with_known_and_new_jobs(void **state)
{
	struct fixture *f = *state;
	uint64_t pos = 0, again = 0;

	live(f, &pos);
	feed_once(f, open_second(f), &again, (uint32_t)pos / 2, 1);
	assert_true(again > 0 && again < pos);
	again = 0;
	feed_once(f, f->mirror, &again, LIMIT_TAIL_EVENTS, 1);
	assert_int_equal(again, pos);
	assert_second_is_same(f);
	close_second(f);
}

/* A checkpoint in the middle of a life, and the feed from there on. */
static void test_rebuild_equals_feed(void **state)
{
	struct fixture *f = *state;
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct rebuild task = { 0 };
	struct record_meta meta;
	uint64_t pos = 0, from;

	live(f, &pos);
	assert_int_equal(record_meta_read(f->w.kv, &meta), 0);
	task.seq = meta.last_seq;
	task.checkpoint = xstrdup(world_path(&f->w, "checkpoint"));
	task.path = f->view.new_path;
	assert_int_equal(kv_checkpoint(f->w.kv, task.checkpoint, &why), 0);
	assert_int_equal(rebuild_run(&task), 0);
	free(task.checkpoint);
	buf_done(&task.why);

	struct db *built;

	assert_int_equal(db_open(task.path, DB_WRITE, &built, &why), 0);
	assert_same_rows(f->view.writer, built);
	assert_consistent(built);
	db_close(built);
	assert_int_equal(view_replace(&f->view, &why), 0);
	assert_int_equal(f->view.position, pos);
	assert_true(f->view.position_ns > 0);
	assert_int_not_equal(access(task.path, F_OK), 0);

	from = f->view.position;
	live(f, &from);
	assert_consistent(f->view.writer);
	assert_int_equal(number(f->view.writer,
				"SELECT value FROM meta WHERE key='position'"),
			 from);
}

static void test_rebuild_stops(void **state)
{
	struct fixture *f = *state;
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct rebuild task = { .path = f->view.new_path };

	for (unsigned i = 0; i < 100; i++)
		world_step(&f->w);
	task.checkpoint = xstrdup(world_path(&f->w, "checkpoint"));
	assert_int_equal(kv_checkpoint(f->w.kv, task.checkpoint, &why), 0);
	atomic_store(&task.stop, true);
	assert_int_equal(rebuild_run(&task), -ERR_SHUTTING_DOWN);
	assert_int_not_equal(access(task.path, F_OK), 0);
	free(task.checkpoint);

	atomic_store(&task.stop, false);
	task.checkpoint = xstrdup(world_path(&f->w, "nowhere"));
	assert_true(rebuild_run(&task) < 0);
	assert_true(task.why.n > 0);
	free(task.checkpoint);
	buf_done(&task.why);
}

static void apply_one(struct fixture *f, struct m_job *j, uint64_t seq,
		      int expected)
{
	struct m_tail_reply r = { .last_seq = seq, .jobs = j, .jobs_n = 1 };

	assert_int_equal(mirror_apply(f->view.mirror, &r), expected);
}

static void test_partial(void **state)
{
	static const char sql[] = "SELECT state, worker_id, checkpoint,"
				  " payload FROM jobs";
	struct fixture *f = *state;
	struct m_job j;

	make_job(&j, "j1", JOB_ACTIVE);
	apply_one(f, &j, 1, 0);
	j = (struct m_job){ 0 };
	MSG_SET(&j, job, id, STR("j1"));
	MSG_SET(&j, job, state, JOB_PENDING);
	apply_one(f, &j, 2, 0);
	assert_rows(f->view.writer, sql, 4, "pending||\"kept\"|1\n");
	MSG_SET(&j, job, checkpoint, STR("\"new\""));
	apply_one(f, &j, 3, 0);
	assert_rows(f->view.writer, sql, 4, "pending||\"new\"|1\n");
	assert_consistent(f->view.writer);

	/* Of a job that was never told of: nothing changes, position too. */
	MSG_SET(&j, job, id, STR("j2"));
	apply_one(f, &j, 4, -ERR_NOT_FOUND);
	assert_rows(f->view.writer,
		    "SELECT value FROM meta WHERE key='position'", 1, "3\n");
	assert_rows(f->view.writer, sql, 4, "pending||\"new\"|1\n");
}

/* A blocked job counts as pending and as blocked, and moves with its queue. */
static void test_blocked_jobs_are_counted(void **state)
{
	static const char sql[] =
	    "SELECT queue, pending, blocked FROM queue_stats ORDER BY queue";
	struct fixture *f = *state;
	struct m_job j;

	make_job(&j, "j1", JOB_PENDING);
	MSG_SET(&j, job, blocked, true);
	MSG_SET(&j, job, waiting_on, 2);
	apply_one(f, &j, 1, 0);
	assert_rows(f->view.writer, sql, 3, "q|1|1\n");
	/* A document with all members, as for a moved job. */
	MSG_SET(&j, job, queue, STR("r"));
	MSG_SET(&j, job, priority, PRIORITY_HIGH);
	apply_one(f, &j, 2, 0);
	assert_rows(f->view.writer, sql, 3, "q|0|0\nr|1|1\n");
	assert_rows(f->view.writer,
		    "SELECT queue, priority, waiting_on FROM jobs", 3,
		    "r|1|2\n");
	j = (struct m_job){ 0 };
	MSG_SET(&j, job, id, STR("j1"));
	MSG_SET(&j, job, state, JOB_PENDING);
	apply_one(f, &j, 3, 0);
	assert_rows(f->view.writer, sql, 3, "q|0|0\nr|1|0\n");
	assert_rows(f->view.writer, "SELECT blocked, waiting_on FROM jobs", 2,
		    "0|\n");
	MSG_SET(&j, job, blocked, true);
	apply_one(f, &j, 4, 0);
	MSG_SET(&j, job, deleted, true);
	apply_one(f, &j, 5, 0);
	assert_rows(f->view.writer, sql, 3, "q|0|0\nr|0|0\n");
}

static void test_what_ties_a_job_to_others(void **state)
{
	struct fixture *f = *state;
	struct m_chain_step steps[2] = { 0 };
	struct str parents[] = { STR("j\"1"), STR("j2") };
	struct m_chain chain = { 0 };
	struct m_job j;

	make_job(&j, "j3", JOB_HELD);
	MSG_SET(&steps[0], chain_step, queue, STR("q"));
	MSG_SET(&steps[1], chain_step, queue, STR("r"));
	MSG_SET_LIST(&chain, chain, steps, steps, 2);
	MSG_SET(&j, job, chain_config, &chain);
	MSG_SET(&j, job, chain_id, STR("chn_1"));
	MSG_SET(&j, job, chain_step, -2);
	MSG_SET_LIST(&j, job, depends_on, parents, 2);
	MSG_SET(&j, job, on_dependency_failure, DEPENDENCY_IGNORE);
	MSG_SET(&j, job, hold_reason, STR("look first"));
	MSG_SET(&j, job, timeout, 1500 * NS_PER_MS);
	apply_one(f, &j, 1, 0);
	assert_rows(f->view.writer,
		    "SELECT chain_id, chain_step, chain_config, depends_on,"
		    " on_dependency_failure, hold_reason, timeout_ms FROM jobs",
		    7,
		    "chn_1|-2|{\"steps\":[{\"queue\":\"q\"},"
		    "{\"queue\":\"r\"}]}|[\"j\\\"1\",\"j2\"]|ignore|"
		    "look first|1500\n");
	make_job(&j, "j4", JOB_PENDING);
	apply_one(f, &j, 2, 0);
	assert_rows(f->view.writer,
		    "SELECT count(*) FROM jobs WHERE id='j4' AND"
		    " coalesce(chain_id, chain_step, chain_config, depends_on,"
		    " on_dependency_failure, hold_reason, timeout_ms,"
		    " unique_key, batch_id, group_name, schedule_id) IS NULL",
		    1, "1\n");
}

static void test_delete(void **state)
{
	struct fixture *f = *state;
	struct m_job_error e = { 0 };
	struct m_tail_reply r = { .last_seq = 2, .errors = &e, .errors_n = 1 };
	struct m_job j;

	make_job(&j, "j1", JOB_DEAD);
	apply_one(f, &j, 1, 0);
	MSG_SET(&e, job_error, id, 3);
	MSG_SET(&e, job_error, job_id, STR("j1"));
	MSG_SET(&e, job_error, error, STR("bad"));
	assert_int_equal(mirror_apply(f->view.mirror, &r), 0);
	assert_rows(f->view.writer, "SELECT dead, failed FROM queue_stats", 2,
		    "1|3\n");
	assert_rows(f->view.writer, "SELECT job_id, n, error FROM job_errors",
		    3, "j1|3|bad\n");

	j = (struct m_job){ 0 };
	MSG_SET(&j, job, id, STR("j1"));
	MSG_SET(&j, job, deleted, true);
	apply_one(f, &j, 3, 0);
	apply_one(f, &j, 4, 0);
	/* An error that comes later than the deletion has nowhere to go. */
	assert_int_equal(mirror_apply(f->view.mirror, &r), 0);
	assert_rows(f->view.writer, "SELECT dead, failed FROM queue_stats", 2,
		    "0|0\n");
	assert_rows(f->view.writer, "SELECT count(*) FROM jobs", 1, "0\n");
	assert_rows(f->view.writer, "SELECT count(*) FROM job_errors", 1,
		    "0\n");
}

/* --- the file --- */

static void reopen(struct fixture *f, bool clean, bool expect_fresh)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	view_close(&f->view, clean);
	assert_int_equal(view_open(&f->view, &why), 0);
	assert_int_equal(f->view.fresh, expect_fresh);
}

static void test_file_is_believed(void **state)
{
	struct fixture *f = *state;
	uint64_t pos = 0;

	live(f, &pos);
	reopen(f, false, false); /* killed, in the same boot */
	assert_int_equal(f->view.position, pos);
	reopen(f, true, false); /* closed in good order */
	assert_int_equal(f->view.position, pos);
	/* The machine lost power while it was open. */
	assert_int_equal(
	    meta_put_text(f->view.writer, META_BOOT, STR("another boot")), 0);
	reopen(f, false, true);
	assert_int_equal(f->view.position, 0);
	assert_int_equal(meta_put_u64(f->view.writer, META_SCHEMA, 999), 0);
	reopen(f, true, true);
}

static void damage(struct fixture *f, long at, size_t n)
{
	FILE *file = fopen(f->view.path, "r+");

	assert_non_null(file);
	assert_int_equal(fseek(file, at, SEEK_SET), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_not_equal(fputc((int)rng_below(&f->rng, 256), file),
				     EOF);
	assert_int_equal(fclose(file), 0);
}

static void test_damaged_file_is_replaced(void **state)
{
	struct fixture *f = *state;
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	uint64_t pos = 0;

	live(f, &pos);
	view_close(&f->view, true);
	damage(f, 0, 4096);
	assert_int_equal(view_open(&f->view, &why), 0);
	assert_true(f->view.fresh);
	view_close(&f->view, true);
	assert_int_equal(truncate(f->view.path, 6000), 0);
	assert_int_equal(view_open(&f->view, &why), 0);
	assert_true(f->view.fresh);
}

/* Damage that opening does not see is told by the first statement that does. */
static void test_damage_at_run_time(void **state)
{
	struct fixture *f = *state;
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	struct m_search m = { 0 };
	struct query_ask ask = { .id = QUERY_SEARCH_JOBS, .request = &m };
	uint64_t pos = 0;
	int r;

	live(f, &pos);
	reopen(f, true, false);
	damage(f, 4096,
	       (size_t)number(f->view.writer, "PRAGMA page_count") * 4096 -
		   4096);
	MSG_SET(&m, search, limit, LIMIT_SEARCH_ROWS);
	r = query_run(f->view.readers[0], &ask, &out);
	assert_int_equal(r, -ERR_VIEW_UNAVAILABLE);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(test_rows_equal_store),
		CASE(test_iterations_are_rows_and_the_oldest_go),
		CASE(test_lifecycles_in_one_answer_are_one_row_each),
		CASE(test_replay_gives_same_rows),
		CASE(test_an_answer_with_known_and_new_jobs),
		CASE(test_rebuild_equals_feed),
		CASE(test_rebuild_stops),
		CASE(test_partial),
		CASE(test_delete),
		CASE(test_blocked_jobs_are_counted),
		CASE(test_what_ties_a_job_to_others),
		CASE(test_file_is_believed),
		CASE(test_damaged_file_is_replaced),
		CASE(test_damage_at_run_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
