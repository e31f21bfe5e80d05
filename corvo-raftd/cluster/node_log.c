#include "cluster/node_log.h"

#include <errno.h>
#include <stdlib.h>

#include "cluster/ownlog.h"
#include "cluster/seglog/seglog.h"
#include "proto/err.h"
#include "rt/file.h"

struct node_log {
	struct seglog_config config;
	struct buf dir; /* with a NUL */
	struct seglog_scan scan;
	struct seglog *log; /* NULL: it is not open */
	struct loop_fd *watch;
	uint64_t next; /* index of the next entry */
	/* the library's own, which ours stand before */
	int (*load)(struct raft_io *io, raft_term *term, raft_id *voted_for,
		    struct raft_snapshot **snapshot, raft_index *start_index,
		    struct raft_entry *entries[], size_t *n_entries);
	void (*close)(struct raft_io *io, raft_io_close_cb cb);
};

static struct node_log *log_of(struct raft_io *io)
{
	return container_of(io, struct node, io)->log;
}

static int io_failed(struct raft_io *io, const struct buf *why)
{
	(void)snprintf(io->errmsg, sizeof(io->errmsg), "%.*s",
		       STR_ARG(buf_str(why)));
	return RAFT_IOERR;
}

/* --- what is written --- */

static void tell_done(struct node_log *l)
{
	struct list ops;

	list_init(&ops);
	seglog_take(l->log, &ops);
	LIST_FOREACH_SAFE (it, &ops) {
		struct seglog_op *op = list_entry(it, struct seglog_op, node);
		struct raft_io_append *req = op->ctx;

		list_remove(it);
		free(op);
		if (req != NULL)
			req->cb(req, 0);
	}
}

static void on_written(void *ctx, int fd, int events)
{
	(void)fd;
	(void)events;
	tell_done(ctx);
}

static struct segment_entry of_raft(const struct raft_entry *e)
{
	return (struct segment_entry){ .term = e->term,
				       .type = e->type,
				       .data =
					   str_of(e->buf.base, e->buf.len) };
}

/* The library keeps the entries until it hears of them. */
static int own_append(struct raft_io *io, struct raft_io_append *req,
		      const struct raft_entry entries[], unsigned n,
		      raft_io_append_cb cb)
{
	struct node_log *l = log_of(io);
	struct seglog_op *op = seglog_op_new(l->next, n);

	CHECK(n > 0 && l->next > 0);
	for (unsigned i = 0; i < n; i++) {
		/* terms only grow */
		CHECK(entries[i].term > 0 &&
		      (i == 0 || entries[i].term >= entries[i - 1].term));
		op->entry[i] = of_raft(&entries[i]);
	}
	req->cb = cb;
	op->ctx = req;
	l->next += n;
	seglog_push(l->log, op);
	return 0;
}

static int own_truncate(struct raft_io *io, raft_index index)
{
	struct node_log *l = log_of(io);

	CHECK(index > 0 && index <= l->next);
	l->next = index;
	seglog_push(l->log, seglog_op_new(index, 0));
	return 0;
}

void node_log_cut(struct node *n, uint64_t index)
{
	if (n->log != NULL)
		seglog_cut(n->log->log, index);
}

void node_flush_time(const struct node *n, struct hist *ret)
{
	*ret = (struct hist){ 0 };
	if (n->log != NULL && n->log->log != NULL)
		seglog_flush_time(n->log->log, ret);
}

/* --- what is read --- */

static int scan(struct node_log *l, struct buf *why)
{
	int r = seglog_scan(&l->scan, l->dir.p, why);

	/* it was looked at a moment ago */
	if (r == 0 && l->scan.damage.n > 0) {
		buf_put_str(why, buf_str(&l->scan.damage));
		r = -EIO;
	}
	return r;
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
	to->buf.base = raft_malloc(MAX(e->data.n, 1u));
	CHECK(to->buf.base != NULL);
	memcpy(to->buf.base, e->data.p, e->data.n);
	return true;
}

