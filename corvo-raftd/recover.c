/*
 * See recover.h. Every step can be cut off and the command given again: the
 * store only ever gains entries of its own history, and the new log takes its
 * place in one rename, after everything else.
 */
#include "recover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/fit.h"
#include "cluster/install.h"
#include "cluster/node.h"
#include "faultlog.h"
#include "fsm/fsm.h"
#include "offline.h"
#include "rt/file.h"
#include "rt/log.h"
#include "rt/notify.h"
#include "serve/keep.h"
#include "serve/standing.h"
#include "skip.h"
#include "store/format.h"
#include "store/key.h"
#include "store/record.h"
#include "util/rng.h"

#define WRITE_BEHIND_BYTES (4u << 20)
#define ASIDE_MAX          10000 /* things moved aside in one directory */

struct recovery {
	struct settings s;
	struct buf raft, rocks, keep; /* paths, with a NUL */
	struct offline off;
	struct kv *kv;
	struct fit fit;
	struct fsm *fsm; /* while entries are applied */
	size_t members;  /* of its cluster, as the store has them */
	bool moved;      /* the store is another one now */
	bool alone;      /* the other nodes of its cluster are lost */
	bool yes;        /* said by who runs it */
	struct buf *why;
};

_printf_(1, 2) static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)putchar('\n');
	(void)fflush(stdout);
}

_printf_(2, 3) static int refuse(struct recovery *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(r->why, fmt, ap);
	va_end(ap);
	return -ERR_CONFLICT;
}

/* --- moving --- */

/* path becomes path.old-N. */
static int move_aside(struct recovery *r, const char *path)
{
	_cleanup_(buf_done) struct buf to = BUF_INIT(0);

	for (unsigned n = 1; n < ASIDE_MAX; n++) {
		buf_clear(&to);
		buf_printf(&to, "%s.old-%u", path, n);
		buf_putc(&to, '\0');
		if (access(to.p, F_OK) == 0)
			continue;
		if (rename(path, to.p) == 0) {
			say("moved aside: %s is now %s", path, to.p);
			return 0;
		}
		if (errno == ENOENT)
			return 0;
		break;
	}
	buf_printf(r->why, "cannot move %s aside: %s", path, strerror(errno));
	return -ERR_INTERNAL_ERROR;
}

static int move(struct recovery *r, const char *from, const char *to)
{
	if (rename(from, to) == 0)
		return 0;
	buf_printf(r->why, "cannot rename %s to %s: %s", from, to,
		   strerror(errno));
	return -ERR_INTERNAL_ERROR;
}

/* --- the store --- */

/*
 * The checkpoint of the last snapshot, where the store itself is lost or too
 * old for the log: nothing that was cut off the log is missing in it.
 */
static int choose_store(struct recovery *r)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct store_state store, keep;
	struct fit f = { 0 };
	int e = offline_look(r->rocks.p, &store, &why);
	bool use_keep;

	if (e < 0)
		say("the store %s cannot be opened: %.*s", r->rocks.p,
		    STR_ARG(buf_str(&why)));
	buf_clear(&why);
	if (offline_look(r->keep.p, &keep, &why) < 0)
		keep = (struct store_state){ 0 };
	f.store = keep;
	if (fit_read(&f, r->raft.p, r->why) < 0)
		return -ERR_INTERNAL_ERROR;
	use_keep = keep.index > store.index &&
		   (e < 0 || store.index < f.log.snapshot.applied) &&
		   (history_is_none(&f.log.history) ||
		    history_eq(&f.log.history, &keep.origin.history));
	fit_done(&f);
	if (e < 0 && !use_keep)
		return refuse(r,
			      "there is no other store to take: put %s back "
			      "from a copy",
			      r->rocks.p);
	if (!use_keep)
		return 0;
	say("%s (entry %" PRIu64 ") takes the place of %s (entry %" PRIu64 ")",
	    r->keep.p, keep.index, r->rocks.p, store.index);
	r->moved = true;
	e = move_aside(r, r->rocks.p);
	return e < 0 ? e : move(r, r->keep.p, r->rocks.p);
}

static int open_store(struct recovery *r)
{
	struct kv_options o = {
		.write_buffer_bytes = r->s.rocksdb_write_buffer,
		.cache_bytes = r->s.rocksdb_cache,
	};
	int e = kv_rocks_open(r->rocks.p, &o, &r->kv, r->why);

	if (e == 0)
		e = format_prepare(r->kv, NULL, r->why);
	return e < 0 ? e : offline_read(r->kv, &r->fit.store, r->why);
}

/* --- the old log --- */

/* True: it fits, and there is nothing to recover. */
static bool is_sound(struct recovery *r)
{
	_cleanup_(buf_done) struct buf clause = BUF_INIT(0);
	const struct log_check *log = &r->fit.log;

	if (log->damage.n > 0) {
		say("the log %s is damaged: %.*s", r->raft.p,
		    STR_ARG(buf_str(&log->damage)));
		return false;
	}
	if (fit_judge(&r->fit, &clause))
		return true;
	say("the log %s does not fit: %.*s", r->raft.p,
	    STR_ARG(buf_str(&clause)));
	return false;
}

