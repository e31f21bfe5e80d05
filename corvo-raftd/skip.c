/*
 * See skip.h. The file has a line for each entry: index, term, id.
 */
#include "skip.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "offline.h"
#include "rt/config.h"
#include "rt/file.h"
#include "rt/log.h"
#include "rt/notify.h"

#define SKIP_NAME      "skip"
#define SKIP_BYTES_MAX 4096
#define OPS_SHOWN      8 /* of an entry */

static void path_of(const char *data_dir, const char *name, struct buf *ret)
{
	buf_printf(ret, "%s/%s", data_dir, name);
	buf_putc(ret, '\0');
}

/* --- the file --- */

struct marks {
	struct skip_mark {
		uint64_t index;
		struct entry_origin origin; /* without history */
	} list[FSM_SKIPS_MAX];
	size_t n;
};

static bool parse_line(struct str line, struct skip_mark *ret)
{
	struct str index, term, id, rest;

	*ret = (struct skip_mark){ 0 };
	return str_split(line, ' ', &index, &rest) &&
	       str_split(rest, ' ', &term, &id) &&
	       str_parse_u64(index, &ret->index) &&
	       str_parse_u64(term, &ret->origin.term) &&
	       str_parse_u64(id, &ret->origin.id);
}

static int marks_read(const char *data_dir, struct marks *ret, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct str line, rest;
	int e;

	ret->n = 0;
	path_of(data_dir, SKIP_NAME, &path);
	e = file_read(path.p, SKIP_BYTES_MAX, &text);
	if (e == -ENOENT)
		return 0;
	if (e < 0) {
		buf_printf(why, "cannot read %s: %s", path.p, strerror(-e));
		return -ERR_CONFLICT;
	}
	for (rest = buf_str(&text); rest.n > 0;) {
		if (!str_split(rest, '\n', &line, &rest) ||
		    ret->n == FSM_SKIPS_MAX ||
		    !parse_line(line, &ret->list[ret->n++])) {
			buf_printf(why,
				   "%s is damaged, or has more than %d lines; "
				   "it says which entries of the log are left "
				   "out: put it back from a copy",
				   path.p, FSM_SKIPS_MAX);
			return -ERR_CONFLICT;
		}
	}
	return 0;
}

static int marks_write(const char *data_dir, const struct marks *m,
		       struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	int e;

	for (size_t i = 0; i < m->n; i++)
		buf_printf(&text, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
			   m->list[i].index, m->list[i].origin.term,
			   m->list[i].origin.id);
	path_of(data_dir, SKIP_NAME, &path);
	e = file_write(path.p, buf_str(&text));
	if (e == 0)
		e = dir_sync(data_dir);
	if (e < 0)
		buf_printf(why, "cannot write %s: %s", path.p, strerror(-e));
	return e < 0 ? -ERR_INTERNAL_ERROR : 0;
}

static bool is_same(const struct skip_mark *a, const struct skip_mark *b)
{
	return a->index == b->index && a->origin.term == b->origin.term &&
	       a->origin.id == b->origin.id;
}

int skips_load(const char *data_dir, struct fsm *f, struct buf *why)
{
	struct marks m;
	int e = marks_read(data_dir, &m, why);

	for (size_t i = 0; e == 0 && i < m.n; i++) {
		const struct skip_mark *k = &m.list[i];

		CHECK(fsm_skip(f, k->index, &k->origin));
		log_warn("entry %" PRIu64 " of the raft log (term %" PRIu64
			 ", id %" PRIu64 ") is left out on this node, as corvo "
			 "admin skip-entry was told; every node of the cluster "
			 "must leave it out",
			 k->index, k->origin.term, k->origin.id);
	}
	return e;
}

/* --- the command --- */

struct skipping {
	struct settings s;
	struct offline off;
	const char *given; /* where its index should stand; NULL: nothing */
	uint64_t index;    /* of the entry */
	bool yes;
	struct fit fit;
	bool found, is_command, is_read;
	struct skip_mark mark;
	struct buf ops; /* its operations, in words */
	struct buf *why;
};

_printf_(2, 3) static int refuse(struct skipping *k, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(k->why, fmt, ap);
	va_end(ap);
	return -ERR_CONFLICT;
}

/* What a person knows an entry by. */
static bool put_ops(struct str bytes, struct buf *ret)
{
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct entry e;

	if (entry_decode(bytes, &a, &e) < 0)
		return false;
	buf_printf(ret, "%zu operation%s:", e.n, e.n == 1 ? "" : "s");
	for (size_t i = 0; i < MIN(e.n, (size_t)OPS_SHOWN); i++) {
		const struct call_info *op = op_info(e.items[i].op);

		buf_printf(ret, "%s%s", i > 0 ? ", " : " ",
			   op != NULL ? op->name : "unknown");
	}
	if (e.n > OPS_SHOWN)
		buf_puts(ret, ", ...");
	return true;
}

static int on_entry(void *ctx, const struct log_entry *e)
{
	struct skipping *k = ctx;

	if (e->index != k->index)
		return 0;
	k->found = true;
	k->is_command = e->is_command;
	k->is_read = false;
	k->mark = (struct skip_mark){ e->index, e->origin };
	buf_clear(&k->ops);
	if (e->is_command)
		k->is_read = put_ops(e->bytes, &k->ops);
	return 0;
}

