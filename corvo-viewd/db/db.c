/*
 * The seam to SQLite. Runs on whatever thread owns the connection. The file
 * may hold anything (a crash, a full disk, another program): every code that
 * says so comes back as an error, never as a CHECK.
 */
#include "db/db.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "db/db_impl.h"
#include "proto/err.h"
#include "rt/file.h"
#include "util/clock.h"
#include "util/json.h"

/* The deadline is looked at once in so many steps of SQLite's machine. */
#define DB_PROGRESS_STEPS 4000
/* Somebody with the sqlite3 shell may hold the file for a moment. */
#define DB_BUSY_MS 5000
/* Or read it for hours, which keeps the log where it is. Opening and closing
 * the view, which nothing else goes on beside, do not wait for that. */
#define DB_CHECKPOINT_BUSY_MS 300

/*
 * synchronous=OFF: a killed process loses nothing (the pages are the
 * kernel's), and after a power loss the view is rebuilt (view.c). Caches are
 * filled on demand, so a fresh node does not pay for them.
 */
#define DB_PAGES "PRAGMA page_size=8192;" /* a sixth faster than 4096 */
static const char *const mode_pragmas[] = {
	[DB_WRITE] = DB_PAGES "PRAGMA journal_mode=WAL;"
			      "PRAGMA synchronous=OFF;"
			      "PRAGMA wal_autocheckpoint=500;"
			      "PRAGMA journal_size_limit=33554432;"
			      "PRAGMA temp_store=MEMORY",
	[DB_READ] = "PRAGMA query_only=1",
	[DB_LOAD] = DB_PAGES "PRAGMA journal_mode=OFF;"
			     "PRAGMA synchronous=OFF;"
			     "PRAGMA locking_mode=EXCLUSIVE",
};

static uint64_t cache_bytes = 16u << 20;

int db_translate(int rc)
{
	if (rc == SQLITE_IOERR_SHORT_READ || rc == SQLITE_IOERR_CORRUPTFS)
		return -ERR_VIEW_UNAVAILABLE;
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
		return 0;
	case SQLITE_ROW:
		return 1;
	case SQLITE_FULL:
		return -ERR_STORAGE_FULL;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -ERR_VIEW_UNAVAILABLE;
	case SQLITE_INTERRUPT:
		return -ERR_REQUEST_TIMEOUT;
	default:
		return -ERR_INTERNAL_ERROR;
	}
}