static int on_entry(void *ctx, const struct log_entry *e)
{
	struct recovery *r = ctx;
	int err;

	if (!e->is_command || e->index <= fsm_applied_index(r->fsm))
		return 0;
	fsm_set_origin(r->fsm, &e->origin);
	err = fsm_apply(r->fsm, e->index, e->bytes, NULL, NULL);
	faultlog_tell(r->fsm);
	if (err < 0)
		buf_printf(r->why,
			   "entry %" PRIu64 " of the log cannot be applied to "
			   "%s: %.*s",
			   e->index, r->rocks.p,
			   STR_ARG(err == -ERR_UNSUPPORTED
				       ? fsm_stop_text(r->fsm)
				       : str_from(kv_error_text())));
	return err;
}

static void count_member(void *ctx, _unused_ const struct m_member *m)
{
	struct recovery *r = ctx;

	r->members++;
}

/* Those that go on where the store ends; and who is a member then. */
static int apply_entries(struct recovery *r)
{
	struct fit again = { .fn = on_entry, .ctx = r };
	int e;

	r->fsm = fsm_new(r->kv);
	fsm_write_behind(r->fsm, WRITE_BEHIND_BYTES);
	e = fsm_load(r->fsm);
	if (e < 0)
		buf_printf(r->why, "cannot read the state in %s: %s",
			   r->rocks.p, kv_error_text());
	if (e == 0)
		e = skips_load(r->s.data_dir, r->fsm, r->why);
	if (e == 0 && fit_goes_on(&r->fit))
		e = fit_read(&again, r->raft.p, r->why);
	fit_done(&again);
	if (e == 0)
		e = fsm_flush(r->fsm);
	if (e == 0)
		fsm_members(r->fsm, count_member, r);
	if (e == 0 && fsm_applied_index(r->fsm) > r->fit.store.index)
		say("applied entries %" PRIu64 " to %" PRIu64 " of the log",
		    r->fit.store.index + 1, fsm_applied_index(r->fsm));
	fsm_free(r->fsm);
	r->fsm = NULL;
	return e;
}

/* --- the new history --- */

static void say_losses(struct recovery *r, uint64_t index)
{
	const struct log_check *log = &r->fit.log;

	if (log->acked > index)
		say("lost: entries %" PRIu64 " to %" PRIu64
		    ", which were acknowledged",
		    index + 1, log->acked);
	say("what was acknowledged after entry %" PRIu64 "%s, is lost", index,
	    log->acked > index ? ", and maybe more" : ", if anything");
}

static int keep_now(struct recovery *r, uint64_t index)
{
	struct keep *k = keep_new(r->s.data_dir);
	int e = keep_make(k, r->kv, index, r->why);

	keep_free(k);
	return e;
}

static int begin_history(struct recovery *r, struct record_meta *m)
{
	char v[RECORD_META_BYTES];
	struct kv_batch *b;
	struct key k;
	int e = record_meta_read(r->kv, m);

	if (e < 0) {
		buf_puts(r->why, kv_error_text());
		return e;
	}
	if (m->applied_index == 0)
		return refuse(r, "neither the store nor the log has anything "
				 "that can be read");
	m->origin.term =
	    MAX(MAX(m->origin.term, r->fit.log.term),
		MAX(r->fit.log.last_term, r->fit.log.snapshot_term)) +
	    1;
	rng_system(&m->origin.id, sizeof(m->origin.id));
	m->origin.id |= 1; /* never 0 */
	history_make(&m->origin.history);
	record_meta_encode(m, v);
	key_meta(&k);
	b = kv_batch_new(r->kv);
	kv_batch_put(b, key_str(&k), str_of(v, sizeof(v)));
	e = kv_write(r->kv, b);
	kv_batch_free(b);
	if (e < 0)
		buf_puts(r->why, kv_error_text());
	return e < 0 ? e : keep_now(r, m->applied_index);
}

static int make_log(struct recovery *r, const struct record_meta *m)
{
	_cleanup_(buf_done) struct buf next = BUF_INIT(0);
	int e;

	buf_printf(&next, "%s.new", r->raft.p);
	buf_putc(&next, '\0');
	e = dir_remove(next.p);
	if (e == 0)
		e = dir_make(next.p);
	if (e < 0) {
		buf_printf(r->why, "cannot make %s: %s", next.p, strerror(-e));
		return -ERR_INTERNAL_ERROR;
	}
	e = node_make_log(&r->s, next.p, m->applied_index, &m->origin, r->why);
	if (e == 0)
		e = move_aside(r, r->raft.p);
	if (e == 0)
		e = move(r, next.p, r->raft.p);
	if (e < 0)
		return e;
	e = dir_sync(r->raft.p);
	if (e == 0)
		e = dir_sync(r->s.data_dir);
	if (e < 0)
		buf_printf(r->why, "cannot sync %s: %s", r->s.data_dir,
			   strerror(-e));
	return e;
}

