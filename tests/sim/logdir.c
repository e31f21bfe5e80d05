/*
 * See logdir.h. In the place of cluster/seglog/keeper.c: what its thread does
 * is done at once.
 */
#include "logdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/ownlog.h"
#include "cluster/seglog/record.h"
#include "cluster/seglog/seglog_impl.h"
#include "folder.h"
#include "rt/file.h"

#define SEGMENT_MIN (8u << 10)
#define SEGMENTS    2 /* sizes, each twice the one before */

void logdir_init(struct logdir *f, struct sim *s, unsigned node)
{
	*f = (struct logdir){ .sim = s, .node = node };
	(void)snprintf(f->dir, sizeof(f->dir), "%s/%u", folder_own(), node);
	(void)snprintf(f->segments, sizeof(f->segments), "%.80s/" OWNLOG_FOLDER,
		       f->dir);
	CHECK(dir_make(f->dir) == 0);
}

/* --- what was told to be written --- */

static void push(struct logdir_rec ***to, size_t *n, size_t *room,
		 struct logdir_rec *r)
{
	if (*n == *room) {
		*room = MAX(2 * *room, (size_t)64);
		*to = xrealloc(*to, *room * sizeof(**to));
	}
	(*to)[(*n)++] = r;
}

static struct logdir_rec *add(struct logdir *f, const struct logdir_rec *like)
{
	struct logdir_rec *r = xmalloc(sizeof(*r));

	*r = *like;
	push(&f->recs, &f->n, &f->room, r);
	return r;
}

static void rec_free(struct logdir_rec *r)
{
	free((void *)r->data.p);
	free(r);
}

static size_t count_before(struct logdir_rec *const *live, size_t n,
			   uint64_t index)
{
	while (n > 0 && live[n - 1]->index >= index)
		n--;
	return n;
}

size_t logdir_replay(const struct logdir *f, size_t upto,
		     struct logdir_rec **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < upto; i++) {
		struct logdir_rec *r = f->recs[i];

		if (r->kind == REC_TRUNCATE)
			n = count_before(ret, n, r->index);
		else if (r->kind <= REC_ENTRY_MAX)
			ret[n++] = r;
	}
	return n;
}

void logdir_forget_from(struct logdir *f, size_t rec)
{
	struct logdir_rec **live;

	if (rec == f->n)
		return;
	/* entries that were taken back may be there again */
	live = xcalloc(f->n, sizeof(struct logdir_rec *));
	f->live_n = 0;
	for (size_t i = 0, n = logdir_replay(f, rec, live); i < n; i++)
		push(&f->live, &f->live_n, &f->live_room, live[i]);
	free(live);
	while (f->n > rec)
		rec_free(f->recs[--f->n]);
}

static void drop(struct logdir_rec **all, size_t *n, size_t gone)
{
	memmove(all, all + gone, (*n - gone) * sizeof(struct logdir_rec *));
	*n -= gone;
}

static void forget_before(struct logdir *f, uint64_t number)
{
	size_t recs = 0, live = 0;

	while (live < f->live_n && f->live[live]->number < number)
		live++;
	drop(f->live, &f->live_n, live);
	for (; recs < f->n && f->recs[recs]->number < number; recs++)
		rec_free(f->recs[recs]);
	drop(f->recs, &f->n, recs);
}

const struct logdir_rec *logdir_at(const struct logdir *f, uint64_t index)
{
	uint64_t first = f->live_n > 0 ? f->live[0]->index : 0;

	return index >= first && index - first < f->live_n
		   ? f->live[index - first]
		   : NULL;
}

/* --- writing --- */

/* The record that the last op came to is there; which others it needed is
 * known. */
static struct logdir_rec *note(struct logdir *f, uint64_t number, size_t at,
			       size_t data)
{
	const struct seglog *l = f->log;
	bool is_durable = l->c.durable;
	struct logdir_rec end = { .number = number,
				  .at = at,
				  .size = rec_size(0),
				  .flushed = is_durable ? at : 0,
				  .epoch = f->epoch,
				  .kind = REC_END };
	struct logdir_rec r = { .number = l->cur.number,
				.at = l->cur.at - rec_size(data),
				.size = rec_size(data),
				.flushed = l->flushed,
				.epoch = f->epoch };

	/* it is flushed before anything goes to the next segment */
	if (is_durable && end.epoch > 0)
		end.epoch--;
	if (number != r.number)
		(void)add(f, &end);
	else
		CHECK(at == r.at);
	return add(f, &r);
}

