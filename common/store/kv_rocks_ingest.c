/*
 * A large table is written as files of RocksDB's own form, which it takes in as
 * they are. Nothing is copied into a memtable and sorted there once more; and a
 * kind of record of which there is much has a file of its own. Such files cover
 * little of the key space, so that merging one concerns few others, where one
 * that reaches from the first kind to the last, as a memtable does, makes all
 * of the next level be written again, and again.
 *
 * All files of a table are taken in together or not at all.
 */
#include "store/kv_rocks_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/err.h"
#include "store/table.h"

/* A kind that is so much of the whole has a file of its own; those between two
 * of them share one. What the jobs' ends add is a twelfth: keys that only grow,
 * which in a file with others would all be written again with each of them. */
#define LARGE_PART 32
#define FILES_MAX  (2 * LARGE_PART + 1)
#define SYNC_EVERY 256 /* entries */

struct intake {
	struct rocks *s;
	const struct table *t;
	size_t bytes; /* that are to be written */
	rocksdb_sstfilewriter_t *w;
	bool is_open;
	int fd;          /* of the file that is open, for hints; or -1 */
	uint64_t synced; /* of it; the rest is in memory still */
	size_t n;        /* files that were begun */
	char *paths[FILES_MAX];
	char *err; /* of RocksDB; or NULL */
};

/* Entries of one kind. */
struct run {
	const struct table_entry **first;
	size_t n;
	size_t bytes;
};

static char *path_of(const char *dir, size_t i)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	buf_printf(&b, "%s/new-%zu.sst", dir, i);
	return xstrdup(b.p);
}

void rocks_ingest_clean(const char *path)
{
	for (size_t i = 0; i < FILES_MAX; i++) {
		char *p = path_of(path, i);

		(void)unlink(p); /* mostly it is not there */
		free(p);
	}
}

/* --- files --- */

/*
 * It is on its way to the disk while it is made, or the flush at its end would
 * hold up those of the log.
 */
