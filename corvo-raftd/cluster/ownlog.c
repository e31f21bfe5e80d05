#include "cluster/ownlog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/logcheck_impl.h"
#include "cluster/seglog/seglog.h"
#include "rt/file.h"
#include "rt/log.h"

#define FOLDER     OWNLOG_FOLDER
#define FOLDER_NEW FOLDER ".new"
#define FOLDER_OLD FOLDER ".old"
#define OWN        "segment"

static void path_in(const char *dir, const char *name, struct buf *ret)
{
	buf_clear(ret);
	buf_printf(ret, "%s/%s", dir, name);
	buf_putc(ret, '\0');
}

void ownlog_path(const char *dir, struct buf *ret)
{
	path_in(dir, FOLDER, ret);
}

bool ownlog_is_there(const char *dir)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct stat st;

	ownlog_path(dir, &path);
	return stat(path.p, &st) == 0 && S_ISDIR(st.st_mode);
}

void ownlog_forget(const char *dir)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	ownlog_path(dir, &path);
	(void)dir_remove(path.p);
}

bool ownlog_is_wanted(const struct settings *s)
{
	return strcmp(s->raft_store, OWN) == 0;
}

/* --- both ways --- */

struct conversion {
	const struct settings *s;
	const char *dir;
	const struct log_check *before;
	struct buf *why;
	/* to ours */
	struct seglog *log;
	/* to the library's */
	struct buf segment;
	uint64_t first, next; /* of the entries in it */
};

static int failed(struct conversion *v, int e, const char *what,
		  const char *name)
{
	buf_printf(v->why, "cannot %s %s/%s: %s", what, v->dir, name,
		   strerror(-e));
	return e;
}

static int remove_folder(struct conversion *v, const char *name)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int r;

	path_in(v->dir, name, &path);
	r = dir_remove(path.p);
	return r < 0 ? failed(v, r, "remove", name) : 0;
}

/* On the disk before anything else is done. */
static int rename_folder(struct conversion *v, const char *from, const char *to)
{
	_cleanup_(buf_done) struct buf a = BUF_INIT(0), b = BUF_INIT(0);
	int r;

	path_in(v->dir, from, &a);
	path_in(v->dir, to, &b);
	if (rename(a.p, b.p) < 0)
		return failed(v, -errno, "rename", from);
	r = dir_sync(v->dir);
	return r < 0 ? failed(v, r, "flush", "") : 0;
}

/* The library's: what there was when the log was read. */
static int remove_segments(struct conversion *v)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	for (size_t i = 0; i < v->before->segments_n; i++) {
		const char *name = v->before->segments[i].name;

		path_in(v->dir, name, &path);
		if (unlink(path.p) < 0 && errno != ENOENT)
			return failed(v, -errno, "remove", name);
	}
	return 0;
}

static int each_entry(struct conversion *v, log_entry_fn *fn)
{
	struct log_check c;
	int r = log_check(&c, v->dir, fn, v, v->why);

	/* it was not damaged when it was read a moment ago */
	if (r == 0 && (c.damage.n > 0 || c.next != v->before->next)) {
		buf_printf(v->why, "the log changes while it is read: %.*s",
			   STR_ARG(buf_str(&c.damage)));
		r = -EIO;
	}
	log_check_done(&c);
	return r;
}

/* --- to ours --- */

static void free_done(struct seglog *l)
{
	struct list ops;

	list_init(&ops);
	seglog_take(l, &ops);
	LIST_FOREACH_SAFE (it, &ops) {
		list_remove(it);
		free(list_entry(it, struct seglog_op, node));
	}
}

/* The entry's bytes are gone when this returns. */
static int to_own(void *ctx, const struct log_entry *e)
{
	struct conversion *v = ctx;
	struct seglog_op *op = seglog_op_new(e->index, 1);

	op->entry[0] = (struct segment_entry){ .term = e->term,
					       .type = e->type,
					       .data = e->raw };
	seglog_push(v->log, op);
	seglog_wait(v->log);
	free_done(v->log);
	return 0;
}

static int make_own(struct conversion *v)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct seglog_scan none = { 0 };
	/* flushed once, at the end */
	struct seglog_config c = { .segment_bytes = v->s->raft_segment_size };
	int r = remove_folder(v, FOLDER_NEW);

	if (r < 0)
		return r;
	path_in(v->dir, FOLDER_NEW, &path);
	c.dir = path.p;
	r = seglog_open(&c, &none, &v->log, v->why);
	if (r < 0)
		return r;
	r = each_entry(v, to_own);
	seglog_stop(v->log);
	free_done(v->log);
	seglog_free(v->log);
	if (r == 0)
		r = rename_folder(v, FOLDER_NEW, FOLDER);
	return r < 0 ? r : remove_segments(v);
}

/* --- to the library's --- */

static int write_segment(struct conversion *v)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	char name[LOG_NAME_MAX];
	int r;

	if (v->first == v->next)
		return 0;
	(void)snprintf(name, sizeof(name), "%016" PRIu64 "-%016" PRIu64,
		       v->first, v->next - 1);
	path_in(v->dir, name, &path);
	r = file_write(path.p, buf_str(&v->segment));
	v->first = v->next;
	buf_clear(&v->segment);
	return r < 0 ? failed(v, r, "write", name) : 0;
}

static int to_library(void *ctx, const struct log_entry *e)
{
	struct conversion *v = ctx;
	struct segment_entry entry = { e->index, e->term, e->type, e->raw };
	int r = 0;

	if (v->segment.n + e->raw.n > v->s->raft_segment_size)
		r = write_segment(v);
	if (r < 0)
		return r;
	if (v->segment.n == 0)
		v->first = e->index;
	segment_put(&v->segment, &entry);
	v->next = e->index + 1;
	return 0;
}

/* The folder is the log until it has another name. */
static int make_library(struct conversion *v)
{
	int r = remove_segments(v);

	if (r == 0)
		r = each_entry(v, to_library);
	if (r == 0)
		r = write_segment(v);
	buf_done(&v->segment);
	if (r < 0)
		return r;
	r = dir_sync(v->dir);
	if (r < 0)
		return failed(v, r, "flush", "");
	r = remove_folder(v, FOLDER_OLD);
	if (r == 0)
		r = rename_folder(v, FOLDER, FOLDER_OLD);
	return r < 0 ? r : remove_folder(v, FOLDER_OLD);
}

/* --- which way --- */

int ownlog_convert(const struct log_check *c, const struct settings *s,
		   struct buf *why)
{
	struct conversion v = {
		.s = s, .dir = c->dir, .before = c, .why = why
	};
	bool is_own = ownlog_is_there(c->dir);
	bool want_own = ownlog_is_wanted(s);
	int r;

	CHECK(c->damage.n == 0);
	if (is_own == want_own) /* what a crash left of a conversion */
		return is_own ? remove_segments(&v) : 0;
	if (c->is_new)
		return is_own ? remove_folder(&v, FOLDER) : 0;
	r = want_own ? make_own(&v) : make_library(&v);
	if (r == 0 && c->next > c->first)
		log_info("the raft log, entries %" PRIu64 " to %" PRIu64
			 ", is kept as --raft-store=%s now",
			 c->first, c->next - 1, s->raft_store);
	return r;
}
