/*
 * Lists and searches over a view filled by hand: pages that meet without gap
 * or overlap, filters, totals, cursors from strangers, limits of size.
 */
#include "query_world.h"

#define JOBS 1000

/* Does job i match the filter? */
static bool matches(const struct m_search *m, unsigned i)
{
	struct m_job j;
	char id[32];
	bool state = m->state_n == 0;

	make_job(&j, i, id, sizeof(id));
	for (size_t k = 0; k < m->state_n; k++)
		if (str_is(m->state[k], enum_text(&enum_job_state, j.state)))
			state = true;
	return state && (m->queue.n == 0 || str_eq(m->queue, j.queue));
}

static int compare(const struct m_job *a, const struct m_job *b)
{
	if (a->created_at != b->created_at)
		return a->created_at < b->created_at ? -1 : 1;
	return str_cmp(a->id, b->id);
}

/* Walks all pages; every match comes once, in order. */
static void walk(struct fixture *f, struct m_search m, bool descending)
{
	struct m_search_reply r;
	struct m_job last = { 0 };
	char last_id[64], cursor[512];
	size_t seen = 0, expected = 0;

	for (unsigned i = 0; i < JOBS; i++)
		expected += matches(&m, i);
	do {
		search(f, &m, &r);
		assert_int_equal(r.total, expected);
		for (size_t i = 0; i < r.jobs_n; i++, seen++) {
			if (seen > 0)
				assert_true(compare(&r.jobs[i], &last) *
						(descending ? -1 : 1) >
					    0);
			last = r.jobs[i];
			(void)snprintf(last_id, sizeof(last_id), "%.*s",
				       STR_ARG(last.id));
			last.id = str_from(last_id);
		}
		(void)snprintf(cursor, sizeof(cursor), "%.*s",
			       STR_ARG(r.cursor));
		MSG_SET(&m, search, cursor, str_from(cursor));
		assert_true(seen <= expected);
	} while (r.has_more);
	assert_int_equal(seen, expected);
}

/* --- tests --- */

static void test_pages(void **state)
{
	static const uint32_t limits[] = { 1, 7, 50, 999, 1000 };
	struct str some[] = { STR("dead"), STR("pending"), STR("nonsense") };
	struct str none[] = { STR("nonsense") };
	struct fixture *f = *state;

	fill(f, JOBS);
	for (size_t i = 0; i < ARRAY_SIZE(limits) * 2; i++) {
		struct m_search m = { 0 };
		bool descending = i % 2 == 0;

		MSG_SET(&m, search, limit, limits[i / 2]);
		MSG_SET(&m, search, order,
			descending ? STR("desc") : STR("asc"));
		walk(f, m, descending);
		MSG_SET(&m, search, queue, STR("b"));
		walk(f, m, descending);
		MSG_SET_LIST(&m, search, state, some, ARRAY_SIZE(some));
		walk(f, m, descending);
		MSG_UNSET(&m, search, queue);
		m.queue = STR_NULL;
		walk(f, m, descending);
		MSG_SET_LIST(&m, search, state, none, 1);
		walk(f, m, descending);
		MSG_SET(&m, search, queue, STR("no such queue"));
		walk(f, m, descending);
	}
}

