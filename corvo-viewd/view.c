/*
 * When may a file be believed? A killed process leaves it whole, because the
 * pages it wrote are in the kernel's hands. A machine that lost power may
 * not, as nothing is synced. So the file carries the id of the boot it was
 * written in, or "clean" when it was synced and closed: any other id means
 * that it cannot be trusted.
 */
#include "view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/schema.h"
#include "rt/file.h"
#include "rt/log.h"
#include "util/clock.h"

#define BOOT_ID_PATH  "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_BYTES 64
#define BOOT_CLEAN    "clean"
#define LAG_SHOWN_NS  NS_PER_S /* of the last answer */

int view_init(struct view *v, const char *data_dir, struct buf *why)
{
	struct buf b = BUF_INIT(0);
	int r;

	*v = (struct view){ 0 };
	buf_printf(&b, "%s/view%c", data_dir, '\0');
	r = dir_make(b.p);
	if (r < 0) {
		buf_printf(why, "cannot make the directory %s: %s", b.p,
			   strerror(-r));
		buf_done(&b);
		return -ERR_INTERNAL_ERROR;
	}
	db_set_temp_dir(b.p);
	buf_clear(&b);
	buf_printf(&b, "%s/view/corvo.db", data_dir);
	v->path = xstrndup(b.p, b.n);
	buf_puts(&b, ".new");
	v->new_path = xstrndup(b.p, b.n);
	buf_done(&b);
	(void)unlink(v->new_path); /* of a rebuild that was cut off, if any */
	return 0;
}

void view_done(struct view *v)
{
	CHECK(v->writer == NULL);
	free(v->path);
	free(v->new_path);
	db_set_temp_dir(NULL);
	*v = (struct view){ 0 };
}

/* A name for this boot; "unknown" where the kernel does not tell. */
static void boot_id(struct buf *ret)
{
	if (file_read(BOOT_ID_PATH, BOOT_ID_BYTES, ret) < 0) {
		buf_clear(ret);
		buf_puts(ret, "unknown");
	}
	ret->n = str_trim(buf_str(ret)).n; /* it ends in a newline */
}

/* --- is it ours and whole? --- */

/* First column of the first row as text; empty when there is none. */
static int first_text(struct db *db, const char *sql, struct buf *ret)
{
	struct db_stmt *s;
	int r = db_prepare(db, sql, &s);

	buf_clear(ret);
	if (r < 0)
		return r;
	r = db_step(s);
	if (r == 1)
		buf_put_str(ret, db_text(s, 0));
	db_finalize(s);
	return MIN(r, 0);
}

static int not_ours(struct buf *why, const char *reason)
{
	buf_puts(why, reason);
	return -ERR_VIEW_UNAVAILABLE;
}

/* Only small tables: checking all would take as long as a rebuild. */
static int check_pages(struct db *db, struct buf *why)
{
	static const char *const checks[] = {
		"PRAGMA quick_check(meta)",
		"PRAGMA quick_check(queues)",
		"PRAGMA quick_check(queue_stats)",
	};
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		int r = first_text(db, checks[i], &b);

		if (r < 0)
			return r;
		if (!str_is(buf_str(&b), "ok"))
			return not_ours(why, "its pages are damaged");
	}
	return 0;
}

/* *ret_marked: it already has the id of this boot. */
static int check_file(struct view *v, bool check_boot, struct str boot,
		      bool *ret_marked, struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	uint64_t version;
	int r = meta_get_u64(v->writer, META_SCHEMA, &version);

	if (r < 0)
		return not_ours(why, "it has no table meta");
	if (version != SCHEMA_VERSION)
		return not_ours(why, "it is of another version");
	r = meta_get_text(v->writer, META_BOOT, &b);
	if (r < 0)
		return r;
	*ret_marked = check_boot && str_eq(buf_str(&b), boot);
	if (check_boot && !str_is(buf_str(&b), BOOT_CLEAN) && !*ret_marked)
		return not_ours(why, "the machine stopped while it was open");
	return check_pages(v->writer, why);
}

