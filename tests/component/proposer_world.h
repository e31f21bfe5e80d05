/*
 * The proposer with the real state machine on the in-memory store, a node that
 * commits when the test says so, and replies that are written down.
 *
 * Included by one file of each test program: it defines what the proposer
 * calls of cluster/node.h and rpc.h.
 */
#ifndef CORVO_PROPOSER_WORLD_H
#define CORVO_PROPOSER_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "propose/leases.h"
#include "propose/proposer.h"
#include "store/record.h"
#include "util/clock.h"

#define PEER_A      ((struct rpc_peer *)0x10)
#define PEER_B      ((struct rpc_peer *)0x20)
#define PEER_NODE   ((struct rpc_peer *)0x30) /* another node */
#define ENTRIES_MAX 128
#define REPLIES_MAX 512

/* --- fakes of cluster/node.h and rpc.h --- */

struct node {
	bool ready;
	bool frozen;
	bool refuse;
	bool handing_over;
	bool cut_is_due;
	bool wants_entry;
	size_t voters; /* 0: it is alone */
	uint64_t log_bytes;
	size_t n;
	struct {
		struct buf bytes;
		node_done_fn *done;
		void *ctx;
	} entries[ENTRIES_MAX];
};

struct seen_reply {
	struct rpc_req req;
	int err;
	struct buf body;
};

struct fixture {
	struct loop *loop;
	struct kv *kv;
	struct fsm *fsm;
	struct proposer *p;
	struct settings s;
	struct node node;
	size_t committed; /* entries handed to proposer_apply */
	uint64_t next_id;
	uint64_t deadline_ns;   /* of what is submitted from now on */
	uint32_t flags;         /* the same */
	uint64_t expected_cost; /* of jobs from now on */
	struct arena a;
	struct leases *leases; /* NULL: a number of ops */
	size_t renewals;
	struct rpc_req passed; /* the last one */
	size_t passed_n;
	size_t replies_n;
	struct seen_reply replies[REPLIES_MAX];
};

static struct fixture *fx; /* replies come without a context */
static struct rpc_peer *dead_peer;
static bool has_others; /* nodes that could lead */

int node_propose(struct node *n, struct str entry, const void **ret_tag,
		 node_done_fn *done, void *ctx)
{
	if (n->refuse)
		return -ERR_LEADER_UNAVAILABLE;
	assert_true(n->n < ENTRIES_MAX);
	n->entries[n->n].bytes = BUF_INIT(0);
	buf_put_str(&n->entries[n->n].bytes, entry);
	n->entries[n->n].done = done;
	n->entries[n->n].ctx = ctx;
	*ret_tag = &n->entries[n->n++];
	return 0;
}

bool node_is_ready(const struct node *n)
{
	return n->ready;
}

size_t node_voters(const struct node *n)
{
	return MAX(n->voters, (size_t)1);
}

bool node_is_handing_over(const struct node *n)
{
	return n->handing_over;
}

bool node_is_frozen(const struct node *n)
{
	return n->frozen;
}

void node_break(struct node *n)
{
	n->frozen = true;
}

uint64_t node_log_bytes(struct node *n)
{
	return n->log_bytes;
}

bool node_cut_is_due(struct node *n)
{
	return n->cut_is_due;
}

bool node_wants_entry(struct node *n)
{
	bool wants = n->wants_entry;

	n->wants_entry = false;
	return wants;
}

void rpc_reply(struct rpc_req req, int err, uint64_t seq, struct str body)
{
	struct seen_reply *r = &fx->replies[fx->replies_n++];

	(void)seq;
	assert_true(fx->replies_n <= REPLIES_MAX);
	r->req = req;
	r->err = err;
	r->body = BUF_INIT(0);
	buf_put_str(&r->body, body);
}

bool rpc_req_is_of_node(struct rpc_req req)
{
	return req.peer == PEER_NODE;
}

/* What goes to the next leader. */
static inline void on_pass(void *ctx, struct rpc_req req,
			   const struct frame_request *item)
{
	const struct call_info *info = op_info(item->op);
	struct fixture *f = ctx;
	union {
		uint64_t has;
		char any[4096];
	} m;

	/* that one can read it */
	if (info == NULL)
		info = query_info(item->op);
	assert_true(info->request->size <= sizeof(m));
	assert_int_equal(msg_decode(info->request, item->body, &f->a, &m), 0);

	f->passed = req;
	f->passed_n++;
}

bool rpc_req_is_live(struct rpc_req req)
{
	return req.peer != dead_peer;
}

static inline bool take_renewals(void *ctx, struct buf *body, bool *more)
{
	static const struct m_renew m;
	struct fixture *f = ctx;

	if (f->leases != NULL)
		return leases_take(f->leases, body, more);
	if (f->renewals == 0)
		return false;
	msg_encode(&msg_renew, &m, body);
	*more = --f->renewals > 0;
	return true;
}

/* --- fixture --- */

