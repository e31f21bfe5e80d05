/*
 * kv.h on RocksDB. The write-ahead log is off (the raft log is it), everything
 * is in the default column family. Large tables are written by
 * kv_rocks_ingest.c.
 *
 * RocksDB's errors are texts; they become -ERR_* here and nowhere else.
 */
#include "store/kv_rocks_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/limits.h"

#define BLOOM_BITS_PER_KEY 10
#define WRITE_BUFFERS      3
#define BACKGROUND_JOBS    2
#define COMPACTORS         1
#define COMPACTOR_NICE     5
/* Files of the youngest level: compaction may wait for a burst to end. */
#define LEVEL0_COMPACT  16
#define LEVEL0_SLOWDOWN 120
#define LEVEL0_STOP     200
/* What merging makes: a file of jobs that end reaches into the one before it,
 * which is written again until it is so large. */
#define FILE_BYTES         (16u << 20)
#define INFO_LOGS          2
#define INFO_LOG_BYTES     (1u << 20)
#define INFO_LOG_FATAL     4
#define ARENA_BLOCK_BYTES  (256u << 10) /* a fresh node stays small */
#define BLOCK_BYTES        (8u << 10)
#define WRITE_BUFFER_BYTES (32u << 20) /* when the options say 0 */
/* On a full disk nothing can be flushed, and RocksDB takes no more writes once
 * it has tried: all that is replayed at a start, which is at most the log since
 * the last snapshot, has to stay in memory. */
#define WIDE_BUFFER_BYTES (2ULL << 30)
#define CACHE_BYTES       (32u << 20)
/* Tables that weigh so much are taken in as files; at most half of the write
 * buffer. What is flushed out of a memtable reaches over all kinds of records,
 * so it shall be little. */
#define INGEST_BYTES    (1u << 20)
#define REST_HELD_BYTES (2u << 20)   /* in memtables, of a store at rest */
#define REST_ROOM_BYTES (256u << 20) /* on the disk, to write them */
#define HINT_PREFIX     12
#define TEXT_OF_2(x)    #x
#define TEXT_OF(x)      TEXT_OF_2(x)
#define HINT_OPTION                                   \
	"memtable_insert_with_hint_prefix_extractor=" \
	"rocksdb.FixedPrefix." TEXT_OF(HINT_PREFIX)
#define KIND_BYTES 2 /* of a key: what kind of record it is */
#define KIND_OPTION                \
	"sst_partitioner_factory=" \
	"{id=SstPartitionerFixedPrefixFactory;length=" TEXT_OF(KIND_BYTES) "}"
#define PERF_COUNTERS_OFF 1
#define FORMAT_VERSION    5

struct rocks_iter {
	struct kv_iter it;
	rocksdb_iterator_t *i;
	rocksdb_readoptions_t *read;
	size_t upto_n;
	char upto[]; /* RocksDB keeps a pointer to it */
};

struct rocks_batch {
	struct kv_batch b;
	rocksdb_writebatch_t *wb;
};

int rocks_error(char *err, struct buf *why)
{
	int r = strstr(err, "No space left") != NULL ? -ERR_STORAGE_FULL
						     : -ERR_STORAGE_ERROR;

	kv_error_set(r, err);
	if (why != NULL)
		buf_puts(why, err);
	rocksdb_free(err);
	return r;
}

static void rocks_close(struct kv *kv)
{
	struct rocks *s = container_of(kv, struct rocks, kv);

	if (s->db != NULL)
		rocksdb_close(s->db);
	rocksdb_readoptions_destroy(s->read);
	rocksdb_writeoptions_destroy(s->write);
	rocksdb_options_destroy(s->options);
	rocksdb_env_destroy(s->env);
	if (s->table != NULL)
		rocksdb_block_based_options_destroy(s->table);
	if (s->cache != NULL)
		rocksdb_cache_destroy(s->cache);
	free(s->path);
	free(s);
}

/* NULL in *ret: there is none. Else to be destroyed. */
static int get_pinned(struct kv *kv, struct str key,
		      rocksdb_pinnableslice_t **ret)
{
	struct rocks *s = container_of(kv, struct rocks, kv);
	char *err = NULL;

	*ret = rocksdb_get_pinned(s->db, s->read, key.p, key.n, &err);
	return err != NULL ? rocks_error(err, NULL) : *ret != NULL;
}

