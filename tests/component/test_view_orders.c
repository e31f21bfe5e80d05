/*
 * Orders of lists do not depend on how a job came into the view: one that took
 * events in as they came, and one that was made anew of the store, give the
 * same pages of the same jobs. Ids of some jobs carry no time.
 */
#include <stdio.h>
#include <stdlib.h>

#include "check/rebuild.h"
#include "lib/testlib.h"
#include "proto/scheddb.h"
#include "query/query_impl.h"
#include "store/record.h"
#include "view.h"
#include "view_world.h"

#define STEPS 1500
#define MANY  (QUERY_SORTED_MAX + 500)
#define PAGE  7

struct fixture {
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

/* --- two ways into the view --- */

static void take_events(struct fixture *f)
{
	struct m_tail_reply r = { 0 };
	uint64_t pos = 0;

	do {
		struct arena a = ARENA_INIT;

		assert_int_equal(
		    record_feed(f->w.kv, pos,
				1 + (uint32_t)rng_below(&f->rng, 300), &a, &r),
		    0);
		assert_int_equal(mirror_apply(f->view.mirror, &r), 0);
		pos = r.last_seq;
		arena_done(&a);
	} while (pos < r.head_seq);
	f->view.position = pos;
}

static void make_anew(struct fixture *f)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct rebuild task = { .path = f->view.new_path };

	task.seq = f->view.position;
	task.checkpoint = xstrdup(world_path(&f->w, "checkpoint"));
	assert_int_equal(kv_checkpoint(f->w.kv, task.checkpoint, &why), 0);
	assert_int_equal(rebuild_run(&task), 0);
	assert_int_equal(view_replace(&f->view, &why), 0);
	free(task.checkpoint);
	buf_done(&task.why);
}

/* --- what is told --- */

static void run(struct fixture *f, unsigned id, const void *m, struct arena *a,
		void *ret)
{
	struct query_ask ask = { .id = id, .request = m };
	struct buf out = BUF_INIT(0);

	query_begin(f->view.readers[0]);
	assert_int_equal(query_run(f->view.readers[0], &ask, &out), 0);
	assert_int_equal(msg_decode(query_info(id)->reply,
				    arena_copy(a, buf_str(&out)), a, ret),
			 0);
	buf_done(&out);
}

/* All pages of a search, as text. */
static void tell_search(struct fixture *f, struct m_search m, struct buf *to)
{
	struct m_search_reply r = { 0 };
	struct arena a = ARENA_INIT;

	MSG_SET(&m, search, limit, PAGE);
	MSG_SET(&m, search, time_budget, 10 * NS_PER_S);
	do {
		run(f, QUERY_SEARCH_JOBS, &m, &a, &r);
		for (size_t i = 0; i < r.jobs_n; i++)
			buf_printf(to, " %.*s", STR_ARG(r.jobs[i].id));
		buf_printf(to, " %llu\n", (unsigned long long)r.total);
		MSG_SET(&m, search, cursor, r.cursor);
	} while (r.has_more);
	arena_done(&a);
}

static void tell_sorts(struct fixture *f, const struct m_search *what,
		       struct buf *to)
{
	static const char *const sorts[] = {
		"created_at", "priority", "started_at", "completed_at",
		"attempt",    "cost",     "iteration",  "model",
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(sorts); i++) {
		struct m_search m = *what;

		MSG_SET(&m, search, sort, str_from(sorts[i / 2]));
		MSG_SET(&m, search, order, i % 2 ? STR("asc") : STR("desc"));
		buf_printf(to, "%s %zu:", sorts[i / 2], i % 2);
		tell_search(f, m, to);
	}
}

static void tell_words(struct fixture *f, struct str words, struct buf *to)
{
	struct m_fulltext_reply r = { 0 };
	struct arena a = ARENA_INIT;
	struct m_fulltext m = { 0 };

	MSG_SET(&m, fulltext, q, words);
	MSG_SET(&m, fulltext, limit, PAGE);
	run(f, QUERY_FULLTEXT, &m, &a, &r);
	buf_printf(to, "%.*s:", STR_ARG(words));
	for (size_t i = 0; i < r.results_n; i++)
		buf_printf(to, " %.*s", STR_ARG(r.results[i].id));
	buf_puts(to, "\n");
	arena_done(&a);
}

static void tell_queues(struct fixture *f, struct buf *to)
{
	struct m_view_query m = { 0 };
	struct m_queue_list r = { 0 };
	struct arena a = ARENA_INIT;

	run(f, QUERY_LIST_QUEUES, &m, &a, &r);
	for (size_t i = 0; i < r.queues_n; i++)
		buf_printf(to, " %.*s %llu", STR_ARG(r.queues[i].name),
			   (unsigned long long)r.queues[i].enqueued);
	buf_puts(to, "\n");
	arena_done(&a);
}

