/*
 * Reads the library's segments in their order and judges what it finds. See
 * logcheck.h; of our own log, logcheck_own.c reads them.
 *
 * A crash leaves the segment that was being written with one unfinished write
 * at its end, since the library writes one thing at a time, and the segments
 * prepared for later empty. Several batches may be in that write, and any part
 * of it may have reached the disk.
 */
#include "cluster/logcheck.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cluster/entry.h"
#include "cluster/logcheck_impl.h"
#include "cluster/ownlog.h"
#include "rt/log.h"

/* The library reads so much at once, and fails where there is less. */
#define SMALLEST_REST 16

/* --- entries --- */

static void note_history(struct log_check *c, const struct entry_head *h)
{
	if (history_is_none(&h->history))
		return;
	if (history_is_none(&c->history))
		c->history = h->history;
	else if (!history_eq(&c->history, &h->history))
		log_damage(c, "entry %" PRIu64 " in %s is of another history",
			   h->index, c->at);
}

static bool read_command(struct log_check *c, const struct segment_entry *e,
			 struct log_entry *ret)
{
	unsigned before = c->damages;
	struct entry_head h;

	if (!entry_unwrap(e->data, &h, &ret->bytes))
		log_damage(c, "entry %" PRIu64 " in %s is not one of Corvo's",
			   e->index, c->at);
	else if (h.index != 0 && h.index != e->index)
		log_damage(c,
			   "%s has entry %" PRIu64 " where entry %" PRIu64
			   " should be",
			   c->at, h.index, e->index);
	else
		note_history(c, &h);
	ret->is_command = true;
	ret->origin = (struct entry_origin){ e->term, h.id, h.history };
	return c->damages == before;
}

static size_t closed_n(const struct log_check *c)
{
	size_t n = 0;

	while (n < c->segments_n && !c->segments[n].is_open)
		n++;
	return n;
}

/* Whether the files tell which entries are in them. */
static bool has_certain_indexes(const struct log_check *c)
{
	return c->is_own || closed_n(c) > 0 || c->snapshot.index > 0 ||
	       c->has_first;
}

/*
 * The first entry of every log says who the first members are. A node that
 * began one has it in a closed segment; one that joined was sent it, as all
 * others, into an open one, whose name does not tell the index.
 */
static void note_first(struct log_check *c, const struct segment_entry *e)
{
	if (e->index == 1 && e->type == SEGMENT_MEMBERS)
		c->has_first = true;
	if (!has_certain_indexes(c))
		c->fn = NULL;
}

bool log_on_entry(void *ctx, const struct segment_entry *e)
{
	struct log_check *c = ctx;
	struct log_entry entry = { .index = e->index,
				   .term = e->term,
				   .type = e->type,
				   .raw = e->data };

	if (e->term < c->last_term || e->type < SEGMENT_COMMAND ||
	    e->type > SEGMENT_MEMBERS) {
		log_damage(c,
			   "entry %" PRIu64 " in %s has term %" PRIu64
			   " and type %u, after one of term %" PRIu64,
			   e->index, c->at, e->term, e->type, c->last_term);
		return false;
	}
	note_first(c, e);
	if (e->type == SEGMENT_COMMAND && !read_command(c, e, &entry))
		return false;
	if (c->fn != NULL)
		c->stopped = c->fn(c->ctx, &entry);
	if (c->stopped < 0)
		return false;
	c->last_term = e->term;
	return true;
}

/* --- segments --- */

/* What entries after the damage say of those before it. */
static void note_acked(struct log_check *c, const struct log_segment *s,
		       struct str bytes)
{
	uint64_t n = segment_committed_after(bytes, s->end, &c->history);

	c->acked = MAX(c->acked, n);
}