void db_set_temp_dir(const char *dir)
{
	/* Counting every allocation under a global lock is for debugging. */
	(void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	sqlite3_free(sqlite3_temp_directory);
	sqlite3_temp_directory =
	    dir != NULL ? sqlite3_mprintf("%s", dir) : NULL;
}

void db_set_cache(uint64_t bytes)
{
	cache_bytes = bytes;
}

static int set_cache(struct db *db, enum db_mode mode)
{
	const uint64_t bytes[] = { [DB_WRITE] = cache_bytes,
				   [DB_READ] = cache_bytes / 8,
				   [DB_LOAD] = cache_bytes * 2 };
	char sql[64];

	(void)snprintf(sql, sizeof(sql), "PRAGMA cache_size=-%llu",
		       (unsigned long long)(bytes[mode] >> 10));
	return db_exec(db, sql);
}

static int on_progress(void *ctx)
{
	struct db *db = ctx;

	if (db->stop != NULL && atomic_load(db->stop))
		return 1;
	return db->deadline_ns != 0 && clock_mono_ns() > db->deadline_ns;
}

/* --- words of JSON ---
 *
 * The tokenizer of db/schema.c: unicode61 on a text whose escapes are decoded,
 * or "two\nlines" would be the words two and nlines. What a user looks for is
 * no JSON and goes to unicode61 as it is.
 */

struct words {
	fts5_tokenizer plain; /* unicode61 and its instance */
	Fts5Tokenizer *instance;
	struct buf text;
};

static void words_delete(Fts5Tokenizer *t)
{
	struct words *w = (struct words *)t;

	w->plain.xDelete(w->instance);
	buf_done(&w->text);
	free(w);
}

static int words_create(void *ctx, const char **args, int n,
			Fts5Tokenizer **ret)
{
	fts5_api *api = ctx;
	struct words *w = xcalloc(1, sizeof(*w));
	void *plain_ctx;
	int rc = api->xFindTokenizer(api, "unicode61", &plain_ctx, &w->plain);

	if (rc == SQLITE_OK)
		rc = w->plain.xCreate(plain_ctx, args, n, &w->instance);
	if (rc != SQLITE_OK) {
		free(w);
		return rc;
	}
	*ret = (Fts5Tokenizer *)w;
	return SQLITE_OK;
}

static int words_split(Fts5Tokenizer *t, void *ctx, int flags, const char *text,
		       int n,
		       int (*fn)(void *, int, const char *, int, int, int))
{
	struct words *w = (struct words *)t;
	struct str s = str_of(text, (size_t)MAX(n, 0));

	if (!(flags & FTS5_TOKENIZE_QUERY) && s.n > 0 &&
	    memchr(s.p, '\\', s.n) != NULL) {
		char *to;

		buf_clear(&w->text);
		to = buf_reserve(&w->text, s.n);
		s = str_of(to, json_unescape(s, to));
	}
	return w->plain.xTokenize(w->instance, ctx, flags, s.p, (int)s.n, fn);
}

static int count_word(void *ctx, _unused_ int flags, _unused_ const char *word,
		      _unused_ int n, _unused_ int begin, _unused_ int end)
{
	++*(size_t *)ctx;
	return SQLITE_OK;
}

size_t db_count_words(struct db *db, struct str text)
{
	size_t n = 0;

	CHECK(words_split(db->words, &n, FTS5_TOKENIZE_QUERY,
			  text.n > 0 ? text.p : "", (int)text.n,
			  count_word) == SQLITE_OK);
	return n;
}

static int add_words(struct db *db)
{
	fts5_tokenizer words = { words_create, words_delete, words_split };
	fts5_api *api = NULL;
	sqlite3_stmt *s;
	int rc = sqlite3_prepare_v2(db->h, "SELECT fts5(?1)", -1, &s, NULL);

	if (rc != SQLITE_OK)
		return db_translate(rc);
	sqlite3_bind_pointer(s, 1, &api, "fts5_api_ptr", NULL);
	(void)sqlite3_step(s);
	rc = sqlite3_finalize(s);
	if (rc == SQLITE_OK)
		rc =
		    api->xCreateTokenizer(api, "json_words", api, &words, NULL);
	if (rc == SQLITE_OK)
		rc = words_create(api, NULL, 0, &db->words);
	return db_translate(rc);
}

int db_open(const char *path, enum db_mode mode, struct db **ret,
	    struct buf *why)
{
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE |
		    (mode == DB_READ ? 0 : SQLITE_OPEN_CREATE);
	struct db *db = xcalloc(1, sizeof(*db));
	int rc = sqlite3_open_v2(path, &db->h, flags, NULL);
	int r = db_translate(rc);

	db->fd = -1;
	if (db->h == NULL)
		check_failed(__FILE__, __LINE__, "out of memory");
	sqlite3_extended_result_codes(db->h, 1);
	sqlite3_busy_timeout(db->h, DB_BUSY_MS);
	if (r == 0 && sqlite3_db_readonly(db->h, "main") == 1) {
		buf_printf(why, "%s cannot be written to", path);
		db_close(db);
		return -ERR_VIEW_UNAVAILABLE;
	}
	if (r == 0)
		r = db_exec(db, mode_pragmas[mode]);
	if (r == 0)
		r = set_cache(db, mode);
	if (r == 0)
		r = add_words(db);
	if (r < 0) {
		buf_printf(why, "cannot open %s: %s", path, db_error(db));
		db_close(db);
		return r;
	}
	if (mode == DB_WRITE) /* without, it is the system that decides when */
		db->fd = open(path, O_RDONLY | O_CLOEXEC);
	else
		sqlite3_progress_handler(db->h, DB_PROGRESS_STEPS, on_progress,
					 db);
	*ret = db;
	return 0;
}

void db_close(struct db *db)
{
	if (db == NULL)
		return;
	if (db->words != NULL)
		words_delete(db->words);
	CHECK(sqlite3_close(db->h) == SQLITE_OK); /* a statement was left */
	if (db->fd >= 0)
		close(db->fd);
	free(db);
}

int db_exec(struct db *db, const char *sql)
{
	return db_translate(sqlite3_exec(db->h, sql, NULL, NULL, NULL));
}

const char *db_error(struct db *db)
{
	return sqlite3_errmsg(db->h);
}

bool db_is_foreign(struct db *db)
{
	switch (sqlite3_errcode(db->h) & 0xff) {
	case SQLITE_ERROR:
	case SQLITE_SCHEMA:
	case SQLITE_CONSTRAINT:
	case SQLITE_MISMATCH:
		return true;
	default:
		return false;
	}
}

int64_t db_changes(struct db *db)
{
	return sqlite3_changes64(db->h);
}

int64_t db_last_rowid(struct db *db)
{
	return sqlite3_last_insert_rowid(db->h);
}

int db_checkpoint(struct db *db)
{
	int r = db_exec(db, "PRAGMA synchronous=FULL");

	if (r < 0)
		return r;
	sqlite3_busy_timeout(db->h, DB_CHECKPOINT_BUSY_MS);
	r = db_translate(sqlite3_wal_checkpoint_v2(
	    db->h, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL));
	sqlite3_busy_timeout(db->h, DB_BUSY_MS);
	if (r < 0)
		return r;
	return db_exec(db, "PRAGMA synchronous=OFF");
}

void db_pass_on(struct db *db)
{
	if (db->fd >= 0)
		file_pass_on(db->fd);
}

void db_set_deadline(struct db *db, uint64_t mono_ns)
{
	db->deadline_ns = mono_ns;
}

void db_set_stop(struct db *db, const atomic_bool *stop)
{
	db->stop = stop;
}

void db_interrupt(struct db *db)
{
	sqlite3_interrupt(db->h);
}

/* --- matches() --- */

static const char match_type[] = "match"; /* a pointer to the thing itself */

static void call_match(sqlite3_context *c, int n, sqlite3_value **v)
{
	struct db *db = sqlite3_user_data(c);
	void *what = sqlite3_value_pointer(v[1], match_type);
	const char *p = (const char *)sqlite3_value_text(v[0]);

	(void)n;
	/* One call may take a millisecond, and steps are counted without. */
	if (on_progress(db) != 0) {
		sqlite3_result_error_code(c, SQLITE_INTERRUPT);
		return;
	}
	sqlite3_result_int(
	    c,
	    p != NULL && what != NULL &&
		db->match(what, str_of(p, (size_t)sqlite3_value_bytes(v[0]))));
}

void db_set_match(struct db *db, db_match_fn *fn)
{
	db->match = fn;
	CHECK(sqlite3_create_function_v2(db->h, "matches", 2, SQLITE_UTF8, db,
					 call_match, NULL, NULL,
					 NULL) == SQLITE_OK);
}

/* A struct db_stmt is a sqlite3_stmt by another name. */
static sqlite3_stmt *stmt(struct db_stmt *s)
{
	return (sqlite3_stmt *)s;
}

int db_prepare(struct db *db, const char *sql, struct db_stmt **ret)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v3(db->h, sql, -1, SQLITE_PREPARE_PERSISTENT,
				    &s, NULL);

	if (rc != SQLITE_OK)
		return db_translate(rc);
	*ret = (struct db_stmt *)s;
	return 0;
}