static inline int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct buf why = BUF_INIT(0);
	struct proposer_config c;

	fx = f;
	dead_peer = NULL;
	assert_int_equal(settings_load(0, NULL, &f->s, &why), 0);
	f->s.data_dir = "/tmp";
	f->s.raft_segment_size = f->s.rocksdb_write_buffer = 4096;
	f->loop = loop_new();
	f->kv = kv_mem_new();
	f->fsm = fsm_new(f->kv);
	assert_int_equal(fsm_load(f->fsm), 0);
	c = (struct proposer_config){ .loop = f->loop,
				      .settings = &f->s,
				      .fsm = f->fsm,
				      .take_renewals = take_renewals,
				      .pass_on = has_others ? on_pass : NULL,
				      .ctx = f };
	f->p = proposer_new(&c);
	f->node.ready = true;
	proposer_set_node(f->p, &f->node);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	/* entries that were never committed end as the library ends them */
	for (size_t i = f->committed; i < f->node.n; i++)
		f->node.entries[i].done(f->node.entries[i].ctx,
					-ERR_OUTCOME_UNKNOWN);
	leases_free(f->leases);
	proposer_free(f->p);
	fsm_free(f->fsm);
	kv_close(f->kv);
	loop_free(f->loop);
	settings_done(&f->s);
	for (size_t i = 0; i < f->node.n; i++)
		buf_done(&f->node.entries[i].bytes);
	for (size_t i = 0; i < f->replies_n; i++)
		buf_done(&f->replies[i].body);
	arena_done(&f->a);
	free(f);
	return 0;
}

static inline struct rpc_req submit_flags(struct fixture *f,
					  struct rpc_peer *peer, unsigned op,
					  const void *m, const char *key,
					  uint32_t flags)
{
	struct buf body = BUF_INIT(0);
	struct rpc_req req = { .peer = peer, .epoch = 7, .id = ++f->next_id };
	struct frame_request item = { .id = req.id,
				      .op = op,
				      .flags = flags | f->flags,
				      .deadline_ns = f->deadline_ns };

	msg_encode(op_info(op)->request, m, &body);
	item.key = str_from(key);
	item.body = buf_str(&body);
	proposer_submit(f->p, req, &item);
	buf_done(&body);
	return req;
}

static inline struct rpc_req submit(struct fixture *f, struct rpc_peer *peer,
				    unsigned op, const void *m, const char *key)
{
	return submit_flags(f, peer, op, m, key, 0);
}

static inline struct rpc_req enqueue(struct fixture *f, const char *id,
				     const char *queue)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, str_from(queue));
	MSG_SET(&m, enqueue, payload, STR("{}"));
	if (f->expected_cost > 0)
		MSG_SET(&m, enqueue, expected_cost, f->expected_cost);
	return submit(f, PEER_A, OP_ENQUEUE, &m, queue);
}

static inline void fill_fetch(struct m_fetch *m, struct str *queue,
			      uint64_t wait_ns, uint64_t fetch_id)
{
	*m = (struct m_fetch){ 0 };
	MSG_SET_LIST(m, fetch, queues, queue, 1);
	MSG_SET(m, fetch, worker_id, STR("w1"));
	MSG_SET(m, fetch, timeout, wait_ns);
	MSG_SET(m, fetch, lease_duration, 60 * NS_PER_S);
	MSG_SET(m, fetch, fetch_id, fetch_id);
}

static inline struct rpc_req fetch(struct fixture *f, struct rpc_peer *peer,
				   const char *queue, uint64_t wait_ns)
{
	struct str q = str_from(queue);
	struct m_fetch m;

	fill_fetch(&m, &q, wait_ns, f->next_id + 1000);
	return submit(f, peer, OP_FETCH, &m, queue);
}

/* A fetch that names itself, sent for the first time or again. */
static inline struct rpc_req fetch_named(struct fixture *f,
					 struct rpc_peer *peer,
					 uint64_t fetch_id, uint64_t wait_ns,
					 uint32_t flags)
{
	struct str q = STR("q");
	struct m_fetch m;

	fill_fetch(&m, &q, wait_ns, fetch_id);
	return submit_flags(f, peer, OP_FETCH, &m, "q", flags);
}

static inline struct entry entry_at(struct fixture *f, size_t i)
{
	struct entry e;

	assert_true(i < f->node.n);
	assert_int_equal(
	    entry_decode(buf_str(&f->node.entries[i].bytes), &f->a, &e), 0);
	return e;
}

/* Commits the next entry, as the log would. */
static inline void commit(struct fixture *f)
{
	size_t i = f->committed++;

	assert_true(i < f->node.n);
	assert_int_equal(proposer_apply(f->p, i + 1, &f->node.entries[i],
					buf_str(&f->node.entries[i].bytes)),
			 0);
	f->node.entries[i].done(f->node.entries[i].ctx, 0);
}

static inline void pump_and_commit_all(struct fixture *f)
{
	proposer_pump(f->p);
	while (f->committed < f->node.n) {
		commit(f);
		proposer_pump(f->p);
	}
}

static inline struct seen_reply *reply_to(struct fixture *f, struct rpc_req req)
{
	for (size_t i = 0; i < f->replies_n; i++)
		if (f->replies[i].req.id == req.id)
			return &f->replies[i];
	return NULL;
}

/* Number of jobs a fetch was given; -1: no answer yet. */
static inline int jobs_given(struct fixture *f, struct rpc_req req)
{
	struct seen_reply *r = reply_to(f, req);
	struct m_fetch_reply m;

	if (r == NULL)
		return -1;
	assert_int_equal(r->err, 0);
	assert_int_equal(
	    msg_decode(&msg_fetch_reply, buf_str(&r->body), &f->a, &m), 0);
	return (int)m.jobs_n;
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#endif
