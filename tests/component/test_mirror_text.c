/*
 * What is found by its words: documents written to SQLite one by one, and
 * after each the full text compared with the rows and asked for words.
 */
#include "view_fixture.h"
#include "view_rows.h"

static void apply(struct fixture *f, struct m_job *j, size_t n)
{
	struct m_tail_reply r = { .last_seq = ++f->seq,
				  .jobs = j,
				  .jobs_n = n };

	assert_int_equal(mirror_apply(f->view.mirror, &r), 0);
	assert_consistent(f->view.writer);
}

static void make_text(struct m_job *j, const char *id, const char *payload)
{
	make_job(j, id, JOB_PENDING);
	MSG_SET(j, job, payload, str_from(payload));
}

static void make_deleted(struct m_job *j, const char *id)
{
	*j = (struct m_job){ 0 };
	MSG_SET(j, job, id, str_from(id));
	MSG_SET(j, job, deleted, true);
}

/* The ids of the jobs with these words, newest first: "j2 j1". */
static void assert_found(struct fixture *f, const char *match,
			 const char *expected)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct db_stmt *s;

	assert_int_equal(
	    db_prepare(f->view.writer,
		       "SELECT j.id FROM jobs_fts f"
		       " JOIN jobs j ON j.rowid = f.rowid"
		       " WHERE jobs_fts MATCH ?1 ORDER BY f.rowid DESC",
		       &s),
	    0);
	db_bind_text(s, 1, str_from(match));
	while (db_step(s) == 1)
		buf_printf(&b, "%s%.*s", b.n > 0 ? " " : "",
			   STR_ARG(db_text(s, 0)));
	db_finalize(s);
	buf_putc(&b, '\0');
	assert_string_equal(b.p, expected);
}

static void test_words_of_payload_queue_and_tags_are_found(void **state)
{
	struct fixture *f = *state;
	struct m_job j[2];

	make_text(&j[0], "j1",
		  "{\"to\":\"Anna.Example@example.com\","
		  "\"order\":{\"number\":4711,\"text\":\"two red shoes\"}}");
	make_text(&j[1], "j2", "[\"z\xc3\xbcrich\", \"red wine, two\"]");
	MSG_SET(&j[1], job, queue, STR("mail.out"));
	MSG_SET(&j[1], job, tags, STR("{\"tenant\":\"acme\"}"));
	apply(f, j, 2);
	assert_found(f, "red", "j2 j1");
	assert_found(f, "shoes", "j1");
	assert_found(f, "4711", "j1");
	assert_found(f, "number", "j1");
	assert_found(f, "SHOES", "j1");
	assert_found(f, "\"two red\"", "j1");
	assert_found(f, "two AND red", "j2 j1");
	assert_found(f, "sho*", "j1");
	assert_found(f, "\"anna.example@example.com\"", "j1");
	assert_found(f, "\"anna@example.com\"", "");
	assert_found(f, "z\xc3\xbcrich", "j2");
	assert_found(f, "zurich", "j2");
	assert_found(f, "acme", "j2");
	assert_found(f, "out", "j2");
	assert_found(f, "queue : red", "");
	assert_found(f, "nothing", "");
}

/* As JSON writers that keep to ASCII send it. */
static void test_words_behind_escapes_are_found(void **state)
{
	struct fixture *f = *state;
	struct m_job j;

	make_text(&j, "j1",
		  "{\"a\":\"line\\nnext\\ttab\\\\back\\/slash\","
		  "\"b\":\"Z\\u00fcrich \\ud835\\udc00\\\"quoted\\\"\"}");
	apply(f, &j, 1);
	assert_found(f, "line AND next AND tab AND back AND slash", "j1");
	assert_found(f, "z\xc3\xbcrich", "j1");
	assert_found(f, "quoted", "j1");
	assert_found(f, "nnext OR ttab OR u00fcrich", "");
	/* Those of a user are no JSON. */
	assert_found(f, "\"line\\next\"", "j1");
	make_deleted(&j, "j1");
	apply(f, &j, 1);
	assert_found(f, "quoted", "");
}