static struct str pinned_str(const rocksdb_pinnableslice_t *v)
{
	struct str s;

	s.p = rocksdb_pinnableslice_value(v, &s.n);
	return s;
}

static int rocks_get(struct kv *kv, struct str key, struct buf *ret)
{
	rocksdb_pinnableslice_t *v;
	int r = get_pinned(kv, key, &v);

	if (r <= 0)
		return r;
	buf_clear(ret);
	buf_put_str(ret, pinned_str(v));
	rocksdb_pinnableslice_destroy(v);
	return r;
}

static int rocks_copy(struct kv *kv, struct str key, struct arena *a,
		      struct str *ret)
{
	rocksdb_pinnableslice_t *v;
	int r = get_pinned(kv, key, &v);

	if (r <= 0)
		return r;
	*ret = pinned_str(v);
	*ret = arena_copy(a, ret->n > 0 ? *ret : STR(""));
	rocksdb_pinnableslice_destroy(v);
	return r;
}

static const struct kv_ops rocks_ops;

static struct kv_iter *rocks_iter_new(struct kv *kv, struct str from,
				      struct str upto, _unused_ size_t most)
{
	struct rocks *s = container_of(kv, struct rocks, kv);
	struct rocks_iter *it = xmalloc(sizeof(*it) + upto.n);

	it->it.ops = &rocks_ops;
	it->read = rocksdb_readoptions_create();
	it->upto_n = upto.n;
	if (upto.n > 0) {
		memcpy(it->upto, upto.p, upto.n);
		rocksdb_readoptions_set_iterate_upper_bound(it->read, it->upto,
							    it->upto_n);
	}
	it->i = rocksdb_create_iterator(s->db, it->read);
	if (from.n > 0)
		rocksdb_iter_seek(it->i, from.p, from.n);
	else
		rocksdb_iter_seek_to_first(it->i);
	return &it->it;
}

static const struct rocks_iter *rocks_iter_of(const struct kv_iter *it)
{
	return container_of(it, const struct rocks_iter, it);
}

static bool rocks_iter_valid(const struct kv_iter *it)
{
	return rocksdb_iter_valid(rocks_iter_of(it)->i);
}

static struct str rocks_iter_key(const struct kv_iter *it)
{
	struct str s;

	s.p = rocksdb_iter_key(rocks_iter_of(it)->i, &s.n);
	return s;
}

static struct str rocks_iter_value(const struct kv_iter *it)
{
	struct str s;

	s.p = rocksdb_iter_value(rocks_iter_of(it)->i, &s.n);
	return s;
}

static void rocks_iter_next(struct kv_iter *it)
{
	rocksdb_iter_next(rocks_iter_of(it)->i);
}

static int rocks_iter_error(const struct kv_iter *it)
{
	char *err = NULL;

	rocksdb_iter_get_error(rocks_iter_of(it)->i, &err);
	return err != NULL ? rocks_error(err, NULL) : 0;
}

static void rocks_iter_free(struct kv_iter *kit)
{
	struct rocks_iter *it = container_of(kit, struct rocks_iter, it);

	rocksdb_iter_destroy(it->i);
	rocksdb_readoptions_destroy(it->read);
	free(it);
}

static struct kv_batch *rocks_batch_new(struct kv *kv _unused_)
{
	struct rocks_batch *b = xmalloc(sizeof(*b));

	b->b.ops = &rocks_ops;
	b->wb = rocksdb_writebatch_create();
	return &b->b;
}

static rocksdb_writebatch_t *rocks_wb(struct kv_batch *b)
{
	return container_of(b, struct rocks_batch, b)->wb;
}

static void rocks_batch_free(struct kv_batch *b)
{
	rocksdb_writebatch_destroy(rocks_wb(b));
	free(container_of(b, struct rocks_batch, b));
}

static void rocks_batch_put(struct kv_batch *b, struct str key,
			    struct str value)
{
	rocksdb_writebatch_put(rocks_wb(b), key.p, key.n, value.p, value.n);
}