int db_schema_version(struct db *db, int64_t *ret)
{
	struct db_stmt *s;
	int r = db_prepare(db, "PRAGMA schema_version", &s);

	if (r < 0)
		return r;
	r = db_step(s);
	if (r == 1)
		*ret = db_i64(s, 0);
	db_finalize(s);
	return r == 1 ? 0 : MIN(r, -ERR_INTERNAL_ERROR);
}

void db_finalize(struct db_stmt *s)
{
	(void)sqlite3_finalize(stmt(s)); /* repeats an error already seen */
}

/* Binding fails only for a wrong index or without memory: bugs. */
void db_bind_text(struct db_stmt *s, int i, struct str v)
{
	CHECK(sqlite3_bind_text64(stmt(s), i, v.p, v.n, SQLITE_STATIC,
				  SQLITE_UTF8) == SQLITE_OK);
}

void db_bind_i64(struct db_stmt *s, int i, int64_t v)
{
	CHECK(sqlite3_bind_int64(stmt(s), i, v) == SQLITE_OK);
}

void db_bind_f64(struct db_stmt *s, int i, double v)
{
	CHECK(sqlite3_bind_double(stmt(s), i, v) == SQLITE_OK);
}

void db_bind_null(struct db_stmt *s, int i)
{
	CHECK(sqlite3_bind_null(stmt(s), i) == SQLITE_OK);
}

