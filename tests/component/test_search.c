/*
 * Searches beyond what a list can: sets too large to be sorted, totals over
 * their limit, budgets, sorts without an index, answers that are refused.
 */
#include "query_world.h"

#define MANY (LIMIT_TOTAL + 2000)

static void keep_cursor(struct m_search *m, const struct m_search_reply *r,
			char *cursor, size_t size)
{
	assert_true(r->cursor.n < size);
	(void)snprintf(cursor, size, "%.*s", STR_ARG(r->cursor));
	MSG_SET(m, search, cursor, str_from(cursor));
}

/* Walks all pages of ids; how many there were. */
static size_t walk(struct fixture *f, struct m_search m, size_t *ret_pages)
{
	struct m_search_reply r;
	char cursor[1024];
	size_t n = 0;

	*ret_pages = 0;
	MSG_SET(&m, search, ids_only, true);
	for (;;) {
		search(f, &m, &r);
		n += r.ids_n;
		++*ret_pages;
		if (!r.has_more)
			return n;
		keep_cursor(&m, &r, cursor, sizeof(cursor));
	}
}

static void assert_counted_to_the_limit(struct fixture *f, struct m_search *m)
{
	struct m_search_reply r;
	size_t pages;

	MSG_SET(m, search, time_budget, 10 * NS_PER_S);
	MSG_SET(m, search, limit, 10);
	search(f, m, &r);
	assert_int_equal(r.jobs_n, 10);
	assert_int_equal(r.total, LIMIT_TOTAL);
	assert_true(r.total_is_lower_bound);
	assert_false(r.partial);
	MSG_SET(m, search, limit, LIMIT_BULK_PAGE);
	assert_int_equal(walk(f, *m, &pages), MANY);
}

/* Neither may be sorted as a whole; both are found along the ranges. */
static void test_large_sets(void **state)
{
	struct fixture *f = *state;
	struct m_search by_id = { 0 }, by_text = { 0 }, by_attempt = { 0 };

	fill(f, MANY);
	MSG_SET(&by_id, search, job_id_prefix, STR("job_"));
	assert_counted_to_the_limit(f, &by_id);
	MSG_SET(&by_text, search, text, STR("n"));
	assert_counted_to_the_limit(f, &by_text);
	MSG_SET(&by_attempt, search, attempt_max, 5);
	assert_counted_to_the_limit(f, &by_attempt);
}

/* On later pages, too, the total is of all pages. */
static void test_total_of_later_pages(void **state)
{
	struct fixture *f = *state;
	struct m_search m = { 0 };
	struct m_search_reply r;
	char cursor[1024];
	size_t seen = 0;

	fill(f, 1000);
	MSG_SET(&m, search, attempt_max, 5);
	MSG_SET(&m, search, limit, 300);
	for (;;) {
		search(f, &m, &r);
		seen += r.jobs_n;
		assert_int_equal(r.total, 1000);
		assert_false(r.total_is_lower_bound);
		if (!r.has_more)
			break;
		keep_cursor(&m, &r, cursor, sizeof(cursor));
	}
	assert_int_equal(seen, 1000);
}

static void test_budget_goes_on(void **state)
{
	static const struct str sorts[] = { { "created_at", 10 },
					    { "priority", 8 },
					    { "started_at", 10 } };
	struct fixture *f = *state;
	size_t pages;

	fill(f, 1000);
	for (size_t i = 0; i < ARRAY_SIZE(sorts) * 2; i++) {
		struct m_search m = { 0 };

		MSG_SET(&m, search, sort, sorts[i / 2]);
		MSG_SET(&m, search, order, i % 2 ? STR("asc") : STR("desc"));
		MSG_SET(&m, search, payload_jq, STR(".n == 1"));
		MSG_SET(&m, search, time_budget, 1);
		MSG_SET(&m, search, limit, 20 + (uint32_t)i * 100);
		assert_int_equal(walk(f, m, &pages), 1000);
		assert_true(pages > 10);
	}
}

/* The stretch a cursor speaks of may be gone when it comes back. */
static void test_budget_after_jobs_are_gone(void **state)
{
	struct fixture *f = *state;
	struct m_search m = { 0 };
	struct m_search_reply r;
	char cursor[1024];
	size_t pages;

	fill(f, 200);
	MSG_SET(&m, search, sort, STR("attempt"));
	MSG_SET(&m, search, limit, 5);
	MSG_SET(&m, search, time_budget, 1);
	search(f, &m, &r);
	assert_true(r.partial);
	keep_cursor(&m, &r, cursor, sizeof(cursor));
	assert_int_equal(db_exec(f->view.writer, "DELETE FROM jobs"), 0);
	assert_int_equal(walk(f, m, &pages), 0);
	assert_true(pages < 5);
}

static void assert_refused(struct fixture *f, const struct m_search *m,
			   const char *why)
{
	struct query_ask ask = { .id = QUERY_SEARCH_JOBS, .request = m };

	assert_int_equal(query_run(f->view.readers[0], &ask, &f->out),
			 -ERR_VALIDATION_ERROR);
	assert_string_equal(query_why(f->view.readers[0]), why);
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct m_search by_jq = { 0 }, by_tag = { 0 };

	MSG_SET(&by_jq, search, payload_jq, STR(".a = 1"));
	assert_refused(f, &by_jq,
		       "payload_jq: expected ==, !=, <, <=, >, >= or | at "
		       "byte 4");
	MSG_SET(&by_tag, search, tags, STR("{\"a\": \"x\", \"b\": 5}"));
	assert_refused(f, &by_tag, "tags: b must be a text");
}

/* A payload that is no JSON, from whoever wrote to the file, is no match. */
static void test_damaged_payload(void **state)
{
	struct fixture *f = *state;
	struct m_search m = { 0 };
	struct m_search_reply r;

	fill(f, 3);
	assert_int_equal(
	    db_exec(f->view.writer,
		    "UPDATE jobs SET payload='{\"n\": ' WHERE priority=0"),
	    0);
	MSG_SET(&m, search, payload_jq, STR(".n == 1"));
	search(f, &m, &r);
	assert_int_equal(r.jobs_n, 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(test_large_sets),
		TEST(test_total_of_later_pages),
		TEST(test_budget_goes_on),
		TEST(test_budget_after_jobs_are_gone),
		TEST(test_refused),
		TEST(test_damaged_payload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
