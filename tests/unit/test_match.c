/*
 * Words to an FTS5 expression: what it looks like, that it finds what it
 * says, and that no text at all is an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "db/db.h"
#include "lib/testlib.h"
#include "proto/limits.h"
#include "query/match.h"

#define RANDOM_TEXTS 3000
#define TEXT_MAX     64

static const struct {
	const char *q;
	const char *expected; /* NULL: no word in it */
	bool found;           /* in the document below */
} rows[] = {
	{ "hello", "\"hello\"", true },
	{ "HELLO", "\"HELLO\"", true },
	{ "  hello\tworld\n", "\"hello\" \"world\"", true },
	{ "world hello", "\"world\" \"hello\"", true },
	{ "hello nobody", "\"hello\" \"nobody\"", false },
	{ "\"hello world\"", "\"hello world\"", true },
	{ "\"world hello\"", "\"world hello\"", false },
	{ "\"hello world", "\"hello world\"", true },
	{ "hel*", "\"hel\"*", true },
	{ "ello*", "\"ello\"*", false },
	{ "\"hello wor\"*", "\"hello wor\"*", true },
	{ "a\"hello world\"b", "\"a\" \"hello world\" \"b\"", false },
	{ "user@example.com", "\"user@example.com\"", true },
	{ "user@exam*", "\"user@exam\"*", true },
	{ "example@user.com", "\"example@user.com\"", false },
	{ "-- hello ** \"\" \"...\" ", "\"hello\"", true },
	{ "hello -nobody", "\"hello\" \"-nobody\"", false },
	/* words of FTS5's own language are words */
	{ "hello AND nobody", "\"hello\" \"AND\" \"nobody\"", false },
	{ "hello OR nobody", "\"hello\" \"OR\" \"nobody\"", false },
	{ "NOT hello", "\"NOT\" \"hello\"", false },
	{ "NEAR(hello world)", "\"NEAR(hello\" \"world)\"", false },
	{ "payload:hello", "\"payload:hello\"", false },
	{ "^hello", "\"^hello\"", true },
	{ "{a b}:hello", "\"{a\" \"b}:hello\"", false },
	{ "", NULL, false },
	{ " \t\n", NULL, false },
	{ "*", NULL, false },
	{ "\"", NULL, false },
	{ "\"\"*", NULL, false },
	{ "--' ;", NULL, false },
};

static const char document[] =
    "{\"text\": \"Hello world\", \"to\": \"user@example.com\"}";

static struct db *open_index(char *path, size_t size)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct db_stmt *s;
	struct db *db;
	int fd;

	(void)snprintf(path, size, "/tmp/corvo-match-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(db_open(path, DB_LOAD, &db, &why), 0);
	assert_int_equal(db_exec(db, "CREATE VIRTUAL TABLE t USING"
				     " fts5(queue, payload)"),
			 0);
	assert_int_equal(db_prepare(db, "INSERT INTO t VALUES('mail', ?1)", &s),
			 0);
	db_bind_text(s, 1, str_from(document));
	assert_int_equal(db_run(s), 0);
	db_finalize(s);
	return db;
}

static struct db *words_db; /* any will do */

static size_t count_words(void *ctx, struct str text)
{
	return db_count_words(ctx, text);
}

static int open_words(void **state)
{
	static char path[64];

	*state = path;
	words_db = open_index(path, sizeof(path));
	return 0;
}

static void close_index(struct db *db, const char *path)
{
	db_close(db);
	assert_int_equal(unlink(path), 0);
}

/* 1 found, 0 not; an error fails the test. */
static int look_up(struct db *db, struct str expression)
{
	struct db_stmt *s;
	int r;

	assert_int_equal(
	    db_prepare(db, "SELECT 1 FROM t WHERE t MATCH ?1 LIMIT 1", &s), 0);
	db_bind_text(s, 1, expression);
	r = db_step(s);
	if (r < 0)
		fail_msg("%.*s: %s", STR_ARG(expression), db_error(db));
	db_finalize(s);
	return r;
}

static int close_words(void **state)
{
	close_index(words_db, *state);
	return 0;
}

static void test_expressions(void **state)
{
	char path[64];
	struct db *db = open_index(path, sizeof(path));

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf out = BUF_INIT(0);
		bool any = match_build(str_from(rows[i].q), count_words,
				       words_db, &out) == MATCH_BUILT;

		assert_int_equal(any, rows[i].expected != NULL);
		if (!any)
			continue;
		if (!str_is(buf_str(&out), rows[i].expected))
			fail_msg("%s: %.*s", rows[i].q, STR_ARG(buf_str(&out)));
		if (look_up(db, buf_str(&out)) != rows[i].found)
			fail_msg("%s: found %d", rows[i].q, !rows[i].found);
	}
	close_index(db, path);
}