static void tell_all(struct fixture *f, struct buf *to)
{
	static struct str states[] = { { "pending", 7 }, { "completed", 9 } };
	struct m_search m = { 0 };

	tell_queues(f, to);
	tell_sorts(f, &m, to);
	MSG_SET(&m, search, queue, STR("q1"));
	tell_sorts(f, &m, to);
	m = (struct m_search){ 0 };
	MSG_SET_LIST(&m, search, state, states, ARRAY_SIZE(states));
	tell_sorts(f, &m, to);
	m = (struct m_search){ 0 };
	MSG_SET(&m, search, worker_id, STR("worker-1"));
	tell_sorts(f, &m, to);
	MSG_SET(&m, search, worker_id, STR("pusher"));
	tell_sorts(f, &m, to);
	m = (struct m_search){ 0 };
	MSG_SET(&m, search, text, STR("somebody"));
	tell_sorts(f, &m, to);
	m = (struct m_search){ 0 };
	MSG_SET(&m, search, has_errors, true);
	tell_sorts(f, &m, to);
	tell_words(f, STR("somebody"), to);
	tell_words(f, STR("to"), to);
	tell_words(f, STR("some*"), to);
	tell_words(f, STR("omebod"), to);
	tell_words(f, STR(SDB_QUEUE), to);
	tell_words(f, STR("\""), to);
}

static void test_made_anew_is_as_it_was(void **state)
{
	_cleanup_(buf_done) struct buf before = BUF_INIT(0);
	_cleanup_(buf_done) struct buf after = BUF_INIT(0);
	struct fixture *f = *state;

	for (unsigned i = 0; i < STEPS; i++) {
		world_step(&f->w);
		if (i % 50 == 0)
			world_scheddb(&f->w);
	}
	take_events(f);
	tell_all(f, &before);
	make_anew(f);
	tell_all(f, &after);
	buf_putc(&before, '\0');
	buf_putc(&after, '\0');
	assert_string_equal(before.p, after.p);
}

/* --- more than are sorted --- */

static void make_job(struct m_job *j, unsigned i, char *id, size_t size)
{
	(void)snprintf(id, size, "job_%06u", (i * 7919) % 999983);
	*j = (struct m_job){ 0 };
	MSG_SET(j, job, id, str_from(id));
	MSG_SET(j, job, queue, STR("many"));
	MSG_SET(j, job, state, JOB_ACTIVE);
	MSG_SET(j, job, worker_id, STR("w"));
	MSG_SET(j, job, payload, STR("\"same\""));
	MSG_SET(j, job, created_at,
		1794700000 * NS_PER_S + (i * 104729ull) % MANY / 3);
}

static int compare_jobs(const void *a, const void *b)
{
	const struct m_job *x = a, *y = b;

	if (x->created_at != y->created_at)
		return x->created_at < y->created_at ? 1 : -1;
	return str_cmp(y->id, x->id);
}

static void assert_newest_first(struct fixture *f, struct m_search m,
				const struct m_job *want)
{
	struct m_search_reply r = { 0 };
	struct arena a = ARENA_INIT;
	size_t n = 0;

	MSG_SET(&m, search, limit, 500);
	MSG_SET(&m, search, ids_only, true);
	while (n < 1500) {
		run(f, QUERY_SEARCH_JOBS, &m, &a, &r);
		for (size_t i = 0; i < r.ids_n; i++)
			assert_str_is(r.ids[i], arena_cstr(&a, want[n++].id));
		assert_true(r.has_more);
		MSG_SET(&m, search, cursor, r.cursor);
	}
	arena_done(&a);
}

static void test_large_sets_come_newest_first(void **state)
{
	char(*ids)[32] = xcalloc(MANY, sizeof(*ids));
	struct m_job *jobs = xcalloc(MANY, sizeof(*jobs));
	struct m_tail_reply r = { .last_seq = 1, .jobs = jobs, .jobs_n = MANY };
	struct m_fulltext_reply found = { 0 };
	struct m_fulltext words = { 0 };
	struct fixture *f = *state;
	struct arena a = ARENA_INIT;
	struct m_search m = { 0 };

	for (unsigned i = 0; i < MANY; i++)
		make_job(&jobs[i], i, ids[i], sizeof(ids[i]));
	assert_int_equal(mirror_apply(f->view.mirror, &r), 0);
	qsort(jobs, MANY, sizeof(*jobs), compare_jobs);
	MSG_SET(&m, search, text, STR("same"));
	assert_newest_first(f, m, jobs);
	m = (struct m_search){ 0 };
	MSG_SET(&m, search, worker_id, STR("w"));
	assert_newest_first(f, m, jobs);
	MSG_SET(&words, fulltext, q, STR("same"));
	run(f, QUERY_FULLTEXT, &words, &a, &found);
	assert_int_equal(found.results_n, 50);
	for (size_t i = 0; i < found.results_n; i++)
		assert_str_is(found.results[i].id, arena_cstr(&a, jobs[i].id));
	arena_done(&a);
	free(jobs);
	free(ids);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(test_made_anew_is_as_it_was),
		TEST(test_large_sets_come_newest_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