static int own_load(struct raft_io *io, raft_term *term, raft_id *voted_for,
		    struct raft_snapshot **snapshot, raft_index *start_index,
		    struct raft_entry *entries[], size_t *n_entries)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct node_log *l = log_of(io);
	struct loading g = { .max = l->scan.next - l->scan.first };
	const char *at;
	int r = l->load(io, term, voted_for, snapshot, start_index, entries,
			n_entries);

	if (r != 0)
		return r;
	CHECK(*n_entries == 0); /* it has no segments */
	l->next = *start_index;
	if (g.max == 0)
		return 0;
	*start_index = l->scan.first;
	l->next = l->scan.next;
	g.entries = raft_malloc(g.max * sizeof(*g.entries));
	CHECK(g.entries != NULL);
	r = seglog_each(&l->scan, load_entry, &g, &at, &why);
	if (r < 0)
		return io_failed(io, &why); /* and the process ends */
	CHECK(g.n == g.max);
	*entries = g.entries;
	*n_entries = g.n;
	seglog_scan_done(&l->scan);
	return 0;
}

/* --- a new log --- */

static int write_first(struct node_log *l, const struct raft_buffer *members)
{
	struct seglog_op *op = seglog_op_new(1, 1);

	op->entry[0] = (struct segment_entry){
		.term = 1,
		.type = SEGMENT_MEMBERS,
		.data = str_of(members->base, members->len),
	};
	seglog_push(l->log, op);
	seglog_wait(l->log);
	tell_done(l);
	return 0;
}

static int own_bootstrap(struct raft_io *io,
			 const struct raft_configuration *conf)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct node_log *l = log_of(io);
	struct raft_buffer members;
	int r;

	if (l->scan.next > 0)
		return RAFT_CANTBOOTSTRAP;
	r = io->set_term(io, 1);
	if (r == 0)
		r = raft_configuration_encode(conf, &members);
	if (r != 0)
		return r;
	r = write_first(l, &members);
	raft_free(members.base);
	seglog_scan_done(&l->scan);
	return scan(l, &why) < 0 ? io_failed(io, &why) : r;
}

/* Corvo begins another history instead: recover.h. */
static int own_recover(struct raft_io *io,
		       const struct raft_configuration *conf)
{
	(void)io;
	(void)conf;
	return RAFT_INVALID;
}

/* --- open and close --- */

static void close_log(struct node_log *l)
{
	if (l->log == NULL)
		return;
	seglog_stop(l->log);
	tell_done(l);
	loop_fd_remove(l->watch);
	seglog_free(l->log);
	l->log = NULL;
}

static void own_close(struct raft_io *io, raft_io_close_cb cb)
{
	struct node_log *l = log_of(io);

	close_log(l);
	l->close(io, cb);
}

void node_log_wire(struct node *n, const struct settings *s, const char *dir)
{
	struct node_log *l = xcalloc(1, sizeof(*l));

	ownlog_path(dir, &l->dir);
	l->config = (struct seglog_config){
		.dir = l->dir.p,
		.segment_bytes = s->raft_segment_size,
		.spares = (unsigned)MIN(
		    n->snapshot_bytes / s->raft_segment_size + 1, UINT8_MAX),
		.durable = s->durable,
	};
	n->log = l;
	l->load = n->io.load;
	l->close = n->io.close;
	n->io.load = own_load;
	n->io.close = own_close;
	n->io.append = own_append;
	n->io.truncate = own_truncate;
	n->io.bootstrap = own_bootstrap;
	n->io.recover = own_recover;
}

int node_log_open(struct node *n, const char *dir, struct buf *why)
{
	struct node_log *l = n->log;
	int r = scan(l, why);

	if (r == 0)
		r = seglog_open(&l->config, &l->scan, &l->log, why);
	if (r < 0)
		return r == -ENOSPC ? -ERR_STORAGE_FULL : -ERR_INTERNAL_ERROR;
	l->watch =
	    loop_fd_add(n->loop, seglog_fd(l->log), LOOP_READ, on_written, l);
	/* the folder may be new */
	r = dir_sync(dir);
	if (r == 0)
		return 0;
	buf_printf(why, "cannot flush %s: %s", dir, strerror(-r));
	return -ERR_INTERNAL_ERROR;
}

void node_log_done(struct node *n)
{
	if (n->log == NULL)
		return;
	close_log(n->log);
	seglog_scan_done(&n->log->scan);
	buf_done(&n->log->dir);
	free(n->log);
	n->log = NULL;
}