static void rocks_batch_delete(struct kv_batch *b, struct str key)
{
	rocksdb_writebatch_delete(rocks_wb(b), key.p, key.n);
}

static void rocks_batch_delete_range(struct kv_batch *b, struct str from,
				     struct str upto)
{
	CHECK(from.n < HINT_PREFIX); /* see rocks_text_options */
	rocksdb_writebatch_delete_range(rocks_wb(b), from.p, from.n, upto.p,
					upto.n);
}

static int rocks_write(struct kv *kv, struct kv_batch *b)
{
	struct rocks *s = container_of(kv, struct rocks, kv);
	char *err = NULL;

	rocksdb_write(s->db, s->write, rocks_wb(b), &err);
	rocksdb_writebatch_clear(rocks_wb(b));
	return err != NULL ? rocks_error(err, NULL) : 0;
}

static int flush(struct rocks *s, bool wait, struct buf *why)
{
	rocksdb_flushoptions_t *o = rocksdb_flushoptions_create();
	char *err = NULL;

	rocksdb_flushoptions_set_wait(o, wait);
	rocksdb_flush(s->db, o, &err);
	rocksdb_flushoptions_destroy(o);
	return err != NULL ? rocks_error(err, why) : 0;
}

static int rocks_flush(struct kv *kv, struct buf *why)
{
	return flush(container_of(kv, struct rocks, kv), true, why);
}

static int rocks_checkpoint(struct kv *kv, const char *path, struct buf *why)
{
	struct rocks *s = container_of(kv, struct rocks, kv);
	rocksdb_checkpoint_t *cp;
	char *err = NULL;
	int r;

	/* Without a write-ahead log only flushed data is in the files. */
	r = rocks_flush(kv, why);
	if (r < 0)
		return r;
	cp = rocksdb_checkpoint_object_create(s->db, &err);
	if (err != NULL)
		return rocks_error(err, why);
	rocksdb_checkpoint_create(cp, path, 0, &err);
	rocksdb_checkpoint_object_destroy(cp);
	return err != NULL ? rocks_error(err, why) : 0;
}

static bool is_at_work(struct rocks *s)
{
	static const char *const names[] = {
		"rocksdb.num-running-compactions",
		"rocksdb.compaction-pending",
		"rocksdb.num-running-flushes",
		"rocksdb.mem-table-flush-pending",
	};
	uint64_t n;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (rocksdb_property_int(s->db, names[i], &n) == 0 && n > 0)
			return true;
	return false;
}

/* A flush that fails for want of room is worse than memory that is used. */
static bool has_much_to_flush(struct rocks *s)
{
	struct statvfs disk;
	uint64_t n;

	return rocksdb_property_int(s->db, "rocksdb.cur-size-all-mem-tables",
				    &n) == 0 &&
	       n > REST_HELD_BYTES && statvfs(s->path, &disk) == 0 &&
	       (uint64_t)disk.f_bavail * disk.f_frsize > REST_ROOM_BYTES;
}

/* Blocks that nobody reads now go; the system has their files in memory. */
static bool rocks_rest(struct kv *kv)
{
	struct rocks *s = container_of(kv, struct rocks, kv);
	size_t capacity = rocksdb_cache_get_capacity(s->cache);

	rocksdb_cache_set_capacity(s->cache, 0);
	rocksdb_cache_set_capacity(s->cache, capacity);
	if (is_at_work(s))
		return false;
	return !has_much_to_flush(s) || flush(s, false, NULL) < 0;
}

static size_t ingest_from(uint64_t write_buffer)
{
	return (size_t)MIN(write_buffer / 2, (uint64_t)INGEST_BYTES);
}

static int rocks_set_write_buffer(struct kv *kv, uint64_t bytes)
{
	struct rocks *s = container_of(kv, struct rocks, kv);
	const char *const names[] = { "write_buffer_size" };
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	const char *values[1];
	char *err = NULL;

	buf_put_u64(&text, bytes);
	buf_putc(&text, '\0');
	values[0] = text.p;
	rocksdb_set_options(s->db, 1, names, values, &err);
	if (err != NULL)
		return rocks_error(err, NULL);
	s->ingest_from = ingest_from(bytes);
	return 0;
}

