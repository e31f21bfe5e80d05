#include "disk.h"

#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "util/le.h"

#define FLUSH_MIN_NS (50 * NS_PER_US)
#define FAIL_MAX_NS  (50 * NS_PER_MS)

/* n 0: everything from `index` on goes. */
struct disk_op {
	struct list node;
	uint64_t index;
	struct raft_io_append *req;
	unsigned n;
	struct segment_entry entry[]; /* their data is owned */
};

void disk_init(struct sim_disk *d, struct sim *s, struct loop *l)
{
	*d = (struct sim_disk){ .sim = s, .loop = l, .next = 1 };
	list_init(&d->ops);
	logdir_init(&d->log, s, l->host->number);
}

static struct disk_op *op_new(uint64_t index, unsigned n)
{
	struct disk_op *op = xcalloc(1, sizeof(*op) + n * sizeof(op->entry[0]));

	op->index = index;
	op->n = n;
	return op;
}

static struct disk_op *first_op(struct sim_disk *d)
{
	return list_empty(&d->ops)
		   ? NULL
		   : list_entry(d->ops.next, struct disk_op, node);
}

static void op_free(struct disk_op *op)
{
	list_remove(&op->node);
	for (unsigned i = 0; i < op->n; i++)
		free((void *)op->entry[i].data.p);
	free(op);
}

/* --- the log --- */

/* Takes over what is in it. */
static void write_op(struct sim_disk *d, struct disk_op *op)
{
	if (op->n == 0)
		logdir_truncate(&d->log, op->index);
	for (unsigned i = 0; i < op->n; i++) {
		logdir_put(&d->log, &op->entry[i]);
		op->entry[i].data = str_of(NULL, 0);
	}
}

/* The first of them, in one group, of which the machine may write any part. */
static void write_some(struct sim_disk *d, size_t n)
{
	if (n == 0)
		return;
	logdir_open(&d->log);
	logdir_begin_tear(&d->log);
	LIST_FOREACH (it, &d->ops) {
		if (n-- == 0)
			break;
		write_op(d, list_entry(it, struct disk_op, node));
	}
	logdir_flush(&d->log);
	logdir_tear(&d->log);
}

static void begin_flush(struct sim_disk *d);

bool disk_fails(struct sim_disk *d)
{
	if (!d->is_to_fail)
		return d->has_failed;
	d->is_to_fail = false;
	d->has_failed = true;
	return true;
}

static void on_flushed(void *ctx)
{
	struct sim_disk *d = ctx;
	bool was_broken = d->has_failed, is_broken = disk_fails(d);
	struct list done;

	list_init(&done);
	if (is_broken && !was_broken)
		write_some(d, d->flushing);
	if (!is_broken)
		logdir_open(&d->log); /* also of a node that does not run */
	for (; d->flushing > 0; d->flushing--) {
		struct disk_op *op = first_op(d);

		if (!is_broken)
			write_op(d, op);
		list_remove(&op->node);
		list_push_back(&done, &op->node);
	}
	if (!is_broken)
		logdir_flush(&d->log);
	begin_flush(d);
	while (!list_empty(&done)) {
		struct disk_op *op =
		    list_entry(done.next, struct disk_op, node);
		struct raft_io_append *req = op->req;

		op_free(op);
		if (req != NULL)
			req->cb(req, is_broken ? RAFT_IOERR : 0);
	}
}

static void begin_flush(struct sim_disk *d)
{
	uint64_t after_ns;

	if (d->flushing > 0 || list_empty(&d->ops))
		return;
	LIST_FOREACH (it, &d->ops)
		d->flushing++;
	after_ns = sim_skewed(d->sim, FLUSH_MIN_NS, d->flush_max_ns);
	if (d->fails != NULL && !sim_is_due(&d->failure)) {
		/* more may come until then, and is in the group */
		sim_after(d->sim, &d->failure, NULL,
			  sim_below(d->sim, FAIL_MAX_NS), d->fails,
			  d->fails_ctx);
		after_ns += FAIL_MAX_NS;
	}
	sim_after(d->sim, &d->flush, d->loop, after_ns, on_flushed, d);
}

void disk_fail_writing(struct sim_disk *d, loop_fn *fn, void *ctx)
{
	d->fails = fn;
	d->fails_ctx = ctx;
}

void disk_forget_failure(struct sim_disk *d)
{
	d->fails = NULL;
	sim_forget(d->sim, &d->failure);
}

static struct str copy(const void *p, size_t n)
{
	char *to = xmalloc(MAX(n, (size_t)1));

	memcpy(to, p, n);
	return str_of(to, n);
}

void disk_append(struct sim_disk *d, const struct raft_entry *e, unsigned n,
		 struct raft_io_append *req)
{
	struct disk_op *op = op_new(d->next, n);

	for (unsigned i = 0; i < n; i++)
		op->entry[i] = (struct segment_entry){
			.index = d->next + i,
			.term = e[i].term,
			.type = e[i].type,
			.data = copy(e[i].buf.base, e[i].buf.len),
		};
	op->req = req;
	d->next += n;
	list_push_back(&d->ops, &op->node);
	begin_flush(d);
}

void disk_truncate(struct sim_disk *d, uint64_t index)
{
	struct disk_op *op = op_new(index, 0);

	CHECK(index <= d->next);
	d->next = index;
	list_push_back(&d->ops, &op->node);
	begin_flush(d);
}

void disk_cut(struct sim_disk *d, uint64_t upto)
{
	logdir_cut(&d->log, upto);
}

