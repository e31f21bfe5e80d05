/*
 * What the scan makes of a log: see logdir.h.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cluster/seglog/record.h"
#include "cluster/seglog/scan.h"
#include "logdir.h"

#define FLIP_PERCENT 20
#define HEAD_PERCENT 10 /* of flips */

/* What has to be read. */
struct want {
	const struct logdir *f;
	size_t upto; /* of all records; the scan ends there */
	struct logdir_rec **live;
	size_t n, at;
};

static void begin(struct want *w, const struct logdir *f, size_t upto)
{
	*w = (struct want){ .f = f, .upto = upto };
	w->live = xcalloc(f->n + 1, sizeof(struct logdir_rec *));
	w->n = logdir_replay(f, upto, w->live);
}

static bool on_entry(void *ctx, const struct segment_entry *e)
{
	struct want *w = ctx;
	const struct logdir_rec *r;

	if (w->at == w->n)
		sim_fail(w->f->sim,
			 "the log of node %u has entry %" PRIu64
			 ", which is not in it",
			 w->f->node, e->index);
	r = w->live[w->at++];
	if (e->index != r->index || e->term != r->term || e->type != r->kind ||
	    !str_eq(e->data, r->data))
		sim_fail(w->f->sim,
			 "the log of node %u has entry %" PRIu64
			 " of term %" PRIu64 ", and entry %" PRIu64
			 " of term %" PRIu64 " was written there, or other "
			 "bytes",
			 w->f->node, e->index, e->term, r->index, r->term);
	return true;
}

static void read_entries(const struct logdir *f, const struct seglog_scan *s,
			 segment_fn *fn, void *ctx)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	const char *at;

	if (seglog_each(s, fn, ctx, &at, &why) < 0)
		sim_fail(f->sim, "the log of node %u cannot be read: %.*s",
			 f->node, STR_ARG(buf_str(&why)));
}

static void scan(const struct logdir *f, struct seglog_scan *ret)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (seglog_scan(ret, f->segments, &why) < 0)
		sim_fail(f->sim, "the log of node %u cannot be read: %.*s",
			 f->node, STR_ARG(buf_str(&why)));
}

static void compare_entries(struct want *w, const struct seglog_scan *s)
{
	read_entries(w->f, s, on_entry, w);
	if (w->at < w->n)
		sim_fail(w->f->sim,
			 "the log of node %u ends before entry %" PRIu64
			 ", which was flushed",
			 w->f->node, w->live[w->at]->index);
}

static void compare_end(const struct want *w, const struct seglog_scan *s)
{
	const struct seg_file *f = s->n > 0 ? &s->files[s->n - 1] : NULL;
	struct logdir_rec first = { .kind = REC_END };
	const struct logdir_rec *last =
	    w->upto > 0 ? w->f->recs[w->upto - 1] : &first;
	bool is_ended = last->kind == REC_END;
	uint64_t number = last->number + is_ended;
	size_t end = is_ended ? SEG_HEAD_BYTES : last->at + last->size;

	if (f == NULL ? w->upto > 0
		      : f->is_ended || f->end != end ||
			    (w->upto > 0 && f->number != number))
		sim_fail(w->f->sim,
			 "the log of node %u ends at byte %zu of segment "
			 "%" PRIu64 ", and not at byte %zu of %" PRIu64,
			 w->f->node, f != NULL ? f->end : 0,
			 f != NULL ? f->number : 0, end, number);
}

/* As it was left. */
static void look(const struct logdir *f)
{
	struct seglog_scan s;
	struct want w;

	scan(f, &s);
	if (s.damage.n > 0)
		sim_fail(f->sim, "the log of node %u is damaged: %.*s", f->node,
			 STR_ARG(buf_str(&s.damage)));
	begin(&w, f, f->n);
	compare_entries(&w, &s);
	compare_end(&w, &s);
	free(w.live);
	seglog_scan_done(&s);
}

/* --- a bit --- */

static void flip(const struct logdir *f, uint64_t number, size_t at,
		 unsigned bit)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	char c;
	int fd;

	logdir_path(f, number, &path);
	fd = open(path.p, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && pread(fd, &c, 1, (off_t)at) == 1);
	c = (char)(c ^ 1 << bit);
	CHECK(pwrite(fd, &c, 1, (off_t)at) == 1);
	(void)close(fd);
}

/* A record after that one says that it was flushed. */
static bool is_known(const struct logdir *f, size_t rec)
{
	const struct logdir_rec *r = f->recs[rec];

	for (size_t i = rec + 1; i < f->n; i++) {
		const struct logdir_rec *x = f->recs[i];

		if (x->number == r->number ? x->flushed > r->at
					   : x->flushed > 0)
			return true;
	}
	return false;
}

/* What is before it is read, and nothing of it. */
static void look_at_damage(const struct logdir *f, size_t rec, bool is_head)
{
	bool is_damage = is_head || is_known(f, rec);
	struct seglog_scan s;
	struct want w;

	scan(f, &s);
	/* what a crash has left knows of it, too */
	if (s.damage.n > 0 && f->has_rest)
		is_damage = true;
	if ((s.damage.n > 0) != is_damage)
		sim_fail(f->sim,
			 "record %zu of the log of node %u, at byte %zu of "
			 "segment %" PRIu64 ", cannot be read, and that is %s",
			 rec, f->node, f->recs[rec]->at, f->recs[rec]->number,
			 is_damage ? "not noticed" : "called damage");
	begin(&w, f, rec);
	compare_entries(&w, &s);
	if (!is_head)
		compare_end(&w, &s);
	free(w.live);
	seglog_scan_done(&s);
}

static void look_with_flip(const struct logdir *f)
{
	size_t rec = sim_below(f->sim, f->n);
	bool is_head = sim_chance(f->sim, HEAD_PERCENT);
	uint64_t number = f->recs[rec]->number;
	size_t at =
	    is_head ? sim_below(f->sim, SEG_HEAD_USED)
		    : f->recs[rec]->at + sim_below(f->sim, f->recs[rec]->size);
	unsigned bit = (unsigned)sim_below(f->sim, 8);

	while (is_head && rec > 0 && f->recs[rec - 1]->number == number)
		rec--;
	flip(f, number, at, bit);
	look_at_damage(f, rec, is_head);
	flip(f, number, at, bit);
}

void logdir_look(const struct logdir *f)
{
	CHECK(f->log == NULL);
	if (f->n > 0 && sim_chance(f->sim, FLIP_PERCENT))
		look_with_flip(f);
	look(f);
}

void logdir_each(const struct logdir *f, segment_fn *fn, void *ctx)
{
	read_entries(f, &f->scan, fn, ctx);
}