static void test_row(void **state)
{
	struct fixture *f = *state;
	struct m_tail_reply t = { .last_seq = 1, .jobs_n = 1 };
	struct m_search m = { 0 };
	struct m_search_reply r;
	struct m_job j;
	char id[32];

	make_job(&j, 1, id, sizeof(id));
	MSG_SET(&j, job, tags, STR("{\"a\": \"b\"}"));
	MSG_SET(&j, job, scheduled_at, 1794700000123456789);
	MSG_SET(&j, job, cancel_requested, true);
	MSG_SET(&j, job, retry_jitter, 0.5);
	MSG_SET(&j, job, unique_key, STR("u"));
	MSG_SET(&j, job, batch_id, STR("batch_1"));
	MSG_SET(&j, job, chain_id, STR("chn_1"));
	MSG_SET(&j, job, chain_step, -1);
	MSG_SET(&j, job, group, STR("g"));
	MSG_SET(&j, job, waiting_on, 2);
	MSG_SET(&j, job, timeout, 2 * NS_PER_S);
	t.jobs = &j;
	assert_int_equal(mirror_apply(f->view.mirror, &t), 0);
	search(f, &m, &r);
	assert_int_equal(r.jobs_n, 1);
	assert_str_is(r.jobs[0].id, id);
	assert_str_is(r.jobs[0].payload, "{\"n\": 1}");
	assert_str_is(r.jobs[0].tags, "{\"a\": \"b\"}");
	assert_int_equal(r.jobs[0].state, j.state);
	assert_int_equal(r.jobs[0].retry_backoff, BACKOFF_LINEAR);
	assert_int_equal(r.jobs[0].retry_base_delay, 1500001);
	assert_int_equal(r.jobs[0].retry_max_delay, 600 * NS_PER_S);
	assert_int_equal(r.jobs[0].created_at, j.created_at);
	assert_int_equal(r.jobs[0].scheduled_at, 1794700000123456789);
	assert_true(r.jobs[0].cancel_requested);
	assert_true(r.jobs[0].retry_jitter == 0.5);
	assert_str_is(r.jobs[0].unique_key, "u");
	assert_str_is(r.jobs[0].batch_id, "batch_1");
	assert_str_is(r.jobs[0].chain_id, "chn_1");
	assert_int_equal(r.jobs[0].chain_step, -1);
	assert_str_is(r.jobs[0].group, "g");
	assert_int_equal(r.jobs[0].waiting_on, 2);
	assert_int_equal(r.jobs[0].timeout, 2 * NS_PER_S);
	assert_false(MSG_HAS(&r.jobs[0], job, lost_leases));
	assert_false(MSG_HAS(&r.jobs[0], job, schedule_id));
	assert_false(MSG_HAS(&r.jobs[0], job, started_at));
	assert_false(MSG_HAS(&r.jobs[0], job, last_error));
	assert_false(MSG_HAS(&r.jobs[0], job, result));
}

/* 0 and anything over the limit mean the default. */
static void test_limit(void **state)
{
	struct fixture *f = *state;
	struct m_search m = { 0 };
	struct m_search_reply r;

	fill(f, JOBS);
	search(f, &m, &r);
	assert_int_equal(r.jobs_n, 50);
	MSG_SET(&m, search, limit, 1001);
	search(f, &m, &r);
	assert_int_equal(r.jobs_n, 50);
	MSG_SET(&m, search, limit, 1000);
	search(f, &m, &r);
	assert_int_equal(r.jobs_n, 1000);
	assert_false(r.has_more);
}

/* For bulk: ids in the order of the list, in larger pages. */
static void test_ids_only(void **state)
{
	struct fixture *f = *state;
	struct m_search m = { 0 };
	struct m_search_reply r;
	char first[64];

	fill(f, JOBS);
	MSG_SET(&m, search, limit, 1);
	search(f, &m, &r);
	(void)snprintf(first, sizeof(first), "%.*s", STR_ARG(r.jobs[0].id));
	MSG_SET(&m, search, ids_only, true);
	MSG_SET(&m, search, limit, LIMIT_BULK_PAGE);
	search(f, &m, &r);
	assert_int_equal(r.jobs_n, 0);
	assert_int_equal(r.ids_n, JOBS);
	assert_str_is(r.ids[0], first);
	assert_false(r.has_more);
	MSG_SET(&m, search, limit, 3);
	search(f, &m, &r);
	assert_int_equal(r.ids_n, 3);
	assert_true(r.has_more);
}

