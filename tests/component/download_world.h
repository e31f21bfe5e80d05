/*
 * A node by hand that gives its snapshot, and can stop, lie about checksums,
 * change it or be slow; and a node that fetches it.
 */
#ifndef CORVO_DOWNLOAD_WORLD_H
#define CORVO_DOWNLOAD_WORLD_H

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/download.h"
#include "lib/testlib.h"
#include "rt/file.h"
#include "util/clock.h"
#include "util/crc32.h"

#define INDEX   500
#define FILES   5
#define LONGEST (300u * 1024)

struct source {
	char name[32];
	char *bytes;
	size_t n;
};

/* Both ends, in one process. */
struct world {
	char dir[64];
	struct loop *loop;
	struct ipc *ipc;
	struct worker *worker;
	struct rpc_server *server;
	struct rpc_client *client;
	struct loop_timer *lose; /* the link */
	struct settings s;
	struct rng rng;
	struct download *download;
	uint64_t index; /* of the snapshot */
	/* the other node */
	struct source files[FILES];
	unsigned lists, parts; /* asked for */
	uint64_t sent;         /* bytes of parts */
	unsigned later;        /* lists answered with "not yet" */
	unsigned bad_parts;    /* parts with another checksum */
	bool bad_file;         /* the list says another checksum of a file */
	unsigned gone_after;   /* parts until the snapshot is a newer one */
	unsigned silent_after; /* parts until it stops answering, and its link
				  goes down; 0: never */
	unsigned errors;       /* parts answered with an error */
	const char *odd_name;  /* in the list */
	/* how it ended */
	bool over;
	int err;
	char why[256];
};

static inline const char *in_dir(const struct world *w, const char *name)
{
	static char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	return path;
}

static inline const char *incoming(const struct world *w, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "incoming/%d/%s", (int)w->index,
		       name);
	return in_dir(w, path);
}

/* --- the other node --- */

static inline void reply(struct rpc_req req, const struct msg_desc *d,
			 const void *m)
{
	struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	rpc_reply(req, 0, 0, buf_str(&b));
	buf_done(&b);
}

static inline void answer_list(struct world *w, struct rpc_req req)
{
	struct m_snapshot_file files[FILES] = { 0 };
	struct m_snapshot_list m = { 0 };

	w->lists++;
	if (w->later > 0) {
		w->later--;
		MSG_SET(&m, snapshot_list, later, true);
		reply(req, &msg_snapshot_list, &m);
		return;
	}
	for (size_t i = 0; i < FILES; i++) {
		const struct source *f = &w->files[i];
		const char *name =
		    i == 1 && w->odd_name != NULL ? w->odd_name : f->name;

		MSG_SET(&files[i], snapshot_file, name, str_from(name));
		MSG_SET(&files[i], snapshot_file, size, f->n);
		MSG_SET(&files[i], snapshot_file, crc,
			crc32_add(0, str_of(f->bytes, f->n)) ^
			    (i == 2 && w->bad_file));
	}
	MSG_SET_LIST(&m, snapshot_list, files, files, FILES);
	reply(req, &msg_snapshot_list, &m);
}

static inline const struct source *find(const struct world *w, struct str name)
{
	for (size_t i = 0; i < FILES; i++)
		if (str_is(name, w->files[i].name))
			return &w->files[i];
	return NULL;
}

static inline void answer_part(struct world *w, struct rpc_req req,
			       const struct m_snapshot_part *m)
{
	const struct source *f = find(w, m->name);
	struct m_snapshot_bytes b = { 0 };
	struct str bytes;

	assert_non_null(f);
	assert_true(m->n > 0 && m->at <= f->n && m->n <= f->n - m->at);
	bytes = str_of(f->bytes + m->at, m->n);
	w->parts++;
	w->sent += m->n;
	MSG_SET(&b, snapshot_bytes, bytes, bytes);
	MSG_SET(&b, snapshot_bytes, crc,
		crc32_add(0, bytes) ^ (w->bad_parts > 0));
	w->bad_parts -= w->bad_parts > 0;
	reply(req, &msg_snapshot_bytes, &b);
}

static inline void listen_again(struct world *w);

/* The link goes down, and comes back. */
static inline void lose_link(void *ctx)
{
	struct world *w = ctx;

	rpc_server_free(w->server);
	listen_again(w);
}

static inline void on_request(void *ctx, struct rpc_req req,
			      const struct frame_request *item)
{
	struct world *w = ctx;
	struct arena a = ARENA_INIT;
	struct m_snapshot_part m;

	if (item->op == QUERY_SNAPSHOT_FILES) {
		answer_list(w, req);
		return;
	}
	assert_int_equal(item->op, QUERY_SNAPSHOT_CHUNK);
	assert_int_equal(msg_decode(&msg_snapshot_part, item->body, &a, &m), 0);
	assert_int_equal(m.index, w->index);
	if (w->gone_after > 0 && w->parts >= w->gone_after) {
		rpc_reply(req, ERR_NOT_FOUND, 0, STR("it is gone"));
	} else if (w->errors > 0) {
		w->errors--;
		rpc_reply(req, ERR_STORAGE_ERROR, 0, STR("ouch"));
	} else if (w->silent_after > 0 && w->parts >= w->silent_after) {
		w->silent_after = 0;
		loop_timer_arm(w->lose, 0);
	} else {
		answer_part(w, req, &m);
	}
	arena_done(&a);
}