static const struct kv_ops rocks_ops = {
	.close = rocks_close,
	.get = rocks_get,
	.copy = rocks_copy,
	.iter_new = rocks_iter_new,
	.iter_valid = rocks_iter_valid,
	.iter_key = rocks_iter_key,
	.iter_value = rocks_iter_value,
	.iter_next = rocks_iter_next,
	.iter_error = rocks_iter_error,
	.iter_free = rocks_iter_free,
	.batch_new = rocks_batch_new,
	.batch_free = rocks_batch_free,
	.batch_put = rocks_batch_put,
	.batch_put_new = rocks_batch_put,
	.batch_delete = rocks_batch_delete,
	.batch_delete_range = rocks_batch_delete_range,
	.write = rocks_write,
	.write_table = rocks_write_table,
	.flush = rocks_flush,
	.checkpoint = rocks_checkpoint,
	.set_write_buffer = rocks_set_write_buffer,
	.rest = rocks_rest,
};

static void rocks_table_options(struct rocks *s, uint64_t cache_bytes)
{
	s->cache =
	    rocksdb_cache_create_lru(cache_bytes ? cache_bytes : CACHE_BYTES);
	s->table = rocksdb_block_based_options_create();
	rocksdb_block_based_options_set_block_cache(s->table, s->cache);
	rocksdb_block_based_options_set_block_size(s->table, BLOCK_BYTES);
	rocksdb_block_based_options_set_format_version(s->table,
						       FORMAT_VERSION);
	/* What finds the blocks counts as the blocks do: of ten million jobs
	 * it would be more than the cache. */
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(s->table,
								      1);
	/* In one piece they would be larger than what the cache takes (it has
	 * 64 parts), and be read anew, megabytes of them, for every key. */
	rocksdb_block_based_options_set_index_type(
	    s->table,
	    rocksdb_block_based_table_index_type_two_level_index_search);
	rocksdb_block_based_options_set_partition_filters(s->table, 1);
	rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
	    s->table, 1);
	/* The table options take the policy over. */
	rocksdb_block_based_options_set_filter_policy(
	    s->table,
	    rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS_PER_KEY));
	rocksdb_options_set_block_based_table_factory(s->options, s->table);
}

/* Not so many that nothing else could be opened any more. */
static int open_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 ||
	    r.rlim_cur >= LIMIT_FILES_STORE + LIMIT_FILES_OWN)
		return LIMIT_FILES_STORE;
	return r.rlim_cur > 2 * LIMIT_FILES_OWN
		   ? (int)r.rlim_cur - LIMIT_FILES_OWN
		   : LIMIT_FILES_OWN;
}

static void *compactor_main(void *env)
{
	(void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid),
			  COMPACTOR_NICE);
	rocksdb_env_set_background_threads(env, COMPACTORS);
	return NULL;
}

/*
 * Answers come first, but not so much that tables pile up until no write can
 * pass: RocksDB's own low priority is the lowest there is. Threads have that of
 * the one that starts them.
 */
static void start_compactor(rocksdb_env_t *env)
{
	pthread_t t;

	CHECK(pthread_create(&t, NULL, compactor_main, env) == 0);
	CHECK(pthread_join(t, NULL) == 0);
}

static uint64_t write_buffer(const struct kv_options *o)
{
	if (o->no_room)
		return WIDE_BUFFER_BYTES;
	return o->write_buffer_bytes ? o->write_buffer_bytes
				     : WRITE_BUFFER_BYTES;
}