static void test_a_replaced_payload_is_found_by_its_new_words(void **state)
{
	struct fixture *f = *state;
	struct m_job j[3];

	make_text(&j[0], "j1", "\"one old\"");
	make_text(&j[1], "j2", "\"two old\"");
	make_text(&j[2], "j3", "\"three old\"");
	apply(f, j, 3);
	/* Not in the order of the rows, and one is the same as before. */
	make_text(&j[0], "j3", "\"three new\"");
	make_text(&j[1], "j2", "\"two old\"");
	make_text(&j[2], "j1", "\"one new\"");
	apply(f, j, 3);
	assert_found(f, "new", "j3 j1");
	assert_found(f, "old", "j2");
	apply(f, j, 3); /* told again */
	assert_found(f, "new", "j3 j1");
}

static void test_a_moved_job_is_found_in_its_new_queue(void **state)
{
	struct fixture *f = *state;
	struct m_job j;

	make_text(&j, "j1", "{}");
	MSG_SET(&j, job, queue, STR("here"));
	apply(f, &j, 1);
	MSG_SET(&j, job, queue, STR("there"));
	apply(f, &j, 1);
	assert_found(f, "here", "");
	assert_found(f, "there", "j1");
}

static void test_a_deleted_job_is_not_found(void **state)
{
	struct fixture *f = *state;
	struct m_job j[4];

	make_text(&j[0], "j1", "\"word\"");
	make_text(&j[1], "j2", "\"word\"");
	make_text(&j[2], "j3", "\"word\"");
	apply(f, j, 3);
	/* The row number of the newest is used again at once. */
	make_text(&j[0], "j4", "\"other\"");
	make_deleted(&j[1], "j3");
	make_deleted(&j[2], "j1");
	make_deleted(&j[3], "unknown");
	apply(f, j, 4);
	assert_found(f, "word", "j2");
	assert_found(f, "other", "j4");
}

/* One call each, as in a bulk load, also of a job that came just before. */
static void test_pieces_of_a_transaction(void **state)
{
	struct fixture *f = *state;
	struct mirror *m = f->view.mirror;
	struct m_job j;

	assert_int_equal(mirror_begin(m), 0);
	make_text(&j, "j1", "\"word\"");
	assert_int_equal(mirror_job(m, &j), 0);
	make_text(&j, "j2", "\"word\"");
	assert_int_equal(mirror_job(m, &j), 0);
	make_text(&j, "j1", "\"changed\"");
	assert_int_equal(mirror_job(m, &j), 0);
	make_deleted(&j, "j2");
	assert_int_equal(mirror_job(m, &j), 0);
	assert_int_equal(mirror_commit(m), 0);
	assert_consistent(f->view.writer);
	assert_found(f, "word", "");
	assert_found(f, "changed", "j1");
}

static void test_a_transaction_that_failed_leaves_no_words(void **state)
{
	struct fixture *f = *state;
	struct m_tail_reply r = { .last_seq = 9, .jobs_n = 2 };
	struct m_job j[2];

	make_text(&j[0], "j1", "\"word\"");
	make_deleted(&j[1], "j2");
	MSG_SET(&j[1], job, deleted,
		false); /* a change of one that is not there */
	r.jobs = j;
	assert_int_equal(mirror_apply(f->view.mirror, &r), -ERR_NOT_FOUND);
	assert_consistent(f->view.writer);
	assert_found(f, "word", "");
	apply(f, j, 1);
	assert_found(f, "word", "j1");
}

/* --- words that come later --- */

static void apply_rows(struct fixture *f, struct m_job *j, size_t n)
{
	struct m_tail_reply r = { .last_seq = ++f->seq,
				  .jobs = j,
				  .jobs_n = n };

	assert_int_equal(mirror_apply_rows(f->view.mirror, &r), 0);
}

static void add_words(struct fixture *f)
{
	while (!mirror_text_is_whole(f->view.mirror))
		assert_int_equal(mirror_text_step(f->view.mirror), 0);
	assert_consistent(f->view.writer);
}