/* The unfinished write of a crash, or damage? */
static void judge_end(struct log_check *c, const struct log_segment *s,
		      struct str bytes)
{
	if (s->state == SEGMENT_STRANGE)
		log_damage(c, "%s is not a segment that libraft 0.15 wrote",
			   s->name);
	else if (s->state == SEGMENT_CUT)
		log_damage(c,
			   "%s ends after %zu bytes, in the middle of entry "
			   "%" PRIu64,
			   s->name, s->size, c->next);
	if (s->state != SEGMENT_BROKEN)
		return;
	note_acked(c, s, bytes);
	if (c->acked >= c->next)
		log_damage(c,
			   "entry %" PRIu64
			   ", at byte %zu of %s, does not match "
			   "its checksum, and it was acknowledged",
			   c->next, s->end, s->name);
}

/* The very first start was interrupted when it had just made the file. */
static bool is_first_try(const struct log_check *c, const struct log_segment *s)
{
	return s->size == 0 && s->last == 1 && c->segments_n == 1;
}

static void judge_closed(struct log_check *c, const struct log_segment *s)
{
	if ((s->state == SEGMENT_WHOLE && c->next == s->last + 1) ||
	    is_first_try(c, s))
		return;
	if (s->state == SEGMENT_WHOLE)
		log_damage(c, "%s has entries up to %" PRIu64, s->name,
			   c->next - 1);
	else
		log_damage(c,
			   "%s cannot be read from byte %zu on, where entry "
			   "%" PRIu64 " should be",
			   s->name, s->end, c->next);
}

static int read_segment(struct log_check *c, struct log_segment *s,
			struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct segment_walk w = { .next = c->next };
	int r = log_file_read(c->dir, s->name, &b, why);

	if (r < 0)
		return r;
	c->at = s->name;
	w.bytes = buf_str(&b);
	s->size = b.n;
	s->state = segment_walk(&w, log_on_entry, c);
	s->end = w.end;
	s->is_unused = s->state == SEGMENT_UNUSED && s->end == 0;
	s->entries = w.next - c->next;
	c->next = w.next;
	if (c->stopped < 0)
		return c->stopped;
	if (s->is_open)
		judge_end(c, s, w.bytes);
	else
		judge_closed(c, s);
	return 0;
}

/* Nothing may follow a segment that was not filled to its end. */
static bool may_follow(const struct log_segment *before)
{
	return !before->is_open || before->state == SEGMENT_WHOLE ||
	       (before->state == SEGMENT_UNUSED && !before->is_unused);
}

static int read_segments(struct log_check *c, size_t from, struct buf *why)
{
	const struct log_segment *before = NULL;
	unsigned damages = c->damages;
	int r = 0;

	for (size_t i = from;
	     r == 0 && i < c->segments_n && c->damages == damages; i++) {
		struct log_segment *s = &c->segments[i];

		r = read_segment(c, s, why);
		if (r == 0 && before != NULL && !may_follow(before) &&
		    !s->is_unused)
			log_damage(c,
				   "%s ends in the middle, at byte %zu, but "
				   "there is more of the log in %s",
				   before->name, before->end, s->name);
		before = s;
	}
	return r;
}

/* --- the whole --- */

/* Of the closed segments, those without a gap up to the last. */
static size_t first_of_chain(const struct log_check *c, size_t closed)
{
	size_t i = closed - 1;

	while (i > 0 && c->segments[i - 1].last + 1 == c->segments[i].first)
		i--;
	return i;
}

/* Where to begin to read, and at which index. */
static size_t find_begin(struct log_check *c)
{
	size_t closed = closed_n(c), from;
	uint64_t cut = c->snapshot.index;

	if (closed == 0) {
		c->next = cut + 1;
		return 0;
	}
	if (c->segments[closed - 1].last < cut && closed == c->segments_n) {
		c->next = cut + 1; /* all of it is in the snapshot */
		return closed;
	}
	from = first_of_chain(c, closed);
	c->next = c->segments[from].first;
	if (c->next > cut + 1)
		log_damage(c,
			   "entries %" PRIu64 " to %" PRIu64
			   ", before those of %s, are missing",
			   cut + 1, c->next - 1, c->segments[from].name);
	return from;
}

