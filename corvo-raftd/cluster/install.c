/*
 * See install.h. Each step can be done again, and as often as need be: it looks
 * at nothing but what the steps before it have made, and `ready`, which goes
 * only when everything else is on the disk.
 */
#include "cluster/install.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/download_file.h"
#include "cluster/fit.h"
#include "proto/err.h"
#include "rt/file.h"
#include "rt/log.h"
#include "util/crc32.h"
#include "util/json_chars.h"

#define READY           "ready"
#define READY_BYTES_MAX (4u << 20)
/* clang-format off */
#define FORMAT_HEAD \
	"corvo incoming 1\nterm %" SCNu64 "\nmembers %" SCNu64 " %n"
/* clang-format on */
#define STORE_HEAD "corvo incoming 2\nstore only\n"

struct install {
	const struct settings *s;
	struct node_install i;
	struct buf members;
	struct buf folder, rocks, raft; /* paths, with a NUL */
	struct buf *why;
};

static int failed(struct buf *why, int e, const char *what, const char *path)
{
	buf_printf(why, "cannot %s %s: %s", what, path, strerror(-e));
	return e == -ENOSPC ? -ERR_STORAGE_FULL : -ERR_INTERNAL_ERROR;
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* --- ready --- */

static void put_manifest_line(struct buf *b, const struct manifest *m)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	struct str line, rest;

	manifest_put(&all, m);
	(void)str_split(buf_str(&all), '\n', &line, &rest);
	buf_put_str(b, line);
	buf_putc(b, '\n');
}

static void put_log(struct buf *b, const struct node_install *i)
{
	buf_printf(b,
		   "corvo incoming 1\nterm %" PRIu64 "\nmembers %" PRIu64 " ",
		   i->term, i->members_index);
	for (size_t k = 0; k < i->members.n; k++)
		buf_printf(b, "%02x", (unsigned char)i->members.p[k]);
	buf_putc(b, '\n');
}

static void ready_put(struct buf *b, const struct node_install *i)
{
	if (i->store_only)
		buf_puts(b, STORE_HEAD);
	else
		put_log(b, i);
	put_manifest_line(b, &i->manifest);
	buf_printf(b, "crc %08" PRIx32 "\n", crc32_add(0, buf_str(b)));
}

static bool parse_hex(struct str s, struct buf *ret)
{
	for (; s.n >= 2; s = str_skip(s, 2)) {
		int high = hex_value(s.p[0]), low = hex_value(s.p[1]);

		if (high < 0 || low < 0)
			return false;
		buf_putc(ret, (char)(high << 4 | low));
	}
	return s.n == 0;
}

/* What the log has to say; the manifest is behind it. */
static bool parse_log(struct str s, struct install *in, struct str *rest)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct str members;
	int end = 0;

	buf_put_str(&text, s);
	buf_putc(&text, '\0');
	if (sscanf(text.p, FORMAT_HEAD, &in->i.term, &in->i.members_index,
		   &end) != 2 ||
	    end == 0 ||
	    !str_split(str_skip(s, (size_t)end), '\n', &members, rest) ||
	    !parse_hex(members, &in->members))
		return false;
	in->i.members = buf_str(&in->members);
	return true;
}

/* It is good when we would have written just that. */
static bool ready_parse(struct str s, struct install *in)
{
	_cleanup_(buf_done) struct buf again = BUF_INIT(0);
	struct str rest;

	in->i.store_only = str_starts(s, STR(STORE_HEAD));
	if (in->i.store_only)
		rest = str_skip(s, strlen(STORE_HEAD));
	else if (!parse_log(s, in, &rest))
		return false;
	if (!manifest_parse(rest, &in->i.manifest))
		return false;
	ready_put(&again, &in->i);
	return str_eq(buf_str(&again), s);
}

int install_ready(const struct settings *s, const struct node_install *i,
		  struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	int e;

	CHECK((i->members.n > 0 || i->store_only) && i->manifest.index > 0);
	incoming_path(s, READY, &path);
	ready_put(&b, i);
	e = file_write(path.p, buf_str(&b));
	if (e == 0) {
		incoming_path(s, "", &path);
		e = dir_sync(path.p);
	}
	return e < 0 ? failed(why, e, "write", path.p) : 0;
}

/* --- whether it is needed --- */

struct reach {
	uint64_t index, term;
	bool has;
};

static int on_log_entry(void *ctx, const struct log_entry *e)
{
	struct reach *r = ctx;

	r->has = r->has || (e->index == r->index && e->term == r->term);
	return 0;
}