static void assert_starts_over(struct fixture *f, struct str cursor,
			       const char *order)
{
	struct m_search m = { 0 };
	struct m_search_reply r;
	char first[64];

	MSG_SET(&m, search, limit, 3);
	MSG_SET(&m, search, order, str_from(order));
	search(f, &m, &r);
	(void)snprintf(first, sizeof(first), "%.*s", STR_ARG(r.jobs[0].id));
	MSG_SET(&m, search, cursor, cursor);
	search(f, &m, &r);
	assert_str_is(r.jobs[0].id, first);
}

static void test_cursor_garbage(void **state)
{
	struct fixture *f = *state;
	struct m_search m = { 0 };
	struct m_search_reply r;
	struct rng rng;
	char good[512], bad[512];
	size_t n;

	fill(f, JOBS);
	test_rng(&rng);
	assert_starts_over(f, STR("x"), "desc");
	assert_starts_over(f, STR("eyJvZmZzZXQiOjUwfQ=="), "desc");
	assert_starts_over(f, STR("%%%"), "asc");
	assert_starts_over(f, str_of("\0\0\0\0", 4), "asc");
	MSG_SET(&m, search, limit, 3);
	search(f, &m, &r);
	n = r.cursor.n;
	memcpy(good, r.cursor.p, n);
	/* Of the other order, cut short, longer than any. */
	assert_starts_over(f, str_of(good, n), "asc");
	for (size_t i = 0; i < 40; i++)
		assert_starts_over(f, str_of(good, i), "desc");
	memset(bad, 'A', sizeof(bad));
	assert_starts_over(f, str_of(bad, sizeof(bad)), "desc");
	/* Whatever else is sent, there is an answer. */
	for (unsigned i = 0; i < 500; i++) {
		memcpy(bad, good, n);
		bad[rng_below(&rng, n)] = (char)rng_below(&rng, 256);
		MSG_SET(&m, search, cursor, str_of(bad, n));
		search(f, &m, &r);
		assert_int_equal(r.total, JOBS);
	}
}

/* A client may give the order with the first page only. */
static void test_cursor_brings_order(void **state)
{
	struct fixture *f = *state;
	struct m_search m = { 0 };
	struct m_search_reply r;
	uint64_t last;
	char cursor[512];

	fill(f, JOBS);
	MSG_SET(&m, search, limit, 100);
	MSG_SET(&m, search, order, STR("asc"));
	search(f, &m, &r);
	last = r.jobs[99].created_at;
	(void)snprintf(cursor, sizeof(cursor), "%.*s", STR_ARG(r.cursor));
	MSG_UNSET(&m, search, order);
	m.order = STR_NULL;
	MSG_SET(&m, search, cursor, str_from(cursor));
	search(f, &m, &r);
	assert_true(r.jobs[0].created_at >= last);
	assert_true(r.jobs[99].created_at > last);
}

/* A page of large payloads ends early and goes on where it ended. */
static void test_large_payloads(void **state)
{
	enum { N = 100, BYTES = 256 << 10 };
	struct fixture *f = *state;
	char *payload = xmalloc(BYTES);
	struct m_search m = { 0 };
	struct m_search_reply r;
	size_t seen = 0, pages = 0;
	char cursor[512];

	memset(payload, '7', BYTES);
	for (unsigned i = 0; i < N; i++) {
		struct m_tail_reply t = { .last_seq = i + 1, .jobs_n = 1 };
		struct m_job j;
		char id[32];

		make_job(&j, i, id, sizeof(id));
		MSG_SET(&j, job, payload, str_of(payload, BYTES));
		t.jobs = &j;
		assert_int_equal(mirror_apply(f->view.mirror, &t), 0);
	}
	MSG_SET(&m, search, limit, 1000);
	do {
		search(f, &m, &r);
		assert_true(f->out.n < LIMIT_MESSAGE_BYTES / 4);
		seen += r.jobs_n;
		pages++;
		(void)snprintf(cursor, sizeof(cursor), "%.*s",
			       STR_ARG(r.cursor));
		MSG_SET(&m, search, cursor, str_from(cursor));
	} while (r.has_more);
	assert_int_equal(seen, N);
	assert_true(pages > 1);
	free(payload);
}

