/*
 * cluster/node_base.h in a world, in the place of node_uv.c: term and vote,
 * snapshots, ticks and messages. And who a node is, in the place of
 * node_identity.c: its host says.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/node_base.h"
#include "net.h"
#include "proto/err.h"

#define EARLY_MAX 8 /* entries */

enum req_kind { REQ_PUT, REQ_GET, REQ_WORK };

/* Something the library has asked for, until it hears of it. */
struct base_req {
	struct list node;
	struct sim_event event;
	struct node_base *base;
	enum req_kind kind;
	union {
		struct raft_io_snapshot_put *put;
		struct raft_io_snapshot_get *get;
		struct raft_io_async_work *work;
	};
	struct disk_snapshot snapshot;
};

struct node_base {
	struct node *node;
	struct sim_host *host;
	raft_io_tick_cb tick;
	unsigned tick_ms;
	struct sim_event ticker, closer;
	struct list reqs;
	raft_io_close_cb closed;
};

static struct node_base *base_of(struct raft_io *io)
{
	return container_of(io, struct node, io)->base;
}

/* --- term and vote --- */

static int set_term(struct raft_io *io, raft_term term)
{
	struct sim_host *h = base_of(io)->host;

	host_writes(h);
	if (disk_fails(&h->disk))
		return RAFT_IOERR;
	h->disk.term = term;
	h->disk.vote = 0;
	sim_note(h->sim, "term", h->number, term, 0, 0, 0);
	return 0;
}

static int set_vote(struct raft_io *io, raft_id id)
{
	struct sim_host *h = base_of(io)->host;

	host_writes(h);
	if (disk_fails(&h->disk))
		return RAFT_IOERR;
	h->disk.vote = id;
	sim_note(h->sim, "vote", h->number, h->disk.term, id, 0, 0);
	return 0;
}

/* --- requests that take a while --- */

static void req_add(struct node_base *b, struct base_req *q, enum req_kind kind,
		    loop_fn *fn)
{
	q->base = b;
	q->kind = kind;
	list_push_back(&b->reqs, &q->node);
	sim_after(b->host->sim, &q->event, &b->host->loop,
		  sim_skewed(b->host->sim, NS_PER_MS, b->host->work_max_ns), fn,
		  q);
}

static void req_free(struct base_req *q)
{
	list_remove(&q->node);
	sim_forget(q->base->host->sim, &q->event);
	buf_done(&q->snapshot.members);
	buf_done(&q->snapshot.data);
	free(q);
}

static struct raft_snapshot *make_snapshot(const struct disk_snapshot *d)
{
	struct raft_snapshot *s = raft_calloc(1, sizeof(*s));

	CHECK(s != NULL);
	s->index = d->index;
	s->term = d->term;
	s->configuration_index = d->members_index;
	members_decode(buf_str(&d->members), &s->configuration);
	s->bufs = raft_malloc(sizeof(*s->bufs));
	CHECK(s->bufs != NULL);
	s->n_bufs = 1;
	s->bufs[0].len = d->data.n;
	s->bufs[0].base = raft_malloc(d->data.n);
	CHECK(s->bufs[0].base != NULL);
	memcpy(s->bufs[0].base, d->data.p, d->data.n);
	return s;
}

static void on_put(void *ctx)
{
	struct base_req *q = ctx;
	struct raft_io_snapshot_put *put = q->put;
	struct sim_host *h = q->base->host;

	host_writes(h);
	if (h->disk.puts_fail > 0) {
		h->disk.puts_fail--;
		req_free(q);
		put->cb(put, RAFT_IOERR);
		return;
	}
	disk_put_snapshot(&h->disk, &q->snapshot);
	sim_note(h->sim, "snapshot", h->number, q->snapshot.index,
		 q->snapshot.term, q->snapshot.members_index, 0);
	req_free(q);
	put->cb(put, 0);
}