static int find_entry(struct skipping *k)
{
	_cleanup_(buf_done) struct buf rocks = BUF_INIT(0);
	_cleanup_(buf_done) struct buf raft = BUF_INIT(0);
	const struct log_check *log = &k->fit.log;
	int e;

	path_of(k->s.data_dir, "rocks", &rocks);
	path_of(k->s.data_dir, "raft", &raft);
	e = offline_look(rocks.p, &k->fit.store, k->why);
	if (e == 0)
		e = fit_read(&k->fit, raft.p, k->why);
	if (e < 0)
		return e;
	if (k->index <= k->fit.store.index)
		return refuse(k,
			      "entry %" PRIu64 " is applied already: the store "
			      "has all up to %" PRIu64,
			      k->index, k->fit.store.index);
	if (!k->found)
		return refuse(k,
			      "the log has no entry %" PRIu64
			      ": it has %" PRIu64 " to %" PRIu64,
			      k->index, log->first, log->next - 1);
	if (!k->is_command)
		return refuse(k,
			      "entry %" PRIu64 " changes nothing: there is "
			      "nothing to leave out",
			      k->index);
	if (!k->is_read)
		return refuse(k,
			      "entry %" PRIu64 " cannot be read by this "
			      "version, so it cannot be left out; start the "
			      "version that wrote it",
			      k->index);
	return 0;
}

static int mark_entry(struct skipping *k)
{
	struct marks m;
	int e = marks_read(k->s.data_dir, &m, k->why);

	for (size_t i = 0; e == 0 && i < m.n; i++)
		if (is_same(&m.list[i], &k->mark))
			return refuse(k, "entry %" PRIu64 " is marked already",
				      k->index);
	if (e == 0 && m.n == FSM_SKIPS_MAX)
		e = refuse(k,
			   "%d entries are marked already: that is no way on; "
			   "recover this node from another one",
			   FSM_SKIPS_MAX);
	if (e < 0)
		return e;
	m.list[m.n++] = k->mark;
	return marks_write(k->s.data_dir, &m, k->why);
}

static int skip(struct skipping *k)
{
	int e = find_entry(k);

	if (e < 0)
		return e;
	(void)printf("entry %" PRIu64 " of the log: term %" PRIu64
		     ", id %" PRIu64 ", %.*s\n",
		     k->index, k->mark.origin.term, k->mark.origin.id,
		     STR_ARG(buf_str(&k->ops)));
	if (!k->yes)
		return refuse(k,
			      "nothing in this entry would be carried out on "
			      "this node, though clients may have been told "
			      "that it was; every node of the cluster must "
			      "leave it out alike, or their states differ for "
			      "good; try a newer version of Corvo first; stop "
			      "all nodes, run this on each, and add --yes; "
			      "nothing was changed");
	e = mark_entry(k);
	if (e < 0)
		return e;
	(void)printf("done: node %s leaves it out; do the same on every other "
		     "node of the cluster before it is started: entry %" PRIu64
		     " must have the same term and id there, and corvo admin "
		     "digest must show the same afterwards\n",
		     k->s.node_id, k->index);
	log_warn("entry %" PRIu64 " (term %" PRIu64 ", id %" PRIu64 ", %.*s) "
		 "was marked to be left out, by user %u",
		 k->index, k->mark.origin.term, k->mark.origin.id,
		 STR_ARG(buf_str(&k->ops)), (unsigned)getuid());
	return 0;
}

/*
 * Takes the index, which comes first, and --yes out of the flags: a word among
 * these is the value of one. Returns how many are left.
 */
static int take_own(struct skipping *k, int argc, char *const argv[],
		    char **ret)
{
	int n = 0;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--yes") == 0)
			k->yes = true;
		else if (i == 0 && strncmp(argv[i], "--", 2) != 0)
			k->given = argv[i];
		else
			ret[n++] = argv[i];
	}
	return n;
}

static int read_index(struct skipping *k)
{
	if (k->given == NULL)
		return refuse(k, "give the INDEX of the entry first; the last "
				 "words of corvo-raftd in the log of the node "
				 "are \"applying entry INDEX\"");
	if (!str_parse_u64(str_from(k->given), &k->index) || k->index == 0)
		return refuse(k,
			      "INDEX is the number of an entry of the log, "
			      "from 1 on, not \"%s\"; the last words of "
			      "corvo-raftd in the log of the node are "
			      "\"applying entry INDEX\"",
			      k->given);
	return 0;
}

static int run(struct skipping *k)
{
	int e;

	e = offline_begin(&k->off, k->s.data_dir, k->why);
	if (e == 0)
		e = skip(k);
	fit_done(&k->fit);
	offline_end(&k->off);
	return e;
}

int skip_main(int argc, char *const argv[])
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct skipping k = { .why = &why };
	char **flags = xcalloc((size_t)argc + 1, sizeof(*flags));
	int n = take_own(&k, argc, argv, flags);
	int e = read_index(&k);

	if (e == 0)
		e = settings_load(n, flags, &k.s, &why);
	k.fit.fn = on_entry;
	k.fit.ctx = &k;
	if (e == 0) {
		(void)umask(027);
		log_init("skip-entry", k.s.node_id);
		e = run(&k);
		settings_done(&k.s);
	} else {
		e = -ERR_CONFLICT;
	}
	free(flags);
	buf_done(&k.ops);
	if (e == 0)
		return EXIT_SUCCESS;
	(void)fprintf(stderr, "corvo admin skip-entry: %.*s\n",
		      STR_ARG(buf_str(&why)));
	return e == -ERR_CONFLICT ? EXIT_NO_RETRY : EXIT_FAILURE;
}