/* --- the command --- */

static int recover(struct recovery *r)
{
	_cleanup_(buf_done) struct buf history = BUF_INIT(0);
	struct record_meta m;
	int e = choose_store(r);

	if (e == 0)
		e = open_store(r);
	if (e < 0)
		return e;
	say("the store %s has applied entry %" PRIu64, r->rocks.p,
	    r->fit.store.index);
	e = fit_read(&r->fit, r->raft.p, r->why);
	if (e < 0)
		return e;
	if (is_sound(r) && !r->alone) {
		say("the log %s fits to it: %s", r->raft.p,
		    r->moved ? "nothing is lost; start the node as usual"
			     : "there is nothing to recover, and nothing was "
			       "changed");
		return r->moved ? keep_now(r, r->fit.log.snapshot.index) : 0;
	}
	e = apply_entries(r);
	if (e == 0 && r->members > 1 && !r->alone)
		e = refuse(
		    r,
		    "node %s is one of %zu nodes of a cluster, and would "
		    "become a second cluster beside it: start it with an "
		    "empty --data-dir instead, also without the file "
		    "node, and the others send it what they have; only "
		    "when most of them are lost for good, run `corvo "
		    "cluster recover`",
		    r->s.node_id, r->members);
	if (e == 0)
		e = begin_history(r, &m);
	if (e == 0)
		e = standing_set(&r->s, STANDING_RECOVERED, r->why);
	if (e == 0)
		e = make_log(r, &m);
	if (e < 0)
		return e;
	say_losses(r, m.applied_index);
	history_put(&history, &m.origin.history);
	say("done: the node goes on after entry %" PRIu64
	    ", with history %.*s; start it as usual",
	    m.applied_index, STR_ARG(buf_str(&history)));
	standing_clear(&r->s, STANDING_LEFT);
	if (r->alone)
		say("it is a cluster of one now; the others are to be started "
		    "with empty data directories, to join it: with those they "
		    "have they are refused");
	return 0;
}

/* Nothing is done before it is wanted: what is on other nodes only is lost. */
static int ask_first(struct recovery *r)
{
	struct fit f = { 0 };
	int e;

	if (!r->alone || r->yes)
		return 0;
	e = offline_look(r->rocks.p, &f.store, r->why);
	if (e == 0)
		e = fit_read(&f, r->raft.p, r->why);
	if (e == 0)
		e = refuse(r,
			   "this makes node %s a cluster of one, with the "
			   "entries it has, up to %" PRIu64 "; what was "
			   "acknowledged after them is lost, and the other "
			   "nodes can come back with empty data directories "
			   "only; stop them first, and add --yes; nothing was "
			   "changed",
			   r->s.node_id,
			   MAX(f.store.index, f.log.next - (f.log.next > 0)));
	fit_done(&f);
	return e;
}

static void put_path(struct recovery *r, const char *name, struct buf *ret)
{
	buf_printf(ret, "%s/%s", r->s.data_dir, name);
	buf_putc(ret, '\0');
}

static int run(struct recovery *r)
{
	int e = offline_begin(&r->off, r->s.data_dir, r->why);

	put_path(r, "raft", &r->raft);
	put_path(r, "rocks", &r->rocks);
	(void)keep_find(r->s.data_dir, &r->keep);
	if (e == 0)
		e = ask_first(r);
	/* what the next start would put in the place of all that is here */
	if (e == 0)
		e = install_finish(&r->s, r->why);
	if (e == 0)
		e = recover(r);
	fit_done(&r->fit);
	kv_close(r->kv);
	offline_end(&r->off);
	buf_done(&r->raft);
	buf_done(&r->rocks);
	buf_done(&r->keep);
	return e;
}

/* Takes --yes out of the flags. Returns how many are left. */
static int take_yes(struct recovery *r, int argc, char *const argv[],
		    char **ret)
{
	int n = 0;

	for (int i = 0; i < argc; i++)
		if (r->alone && strcmp(argv[i], "--yes") == 0)
			r->yes = true;
		else
			ret[n++] = argv[i];
	return n;
}

int recover_main(int argc, char *const argv[], bool alone)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct recovery r = { .why = &why, .alone = alone };
	char **flags = xcalloc((size_t)argc + 1, sizeof(*flags));
	int n = take_yes(&r, argc, argv, flags);
	int e = settings_load(n, flags, &r.s, &why);

	if (e == 0) {
		(void)umask(027);
		log_init("recover", r.s.node_id);
		e = run(&r);
		settings_done(&r.s);
	} else {
		e = -ERR_CONFLICT;
	}
	free(flags);
	if (e == 0)
		return EXIT_SUCCESS;
	(void)fprintf(stderr, "corvo %s: %.*s\n",
		      alone ? "cluster recover" : "recover",
		      STR_ARG(buf_str(&why)));
	return e == -ERR_CONFLICT ? EXIT_NO_RETRY : EXIT_FAILURE;
}