/*
 * While the files came, another leader may have had the entries still, and the
 * log got beyond the snapshot by itself. It is not given up for it then: this
 * node has acknowledged entries that are not in the snapshot, and the cluster
 * counts on them.
 */
static int judge_log(struct install *in, bool *is_beyond)
{
	struct reach r = { .index = in->i.manifest.index, .term = in->i.term };
	struct log_check c;
	int e;

	*is_beyond = false;
	/* once the files are in place the log has been given up */
	if (!exists(in->folder.p) || !exists(in->raft.p))
		return 0;
	e = log_check(&c, in->raft.p, on_log_entry, &r, in->why);
	*is_beyond = e == 0 && (r.has || c.snapshot.index >= r.index ||
				c.acked >= r.index);
	log_check_done(&c);
	return e < 0 ? -ERR_INTERNAL_ERROR : 0;
}

/*
 * A store by itself must go on with the log there is. It did when `ready` was
 * written; whoever changed the log since knows what he did.
 */
static int judge_store(struct install *in, bool *is_beyond)
{
	_cleanup_(buf_done) struct buf clause = BUF_INIT(0);
	struct fit f = { .store = { in->i.manifest.store,
				    in->i.manifest.store_origin } };
	int e;

	*is_beyond = false;
	if (!exists(in->folder.p)) /* it is in place */
		return 0;
	e = fit_read(&f, in->raft.p, in->why);
	*is_beyond = e == 0 && (!f.has_entry || !fit_judge(&f, &clause));
	fit_done(&f);
	return e < 0 ? -ERR_INTERNAL_ERROR : 0;
}

/* --- the steps --- */

/* The folder is there until it has taken the place of the store. */
static int remove_store(struct install *in)
{
	int e = exists(in->folder.p) ? dir_remove(in->rocks.p) : 0;

	return e < 0 ? failed(in->why, e, "remove", in->rocks.p) : 0;
}

static int move_store(struct install *in)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int e;

	if (exists(in->folder.p) && rename(in->folder.p, in->rocks.p) < 0)
		return failed(in->why, -errno, "rename", in->folder.p);
	if (!exists(in->rocks.p))
		return failed(in->why, -ENOENT, "find", in->rocks.p);
	incoming_path(in->s, "", &path);
	e = dir_sync(path.p);
	if (e == 0)
		e = dir_sync(in->s->data_dir);
	return e < 0 ? failed(in->why, e, "flush", in->s->data_dir) : 0;
}

/* Removes what is in a folder, but for names that begin with `stays`. */
static int empty(struct install *in, const char *folder, const char *stays)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	DIR *dir = opendir(folder);
	int e = 0;

	if (dir == NULL)
		return errno == ENOENT
			   ? 0
			   : failed(in->why, -errno, "read", folder);
	for (struct dirent *d; e == 0 && (d = readdir(dir)) != NULL;) {
		struct str name = str_from(d->d_name);

		if (str_is(name, ".") || str_is(name, "..") ||
		    (stays != NULL && str_starts(name, str_from(stays))))
			continue;
		buf_clear(&path);
		buf_printf(&path, "%s/%s", folder, d->d_name);
		buf_putc(&path, '\0');
		e = dir_remove(path.p);
	}
	(void)closedir(dir);
	return e < 0 ? failed(in->why, e, "remove", path.p) : 0;
}

/* Segments, snapshots, and the mark of what was acknowledged: all of it is of
 * a log that ends before the new one begins. */
static int empty_log(struct install *in)
{
	int e = dir_make(in->raft.p);

	if (e < 0)
		return failed(in->why, e, "make", in->raft.p);
	return empty(in, in->raft.p, "metadata");
}

/* A vote of a term before that of the snapshot counts for nothing. */
static int make_term(struct install *in)
{
	struct log_check c;
	int e = log_check(&c, in->raft.p, NULL, NULL, in->why);
	bool is_old = e == 0 && c.term < in->i.term;

	log_check_done(&c);
	if (e < 0)
		return -ERR_INTERNAL_ERROR;
	if (!is_old)
		return 0;
	e = empty(in, in->raft.p, NULL);
	return e < 0 ? e : node_make_term(in->raft.p, in->i.term, in->why);
}

static int make_snapshot(struct install *in)
{
	int e = node_make_snapshot(in->raft.p, &in->i, in->why);

	if (e < 0)
		return e;
	e = dir_sync(in->raft.p);
	if (e == 0)
		e = dir_sync(in->s->data_dir);
	return e < 0 ? failed(in->why, e, "flush", in->raft.p) : 0;
}