static inline void on_cancel(void *ctx, struct rpc_req req)
{
	(void)ctx;
	(void)req;
}

static inline void on_peer_down(void *ctx, struct rpc_peer *peer)
{
	(void)ctx;
	(void)peer;
}

static const struct rpc_server_ops server_ops = { on_request, on_cancel,
						  on_peer_down, NULL };

static inline void listen_again(struct world *w)
{
	struct buf why = BUF_INIT(0);

	w->server = rpc_server_new(w->ipc, PROC_RAFTD, &server_ops, w);
	assert_int_equal(rpc_server_listen(w->server, in_dir(w, "link"), &why),
			 0);
}

/* --- this node --- */

static inline void turn_end(void *ctx)
{
	struct world *w = ctx;

	rpc_server_flush(w->server);
	if (w->client != NULL)
		rpc_client_flush(w->client);
}

static inline void make_file(struct world *w, size_t i, const char *name,
			     size_t n)
{
	struct source *f = &w->files[i];

	(void)snprintf(f->name, sizeof(f->name), "%s", name);
	f->n = n;
	f->bytes = xmalloc(n + 1);
	for (size_t k = 0; k < n; k++)
		f->bytes[k] = (char)rng_u64(&w->rng);
}

static inline int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct buf why = BUF_INIT(0);

	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/corvo-download-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->index = INDEX;
	test_rng(&w->rng);
	make_file(w, 0, "CURRENT", 16);
	make_file(w, 1, "000012.sst", LONGEST);
	make_file(w, 2, "000013.sst", LONGEST / 2);
	make_file(w, 3, "MANIFEST-000004", 5000);
	make_file(w, 4, "000014.sst", 0);
	assert_int_equal(settings_load(0, NULL, &w->s, &why), 0);
	w->s.data_dir = w->dir;
	w->s.snapshot_rate = 0;
	w->loop = loop_new();
	w->ipc = ipc_new(w->loop);
	w->worker = worker_new(w->loop, "download", 0);
	w->lose = loop_timer_add(w->loop, lose_link, w);
	loop_on_turn_end(w->loop, turn_end, w);
	listen_again(w);
	w->client = rpc_client_new(w->ipc, in_dir(w, "link"), PROC_RAFTD, &why);
	assert_non_null(w->client);
	*state = w;
	return 0;
}

static inline int teardown(void **state)
{
	struct world *w = *state;

	download_free(w->download);
	worker_free(w->worker);
	if (w->client != NULL)
		rpc_client_free(w->client);
	rpc_server_free(w->server);
	ipc_free(w->ipc);
	loop_timer_remove(w->lose);
	loop_free(w->loop);
	for (size_t i = 0; i < FILES; i++)
		free(w->files[i].bytes);
	settings_done(&w->s);
	dir_remove(w->dir);
	free(w);
	return 0;
}

static inline void on_done(void *ctx, int err, struct str why)
{
	struct world *w = ctx;

	assert_false(w->over);
	w->over = true;
	w->err = err;
	(void)snprintf(w->why, sizeof(w->why), "%.*s", STR_ARG(why));
	loop_stop(w->loop);
}

static inline void begin(struct world *w)
{
	struct download_config c = { .loop = w->loop,
				     .worker = w->worker,
				     .settings = &w->s,
				     .client = w->client,
				     .index = w->index,
				     .done = on_done,
				     .ctx = w };
	struct download *before = w->download;

	if (w->over && w->err == 0)
		c.before = before;
	w->over = false;
	w->lists = w->parts = 0;
	w->sent = 0;
	w->download = download_new(&c);
	download_free(before);
}

static inline int fetch(struct world *w)
{
	begin(w);
	loop_run(w->loop);
	assert_true(w->over);
	return w->err;
}

static inline void assert_complete(const struct world *w)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct download_progress p;
	uint64_t total = 0;

	for (size_t i = 0; i < FILES; i++) {
		const struct source *f = &w->files[i];

		buf_clear(&b);
		assert_int_equal(file_read(incoming(w, f->name), 1u << 20, &b),
				 0);
		assert_true(str_eq(buf_str(&b), str_of(f->bytes, f->n)));
		total += f->n;
	}
	download_progress(w->download, &p);
	assert_int_equal(p.index, w->index);
	assert_int_equal(p.total, total);
	assert_int_equal(p.done, total);
}

static inline uint64_t all_bytes(const struct world *w)
{
	uint64_t n = 0;

	for (size_t i = 0; i < FILES; i++)
		n += w->files[i].n;
	return n;
}

static inline void put(const char *path, const char *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	assert_int_equal(close(fd), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