static void rocks_db_options(struct rocks *s, const struct kv_options *o)
{
	static const int compression[] = { rocksdb_no_compression,
					   rocksdb_no_compression,
					   rocksdb_lz4_compression };
	rocksdb_options_t *x = s->options;

	rocksdb_options_set_create_if_missing(x, !o->read_only);
	rocksdb_options_set_write_buffer_size(x, write_buffer(o));
	s->ingest_from = o->no_room ? SIZE_MAX : ingest_from(write_buffer(o));
	rocksdb_options_set_max_write_buffer_number(x, WRITE_BUFFERS);
	rocksdb_options_set_arena_block_size(x, ARENA_BLOCK_BYTES);
	/* One writer: the sorted keys of a batch then go in by one splice. */
	rocksdb_options_set_allow_concurrent_memtable_write(x, 0);
	/* What was just written is soon merged or deleted: not worth it. */
	rocksdb_options_set_compression_per_level(x, compression,
						  ARRAY_SIZE(compression));
	rocksdb_options_set_level_compaction_dynamic_level_bytes(x, 1);
	rocksdb_options_set_target_file_size_base(x, FILE_BYTES);
	rocksdb_options_set_level0_file_num_compaction_trigger(x,
							       LEVEL0_COMPACT);
	rocksdb_options_set_level0_slowdown_writes_trigger(x, LEVEL0_SLOWDOWN);
	rocksdb_options_set_level0_stop_writes_trigger(x, LEVEL0_STOP);
	rocksdb_options_set_max_background_jobs(x, BACKGROUND_JOBS);
	/* a table is on its way to the disk while it is made, or the flush at
	 * its end would hold up those of the log */
	rocksdb_options_set_bytes_per_sync(x, ROCKS_SYNC_BYTES);
	start_compactor(s->env);
	rocksdb_options_set_env(x, s->env);
	rocksdb_options_set_max_open_files(x, open_files());
	/* a second line that cannot be written would abort the process; what
	 * went wrong is told by every call */
	rocksdb_options_set_info_log_level(x, INFO_LOG_FATAL);
	rocksdb_options_set_keep_log_file_num(x, INFO_LOGS);
	rocksdb_options_set_max_log_file_size(x, INFO_LOG_BYTES);
	rocksdb_options_set_stats_dump_period_sec(x, 0);
	rocksdb_options_set_stats_persist_period_sec(x, 0);
}

/*
 * For each prefix of HINT_PREFIX bytes the memtable remembers where it
 * inserted last: keys of a batch are sorted, so the next one is near (a third
 * less time for a write). RocksDB 7.8 mixes up the hints of keys and those of
 * deleted ranges. Events, the one kind of record that goes by ranges, have
 * shorter keys, and keys shorter than the prefix get no hints.
 *
 * What merging makes is one kind of record to a file, as what is taken in is:
 * see kv_rocks_ingest.c.
 *
 * The C interface has these options only as text.
 */
static int rocks_text_options(struct rocks *s, struct buf *why)
{
	rocksdb_options_t *with = rocksdb_options_create();
	char *err = NULL;

	rocksdb_get_options_from_string(s->options, HINT_OPTION ";" KIND_OPTION,
					with, &err);
	if (err != NULL) {
		rocksdb_options_destroy(with);
		return rocks_error(err, why);
	}
	rocksdb_options_destroy(s->options);
	s->options = with;
	return 0;
}

static rocksdb_t *open_to_write(struct rocks *s, const char *path, char **err)
{
	rocks_ingest_clean(path);
	return rocksdb_open(s->options, path, err);
}

static int rocks_open(struct rocks *s, const char *path,
		      const struct kv_options *o, struct buf *why)
{
	char *err = NULL;
	int r;

	rocks_db_options(s, o);
	r = rocks_text_options(s, why);
	if (r < 0)
		return r;
	rocks_table_options(s, o->cache_bytes);
	if (o->read_only)
		s->db = rocksdb_open_for_read_only(s->options, path, 0, &err);
	else
		s->db = open_to_write(s, path, &err);
	if (err == NULL)
		return 0;
	s->db = NULL;
	return rocks_error(err, why);
}

int kv_rocks_open(const char *path, const struct kv_options *o, struct kv **ret,
		  struct buf *why)
{
	struct rocks *s = xcalloc(1, sizeof(*s));
	int r;

	/* Counting every comparison costs a tenth; nobody reads the counts. */
	rocksdb_set_perf_level(PERF_COUNTERS_OFF);
	s->kv.ops = &rocks_ops;
	s->path = xstrdup(path);
	s->env = rocksdb_create_default_env();
	s->options = rocksdb_options_create();
	s->read = rocksdb_readoptions_create();
	s->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_disable_WAL(s->write, 1);
	r = rocks_open(s, path, o, why);
	if (r < 0) {
		rocks_close(&s->kv);
		return r;
	}
	*ret = &s->kv;
	return 0;
}
