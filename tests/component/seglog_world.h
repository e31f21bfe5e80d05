/*
 * Our own log in a folder of its own, and beside it a list of what should be in
 * it. Entries differ by chance, so that none can be taken for another.
 */
#ifndef CORVO_SEGLOG_WORLD_H
#define CORVO_SEGLOG_WORLD_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/seglog/record.h"
#include "cluster/seglog/seglog.h"
#include "lib/testlib.h"
#include "rt/file.h"

#define ENTRIES_MAX   4096
#define SEGMENT_BYTES (16u << 10)

struct want {
	uint64_t term;
	unsigned type;
	char *data;
	size_t n;
};

struct world {
	char dir[80];
	struct seglog *log;
	struct seglog_config c;
	struct rng rng;
	/* entry i is want[i - 1]; up to `next` they are in the log */
	struct want want[ENTRIES_MAX];
	uint64_t next;
	uint64_t term;
	size_t data_max;
	/* of entries that were taken back, and may yet be written */
	char *gone[ENTRIES_MAX];
	size_t gone_n;
};

static char world_root[] = "/tmp/corvo-seglog-XXXXXX";

static struct rng world_rng; /* of the program: gives each world its seed */

static inline int world_set_up(void **state _unused_)
{
	test_rng(&world_rng);
	return mkdtemp(world_root) != NULL ? 0 : -1;
}

static inline int world_tear_down(void **state _unused_)
{
	return dir_remove(world_root);
}

static inline void world_open(struct world *w)
{
	struct buf why = BUF_INIT(0);
	struct seglog_scan s;

	assert_int_equal(seglog_scan(&s, w->dir, &why), 0);
	if (s.damage.n > 0)
		fail_msg("%.*s", STR_ARG(buf_str(&s.damage)));
	if (seglog_open(&w->c, &s, &w->log, &why) < 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
	seglog_scan_done(&s);
}

static inline struct world *world_new(const char *name)
{
	struct world *w = xcalloc(1, sizeof(*w));

	rng_seed(&w->rng, rng_u64(&world_rng));
	(void)snprintf(w->dir, sizeof(w->dir), "%s/%s", world_root, name);
	w->c = (struct seglog_config){ .dir = w->dir,
				       .segment_bytes = SEGMENT_BYTES,
				       .spares = 2,
				       .durable = true };
	w->next = w->term = 1;
	w->data_max = 600;
	world_open(w);
	return w;
}

static inline void world_take(struct world *w)
{
	struct list ops;

	list_init(&ops);
	seglog_take(w->log, &ops);
	LIST_FOREACH_SAFE (it, &ops) {
		list_remove(it);
		free(list_entry(it, struct seglog_op, node));
	}
}

static inline void forget_gone(struct world *w)
{
	while (w->gone_n > 0)
		free(w->gone[--w->gone_n]);
}

/* All of it is written, and flushed. */
static inline void settle(struct world *w)
{
	seglog_wait(w->log);
	world_take(w);
	forget_gone(w);
}

static inline void world_close(struct world *w)
{
	seglog_stop(w->log);
	world_take(w);
	seglog_free(w->log);
	w->log = NULL;
	forget_gone(w);
}

static inline void world_free(struct world *w)
{
	if (w->log != NULL)
		world_close(w);
	for (size_t i = 0; i < ENTRIES_MAX; i++)
		free(w->want[i].data);
	free(w);
}

/* Another entry in that place than was ever there. */
static inline void make_want(struct world *w, uint64_t index)
{
	struct want *e;

	assert_true(index >= 1 && index <= ENTRIES_MAX);
	e = &w->want[index - 1];
	if (e->data != NULL) {
		assert_true(w->gone_n < ENTRIES_MAX);
		w->gone[w->gone_n++] = e->data;
	}
	e->n = rng_below(&w->rng, w->data_max);
	e->data = xmalloc(e->n + 1);
	for (size_t i = 0; i < e->n; i++)
		e->data[i] = (char)rng_u64(&w->rng);
	e->term = w->term;
	e->type = 1 + (unsigned)rng_below(&w->rng, 3);
}

/* One op with so many entries. */
static inline void push(struct world *w, size_t n)
{
	struct seglog_op *op = seglog_op_new(w->next, n);

	for (size_t i = 0; i < n; i++) {
		const struct want *e;

		make_want(w, w->next + i);
		e = &w->want[w->next + i - 1];
		op->entry[i] = (struct segment_entry){
			.term = e->term,
			.type = e->type,
			.data = str_of(e->data, e->n),
		};
	}
	w->next += n;
	seglog_push(w->log, op);
}

/* From that entry on others will come. */
static inline void push_truncate(struct world *w, uint64_t index)
{
	seglog_push(w->log, seglog_op_new(index, 0));
	w->next = index;
	w->term++;
}

/* --- what is in the log --- */

struct seen {
	const struct world *w;
	uint64_t next; /* 0: none yet */
};

static inline bool on_seen(void *ctx, const struct segment_entry *e)
{
	struct seen *s = ctx;
	const struct want *want;

	if (s->next == 0)
		s->next = e->index;
	assert_int_equal(e->index, s->next);
	assert_true(e->index <= ENTRIES_MAX);
	s->next++;
	want = &s->w->want[e->index - 1];
	assert_int_equal(e->term, want->term);
	assert_int_equal(e->type, want->type);
	assert_true(str_eq(e->data, str_of(want->data, want->n)));
	return true;
}

/* Each entry in it is as it was pushed. Returns the index after the last. */
static inline uint64_t look(const struct world *w, const char *dir,
			    struct buf *ret_damage)
{
	struct seen seen = { .w = w };
	struct buf why = BUF_INIT(0);
	struct seglog_scan s;
	const char *at;
	uint64_t next;

	if (seglog_scan(&s, dir, &why) < 0 ||
	    seglog_each(&s, on_seen, &seen, &at, &why) < 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
	assert_int_equal(seen.next == 0 ? s.first : seen.next, s.next);
	next = MAX(s.next, 1u);
	buf_clear(ret_damage);
	buf_put_str(ret_damage, buf_str(&s.damage));
	buf_putc(ret_damage, '\0');
	seglog_scan_done(&s);
	return next;
}

static inline void assert_log_is(const struct world *w, const char *dir,
				 uint64_t next)
{
	_cleanup_(buf_done) struct buf damage = BUF_INIT(0);
	uint64_t found = look(w, dir, &damage);

	assert_string_equal(damage.p, "");
	assert_int_equal(found, next);
}

/* Opened again it takes n more. */
static inline void assert_goes_on(struct world *w, size_t n)
{
	world_close(w);
	world_open(w);
	push(w, n);
	settle(w);
	assert_log_is(w, w->dir, w->next);
}

/* --- files --- */

#define FILES_MAX 64

struct file {
	char name[SEG_NAME_MAX];
	struct buf bytes;
};

/* What is on the disk: all segments, in order. */
struct image {
	struct file file[FILES_MAX];
	size_t n;
};

static inline int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->name,
		      ((const struct file *)b)->name);
}