static void add_queue(struct fixture *f, const char *name, bool paused)
{
	struct m_queue q = { 0 };
	struct m_tail_reply t = { .last_seq = 1, .queues = &q, .queues_n = 1 };

	MSG_SET(&q, queue, name, str_from(name));
	MSG_SET(&q, queue, paused, paused);
	MSG_SET(&q, queue, created_at, 1794700000 * NS_PER_S);
	assert_int_equal(mirror_apply(f->view.mirror, &t), 0);
}

/* In pages, by name, each queue once. */
static void test_queues_in_pages(void **state)
{
	struct fixture *f = *state;
	struct m_view_query m = { 0 };
	struct m_queue_list r;

	add_queue(f, "b", false);
	add_queue(f, "a", false);
	add_queue(f, "c", false);
	MSG_SET(&m, view_query, limit, 2);
	run(f, QUERY_LIST_QUEUES, &m, &r);
	assert_int_equal(r.queues_n, 2);
	assert_str_is(r.queues[0].name, "a");
	assert_str_is(r.queues[1].name, "b");
	assert_true(r.more);
	MSG_SET(&m, view_query, after, STR("b"));
	run(f, QUERY_LIST_QUEUES, &m, &r);
	assert_int_equal(r.queues_n, 1);
	assert_str_is(r.queues[0].name, "c");
	assert_false(r.more);
	MSG_SET(&m, view_query, after, STR("aa")); /* need not exist */
	run(f, QUERY_LIST_QUEUES, &m, &r);
	assert_int_equal(r.queues_n, 2);
	assert_str_is(r.queues[0].name, "b");
	assert_false(r.more); /* a page that is just full is the last one */
}

static void test_queues(void **state)
{
	struct fixture *f = *state;
	struct m_view_query m = { 0 };
	struct m_queue_list r;

	run(f, QUERY_LIST_QUEUES, &m, &r);
	assert_int_equal(r.queues_n, 0);
	assert_true(MSG_HAS(&r, queue_list, queues));
	fill(f, JOBS);
	add_queue(f, "b", true);
	add_queue(f, "empty", false);
	add_queue(f, "a", false);
	run(f, QUERY_LIST_QUEUES, &m, &r);
	assert_int_equal(r.lag_ns, 7);
	assert_int_equal(r.queues_n, 3);
	assert_str_is(r.queues[0].name, "a");
	assert_str_is(r.queues[1].name, "b");
	assert_true(r.queues[1].paused);
	assert_int_equal(r.queues[0].enqueued + r.queues[1].enqueued, JOBS);
	assert_int_equal(r.queues[0].pending + r.queues[1].pending, JOBS / 8);
	/* Job 8 is the first pending one of a (0 of b), whatever priority. */
	assert_int_equal(r.queues[0].oldest_pending_at,
			 1794700000 * NS_PER_S + 100 * NS_PER_MS);
	assert_int_equal(r.queues[1].oldest_pending_at, 1794700000 * NS_PER_S);
	assert_str_is(r.queues[2].name, "empty");
	assert_int_equal(r.queues[2].enqueued, 0);
	assert_false(MSG_HAS(&r.queues[2], queue, oldest_pending_at));
}

static size_t see_worker(struct fixture *f, const char *id, uint64_t started_s,
			 uint64_t seen_s)
{
	const uint64_t start_s = 1794700000;
	struct m_worker w = { 0 };
	struct m_tail_reply t = { .workers = &w, .workers_n = 1 };
	struct db_stmt *s;
	size_t n;

	MSG_SET(&w, worker, id, str_from(id));
	MSG_SET(&w, worker, started_at, (start_s + started_s) * NS_PER_S);
	MSG_SET(&w, worker, last_heartbeat, (start_s + seen_s) * NS_PER_S);
	t.last_seq = ++f->seq;
	assert_int_equal(mirror_apply(f->view.mirror, &t), 0);
	assert_int_equal(
	    db_prepare(f->view.writer, "SELECT count(*) FROM workers", &s), 0);
	assert_int_equal(db_step(s), 1);
	n = (size_t)db_i64(s, 0);
	db_finalize(s);
	return n;
}