static void test_rows_come_before_their_words(void **state)
{
	struct fixture *f = *state;
	struct m_job j[2];

	make_text(&j[0], "j1", "\"word\"");
	make_text(&j[1], "j2", "\"word\"");
	apply(f, &j[0], 1);
	apply_rows(f, &j[1], 1);
	assert_false(mirror_text_is_whole(f->view.mirror));
	assert_found(f, "word", "j1");
	/* what comes in time does not overtake it */
	make_text(&j[0], "j3", "\"word\"");
	apply_rows(f, &j[0], 1);
	add_words(f);
	assert_found(f, "word", "j3 j2 j1");
	make_text(&j[0], "j4", "\"word\"");
	apply(f, &j[0], 1);
	assert_found(f, "word", "j4 j3 j2 j1");
}

static void test_rows_without_words_change_and_go(void **state)
{
	struct fixture *f = *state;
	struct m_job j[3];

	make_text(&j[0], "j1", "\"old\"");
	make_text(&j[1], "j2", "\"old\"");
	make_text(&j[2], "j3", "\"old\"");
	apply(f, &j[0], 1);
	apply_rows(f, &j[1], 2);
	make_text(&j[0], "j1", "\"new\"");
	make_text(&j[1], "j2", "\"new\"");
	make_deleted(&j[2], "j3");
	apply_rows(f, j, 3);
	assert_found(f, "new", "j1");
	add_words(f);
	assert_found(f, "old", "");
	assert_found(f, "new", "j2 j1");
}

/* The number of a row that went is given to the next one. */
static void test_numbers_used_again_before_their_words(void **state)
{
	struct fixture *f = *state;
	struct m_job j[3];

	make_text(&j[0], "j1", "\"one\"");
	make_text(&j[1], "j2", "\"two\"");
	make_text(&j[2], "j3", "\"three\"");
	apply(f, j, 2);
	apply_rows(f, &j[2], 1);
	make_deleted(&j[0], "j2"); /* it has its words, j3 has none */
	make_deleted(&j[1], "j3");
	apply_rows(f, j, 2);
	make_text(&j[0], "j4", "\"four\"");
	apply_rows(f, j, 1);
	add_words(f);
	assert_found(f, "one OR two OR three OR four", "j4 j1");
}

static void test_words_are_added_a_portion_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct m_job *j = xcalloc(1200, sizeof(*j));
	char(*ids)[16] = xcalloc(1200, sizeof(*ids));
	int steps = 0;

	for (int i = 0; i < 1200; i++) {
		(void)snprintf(ids[i], sizeof(ids[i]), "j%04d", i);
		make_text(&j[i], ids[i], "\"word\"");
	}
	apply_rows(f, j, 1200);
	for (; !mirror_text_is_whole(f->view.mirror); steps++)
		assert_int_equal(mirror_text_step(f->view.mirror), 0);
	assert_in_range(steps, 2, 4);
	assert_consistent(f->view.writer);
	free(ids);
	free(j);
}

/* Killed in between: the file says what is missing. */
static void test_words_are_added_by_the_next_process(void **state)
{
	struct fixture *f = *state;
	struct mirror *m;
	struct m_job j;

	make_text(&j, "j1", "\"word\"");
	apply_rows(f, &j, 1);
	assert_int_equal(mirror_new(f->view.writer, &m), 0);
	assert_false(mirror_text_is_whole(m));
	assert_int_equal(mirror_text_step(m), 0);
	assert_true(mirror_text_is_whole(m));
	mirror_free(m);
	assert_consistent(f->view.writer);
	assert_found(f, "word", "j1");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    test_words_of_payload_queue_and_tags_are_found, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(
		    test_words_behind_escapes_are_found, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_a_replaced_payload_is_found_by_its_new_words, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(
		    test_a_moved_job_is_found_in_its_new_queue, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(test_a_deleted_job_is_not_found,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_pieces_of_a_transaction,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_a_transaction_that_failed_leaves_no_words, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(
		    test_rows_come_before_their_words, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_rows_without_words_change_and_go, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_numbers_used_again_before_their_words, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(
		    test_words_are_added_a_portion_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_words_are_added_by_the_next_process, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