static inline bool read_bytes(const char *dir, const char *name,
			      struct buf *ret)
{
	char path[512];
	int r;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	buf_clear(ret);
	r = file_read(path, 1u << 30, ret);
	assert_true(r == 0 || r == -ENOENT);
	return r == 0;
}

static inline void write_bytes(const char *dir, const char *name,
			       struct str bytes)
{
	char path[512];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes.p, bytes.n), (ssize_t)bytes.n);
	assert_int_equal(close(fd), 0);
}

/* The next segment comes and goes by itself: it is left out while empty. */
static inline void image_read(struct image *im, const char *dir)
{
	DIR *d = opendir(dir);
	struct buf b = BUF_INIT(0);

	assert_non_null(d);
	im->n = 0;
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		struct file *f = &im->file[im->n];
		struct seg_head h;
		struct rec r;

		if (!str_starts(str_from(e->d_name), STR(SEG_PREFIX)))
			continue;
		if (!read_bytes(dir, e->d_name, &b))
			continue; /* cut off and put away meanwhile */
		if (!seg_head_parse(buf_str(&b), &h) ||
		    !rec_parse(buf_str(&b), SEG_HEAD_BYTES, h.salt, &r))
			continue;
		assert_true(++im->n < FILES_MAX);
		(void)snprintf(f->name, sizeof(f->name), "%.40s", e->d_name);
		f->bytes = b;
		b = BUF_INIT(0);
	}
	(void)closedir(d);
	buf_done(&b);
	qsort(im->file, im->n, sizeof(im->file[0]), compare_names);
}

static inline void image_done(struct image *im)
{
	for (size_t i = 0; i < im->n; i++)
		buf_done(&im->file[i].bytes);
	im->n = 0;
}

/* The folder that the last image was written to. */
static inline const char *image_dir(void)
{
	static char dir[80];

	(void)snprintf(dir, sizeof(dir), "%s/image", world_root);
	return dir;
}

static inline const char *image_write(const struct image *im)
{
	const char *dir = image_dir();

	assert_int_equal(dir_remove(dir), 0);
	assert_int_equal(dir_make(dir), 0);
	for (size_t i = 0; i < im->n; i++)
		write_bytes(dir, im->file[i].name, buf_str(&im->file[i].bytes));
	return dir;
}

/* It takes the place of a log that is closed. */
static inline void move_image(struct world *w)
{
	assert_null(w->log);
	assert_int_equal(dir_remove(w->dir), 0);
	assert_int_equal(rename(image_dir(), w->dir), 0);
}

static inline struct file *image_last(struct image *im)
{
	assert_true(im->n > 0);
	return &im->file[im->n - 1];
}

#endif
