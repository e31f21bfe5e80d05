#include "disk.h"

#include <stdlib.h>
#include <string.h>

#include "util/le.h"

#define FLUSH_MIN_NS (50 * NS_PER_US)

/* n 0: everything from `index` on goes. */
struct disk_op {
	struct list node;
	uint64_t index;
	struct raft_io_append *req;
	unsigned n;
	struct disk_entry entry[];
};

void disk_init(struct sim_disk *d, struct sim *s, struct loop *l)
{
	*d = (struct sim_disk){ .sim = s, .loop = l, .first = 1, .next = 1 };
	list_init(&d->ops);
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

static void drop_from(struct sim_disk *d, uint64_t index)
{
	while (d->n > 0 && d->first + d->n > index)
		free((void *)d->entries[--d->n].data.p);
}

static void drop_before(struct sim_disk *d, uint64_t index)
{
	size_t n = MIN(index - MIN(index, d->first), (uint64_t)d->n);

	for (size_t i = 0; i < n; i++)
		free((void *)d->entries[i].data.p);
	memmove(d->entries, d->entries + n, (d->n - n) * sizeof(*d->entries));
	d->n -= n;
	d->first += n;
}

/* Takes over the first entries of it. */
static void write_op(struct sim_disk *d, struct disk_op *op, unsigned n)
{
	if (op->n == 0) {
		drop_from(d, op->index);
		return;
	}
	if (d->n == 0)
		d->first = op->index;
	CHECK(op->index == d->first + d->n);
	for (unsigned i = 0; i < n; i++) {
		if (d->n == d->room) {
			d->room = MAX(2 * d->room, (size_t)64);
			d->entries =
			    xrealloc(d->entries, d->room * sizeof(*d->entries));
		}
		d->entries[d->n++] = op->entry[i];
		op->entry[i].data = str_of(NULL, 0);
	}
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

/* Some of them, the first ones. */
static void write_some(struct sim_disk *d, size_t n)
{
	size_t keep = sim_below(d->sim, n + 1), i = 0;

	LIST_FOREACH (it, &d->ops) {
		struct disk_op *op = list_entry(it, struct disk_op, node);

		if (i++ == keep)
			return;
		write_op(d, op,
			 i < keep ? op->n
				  : (unsigned)sim_below(d->sim, op->n + 1));
	}
}

static void on_flushed(void *ctx)
{
	struct sim_disk *d = ctx;
	bool was_broken = d->has_failed, is_broken = disk_fails(d);
	struct list done;

	list_init(&done);
	if (is_broken && !was_broken)
		write_some(d, d->flushing);
	for (; d->flushing > 0; d->flushing--) {
		struct disk_op *op = first_op(d);

		if (!is_broken)
			write_op(d, op, op->n);
		list_remove(&op->node);
		list_push_back(&done, &op->node);
	}
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
	if (d->flushing > 0 || list_empty(&d->ops))
		return;
	LIST_FOREACH (it, &d->ops)
		d->flushing++;
	sim_after(d->sim, &d->flush, d->loop,
		  sim_skewed(d->sim, FLUSH_MIN_NS, d->flush_max_ns), on_flushed,
		  d);
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
		op->entry[i] = (struct disk_entry){
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

/* Files go as a whole: how much is left behind is chance. */
void disk_cut(struct sim_disk *d, uint64_t upto)
{
	if (d->n == 0 || upto < d->first)
		return;
	drop_before(d, sim_between(d->sim, d->first, upto) + 1);
}

void disk_begin(struct sim_disk *d, const struct raft_configuration *c)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct disk_op *op = op_new(1, 1);

	members_encode(c, &b);
	op->entry[0] = (struct disk_entry){ .term = 1,
					    .type = RAFT_CHANGE,
					    .data = copy(b.p, b.n) };
	write_op(d, op, 1);
	op_free(op);
	d->term = 1;
	d->next = 2;
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
		d->next = d->n > 0 ? d->first + d->n : d->snapshot.index + 1;
	d->has_failed = false;
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
	size_t ops = 0, keep;
	struct disk_op *op;

	sim_forget(d->sim, &d->flush);
	d->flushing = 0;
	LIST_FOREACH (it, &d->ops)
		ops++;
	keep = d->has_failed ? 0 : sim_below(d->sim, ops + 1);
	d->has_failed = false;
	for (size_t i = 0; i < keep; i++) {
		op = first_op(d);
		write_op(d, op,
			 i + 1 < keep ? op->n
				      : (unsigned)sim_below(d->sim, op->n + 1));
		if (op->req != NULL)
			op->req->cb(op->req, 0);
		op_free(op);
	}
	tell_rest(d);
	lost = sim_below(d->sim, lost + 1);
	/* the first members, and what is before a snapshot, are long there */
	if (lost > 0)
		drop_from(d, MAX(d->first + d->n - MIN(lost, d->n),
				 MAX(d->snapshot.index, (uint64_t)1) + 1));
	d->next = d->n > 0 ? d->first + d->n : d->snapshot.index + 1;
}

const struct disk_entry *disk_at(const struct sim_disk *d, uint64_t index)
{
	if (index < d->first || index >= d->first + d->n)
		return NULL;
	return &d->entries[index - d->first];
}

bool disk_keeps(const struct sim_disk *d, uint64_t index, uint64_t term)
{
	const struct disk_entry *e = disk_at(d, index);

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
	drop_from(d, 0);
	d->first = d->next = s->index + 1;
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
	drop_from(d, 0);
	d->first = d->next = 1;
	d->term = d->vote = 0;
	d->has_diverged = false;
	d->snapshot.index = d->snapshot.term = 0;
}

void disk_done(struct sim_disk *d)
{
	disk_wipe(d);
	free(d->entries);
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
