/*
 * Jobs by words, over a view filled by hand: order, limits of number and size,
 * the way from words to parts of words.
 */
#include "view_fixture.h"

#define BIG_BYTES (1u << 20)

/* --- rows --- */

static void put_job(struct fixture *f, unsigned i, struct str payload)
{
	char id[32];
	struct m_job j = { 0 };
	struct m_tail_reply r = { .last_seq = i + 1, .jobs = &j, .jobs_n = 1 };

	(void)snprintf(id, sizeof(id), "job_%06u", i);
	MSG_SET(&j, job, id, str_from(id));
	MSG_SET(&j, job, queue, STR("Mail-Out"));
	MSG_SET(&j, job, state, JOB_PENDING);
	MSG_SET(&j, job, payload, payload);
	MSG_SET(&j, job, max_retries, 3);
	MSG_SET(&j, job, retry_backoff, BACKOFF_LINEAR);
	MSG_SET(&j, job, created_at, (1794700000 + (uint64_t)i) * NS_PER_S);
	assert_int_equal(mirror_apply(f->view.mirror, &r), 0);
}

/* --- asking --- */

static void find(struct fixture *f, const char *q, uint32_t limit,
		 struct m_fulltext_reply *ret)
{
	struct m_fulltext m = { 0 };

	MSG_SET(&m, fulltext, q, str_from(q));
	MSG_SET(&m, fulltext, limit, limit);
	run(f, QUERY_FULLTEXT, &m, ret);
	assert_str_is(ret->q, q);
	assert_int_equal(ret->lag_ns, 7);
	for (size_t i = 1; i < ret->results_n; i++)
		assert_true(ret->results[i - 1].created_at >
			    ret->results[i].created_at);
}

static size_t count(struct fixture *f, const char *q)
{
	struct m_fulltext_reply r;

	find(f, q, 500, &r);
	return r.results_n;
}

/* --- words --- */

static void test_words(void **state)
{
	struct fixture *f = *state;
	struct m_fulltext_reply r;

	for (unsigned i = 0; i < 100; i++)
		put_job(f, i,
			i % 10 == 0 ? STR("{\"note\": \"Ten\\u0020green\"}")
				    : STR("{\"note\": \"green\"}"));
	find(f, "green", 0, &r);
	assert_int_equal(r.results_n, 50);
	assert_str_is(r.results[0].id, "job_000099");
	assert_str_is(r.results[0].queue, "Mail-Out");
	assert_str_is(r.results[0].state, "pending");
	assert_str_is(r.results[0].tags, "");
	assert_false(r.partial);
	assert_int_equal(count(f, "green"), 100);
	assert_int_equal(count(f, "ten"), 10);
	assert_int_equal(count(f, "mail green"), 100);
	assert_int_equal(count(f, "green blue"), 0);
}

/* Any part of the text, when no job has the word; lower case is enough. */
static void test_parts(void **state)
{
	struct fixture *f = *state;
	struct m_fulltext_reply r;

	for (unsigned i = 0; i < 2500; i++)
		put_job(f, i, i == 3 ? STR("\"Pomegranate\"") : STR("\"x\""));
	assert_int_equal(count(f, "EGRANAT"), 1);
	assert_int_equal(count(f, "%"), 0);
	assert_int_equal(count(f, "_egran"), 0);
	find(f, "AIL-OU", 20, &r); /* in the queue's name, of every job */
	assert_int_equal(r.results_n, 20);
	assert_str_is(r.results[19].id, "job_002480");
	assert_false(r.partial);
}

/* Rows far apart: looking goes from one to the next that exists. */
static void test_parts_over_gaps(void **state)
{
	struct fixture *f = *state;

	put_job(f, 0, STR("\"Pomegranate\""));
	assert_int_equal(db_exec(f->view.writer,
				 "UPDATE jobs SET rowid=rowid+4000000000000"),
			 0);
	put_job(f, 1, STR("\"Pomegranate\""));
	assert_int_equal(count(f, "megran"), 2);
}

static void test_large_results(void **state)
{
	struct fixture *f = *state;
	struct m_fulltext_reply r;
	char *big = xcalloc(1, BIG_BYTES);

	memset(big, 'x', BIG_BYTES);
	memcpy(big, "\"plum ", 6);
	big[BIG_BYTES - 1] = '"';
	for (unsigned i = 0; i < 12; i++)
		put_job(f, i, str_of(big, BIG_BYTES));
	find(f, "plum", 500, &r);
	assert_true(r.results_n >= 8 && r.results_n < 12);
	assert_true(r.partial);
	free(big);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_words),
		TEST(test_parts),
		TEST(test_parts_over_gaps),
		TEST(test_large_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