static struct logdir_rec *put(struct logdir *f, struct seglog_op *op)
{
	uint64_t number = f->log->cur.number;
	size_t at = f->log->cur.at;
	struct logdir_rec *r;

	seglog_put(f->log, op);
	r = note(f, number, at, op->n > 0 ? op->entry[0].data.n : 0);
	r->index = op->index;
	r->kind = REC_TRUNCATE;
	free(op);
	return r;
}

void logdir_put(struct logdir *f, const struct segment_entry *e)
{
	struct seglog_op *op = seglog_op_new(e->index, 1);
	struct logdir_rec *r;

	CHECK(f->live_n == 0 || e->index == f->live[f->live_n - 1]->index + 1);
	op->entry[0] = *e;
	r = put(f, op);
	r->kind = e->type;
	r->term = e->term;
	r->data = e->data;
	push(&f->live, &f->live_n, &f->live_room, r);
}

void logdir_truncate(struct logdir *f, uint64_t index)
{
	(void)put(f, seglog_op_new(index, 0));
	f->live_n = count_before(f->live, f->live_n, index);
}

void logdir_flush(struct logdir *f)
{
	seglog_flush(f->log);
}

/* --- segments before and behind --- */

static void prepare(struct seglog *l)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (seg_pool_take(&l->pool, l->number + 1, true, &l->next, &why) < 0) {
		buf_putc(&why, '\0');
		seglog_die(why.p);
	}
}

void seglog_await_next(struct seglog *l)
{
	CHECK(l->next.fd >= 0);
}

void seglog_next(struct seglog *l)
{
	struct seg_closed *c = xcalloc(1, sizeof(*c));

	memcpy(c->name, l->cur.name, sizeof(c->name));
	c->last_index = l->cur.last_index;
	list_push_back(&l->closed, &c->node);
	(void)close(l->cur.fd);
	l->cur = l->next;
	l->number = l->cur.number;
	prepare(l);
}

static uint64_t first_number(const struct seglog *l)
{
	uint64_t n = l->number;

	LIST_FOREACH (it, &l->closed)
		n--;
	return n;
}

void logdir_cut(struct logdir *f, uint64_t upto)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct seglog *l = f->log;

	while (l != NULL && !list_empty(&l->closed)) {
		struct seg_closed *c =
		    list_entry(l->closed.next, struct seg_closed, node);

		if (c->last_index > upto)
			break;
		CHECK(seg_pool_give(&l->pool, c->name, &why) == 0);
		list_remove(&c->node);
		free(c);
	}
	if (l != NULL)
		forget_before(f, first_number(l));
}

void logdir_path(const struct logdir *f, uint64_t number, struct buf *ret)
{
	buf_clear(ret);
	buf_printf(ret, "%s/" SEG_PREFIX "%016llu", f->segments,
		   (unsigned long long)number);
	buf_putc(ret, '\0');
}

/* --- open and close --- */

void logdir_open(struct logdir *f)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct seglog_config c = {
		.dir = f->segments,
		.segment_bytes = SEGMENT_MIN << f->sim->seed % SEGMENTS,
		.spares = 1, /* of several, chance would take one */
		.durable = !f->is_loose,
	};
	int r;

	if (f->log != NULL)
		return;
	r = seglog_scan(&f->scan, f->segments, &why);
	if (r == 0)
		r = seglog_resume(&c, &f->scan, &f->log, &why);
	if (r < 0)
		sim_fail(f->sim, "the log of node %u cannot be opened: %.*s",
			 f->node, STR_ARG(buf_str(&why)));
	prepare(f->log);
	f->has_rest = false;
}

void logdir_close(struct logdir *f)
{
	if (f->log == NULL)
		return;
	seglog_flush_file(f->log);
	(void)close(f->log->next.fd);
	seglog_forget(f->log);
	seglog_scan_done(&f->scan);
	f->log = NULL;
}

void logdir_wipe(struct logdir *f)
{
	CHECK(f->log == NULL);
	f->has_rest = false;
	f->live_n = 0;
	while (f->n > 0)
		rec_free(f->recs[--f->n]);
	CHECK(dir_remove(f->dir) == 0 && dir_make(f->dir) == 0);
}

void logdir_done(struct logdir *f)
{
	logdir_close(f);
	logdir_wipe(f);
	(void)dir_remove(f->dir);
	folder_give_up();
	free(f->recs);
	free(f->live);
	free(f->writes);
}