static int snapshot_put(struct raft_io *io, unsigned trailing,
			struct raft_io_snapshot_put *req,
			const struct raft_snapshot *s,
			raft_io_snapshot_put_cb cb)
{
	struct base_req *q;

	(void)trailing; /* the log is cut by node_log_cut */
	if (base_of(io)->closed != NULL)
		return RAFT_CANCELED;
	q = xcalloc(1, sizeof(*q));
	req->cb = cb;
	q->put = req;
	q->snapshot.index = s->index;
	q->snapshot.term = s->term;
	q->snapshot.members_index = s->configuration_index;
	members_encode(&s->configuration, &q->snapshot.members);
	for (unsigned i = 0; i < s->n_bufs; i++)
		buf_append(&q->snapshot.data, s->bufs[i].base, s->bufs[i].len);
	req_add(base_of(io), q, REQ_PUT, on_put);
	return 0;
}

static void on_get(void *ctx)
{
	struct base_req *q = ctx;
	struct raft_io_snapshot_get *get = q->get;
	struct raft_snapshot *s;

	CHECK(q->base->host->disk.snapshot.index > 0);
	s = make_snapshot(&q->base->host->disk.snapshot);
	req_free(q);
	get->cb(get, s, 0);
}

static int snapshot_get(struct raft_io *io, struct raft_io_snapshot_get *req,
			raft_io_snapshot_get_cb cb)
{
	struct base_req *q = xcalloc(1, sizeof(*q));

	req->cb = cb;
	q->get = req;
	req_add(base_of(io), q, REQ_GET, on_get);
	return 0;
}

static void on_work(void *ctx)
{
	struct base_req *q = ctx;
	struct raft_io_async_work *work = q->work;
	int r = work->work(work);

	req_free(q);
	work->cb(work, r);
}

static int async_work(struct raft_io *io, struct raft_io_async_work *req,
		      raft_io_async_work_cb cb)
{
	struct base_req *q = xcalloc(1, sizeof(*q));

	req->cb = cb;
	q->work = req;
	req_add(base_of(io), q, REQ_WORK, on_work);
	return 0;
}

/* A snapshot may be on the disk although nobody has heard of it. */
static void cancel(struct base_req *q)
{
	struct base_req got = *q;
	struct sim_host *h = q->base->host;

	if (q->kind == REQ_PUT && sim_chance(h->sim, 50))
		disk_put_snapshot(&h->disk, &q->snapshot);
	req_free(q);
	if (got.kind == REQ_PUT)
		got.put->cb(got.put, RAFT_CANCELED);
	else if (got.kind == REQ_GET)
		got.get->cb(got.get, NULL, RAFT_CANCELED);
	else
		got.work->cb(got.work, RAFT_CANCELED);
}

/* --- the rest of it --- */

static int init(struct raft_io *io, raft_id id, const char *address)
{
	(void)io;
	(void)id;
	(void)address;
	return 0;
}

static int load(struct raft_io *io, raft_term *term, raft_id *voted_for,
		struct raft_snapshot **snapshot, raft_index *start_index,
		struct raft_entry *entries[], size_t *n_entries)
{
	const struct sim_disk *d = &base_of(io)->host->disk;

	*term = d->term;
	*voted_for = d->vote;
	*snapshot = d->snapshot.index > 0 ? make_snapshot(&d->snapshot) : NULL;
	*start_index = d->snapshot.index + 1;
	*entries = NULL;
	*n_entries = 0;
	return 0;
}

static void on_tick(void *ctx)
{
	struct node_base *b = ctx;

	sim_after(b->host->sim, &b->ticker, &b->host->loop,
		  b->tick_ms * NS_PER_MS, on_tick, b);
	b->tick(&b->node->io);
}

static int start(struct raft_io *io, unsigned msecs, raft_io_tick_cb tick,
		 raft_io_recv_cb recv)
{
	struct node_base *b = base_of(io);

	b->tick = tick;
	b->tick_ms = msecs;
	b->host->io = io;
	b->host->recv = recv;
	sim_after(b->host->sim, &b->ticker, &b->host->loop,
		  sim_below(b->host->sim, msecs) * NS_PER_MS, on_tick, b);
	return 0;
}

static void on_early_sent(struct raft_io_send *req, int status)
{
	(void)status;
	free(req);
}

/*
 * As a leader of an earlier version does, which knows little of a follower:
 * some entries it has long had, with all that is committed.
 */