static void test_appends(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);

	(void)state;
	buf_puts(&out, "before ");
	assert_int_equal(MATCH_NOTHING,
			 match_build(STR("..."), count_words, words_db, &out));
	assert_true(str_is(buf_str(&out), "before "));
	assert_int_equal(MATCH_BUILT,
			 match_build(STR("a b"), count_words, words_db, &out));
	assert_true(str_is(buf_str(&out), "before \"a\" \"b\""));
}

static void test_nul_is_white_space(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);

	(void)state;
	assert_int_equal(MATCH_BUILT, match_build(STR("a\0b \"c\0d\""),
						  count_words, words_db, &out));
	assert_true(str_is(buf_str(&out), "\"a\" \"b\" \"c d\""));
}

/* As many words as a request can hold. */
static void test_many_words(void **state)
{
	_cleanup_(buf_done) struct buf q = BUF_INIT(0);
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	char path[64];
	struct db *db = open_index(path, sizeof(path));

	(void)state;
	for (int i = 0; i < 1024; i++)
		buf_printf(&q, "%c%c ", 'a' + i % 26, 'a' + i / 26 % 26);
	assert_int_equal(MATCH_BUILT,
			 match_build(buf_str(&q), count_words, words_db, &out));
	assert_int_equal(look_up(db, buf_str(&out)), 0);
	close_index(db, path);
}

static void test_what_is_said_twice_counts_once(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);

	(void)state;
	assert_int_equal(MATCH_BUILT, match_build(STR("a b* a b b* \"a\" b*"),
						  count_words, words_db, &out));
	assert_true(str_is(buf_str(&out), "\"a\" \"b\"* \"b\""));
}

/* The index gathers all that each of them begins. */
static void test_words_with_a_star_are_few(void **state)
{
	_cleanup_(buf_done) struct buf q = BUF_INIT(0);
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);

	(void)state;
	for (int i = 0; i < LIMIT_SEARCH_PREFIXES; i++)
		buf_printf(&q, "w%d* w%d* w%d ", i, i, i);
	assert_int_equal(MATCH_BUILT,
			 match_build(buf_str(&q), count_words, words_db, &out));
	buf_clear(&out);
	buf_puts(&q, "more*");
	assert_int_equal(MATCH_MANY_PREFIXES,
			 match_build(buf_str(&q), count_words, words_db, &out));
	assert_int_equal(out.n, 0);
}

/* And holds all places of each word of a phrase in a row. */
static void test_phrases_are_short(void **state)
{
	_cleanup_(buf_done) struct buf q = BUF_INIT(0);
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);

	(void)state;
	for (int i = 0; i < LIMIT_SEARCH_PHRASES / 4; i++)
		buf_printf(&q, "\"a b%d\" c.d%d ", i, i);
	buf_puts(&q, "single words count for nothing");
	assert_int_equal(MATCH_BUILT,
			 match_build(buf_str(&q), count_words, words_db, &out));
	buf_clear(&out);
	buf_puts(&q, " e\xe2\x80\x94"
		     "f"); /* a dash */
	assert_int_equal(MATCH_LONG_PHRASES,
			 match_build(buf_str(&q), count_words, words_db, &out));
	assert_int_equal(out.n, 0);
}

static void test_no_text_is_an_error(void **state)
{
	static const char some[] =
	    "\"\"\"**  ab'(){}:^+-.,\\%_\xc3\xa9 ANDORNOT";
	struct rng rng;
	char path[64];
	struct db *db = open_index(path, sizeof(path));

	(void)state;
	test_rng(&rng);
	for (int i = 0; i < RANDOM_TEXTS; i++) {
		_cleanup_(buf_done) struct buf out = BUF_INIT(0);
		char text[TEXT_MAX];
		size_t n = rng_below(&rng, TEXT_MAX);

		for (size_t k = 0; k < n; k++)
			text[k] = i % 2 == 0
				      ? some[rng_below(&rng, sizeof(some))]
				      : (char)rng_below(&rng, 256);
		if (match_build(str_of(text, n), count_words, words_db, &out) ==
		    MATCH_BUILT)
			(void)look_up(db, buf_str(&out));
	}
	close_index(db, path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_appends),
		cmocka_unit_test(test_nul_is_white_space),
		cmocka_unit_test(test_what_is_said_twice_counts_once),
		cmocka_unit_test(test_words_with_a_star_are_few),
		cmocka_unit_test(test_phrases_are_short),
		cmocka_unit_test(test_many_words),
		cmocka_unit_test(test_no_text_is_an_error),
	};

	return cmocka_run_group_tests(tests, open_words, close_words);
}
