/*
 * The libraft seam. See cluster/node.h.
 *
 * What has to be handled around the library: apply is given no index (it is
 * last_applied + 1); after a start all entries since the last snapshot are
 * applied again; the log since then is also in memory, so snapshots are taken
 * by bytes and not by entries; a snapshot is one buffer, so it is only a
 * manifest, and the state itself is in the store, made durable first. The log
 * pads entries to eight bytes when it writes them but not when it reads them,
 * so entries of other lengths cut off all that follow them at the next start:
 * ours carry their length and are padded here. Any error of the log stops the
 * process: a leader whose disk fails may diverge.
 */
#include "cluster/node.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <raft.h>
#include <raft/uv.h>

#include "proto/err.h"
#include "rt/file.h"
#include "rt/log.h"
#include "util/list.h"

#define SNAPSHOT_NEVER       (1u << 30) /* entries: not by count */
#define SNAPSHOT_TRAILING    64         /* entries kept behind a snapshot */
#define ELECTION_TIMEOUT_MS  300
#define HEARTBEAT_TIMEOUT_MS 50
#define MANIFEST_FORMAT      "corvo snapshot 1 index %" PRIu64 "\n"
#define MANIFEST_BYTES       128

/* An entry in the log: its length in four bytes, the bytes, zeros. */
#define ENTRY_HEAD_BYTES 4
#define ENTRY_ALIGN      8

struct proposal {
	struct raft_apply req;
	struct node *node;
	node_done_fn *done;
	void *ctx;
};

struct node {
	struct loop *loop;
	const struct node_ops *ops;
	void *ctx;
	struct raft raft;
	struct raft_io io;
	struct raft_uv_transport transport;
	struct raft_fsm fsm;
	struct loop_timer *watch; /* notices changes of leadership */
	uint64_t store_index;     /* applied index the store started with */
	uint64_t snapshot_bytes;  /* setting */
	uint64_t bytes_since;     /* entries applied since the last snapshot */
	uint64_t ready_index;     /* applied up to here: ready */
	bool opened;              /* raft_init done */
	bool leader;              /* as last reported */
	bool ready;
	bool stopping;
	loop_fn *stop_done;
	void *stop_ctx;
};

#define WATCH_NS (100 * NS_PER_MS)

/* --- transport of a cluster of one --- */

static int transport_init(struct raft_uv_transport *t, raft_id id,
			  const char *address)
{
	(void)t;
	(void)id;
	(void)address;
	return 0;
}

static int transport_listen(struct raft_uv_transport *t, raft_uv_accept_cb cb)
{
	(void)t;
	(void)cb;
	return 0;
}

static int transport_connect(struct raft_uv_transport *t,
			     struct raft_uv_connect *req, raft_id id,
			     const char *address, raft_uv_connect_cb cb)
{
	(void)t;
	(void)req;
	(void)id;
	(void)address;
	(void)cb;
	return RAFT_NOCONNECTION;
}

static void transport_close(struct raft_uv_transport *t,
			    raft_uv_transport_close_cb cb)
{
	cb(t);
}

/* --- state machine callbacks --- */

/* Cuts the log as soon as enough bytes were applied since the last cut. */
static void snapshot_by_bytes(struct node *n, size_t len)
{
	n->bytes_since += len;
	if (n->bytes_since >= n->snapshot_bytes)
		raft_set_snapshot_threshold(&n->raft, 1);
}

static bool entry_unwrap(const struct raft_buffer *buf, struct str *ret)
{
	uint32_t n;

	if (buf->len < ENTRY_HEAD_BYTES)
		return false;
	memcpy(&n, buf->base, sizeof(n));
	n = le32toh(n);
	*ret = str_of((char *)buf->base + ENTRY_HEAD_BYTES, n);
	return n <= buf->len - ENTRY_HEAD_BYTES;
}

static int entry_wrap(struct str entry, struct raft_buffer *ret)
{
	uint32_t n = htole32((uint32_t)entry.n);
	size_t len = ENTRY_HEAD_BYTES + entry.n;

	CHECK(entry.n < UINT32_MAX / 2);
	len = (len + ENTRY_ALIGN - 1) & ~(size_t)(ENTRY_ALIGN - 1);
	ret->base = raft_malloc(len);
	if (ret->base == NULL)
		return RAFT_NOMEM;
	ret->len = len;
	memcpy(ret->base, &n, sizeof(n));
	memcpy((char *)ret->base + ENTRY_HEAD_BYTES, entry.p, entry.n);
	memset((char *)ret->base + ENTRY_HEAD_BYTES + entry.n, 0,
	       len - ENTRY_HEAD_BYTES - entry.n);
	return 0;
}