/* --- opening --- */

static int make_file(struct db *db)
{
	int r = db_exec(db, "BEGIN IMMEDIATE");

	if (r == 0)
		r = schema_make_tables(db);
	if (r == 0)
		r = schema_make_indexes(db);
	if (r == 0)
		r = db_exec(db, "COMMIT");
	return r;
}

/*
 * The boot is on disk before anything else is written. Likewise everything
 * else is before "clean".
 */
static int mark_file(struct db *db, struct str mark)
{
	int r = db_checkpoint(db);

	if (r == 0)
		r = meta_put_text(db, META_BOOT, mark);
	return r < 0 ? r : db_checkpoint(db);
}

/* A text that is none stands for a history there is not. */
static int read_history(struct view *v)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	int r = meta_get_text(v->writer, META_HISTORY, &b);

	if (r == 0 && !history_parse(buf_str(&b), &v->history))
		history_make(&v->history);
	return r;
}

/* The writer, on a file that is checked or just made. */
static int open_writer(struct view *v, bool check_boot, struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(buf_done) struct buf boot = BUF_INIT(0);
	bool marked = false;
	int r = db_open(v->path, DB_WRITE, &v->writer, why);

	if (r < 0)
		return r;
	boot_id(&boot);
	r = first_text(v->writer, "SELECT name FROM sqlite_master LIMIT 1", &b);
	if (r < 0)
		return r;
	r = b.n == 0 ? make_file(v->writer)
		     : check_file(v, check_boot, buf_str(&boot), &marked, why);
	/* After a crash another program may read, and keep it from syncing. */
	if (r == 0 && !marked)
		r = mark_file(v->writer, buf_str(&boot));
	if (r == 0)
		r = meta_get_u64(v->writer, META_POSITION, &v->position);
	if (r == 0)
		r = meta_get_u64(v->writer, META_POSITION_AT, &v->position_ns);
	if (r == 0)
		r = read_history(v);
	if (r == 0)
		r = mirror_new(v->writer, &v->mirror);
	v->fresh = v->position == 0;
	v->text_position = 0;
	if (r == 0)
		view_note_text(v);
	return r;
}

/* All zero when there is none. */
static void look(const char *path, const char *suffix, struct view_file *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct stat st;

	*ret = (struct view_file){ 0 };
	buf_printf(&b, "%s%s%c", path, suffix, '\0');
	if (stat(b.p, &st) < 0)
		return;
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	ret->size = (uint64_t)st.st_size;
	ret->changed_ns = (uint64_t)st.st_mtim.tv_sec * NS_PER_S +
			  (uint64_t)st.st_mtim.tv_nsec;
}