/* They are of the store that is gone, and keep its files. */
static int empty_checkpoints(struct install *in)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	buf_printf(&path, "%s/checkpoints", in->s->data_dir);
	buf_putc(&path, '\0');
	return empty(in, path.p, NULL);
}

/* On the disk before anything is written to the new log: never again. */
static int remove_ready(struct install *in)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int e = 0;

	incoming_path(in->s, READY, &path);
	if (unlink(path.p) < 0)
		e = -errno;
	if (e == 0) {
		incoming_path(in->s, "", &path);
		e = dir_sync(path.p);
	}
	return e < 0 ? failed(in->why, e, "remove", path.p) : 0;
}

static int (*const steps[INSTALL_STEPS])(struct install *in) = {
	remove_store,  move_store,        empty_log,    make_term,
	make_snapshot, empty_checkpoints, remove_ready,
};

static int nothing(_unused_ struct install *in)
{
	return 0;
}

/* The log, the votes and what was acknowledged stay. */
static int (*const store_steps[INSTALL_STEPS])(struct install *in) = {
	remove_store, move_store,        nothing,      nothing,
	nothing,      empty_checkpoints, remove_ready,
};

/* --- the whole --- */

static void put_path(struct install *in, const char *name, struct buf *ret)
{
	buf_printf(ret, "%s/%s", in->s->data_dir, name);
	buf_putc(ret, '\0');
}

/* What else there was; nothing is lost when it stays. */
static void remove_rest(struct install *in)
{
	incoming_path(in->s, "", &in->folder);
	(void)dir_remove(in->folder.p);
}

static int put_in_place(struct install *in, unsigned n)
{
	int e = 0;

	for (unsigned k = 0; e == 0 && k < MIN(n, INSTALL_STEPS); k++)
		e = in->i.store_only ? store_steps[k](in) : steps[k](in);
	if (e < 0 || n < INSTALL_STEPS)
		return e;
	remove_rest(in);
	if (in->i.store_only)
		log_info("healed: the leader's store has taken the place of "
			 "the damaged one");
	log_info("the snapshot of entry %" PRIu64
		 " is in place, its store has applied entry %" PRIu64,
		 in->i.manifest.index,
		 MAX(in->i.manifest.store, in->i.manifest.index));
	return 0;
}

static int leave_out(struct install *in)
{
	int e = remove_ready(in);

	if (e < 0)
		return e;
	remove_rest(in);
	log_info("the snapshot of entry %" PRIu64 " is not used: %s",
		 in->i.manifest.index,
		 in->i.store_only ? "the log does not go on from its store"
				  : "the log has got beyond it");
	return 0;
}

static int run(struct install *in, unsigned n)
{
	bool is_beyond;
	int e;

	incoming_folder(in->s, in->i.manifest.index, &in->folder);
	put_path(in, "rocks", &in->rocks);
	put_path(in, "raft", &in->raft);
	e = in->i.store_only ? judge_store(in, &is_beyond)
			     : judge_log(in, &is_beyond);
	if (e == 0)
		e = is_beyond ? leave_out(in) : put_in_place(in, n);
	buf_done(&in->folder);
	buf_done(&in->rocks);
	buf_done(&in->raft);
	return e;
}

int install_steps(const struct settings *s, unsigned n, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct install in = { .s = s, .why = why };
	int e;

	incoming_path(s, READY, &path);
	e = file_read(path.p, READY_BYTES_MAX, &text);
	if (e == -ENOENT)
		return 0;
	if (e < 0)
		return failed(why, e, "read", path.p);
	if (ready_parse(buf_str(&text), &in)) {
		e = run(&in, n);
	} else {
		buf_printf(why,
			   "the file %s is damaged, so the snapshot beside it "
			   "cannot be used; move %s/incoming away and start "
			   "again, or, should that be refused too, start with "
			   "an empty --data-dir and let the node join anew",
			   path.p, s->data_dir);
		e = -ERR_CONFLICT;
	}
	buf_done(&in.members);
	return e;
}

uint64_t install_index(const struct settings *s, bool *ret_heals)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct install in = { .s = s };
	uint64_t index = 0;

	incoming_path(s, READY, &path);
	if (file_read(path.p, READY_BYTES_MAX, &text) == 0 &&
	    ready_parse(buf_str(&text), &in))
		index = in.i.manifest.index;
	*ret_heals = index != 0 && in.i.store_only;
	buf_done(&in.members);
	return index;
}

int install_finish(const struct settings *s, struct buf *why)
{
	return install_steps(s, INSTALL_STEPS, why);
}