static void send_early(struct node_base *b, const struct raft_message *m)
{
	struct raft_entry entries[EARLY_MAX];
	struct raft_message early = *m;
	struct raft_append_entries *a = &early.append_entries;
	uint64_t offset = b->node->raft.log.offset, prev = a->prev_log_index;
	uint64_t most;

	/* a beat may be about an entry that this log has no more, or has yet
	 * to write */
	if (prev < offset + 2 || node_entry(b->node, prev) == NULL ||
	    prev > b->node->raft.last_stored)
		return;
	a->prev_log_index = sim_between(b->host->sim, offset + 1, prev - 1);
	a->prev_log_term = node_term_of(b->node, a->prev_log_index);
	most = MIN(prev - a->prev_log_index, (uint64_t)EARLY_MAX);
	a->n_entries = (unsigned)sim_between(b->host->sim, 1, most);
	a->entries = entries;
	for (unsigned i = 0; i < a->n_entries; i++)
		entries[i] = *node_entry(b->node, a->prev_log_index + 1 + i);
	(void)net_send(b->host, true, xcalloc(1, sizeof(struct raft_io_send)),
		       &early, on_early_sent);
}

static int send_message(struct raft_io *io, struct raft_io_send *req,
			const struct raft_message *m, raft_io_send_cb cb)
{
	struct node_base *b = base_of(io);

	if (m->type == RAFT_IO_APPEND_ENTRIES &&
	    sim_chance(b->host->sim, b->host->early))
		send_early(b, m);
	return net_send(b->host, node_may_dial(b->node, m->server_id), req, m,
			cb);
}

static raft_time read_time(struct raft_io *io)
{
	return base_of(io)->host->sim->now_ns / NS_PER_MS;
}

static int make_random(struct raft_io *io, int min, int max)
{
	return min +
	       (int)sim_below(base_of(io)->host->sim, (uint64_t)(max - min));
}

static void on_close(void *ctx)
{
	struct node_base *b = ctx;

	net_leave(b->host);
	while (!list_empty(&b->reqs))
		cancel(list_entry(b->reqs.next, struct base_req, node));
	b->closed(&b->node->io);
}

static void close_base(struct raft_io *io, raft_io_close_cb cb)
{
	struct node_base *b = base_of(io);

	b->closed = cb;
	b->host->recv = NULL;
	sim_forget(b->host->sim, &b->ticker);
	/* a crash may come while it is being closed */
	sim_forget(b->host->sim, &b->closer);
	sim_after(b->host->sim, &b->closer, &b->host->loop, 0, on_close, b);
}

int node_base_open(struct node *n, const struct settings *s, const char *dir)
{
	struct node_base *b = xcalloc(1, sizeof(*b));

	(void)s;
	(void)dir;
	b->node = n;
	b->host = host_of(n->loop);
	list_init(&b->reqs);
	n->base = b;
	n->io = (struct raft_io){
		.version = 2,
		.init = init,
		.close = close_base,
		.load = load,
		.start = start,
		.set_term = set_term,
		.set_vote = set_vote,
		.send = send_message,
		.snapshot_put = snapshot_put,
		.snapshot_get = snapshot_get,
		.time = read_time,
		.random = make_random,
		.async_work = async_work,
	};
	return 0;
}

bool node_base_is_settled(struct node *n)
{
	(void)n;
	return true;
}

/* Who is no member is told nothing here. */
void node_base_let_in(struct node *n _unused_)
{
}

void node_base_close(struct node *n)
{
	free(n->base);
	n->base = NULL;
}

void node_base_wait(struct node *n)
{
	CHECK(sim_step_of(n->loop->sim, n->loop));
}

void sim_pieces(const struct sim *s)
{
#ifdef CORVO_FAULTS
	node_piece_most = s->seed % 3 == 0 ? 1 + s->seed / 3 % 3 : 0;
#else
	(void)s;
#endif
}

/* --- who a node is --- */

int node_identity(const struct settings *s, bool joins, uint64_t *ret_id,
		  struct buf *why)
{
	(void)s;
	(void)joins;
	(void)why;
	*ret_id = sim_here()->host->id;
	return 0;
}

/* The log and its mark are there, and nothing else is: see log.c. */
int node_folder(const struct settings *s, struct buf *ret, struct buf *why)
{
	(void)s;
	(void)why;
	buf_puts(ret, sim_here()->host->disk.log.dir);
	buf_putc(ret, '\0');
	return 0;
}

int node_confirm(struct node *n, const struct settings *s, struct buf *why)
{
	(void)n;
	(void)s;
	(void)why;
	return 0;
}