static int on_apply(struct raft_fsm *fsm, const struct raft_buffer *buf,
		    void **result)
{
	struct node *n = fsm->data;
	uint64_t index = raft_last_applied(&n->raft) + 1;
	struct str entry;
	int r = -ERR_BAD_MESSAGE;

	*result = NULL;
	if (entry_unwrap(buf, &entry))
		r = n->ops->apply(n->ctx, index, entry);
	if (r < 0) {
		log_error("cannot apply entry %" PRIu64 ": %s; stopping", index,
			  err_text(-r));
		abort();
	}
	snapshot_by_bytes(n, buf->len);
	return 0;
}

static int on_snapshot(struct raft_fsm *fsm, struct raft_buffer *bufs[],
		       unsigned *n_bufs)
{
	struct node *n = fsm->data;
	struct raft_buffer *b;

	if (n->ops->before_snapshot(n->ctx) != 0)
		return RAFT_BUSY;
	b = raft_malloc(sizeof(*b));
	if (b == NULL)
		return RAFT_NOMEM;
	b->base = raft_calloc(1, MANIFEST_BYTES);
	if (b->base == NULL) {
		raft_free(b);
		return RAFT_NOMEM;
	}
	snprintf(b->base, MANIFEST_BYTES, MANIFEST_FORMAT,
		 (uint64_t)raft_last_applied(&n->raft));
	b->len = MANIFEST_BYTES;
	*bufs = b;
	*n_bufs = 1;
	n->bytes_since = 0;
	raft_set_snapshot_threshold(&n->raft, SNAPSHOT_NEVER);
	return 0;
}

/*
 * The store may hold entries after the snapshot's index by the time it is
 * flushed. That is fine: replay skips what the store has.
 */
static int on_snapshot_async(struct raft_fsm *fsm, struct raft_buffer *bufs[],
			     unsigned *n_bufs)
{
	struct node *n = fsm->data;

	(void)bufs;
	(void)n_bufs;
	return n->ops->make_durable(n->ctx) == 0 ? 0 : RAFT_IOERR;
}

static int on_snapshot_finalize(struct raft_fsm *fsm,
				struct raft_buffer *bufs[], unsigned *n_bufs)
{
	(void)fsm;
	if (*bufs != NULL) {
		raft_free((*bufs)[0].base);
		raft_free(*bufs);
	}
	*bufs = NULL;
	*n_bufs = 0;
	return 0;
}

static int on_restore(struct raft_fsm *fsm, struct raft_buffer *buf)
{
	struct node *n = fsm->data;
	uint64_t index = 0;
	char text[MANIFEST_BYTES + 1] = "";

	memcpy(text, buf->base, MIN(buf->len, (size_t)MANIFEST_BYTES));
	if (sscanf(text, MANIFEST_FORMAT, &index) != 1) {
		log_error("the raft snapshot is not one of ours");
		return RAFT_CORRUPT;
	}
	if (n->store_index < index) {
		log_error("the store is at raft index %" PRIu64
			  " but the log was cut at %" PRIu64
			  ": the rocks directory is not the one of this log",
			  n->store_index, index);
		return RAFT_CORRUPT;
	}
	raft_free(buf->base);
	return 0;
}

/* --- start --- */

static int raft_failed(struct node *n, int rv, const char *what,
		       struct buf *why)
{
	const char *text = n->opened ? raft_errmsg(&n->raft) : n->io.errmsg;

	if (text == NULL || text[0] == '\0')
		text = raft_strerror(rv);
	buf_printf(why, "raft: cannot %s: %s", what, text);
	return rv == RAFT_NOSPACE ? -ERR_STORAGE_FULL : -ERR_INTERNAL_ERROR;
}

/*
 * A data directory belongs to one node name for ever: the raft id is derived
 * from the name once and the log refers to it.
 */
static int node_identity(const struct settings *s, raft_id *ret_id,
			 struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(buf_done) struct buf old = BUF_INIT(0);
	int r;

	*ret_id = raft_digest(s->node_id, 0);
	buf_printf(&path, "%s/node", s->data_dir);
	buf_putc(&path, '\0');
	buf_printf(&text, "%s %llu\n", s->node_id, *ret_id);

	r = file_read(path.p, 4096, &old);
	if (r == 0 && str_eq(buf_str(&old), buf_str(&text)))
		return 0;
	if (r == 0) {
		buf_printf(why,
			   "%s belongs to node %.*s; start with that --node-id "
			   "or use another --data-dir",
			   s->data_dir, (int)strcspn(old.p, " \n"), old.p);
		return -ERR_VALIDATION_ERROR;
	}
	r = file_write(path.p, buf_str(&text));
	if (r < 0) {
		buf_printf(why, "cannot write %s: %s", path.p, strerror(-r));
		return -ERR_INTERNAL_ERROR;
	}
	return 0;
}