static void sync_some(struct intake *in)
{
	uint64_t size = 0;

	rocksdb_sstfilewriter_file_size(in->w, &size);
	if (in->fd < 0 || size < in->synced + ROCKS_SYNC_BYTES)
		return;
	(void)sync_file_range(in->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	in->synced = size;
}

/* RocksDB has it forgotten by the system, and jobs are read again soon. */
static void want_in_memory(const struct intake *in)
{
	(void)posix_fadvise(in->fd, 0, 0, POSIX_FADV_WILLNEED);
}

static void end_file(struct intake *in)
{
	if (!in->is_open)
		return;
	in->is_open = false;
	if (in->err == NULL)
		rocksdb_sstfilewriter_finish(in->w, &in->err);
	if (in->err == NULL && in->fd >= 0)
		want_in_memory(in);
	if (in->fd >= 0)
		(void)close(in->fd);
}

static void begin_file(struct intake *in)
{
	const char *path;

	end_file(in);
	if (in->err != NULL)
		return;
	CHECK(in->n < FILES_MAX);
	path = in->paths[in->n] = path_of(in->s->path, in->n);
	in->n++;
	rocksdb_sstfilewriter_open(in->w, path, &in->err);
	in->is_open = in->err == NULL;
	in->fd = in->is_open ? open(path, O_RDWR | O_CLOEXEC) : -1;
	in->synced = 0;
}

static void put_ranges(struct intake *in, struct str key)
{
	for (size_t i = 0; i < in->t->ranges_n && in->err == NULL; i++) {
		const struct table_range *r = &in->t->ranges[i];

		if (table_same_kind(r->from, key))
			rocksdb_sstfilewriter_delete_range(in->w, r->from.p,
							   r->from.n, r->upto.p,
							   r->upto.n, &in->err);
	}
}

/* Keys of one kind come after its ranges, which delete older ones only. */
static void put_run(struct intake *in, const struct run *r)
{
	put_ranges(in, r->first[0]->key);
	for (size_t i = 0; i < r->n && in->err == NULL; i++) {
		const struct table_entry *e = r->first[i];

		if (i % SYNC_EVERY == 0)
			sync_some(in);
		if (e->value.p == NULL)
			rocksdb_sstfilewriter_delete(in->w, e->key.p, e->key.n,
						     &in->err);
		else
			rocksdb_sstfilewriter_put(in->w, e->key.p, e->key.n,
						  e->value.p, e->value.n,
						  &in->err);
	}
}

/* --- what goes into which --- */

static size_t bytes_of(const struct table_entry *e)
{
	return e->key.n + e->value.n;
}

static struct run next_run(const struct table_entry **list, size_t n)
{
	struct run r = { .first = list };

	for (; r.n < n && table_same_kind(list[0]->key, list[r.n]->key); r.n++)
		r.bytes += bytes_of(list[r.n]);
	return r;
}

static void put_all(struct intake *in, const struct table_entry **list,
		    size_t n)
{
	bool large, was_large = true;
	struct run r;

	for (size_t i = 0; i < n && in->err == NULL; i += r.n) {
		r = next_run(list + i, n - i);
		large = r.bytes > in->bytes / LARGE_PART;
		if (large || was_large)
			begin_file(in);
		was_large = large;
		if (in->err == NULL)
			put_run(in, &r);
	}
	end_file(in);
}

/* Entries that are to be written, sorted; the caller's to free. */
static const struct table_entry **list_entries(struct intake *in, size_t *ret_n)
{
	const struct table *t = in->t;
	uint32_t *order = table_in_order(t);
	const struct table_entry **list =
	    xmalloc(t->n * sizeof(struct table_entry *));

	*ret_n = 0;
	for (size_t i = 0; i < t->n; i++) {
		const struct table_entry *e = &t->entries[order[i]];

		if (table_came_and_went(e))
			continue;
		list[(*ret_n)++] = e;
		in->bytes += bytes_of(e);
	}
	free(order);
	return list;
}

/* --- taking in --- */

/* RocksDB takes in files however far it is behind, but lets a write wait. */
static void wait_for_room(struct rocks *s, char **err)
{
	rocksdb_writebatch_t *nothing = rocksdb_writebatch_create();

	rocksdb_write(s->db, s->write, nothing, err);
	rocksdb_writebatch_destroy(nothing);
}

static void take_in(struct intake *in)
{
	rocksdb_ingestexternalfileoptions_t *o =
	    rocksdb_ingestexternalfileoptions_create();

	rocksdb_ingestexternalfileoptions_set_move_files(o, 1);
	rocksdb_ingest_external_file(in->s->db, (const char *const *)in->paths,
				     in->n, o, &in->err);
	rocksdb_ingestexternalfileoptions_destroy(o);
}

static int ingest(struct rocks *s, const struct table *t)
{
	struct intake in = { .s = s, .t = t };
	rocksdb_envoptions_t *env = rocksdb_envoptions_create();
	size_t n;
	const struct table_entry **list = list_entries(&in, &n);

	in.w = rocksdb_sstfilewriter_create(env, s->options);
	wait_for_room(s, &in.err);
	put_all(&in, list, n);
	free(list);
	if (in.err == NULL && in.n > 0)
		take_in(&in);
	rocksdb_sstfilewriter_destroy(in.w);
	rocksdb_envoptions_destroy(env);
	for (size_t i = 0; i < in.n; i++) {
		if (in.err != NULL) /* room, if that is what it lacks */
			(void)unlink(in.paths[i]);
		free(in.paths[i]);
	}
	return in.err != NULL ? rocks_error(in.err, NULL) : 0;
}

/* Its kind has no file that it could be in, or it is of several. */
static bool has_odd_range(const struct table *t)
{
	for (size_t i = 0; i < t->ranges_n; i++) {
		const struct table_range *r = &t->ranges[i];

		if (!table_same_kind(r->from, r->upto) ||
		    !table_writes_kind(t, r->from))
			return true;
	}
	return false;
}

int rocks_write_table(struct kv *kv, const struct table *t)
{
	struct rocks *s = container_of(kv, struct rocks, kv);
	int r;

	if (table_weight(t) < s->ingest_from || has_odd_range(t))
		return kv_write_as_batch(kv, t);
	r = ingest(s, t);
	/* memory may have the room that the disk lacks: what was answered stays
	 * readable, and RocksDB writes it down when there is some again */
	return r == -ERR_STORAGE_FULL ? kv_write_as_batch(kv, t) : r;
}
