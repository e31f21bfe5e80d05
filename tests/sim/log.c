/*
 * cluster/node_log.h in a world, in the place of node_log.c; and the log read
 * before the library sees it, in the place of logcheck.c, ownlog.c and
 * guard_note.c. Where those have a folder, this has the address of a host.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/entry.h"
#include "cluster/logcheck.h"
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

static int sim_load(struct raft_io *io, raft_term *term, raft_id *voted_for,
		    struct raft_snapshot **snapshot, raft_index *start_index,
		    struct raft_entry *entries[], size_t *n_entries)
{
	const struct sim_disk *d = &log_of(io)->host->disk;
	struct raft_entry *to;
	int r = log_of(io)->load(io, term, voted_for, snapshot, start_index,
				 entries, n_entries);

	if (r != 0 || d->n == 0)
		return r;
	*start_index = d->first;
	*n_entries = d->n;
	to = raft_calloc(d->n, sizeof(*to));
	CHECK(to != NULL);
	*entries = to;
	for (size_t i = 0; i < d->n; i++) {
		const struct disk_entry *e = &d->entries[i];

		to[i].term = e->term;
		to[i].type = e->type;
		to[i].buf.len = e->data.n;
		to[i].buf.base = raft_malloc(MAX(e->data.n, (size_t)1));
		CHECK(to[i].buf.base != NULL);
		memcpy(to[i].buf.base, e->data.p, e->data.n);
	}
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
	(void)n;
	(void)dir;
	(void)why;
	return 0;
}

void node_log_done(struct node *n)
{
	free(n->log);
	n->log = NULL;
}

/* --- what is read before a start --- */

static struct sim_host *host_in(const char *dir)
{
	void *p = NULL;

	CHECK(sscanf(dir, "%p", &p) == 1);
	return p;
}

static int tell(struct log_check *c, const struct disk_entry *e, uint64_t index,
		log_entry_fn *fn, void *ctx)
{
	struct log_entry x = { .index = index,
			       .term = e->term,
			       .type = e->type,
			       .raw = e->data,
			       .is_command = e->type == RAFT_COMMAND };
	struct entry_head h = { 0 };

	c->last_term = e->term;
	if (x.is_command) {
		CHECK(entry_unwrap(e->data, &h, &x.bytes));
		x.origin = (struct entry_origin){ .term = e->term,
						  .id = h.id,
						  .history = h.history };
		c->history = h.history;
	}
	return fn != NULL ? fn(ctx, &x) : 0;
}

int log_check(struct log_check *c, const char *dir, log_entry_fn *fn, void *ctx,
	      struct buf *why)
{
	const struct sim_disk *d = &host_in(dir)->disk;
	int r = 0;

	(void)why;
	*c = (struct log_check){ .is_own = true,
				 .term = d->term,
				 .snapshot_term = d->snapshot.term };
	if (d->snapshot.index > 0) {
		CHECK(manifest_parse(buf_str(&d->snapshot.data), &c->snapshot));
		c->history = c->snapshot.origin.history;
		c->last_term = d->snapshot.term;
	}
	c->is_new = d->snapshot.index == 0 && d->n == 0;
	c->first = d->n > 0 ? d->first : d->snapshot.index + 1;
	c->next = d->n > 0 ? d->first + d->n : d->snapshot.index + 1;
	for (size_t i = 0; r >= 0 && i < d->n; i++)
		r = tell(c, &d->entries[i], d->first + i, fn, ctx);
	return r < 0 ? r : 0;
}

void log_check_done(struct log_check *c)
{
	(void)c;
}

int log_check_mend(struct log_check *c, struct buf *why)
{
	(void)c;
	(void)why;
	return 0;
}

void log_check_forget(struct log_check *c)
{
	(void)c;
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
	if (!host_in(dir)->disk.has_diverged)
		return 0;
	buf_puts(why, "it has diverged");
	return -ERR_CONFLICT;
}

void guard_note(const struct node *n, struct str text)
{
	(void)text;
	host_of(n->loop)->disk.has_diverged = true;
}