static bool same_file(const struct view_file *a, const struct view_file *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

void view_note_write(struct view *v)
{
	struct view_file now;

	db_pass_on(v->writer);
	look(v->path, "", &now);
	/* We never make it smaller: that was somebody else meanwhile. */
	if (same_file(&now, &v->file) && now.size >= v->file.size)
		v->file = now;
}

/*
 * The log is not looked into: other programs may write to it, as SQLite
 * allows, and our own readers reset it. Without its index other programs
 * would make one of their own, and not see what is written from then on.
 */
enum view_place view_place(const struct view *v)
{
	struct view_file file, log, index;

	look(v->path, "", &file);
	look(v->path, "-wal", &log);
	look(v->path, "-shm", &index);
	if (!same_file(&file, &v->file) || !same_file(&log, &v->log) ||
	    !same_file(&index, &v->index))
		return VIEW_MOVED;
	if (file.size != v->file.size || file.changed_ns != v->file.changed_ns)
		return VIEW_CHANGED;
	return VIEW_IN_PLACE;
}

static int open_all(struct view *v, bool check_boot, struct buf *why)
{
	int r = open_writer(v, check_boot, why);

	for (size_t i = 0; i < VIEW_READERS && r == 0; i++)
		r = query_open(v->path, &v->readers[i], why);
	if (r < 0) {
		if (why->n == 0 && v->writer != NULL)
			buf_puts(why, db_error(v->writer));
		view_close(v, false);
		return r;
	}
	look(v->path, "", &v->file);
	look(v->path, "-wal", &v->log);
	look(v->path, "-shm", &v->index);
	return 0;
}

static int remove_one(const char *path, const char *suffix, struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	buf_printf(&b, "%s%s%c", path, suffix, '\0');
	if (unlink(b.p) == 0 || errno == ENOENT)
		return 0;
	buf_printf(why, "cannot remove %s: %s", b.p, strerror(errno));
	return -ERR_INTERNAL_ERROR;
}

/* The log first: beside another file it would be taken for its own. */
static int remove_files(struct view *v, struct buf *why)
{
	int r = remove_one(v->path, "-wal", why);

	if (r == 0)
		r = remove_one(v->path, "-shm", why);
	return r < 0 ? r : remove_one(v->path, "", why);
}

int view_open(struct view *v, struct buf *why)
{
	_cleanup_(buf_done) struct buf failed = BUF_INIT(0);
	int r = open_all(v, true, why);

	if (r != -ERR_VIEW_UNAVAILABLE)
		return r;
	r = remove_files(v, &failed);
	if (r < 0) {
		buf_puts(why, "; ");
		buf_put_str(why, buf_str(&failed));
		return r;
	}
	log_warn("the view at %s is made anew: %.*s", v->path,
		 STR_ARG(buf_str(why)));
	buf_clear(why);
	return open_all(v, true, why);
}

void view_close(struct view *v, bool clean)
{
	int r = 0;

	for (size_t i = 0; i < VIEW_READERS; i++) {
		query_close(v->readers[i]);
		v->readers[i] = NULL;
	}
	mirror_free(v->mirror);
	v->mirror = NULL;
	if (v->writer == NULL)
		return;
	if (clean)
		r = mark_file(v->writer, STR(BOOT_CLEAN));
	if (r < 0) /* harmless: it is checked, or rebuilt, at the next start */
		log_warn("cannot close the view cleanly: %s",
			 db_error(v->writer));
	db_close(v->writer);
	v->writer = NULL;
}

uint64_t view_lag_ns(const struct view *v)
{
	uint64_t now = clock_wall_ns();

	if (v->behind_ns != 0)
		return now > v->behind_ns ? now - v->behind_ns : 1;
	if (v->took_ns != 0 && clock_mono_ns() - v->took_ns < LAG_SHOWN_NS)
		return v->took_lag_ns;
	return 0;
}

uint64_t view_text_lag_ns(const struct view *v)
{
	uint64_t now = clock_wall_ns();
	uint64_t lag = view_lag_ns(v);

	if (v->text_behind_ns == 0)
		return lag;
	return MAX(lag, now > v->text_behind_ns ? now - v->text_behind_ns : 1);
}

void view_note_text(struct view *v)
{
	if (mirror_text_is_whole(v->mirror)) {
		v->text_position = v->position;
		v->text_behind_ns = 0;
		return;
	}
	v->text_behind_ns = mirror_text_missing_ns(v->mirror);
	if (v->text_behind_ns == 0) /* of a process before this one */
		v->text_behind_ns = v->position_ns;
}

int view_replace(struct view *v, struct buf *why)
{
	int r;

	view_close(v, false);
	r = remove_files(v, why);
	if (r < 0)
		return r;
	if (rename(v->new_path, v->path) < 0) {
		buf_printf(why, "cannot rename %s: %s", v->new_path,
			   strerror(errno));
		return -ERR_INTERNAL_ERROR;
	}
	return open_all(v, false, why); /* it was made in this boot */
}