static int node_open(struct node *n, const struct settings *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	raft_id id;
	int r;

	r = node_identity(s, &id, why);
	if (r < 0)
		return r;
	buf_printf(&dir, "%s/raft", s->data_dir);
	buf_putc(&dir, '\0');
	r = dir_make(dir.p);
	if (r < 0) {
		buf_printf(why, "cannot make %s: %s", dir.p, strerror(-r));
		return -ERR_INTERNAL_ERROR;
	}
	r = raft_uv_init(&n->io, loop_uv(n->loop), dir.p, &n->transport);
	if (r != 0)
		return raft_failed(n, r, "open the log", why);
	/* it says 1 although it has async_work, which our snapshots need */
	n->io.version = 2;
	raft_uv_set_segment_size(&n->io, s->raft_segment_size);
	raft_uv_set_snapshot_compression(&n->io, false);
	raft_uv_set_auto_recovery(&n->io, false);
	r = raft_init(&n->raft, &n->io, &n->fsm, id, s->raft_bind);
	if (r != 0) {
		raft_failed(n, r, "open the log", why);
		raft_uv_close(&n->io);
		return -ERR_INTERNAL_ERROR;
	}
	n->opened = true;
	raft_set_election_timeout(&n->raft, ELECTION_TIMEOUT_MS);
	raft_set_heartbeat_timeout(&n->raft, HEARTBEAT_TIMEOUT_MS);
	raft_set_snapshot_threshold(&n->raft, SNAPSHOT_NEVER);
	raft_set_snapshot_trailing(&n->raft, SNAPSHOT_TRAILING);
	raft_set_pre_vote(&n->raft, true);
	return 0;
}

static int node_bootstrap(struct node *n, const struct settings *s,
			  struct buf *why)
{
	struct raft_configuration conf;
	int r;

	if (!s->bootstrap)
		return 0;
	raft_configuration_init(&conf);
	r = raft_configuration_add(&conf, n->raft.id, s->raft_bind, RAFT_VOTER);
	if (r == 0)
		r = raft_bootstrap(&n->raft, &conf);
	raft_configuration_close(&conf);
	if (r != 0 && r != RAFT_CANTBOOTSTRAP)
		return raft_failed(n, r, "bootstrap", why);
	return 0;
}

/* Without members it would wait for a leader that cannot come. */
static int node_has_cluster(struct node *n, const struct settings *s,
			    struct buf *why)
{
	if (n->raft.configuration.n > 0)
		return 0;
	buf_printf(why,
		   "%s holds no cluster yet and --bootstrap=false forbids to "
		   "make one; joining one is not available in this version, so "
		   "start without --bootstrap=false, or with the --data-dir "
		   "of a node",
		   s->data_dir);
	return -ERR_VALIDATION_ERROR;
}

static void node_check(struct node *n)
{
	bool leader = raft_state(&n->raft) == RAFT_LEADER;
	bool ready;

	if (leader && !n->leader)
		n->ready_index = raft_last_index(&n->raft);
	ready = leader && raft_last_applied(&n->raft) >= n->ready_index;
	if (leader == n->leader && ready == n->ready)
		return;
	if (leader != n->leader)
		log_info("%s term=%llu index=%llu",
			 leader ? "leading" : "no longer leading",
			 n->raft.current_term, raft_last_index(&n->raft));
	n->leader = leader;
	n->ready = ready;
	n->ops->on_change(n->ctx);
}

static void on_watch(void *ctx)
{
	struct node *n = ctx;

	node_check(n);
	if (!n->stopping) /* which on_change may ask for */
		loop_timer_arm(n->watch, WATCH_NS);
}

static void node_wire(struct node *n)
{
	n->transport = (struct raft_uv_transport){
		.data = n,
		.init = transport_init,
		.listen = transport_listen,
		.connect = transport_connect,
		.close = transport_close,
	};
	n->fsm = (struct raft_fsm){
		.version = 3,
		.data = n,
		.apply = on_apply,
		.snapshot = on_snapshot,
		.restore = on_restore,
		.snapshot_finalize = on_snapshot_finalize,
		.snapshot_async = on_snapshot_async,
	};
}

