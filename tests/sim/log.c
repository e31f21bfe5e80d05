/*
 * cluster/node_log.h in a world, in the place of node_log.c; and of what is
 * read before the library sees it, the files beside the segments, in the place
 * of logcheck_dir.c, ownlog.c and guard_note.c.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/logcheck_impl.h"
#include "cluster/node_log.h"
#include "cluster/ownlog.h"
#include "host.h"
#include "proto/err.h"

struct node_log {
	struct sim_host *host;
	int (*load)(struct raft_io *io, raft_term *term, raft_id *voted_for,
		    struct raft_snapshot **snapshot, raft_index *start_index,
		    struct raft_entry *entries[], size_t *n_entries);
	void (*close)(struct raft_io *io, raft_io_close_cb cb);
};

static struct node_log *log_of(struct raft_io *io)
{
	return container_of(io, struct node, io)->log;
}

static int sim_append(struct raft_io *io, struct raft_io_append *req,
		      const struct raft_entry entries[], unsigned n,
		      raft_io_append_cb cb)
{
	req->cb = cb;
	host_writes(log_of(io)->host);
	disk_append(&log_of(io)->host->disk, entries, n, req);
	return 0;
}

static int sim_truncate(struct raft_io *io, raft_index index)
{
	struct sim_host *h = log_of(io)->host;

	host_writes(h);
	sim_note(h->sim, "truncate", h->number, index, 0, 0, 0);
	disk_truncate(&h->disk, index);
	return 0;
}

void node_log_cut(struct node *n, uint64_t index)
{
	disk_cut(&n->log->host->disk, index);
}

void node_flush_time(const struct node *n, struct hist *ret)
{
	(void)n;
	*ret = (struct hist){ 0 };
}

struct loading {
	struct raft_entry *entries;
	size_t n, max;
};

static bool load_entry(void *ctx, const struct segment_entry *e)
{
	struct loading *g = ctx;
	struct raft_entry *to = &g->entries[g->n++];

	CHECK(g->n <= g->max);
	*to = (struct raft_entry){ .term = e->term,
				   .type = (unsigned short)e->type };
	to->buf.len = e->data.n;
	to->buf.base = raft_malloc(MAX(e->data.n, (size_t)1));
	CHECK(to->buf.base != NULL);
	memcpy(to->buf.base, e->data.p, e->data.n);
	return true;
}

static int sim_load(struct raft_io *io, raft_term *term, raft_id *voted_for,
		    struct raft_snapshot **snapshot, raft_index *start_index,
		    struct raft_entry *entries[], size_t *n_entries)
{
	const struct logdir *f = &log_of(io)->host->disk.log;
	struct loading g = { .max = f->live_n };
	int r = log_of(io)->load(io, term, voted_for, snapshot, start_index,
				 entries, n_entries);

	if (r != 0 || g.max == 0)
		return r;
	g.entries = raft_calloc(g.max, sizeof(*g.entries));
	CHECK(g.entries != NULL);
	logdir_each(f, load_entry, &g);
	CHECK(g.n == g.max);
	*start_index = f->live[0]->index;
	*n_entries = g.n;
	*entries = g.entries;
	return 0;
}

static int sim_bootstrap(struct raft_io *io,
			 const struct raft_configuration *conf)
{
	disk_begin(&log_of(io)->host->disk, conf);
	return 0;
}

static int sim_recover(struct raft_io *io,
		       const struct raft_configuration *conf)
{
	(void)io;
	(void)conf;
	return RAFT_INVALID;
}

static void sim_close(struct raft_io *io, raft_io_close_cb cb)
{
	struct node_log *l = log_of(io);

	if (l->host->is_crash)
		disk_crash(&l->host->disk, l->host->lost_max);
	else
		disk_settle(&l->host->disk);
	l->close(io, cb);
}

void node_log_wire(struct node *n, const struct settings *s, const char *dir)
{
	struct node_log *l = xcalloc(1, sizeof(*l));

	(void)s;
	(void)dir;
	l->host = host_of(n->loop);
	n->log = l;
	l->load = n->io.load;
	l->close = n->io.close;
	n->io.load = sim_load;
	n->io.close = sim_close;
	n->io.append = sim_append;
	n->io.truncate = sim_truncate;
	n->io.bootstrap = sim_bootstrap;
	n->io.recover = sim_recover;
}

int node_log_open(struct node *n, const char *dir, struct buf *why)
{
	(void)dir;
	(void)why;
	disk_open(&n->log->host->disk);
	return 0;
}

void node_log_done(struct node *n)
{
	free(n->log);
	n->log = NULL;
}

/* --- what is read before a start --- */

static struct sim_host *host_here(void)
{
	return sim_here()->host;
}

void log_damage(struct log_check *c, const char *fmt, ...)
{
	va_list ap;

	if (c->damages++ > 0)
		return;
	va_start(ap, fmt);
	buf_vprintf(&c->damage, fmt, ap);
	va_end(ap);
}

int log_dir_read(struct log_check *c, struct buf *why)
{
	const struct sim_disk *d = &host_here()->disk;

	(void)why;
	logdir_look(&d->log);
	c->term = d->term;
	c->snapshot_term = d->snapshot.term;
	if (d->snapshot.index == 0)
		return 0;
	CHECK(manifest_parse(buf_str(&d->snapshot.data), &c->snapshot));
	c->history = c->snapshot.origin.history;
	return 0;
}

void log_check_forget(struct log_check *c)
{
	(void)c;
}

void ownlog_path(const char *dir, struct buf *ret)
{
	buf_clear(ret);
	buf_printf(ret, "%s/" OWNLOG_FOLDER, dir);
	buf_putc(ret, '\0');
}

bool ownlog_is_there(const char *dir)
{
	(void)dir;
	return true;
}

bool ownlog_is_wanted(const struct settings *s)
{
	(void)s;
	return true;
}

int ownlog_convert(const struct log_check *c, const struct settings *s,
		   struct buf *why)
{
	(void)c;
	(void)s;
	(void)why;
	return 0;
}

int guard_refuse(const char *dir, struct buf *why)
{
	(void)dir;
	if (!host_here()->disk.has_diverged)
		return 0;
	buf_puts(why, "it has diverged");
	return -ERR_CONFLICT;
}

void guard_note(const struct node *n, struct str text)
{
	(void)text;
	host_of(n->loop)->disk.has_diverged = true;
}
