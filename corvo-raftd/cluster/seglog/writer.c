/*
 * The writer of the log, without its thread: records into segments, one group
 * after the other. See seglog.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cluster/seglog/fault.h"
#include "cluster/seglog/record.h"
#include "cluster/seglog/seglog_impl.h"
#include "rt/log.h"

void seglog_die(const char *why)
{
	log_error("the raft log cannot be written: %s; stopping", why);
	abort();
}

static void die_of(const struct seglog *l, const char *what, int e)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	buf_printf(&why, "cannot %s %s/%s at byte %zu: %s", what, l->c.dir,
		   l->cur.name, l->cur.at, strerror(e));
	buf_putc(&why, '\0');
	seglog_die(why.p);
}

/* --- files --- */

static void write_staged(struct seglog *l)
{
	int r = seg_stage_write(&l->stage, l->cur.fd);

	if (r < 0)
		die_of(l, "write", -r);
	CHECK(l->stage.base + l->stage.written == l->cur.at);
}

void seglog_flush_file(struct seglog *l)
{
	while (fdatasync(l->cur.fd) < 0)
		if (errno != EINTR)
			die_of(l, "flush", errno);
	seglog_fault_flush();
}

void seglog_flush(struct seglog *l)
{
	write_staged(l);
	if (!l->c.durable || l->flushed == l->cur.at)
		return;
	seglog_flush_file(l);
	l->flushed = l->cur.at;
}

/* What need not be flushed is the system's to write when it likes. */
int seglog_begin_segment(struct seglog *l)
{
	return seg_stage_begin(&l->stage, l->cur.fd, l->cur.at, l->c.durable);
}

/* --- records --- */

static void put_bytes(struct seglog *l, const void *p, size_t n)
{
	const char *from = p;

	while (n > 0) {
		size_t took = seg_stage_put(&l->stage, from, n);

		from += took;
		n -= took;
		l->cur.at += took;
		if (n > 0)
			write_staged(l);
	}
}

static void add_record(struct seglog *l, struct rec *r)
{
	static const char zeros[REC_ALIGN];
	size_t size = rec_size(r->data.n);
	char head[REC_HEAD_BYTES];

	CHECK(l->cur.at % REC_ALIGN == 0 && l->cur.at + size <= UINT32_MAX);
	CHECK(l->flushed <= l->cur.at); /* no record stands for what comes */
	r->flushed = (uint32_t)l->flushed;
	rec_head_put(r, l->cur.salt, head);
	put_bytes(l, head, sizeof(head));
	put_bytes(l, r->data.p, r->data.n);
	put_bytes(l, zeros, size - REC_HEAD_BYTES - r->data.n);
}

/*
 * The last record says that all before it is flushed, and is flushed before
 * anything is written to the next segment, which must be there by then: a log
 * that ends with it goes on.
 */
static void go_on_in_next(struct seglog *l)
{
	struct rec end = { .kind = REC_END };
	int r;

	seglog_flush(l);
	seglog_await_next(l);
	add_record(l, &end);
	seglog_flush(l);
	seglog_next(l);
	r = seglog_begin_segment(l);
	if (r < 0)
		die_of(l, "begin", -r);
	l->flushed = l->c.durable ? SEG_HEAD_BYTES : 0;
}

/* A record that is larger than a segment has one of its own, which grows. */
static void put_record(struct seglog *l, struct rec *r)
{
	if (l->cur.at > SEG_HEAD_BYTES &&
	    l->cur.at + rec_size(r->data.n) + rec_size(0) > l->c.segment_bytes)
		go_on_in_next(l);
	add_record(l, r);
	if (rec_is_entry(r))
		l->cur.last_index = MAX(l->cur.last_index, r->index);
}

struct seglog_op *seglog_op_new(uint64_t index, size_t n)
{
	struct seglog_op *op =
	    xcalloc(1, sizeof(*op) + n * sizeof(op->entry[0]));

	op->index = index;
	op->n = n;
	return op;
}

void seglog_put(struct seglog *l, const struct seglog_op *op)
{
	struct rec cut = { .kind = REC_TRUNCATE, .index = op->index };

	if (op->n == 0) {
		CHECK(op->index > 0);
		put_record(l, &cut);
		l->entry = MIN(l->entry, op->index);
	}
	for (size_t i = 0; i < op->n; i++) {
		const struct segment_entry *e = &op->entry[i];
		struct rec r = { .kind = e->type,
				 .index = op->index + i,
				 .term = e->term,
				 .data = e->data };

		CHECK(rec_is_entry(&r) && r.kind > 0);
		/* a log with a gap could not be read any more */
		CHECK(l->entry == 0 || r.index == l->entry);
		put_record(l, &r);
		l->entry = r.index + 1;
	}
}