int node_start(struct loop *l, const struct node_config *c,
	       const struct node_ops *ops, void *ctx, struct node **ret,
	       struct buf *why)
{
	struct node *n = xcalloc(1, sizeof(*n));
	int r;

	n->loop = l;
	n->ops = ops;
	n->ctx = ctx;
	n->store_index = c->store_index;
	n->snapshot_bytes = c->settings->snapshot_bytes;
	node_wire(n);
	*ret = n;
	r = node_open(n, c->settings, why);
	if (r < 0)
		return r;
	r = node_bootstrap(n, c->settings, why);
	if (r < 0)
		return r;
	r = raft_start(&n->raft);
	if (r != 0)
		return raft_failed(n, r, "start", why);
	r = node_has_cluster(n, c->settings, why);
	if (r < 0)
		return r;
	n->watch = loop_timer_add(l, on_watch, n);
	loop_timer_arm(n->watch, 0);
	return 0;
}

/* --- stop --- */

static void on_closed(struct raft *raft)
{
	struct node *n = raft->data;

	raft_uv_close(&n->io);
	n->opened = false;
	n->stop_done(n->stop_ctx);
}

void node_stop(struct node *n, loop_fn *done, void *ctx)
{
	n->stopping = true;
	n->leader = n->ready = false;
	n->stop_done = done;
	n->stop_ctx = ctx;
	if (n->watch != NULL)
		loop_timer_remove(n->watch);
	n->watch = NULL;
	if (!n->opened) {
		done(ctx);
		return;
	}
	n->raft.data = n;
	raft_close(&n->raft, on_closed);
}

static void on_closed_in_free(void *ctx)
{
	*(bool *)ctx = true;
}

void node_free(struct node *n)
{
	bool closed = false;

	if (n == NULL)
		return;
	if (n->opened) {
		node_stop(n, on_closed_in_free, &closed);
		while (!closed)
			(void)uv_run(loop_uv(n->loop), UV_RUN_ONCE);
	}
	free(n);
}

/* --- proposals --- */

static void on_applied(struct raft_apply *req, int status, void *result)
{
	struct proposal *p = container_of(req, struct proposal, req);
	struct node *n = p->node;

	(void)result;
	if (status == RAFT_IOERR || status == RAFT_NOSPACE ||
	    status == RAFT_CORRUPT) {
		log_error("the raft log cannot be written: %s; stopping",
			  raft_errmsg(&n->raft));
		abort();
	}
	p->done(p->ctx, status == 0 ? 0 : -ERR_LEADER_UNAVAILABLE);
	free(p);
	if (!n->stopping && !n->ready)
		node_check(n);
}

int node_propose(struct node *n, struct str entry, uint64_t *ret_index,
		 node_done_fn *done, void *ctx)
{
	struct raft_buffer buf;
	struct proposal *p;
	int r;

	if (!node_is_leader(n))
		return -ERR_LEADER_UNAVAILABLE;
	p = xcalloc(1, sizeof(*p));
	p->node = n;
	p->done = done;
	p->ctx = ctx;
	/* the library frees it, when the log no longer needs the entry */
	CHECK(entry_wrap(entry, &buf) == 0);
	r = raft_apply(&n->raft, &p->req, &buf, 1, on_applied);
	if (r != 0) {
		log_warn("an entry was not taken: %s", raft_errmsg(&n->raft));
		raft_free(buf.base);
		free(p);
		return -ERR_LEADER_UNAVAILABLE;
	}
	*ret_index = raft_last_index(&n->raft);
	return 0;
}

bool node_is_leader(const struct node *n)
{
	return n->leader;
}

bool node_is_ready(const struct node *n)
{
	return n->ready;
}

void node_info(const struct node *n, struct node_info *ret)
{
	static const struct {
		const char *name;
		int number;
	} states[] = {
		[RAFT_UNAVAILABLE] = { "Shutdown", 3 },
		[RAFT_FOLLOWER] = { "Follower", 0 },
		[RAFT_CANDIDATE] = { "Candidate", 1 },
		[RAFT_LEADER] = { "Leader", 2 },
	};

	ret->state = states[n->raft.state].name;
	ret->state_number = states[n->raft.state].number;
	ret->term = n->raft.current_term;
	ret->applied_index = n->raft.last_applied;
	ret->commit_index = n->raft.commit_index;
	ret->snapshot_index = n->raft.log.snapshot.last_index;
}
