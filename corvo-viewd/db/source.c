/*
 * Rows of the caller's as a table, by SQLite's virtual tables; see struct
 * db_source. There is nothing to look up: all rows, in their order.
 */
#include <stdlib.h>

#include "db/db_impl.h"

/* --- values --- */

void db_put_text(struct db_to to, struct str v)
{
	if (to.column != NULL)
		sqlite3_result_text64(to.column, v.p, v.n, SQLITE_STATIC,
				      SQLITE_UTF8);
	else
		db_bind_text(to.stmt, to.i, v);
}

void db_put_i64(struct db_to to, int64_t v)
{
	if (to.column != NULL)
		sqlite3_result_int64(to.column, v);
	else
		db_bind_i64(to.stmt, to.i, v);
}

void db_put_f64(struct db_to to, double v)
{
	if (to.column != NULL)
		sqlite3_result_double(to.column, v);
	else
		db_bind_f64(to.stmt, to.i, v);
}

/* A column is NULL until it is said what it is. */
void db_put_null(struct db_to to)
{
	if (to.column == NULL)
		db_bind_null(to.stmt, to.i);
}

/* --- the table --- */

struct source_table {
	sqlite3_vtab table;
	struct db_source *s;
};

struct source_cursor {
	sqlite3_vtab_cursor cursor;
	struct db_source *s;
	size_t row;
};

static struct source_cursor *cursor_of(sqlite3_vtab_cursor *c)
{
	return container_of(c, struct source_cursor, cursor);
}

static int source_connect(sqlite3 *h, void *ctx, int n, const char *const *args,
			  sqlite3_vtab **ret, char **why)
{
	_cleanup_(buf_done) struct buf sql = BUF_INIT(0);
	struct source_table *t = xcalloc(1, sizeof(*t));

	(void)n, (void)args, (void)why;
	t->s = ctx;
	buf_printf(&sql, "CREATE TABLE x(%s)", t->s->columns);
	buf_putc(&sql, '\0');
	CHECK(sqlite3_declare_vtab(h, sql.p) == SQLITE_OK);
	*ret = &t->table;
	return SQLITE_OK;
}

static int source_disconnect(sqlite3_vtab *t)
{
	free(container_of(t, struct source_table, table));
	return SQLITE_OK;
}

/* All rows, in their order. */
static int source_plan(sqlite3_vtab *t, sqlite3_index_info *info)
{
	(void)t, (void)info;
	return SQLITE_OK;
}

static int source_open(sqlite3_vtab *t, sqlite3_vtab_cursor **ret)
{
	struct source_cursor *c = xcalloc(1, sizeof(*c));

	c->s = container_of(t, struct source_table, table)->s;
	*ret = &c->cursor;
	return SQLITE_OK;
}

static int source_close(sqlite3_vtab_cursor *c)
{
	free(cursor_of(c));
	return SQLITE_OK;
}

static int source_first(sqlite3_vtab_cursor *c, int plan, const char *text,
			int n, sqlite3_value **args)
{
	(void)plan, (void)text, (void)n, (void)args;
	cursor_of(c)->row = 0;
	return SQLITE_OK;
}

static int source_next(sqlite3_vtab_cursor *c)
{
	cursor_of(c)->row++;
	return SQLITE_OK;
}

static int source_at_end(sqlite3_vtab_cursor *c)
{
	return cursor_of(c)->row >= cursor_of(c)->s->rows;
}

static int source_column(sqlite3_vtab_cursor *c, sqlite3_context *to, int i)
{
	const struct source_cursor *at = cursor_of(c);

	at->s->put(at->s->ctx, at->row, (size_t)i,
		   (struct db_to){ .column = to });
	return SQLITE_OK;
}

static int source_rowid(sqlite3_vtab_cursor *c, sqlite3_int64 *ret)
{
	*ret = (sqlite3_int64)cursor_of(c)->row;
	return SQLITE_OK;
}

int db_add_source(struct db *db, struct db_source *s)
{
	static const sqlite3_module module = {
		.xConnect = source_connect,
		.xDisconnect = source_disconnect,
		.xBestIndex = source_plan,
		.xOpen = source_open,
		.xClose = source_close,
		.xFilter = source_first,
		.xNext = source_next,
		.xEof = source_at_end,
		.xColumn = source_column,
		.xRowid = source_rowid,
	};

	return db_translate(
	    sqlite3_create_module_v2(db->h, s->name, &module, s, NULL));
}