static bool has_entries(const struct log_check *c)
{
	if (c->is_own)
		return c->next > c->first;
	for (size_t i = 0; i < c->segments_n; i++)
		if (!c->segments[i].is_unused)
			return true;
	return false;
}

static void judge_whole(struct log_check *c)
{
	if (c->next > c->first && !has_certain_indexes(c))
		log_damage(c, "the segment with the first entry is missing");
	if (c->next <= c->snapshot.index)
		log_damage(c,
			   "the last entry is %" PRIu64
			   ", but the snapshot is of entry %" PRIu64,
			   c->next - 1, c->snapshot.index);
	if (c->term < MAX(c->last_term, c->snapshot_term))
		log_damage(c,
			   "metadata1 and metadata2 say term %" PRIu64
			   ", but there are entries of term %" PRIu64,
			   c->term, MAX(c->last_term, c->snapshot_term));
	if (history_is_none(&c->history) ||
	    history_eq(&c->history, &c->mark.history))
		c->acked = MAX(c->acked, c->mark.acked);
	if (c->acked >= c->next)
		log_damage(c,
			   "it ends with entry %" PRIu64
			   ", but entries up to %" PRIu64 " were acknowledged",
			   c->next - 1, c->acked);
}

/* Damage to other files does not keep from reading entries whose indexes are
 * certain. */
static int read_entries(struct log_check *c, struct buf *why)
{
	bool sound = c->damages == 0;
	size_t from = find_begin(c);

	if (closed_n(c) == 0 && !sound)
		c->fn = NULL;
	c->first = c->next;
	return read_segments(c, from, why);
}

int log_check(struct log_check *c, const char *dir, log_entry_fn *fn, void *ctx,
	      struct buf *why)
{
	int r;

	*c = (struct log_check){ .dir = dir, .fn = fn, .ctx = ctx };
	c->is_own = ownlog_is_there(dir);
	r = mark_read(dir, &c->mark);
	if (r < 0)
		buf_printf(why, "cannot read %s/" MARK_NAME ": %s", dir,
			   strerror(-r));
	if (r == 0)
		r = log_dir_read(c, why);
	if (r == 0)
		r = c->is_own ? log_own_read(c, why) : read_entries(c, why);
	if (r < 0)
		return r;
	c->is_new = c->damages == 0 && c->snapshot.index == 0 &&
		    !has_entries(c) && c->mark.acked == 0;
	if (!c->is_new)
		judge_whole(c);
	return 0;
}

void log_check_done(struct log_check *c)
{
	free(c->segments);
	c->segments = NULL;
	buf_done(&c->damage);
}

/* --- mending --- */

static int cut_file(const char *path, off_t end)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, end) < 0 || fsync(fd) < 0)
		r = -errno;
	(void)close(fd);
	return r;
}

/* Cut off what cannot be read. A file of no bytes the library removes. */
static int mend_segment(struct log_check *c, const struct log_segment *s,
			struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int r;

	buf_printf(&path, "%s/%s", c->dir, s->name);
	buf_putc(&path, '\0');
	if (s->state == SEGMENT_BROKEN)
		log_warn("the last write to %s was not finished: what follows "
			 "entry %" PRIu64
			 " was not acknowledged and is dropped",
			 path.p, c->next - 1);
	r = cut_file(path.p, s->entries > 0 ? (off_t)s->end : 0);
	if (r < 0)
		buf_printf(why, "cannot write %s: %s", path.p, strerror(-r));
	return r;
}

static bool needs_mending(const struct log_segment *s)
{
	if (!s->is_open || s->is_unused)
		return false;
	return s->state == SEGMENT_BROKEN || s->entries == 0 ||
	       (s->state == SEGMENT_UNUSED && s->size - s->end < SMALLEST_REST);
}

int log_check_mend(struct log_check *c, struct buf *why)
{
	int r = 0;

	CHECK(c->damages == 0);
	for (size_t i = 0; r == 0 && !c->is_own && i < c->segments_n; i++)
		if (needs_mending(&c->segments[i]))
			r = mend_segment(c, &c->segments[i], why);
	return r;
}