/* As the store does it: when another one comes. */
static void test_workers_long_idle_are_forgotten(void **state)
{
	struct fixture *f = *state;
	const uint64_t day_s = LIMIT_WORKER_IDLE_S;

	assert_int_equal(see_worker(f, "idle", 0, 0), 1);
	assert_int_equal(see_worker(f, "busy", 0, 5), 2);
	assert_int_equal(see_worker(f, "busy", 0, 2 * day_s), 2);
	assert_int_equal(see_worker(f, "new", day_s - 1, day_s), 3);
	assert_int_equal(see_worker(f, "newer", day_s + 60, day_s + 60), 3);
	assert_int_equal(see_worker(f, "idle", day_s + 70, day_s + 70), 4);
}

static double metric(const struct m_metrics *m, unsigned id, const char *label)
{
	for (size_t i = 0; i < m->values_n; i++)
		if (m->values[i].metric == id &&
		    str_is(m->values[i].label, label))
			return m->values[i].value;
	fail_msg("no metric %u{%s}", id, label);
	return 0;
}

static void test_metrics(void **state)
{
	struct fixture *f = *state;
	struct m_nothing m = { 0 };
	struct m_metrics r;

	run(f, QUERY_VIEWD_METRICS, &m, &r);
	assert_true(metric(&r, METRIC_VIEW_SEQ, "") == 5);
	assert_true(metric(&r, METRIC_VIEW_LAG, "") == 4);
	assert_true(metric(&r, METRIC_VIEW_LAG_SECONDS, "") == 1.5);
	assert_true(metric(&r, METRIC_VIEW_REBUILDS, "") == 0);
}

/* A search that takes too long ends, and the reader goes on. */
static void test_deadline(void **state)
{
	struct fixture *f = *state;
	struct m_search m = { 0 };
	struct query_ask ask = { .id = QUERY_SEARCH_JOBS,
				 .request = &m,
				 .deadline_ns = 1 };
	struct m_search_reply r;

	fill(f, JOBS);
	MSG_SET(&m, search, limit, 1000);
	MSG_SET(&m, search, queue, STR("a"));
	assert_int_equal(query_run(f->view.readers[0], &ask, &f->out),
			 -ERR_REQUEST_TIMEOUT);
	search(f, &m, &r);
	assert_true(r.jobs_n > 0);
}

/* Another program has changed the tables, and the writer has not met it. */
static void test_altered_tables_are_damage(void **state)
{
	struct fixture *f = *state;
	struct m_search m = { 0 };
	struct query_ask ask = { .id = QUERY_SEARCH_JOBS, .request = &m };
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct db *other;

	fill(f, JOBS);
	assert_int_equal(db_open(f->view.path, DB_WRITE, &other, &why), 0);
	assert_int_equal(db_exec(other, "ALTER TABLE jobs RENAME payload TO p"),
			 0);
	db_close(other);
	assert_int_equal(query_run(f->view.readers[0], &ask, &f->out),
			 -ERR_VIEW_UNAVAILABLE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(test_pages),
		TEST(test_row),
		TEST(test_limit),
		TEST(test_ids_only),
		TEST(test_cursor_garbage),
		TEST(test_cursor_brings_order),
		TEST(test_large_payloads),
		TEST(test_queues),
		TEST(test_queues_in_pages),
		TEST(test_workers_long_idle_are_forgotten),
		TEST(test_metrics),
		TEST(test_deadline),
		TEST(test_altered_tables_are_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