void db_bind_match(struct db_stmt *s, int i, void *what)
{
	CHECK(sqlite3_bind_pointer(stmt(s), i, what, match_type, NULL) ==
	      SQLITE_OK);
}

int db_step(struct db_stmt *s)
{
	int r = db_translate(sqlite3_step(stmt(s)));

	if (r != 1)
		sqlite3_reset(stmt(s));
	return r;
}

void db_reset(struct db_stmt *s)
{
	sqlite3_reset(stmt(s));
}

int db_run(struct db_stmt *s)
{
	int r = db_step(s);

	CHECK(r != 1);
	return r;
}

bool db_is_null(struct db_stmt *s, int i)
{
	return sqlite3_column_type(stmt(s), i) == SQLITE_NULL;
}

struct str db_text(struct db_stmt *s, int i)
{
	const char *p = (const char *)sqlite3_column_text(stmt(s), i);

	if (p == NULL)
		return STR_NULL;
	return str_of(p, (size_t)sqlite3_column_bytes(stmt(s), i));
}

int64_t db_i64(struct db_stmt *s, int i)
{
	return sqlite3_column_int64(stmt(s), i);
}

double db_f64(struct db_stmt *s, int i)
{
	return sqlite3_column_double(stmt(s), i);
}

/* NULL, numbers, texts, blobs. */
static int type_rank(sqlite3_stmt *s, int i)
{
	switch (sqlite3_column_type(s, i)) {
	case SQLITE_NULL:
		return 0;
	case SQLITE_INTEGER:
	case SQLITE_FLOAT:
		return 1;
	case SQLITE_TEXT:
		return 2;
	default:
		return 3;
	}
}

static int compare_numbers(sqlite3_stmt *a, sqlite3_stmt *b, int i)
{
	if (sqlite3_column_type(a, i) == SQLITE_INTEGER &&
	    sqlite3_column_type(b, i) == SQLITE_INTEGER) {
		int64_t x = sqlite3_column_int64(a, i);
		int64_t y = sqlite3_column_int64(b, i);

		return x < y ? -1 : x > y;
	}
	double x = sqlite3_column_double(a, i);
	double y = sqlite3_column_double(b, i);

	return x < y ? -1 : x > y;
}

static struct str column_bytes(sqlite3_stmt *s, int i)
{
	const void *p = sqlite3_column_blob(s, i);

	return str_of(p != NULL ? p : "", (size_t)sqlite3_column_bytes(s, i));
}

int db_compare(struct db_stmt *a, struct db_stmt *b, int i)
{
	int x = type_rank(stmt(a), i), y = type_rank(stmt(b), i);

	if (x != y || x == 0)
		return x - y;
	if (x == 1)
		return compare_numbers(stmt(a), stmt(b), i);
	return str_cmp(column_bytes(stmt(a), i), column_bytes(stmt(b), i));
}