void disk_begin(struct sim_disk *d, const struct raft_configuration *c)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct segment_entry e = { .index = 1, .term = 1, .type = RAFT_CHANGE };
	bool was_open = d->log.log != NULL;

	members_encode(c, &b);
	e.data = copy(b.p, b.n);
	logdir_open(&d->log);
	logdir_put(&d->log, &e);
	logdir_flush(&d->log);
	logdir_close(&d->log);
	if (was_open) /* it is yet to be loaded */
		logdir_open(&d->log);
	d->term = 1;
	d->next = 2;
}

/* The log goes on behind what is there of it. */
static void find_next(struct sim_disk *d)
{
	const struct logdir *f = &d->log;

	d->next = f->live_n > 0 ? f->live[f->live_n - 1]->index + 1
				: d->snapshot.index + 1;
}

void disk_open(struct sim_disk *d)
{
	d->log.is_loose = d->loop->host->lost_max > 0;
	logdir_open(&d->log);
}

/* To a library that is closed, and gives back what it holds. */
static void tell_rest(struct sim_disk *d)
{
	struct disk_op *op;

	while ((op = first_op(d)) != NULL) {
		if (op->req != NULL)
			op->req->cb(op->req, 0);
		op_free(op);
	}
}

void disk_settle(struct sim_disk *d)
{
	bool was_broken = d->has_failed;

	disk_forget_failure(d);
	if (!list_empty(&d->ops) && disk_fails(d)) {
		if (!was_broken)
			write_some(d, d->flushing);
		d->flushing = 0;
		tell_rest(d);
	}
	while (!list_empty(&d->ops)) {
		sim_forget(d->sim, &d->flush);
		on_flushed(d);
	}
	sim_forget(d->sim, &d->flush);
	if (d->has_failed)
		find_next(d);
	d->has_failed = false;
	logdir_close(&d->log);
}

void disk_abandon(struct sim_disk *d)
{
	LIST_FOREACH (it, &d->ops) {
		struct disk_op *op = list_entry(it, struct disk_op, node);

		op->req = NULL;
	}
}

void disk_crash(struct sim_disk *d, uint64_t lost)
{
	const struct logdir *f = &d->log;
	size_t ops = 0;

	disk_forget_failure(d);
	sim_forget(d->sim, &d->flush);
	d->flushing = 0;
	LIST_FOREACH (it, &d->ops)
		ops++;
	if (!d->has_failed && ops > 0)
		write_some(d, sim_between(d->sim, 1, ops));
	d->has_failed = false;
	tell_rest(d);
	logdir_close(&d->log);
	find_next(d);
	lost = MIN(sim_below(d->sim, lost + 1), (uint64_t)f->live_n);
	/* the first members, and what is before a snapshot, are long there */
	if (lost > 0)
		logdir_lose(&d->log,
			    MAX(d->next - lost,
				MAX(d->snapshot.index, (uint64_t)1) + 1));
	find_next(d);
}

bool disk_keeps(const struct sim_disk *d, uint64_t index, uint64_t term)
{
	const struct logdir_rec *e = logdir_at(&d->log, index);

	return e != NULL ? e->term == term : index <= d->snapshot.index;
}

/* --- snapshots --- */

void disk_put_snapshot(struct sim_disk *d, const struct disk_snapshot *s)
{
	d->snapshot.index = s->index;
	d->snapshot.term = s->term;
	d->snapshot.members_index = s->members_index;
	buf_clear(&d->snapshot.members);
	buf_put_str(&d->snapshot.members, buf_str(&s->members));
	buf_clear(&d->snapshot.data);
	buf_put_str(&d->snapshot.data, buf_str(&s->data));
	d->snapshots++;
}

void disk_install(struct sim_disk *d, const struct disk_snapshot *s)
{
	CHECK(list_empty(&d->ops));
	logdir_wipe(&d->log);
	d->next = s->index + 1;
	/* a vote of a term before that of the snapshot counts for nothing */
	if (d->term < s->term) {
		d->term = s->term;
		d->vote = 0;
	}
	d->has_diverged = false;
	disk_put_snapshot(d, s);
}

void disk_wipe(struct sim_disk *d)
{
	CHECK(list_empty(&d->ops));
	logdir_wipe(&d->log);
	d->next = 1;
	d->term = d->vote = 0;
	d->has_diverged = false;
	d->snapshot.index = d->snapshot.term = 0;
}

void disk_done(struct sim_disk *d)
{
	logdir_close(&d->log);
	disk_wipe(d);
	logdir_done(&d->log);
	buf_done(&d->snapshot.members);
	buf_done(&d->snapshot.data);
}

/* --- members --- */

void members_encode(const struct raft_configuration *c, struct buf *ret)
{
	struct raft_buffer b;

	CHECK(raft_configuration_encode(c, &b) == 0);
	buf_append(ret, b.base, b.len);
	raft_free(b.base);
}

/* A format, how many, and for each: id, address with a NUL, role. */
void members_decode(struct str s, struct raft_configuration *ret)
{
	const char *at = s.p + 1 + sizeof(uint64_t);
	uint64_t n = get_le64(s.p + 1);

	CHECK(s.p[0] == 1);
	raft_configuration_init(ret);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t id = get_le64(at);
		const char *address = at + sizeof(id);

		at = address + strlen(address) + 1;
		CHECK(raft_configuration_add(ret, id, address, *at) == 0);
		at++;
	}
	CHECK(at <= s.p + s.n);
}
