/*
 * The proposer with the real state machine on the in-memory store, a node that
 * commits when the test says so, and replies that are written down.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proposer.h"
#include "rt/file.h"
#include "store/record.h"
#include "util/clock.h"

#define PEER_A      ((struct rpc_peer *)0x10)
#define PEER_B      ((struct rpc_peer *)0x20)
#define ENTRIES_MAX 64
#define REPLIES_MAX 256

/* --- fakes of node.h and rpc.h --- */

struct node {
	bool ready;
	bool refuse;
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
	struct arena a;
	struct buf renewals;
	size_t replies_n;
	struct seen_reply replies[REPLIES_MAX];
};

static struct fixture *fx; /* replies come without a context */
static struct rpc_peer *dead_peer;

int node_propose(struct node *n, struct str entry, uint64_t *ret_index,
		 node_done_fn *done, void *ctx)
{
	if (n->refuse)
		return -ERR_LEADER_UNAVAILABLE;
	assert_true(n->n < ENTRIES_MAX);
	n->entries[n->n].bytes = BUF_INIT(0);
	buf_put_str(&n->entries[n->n].bytes, entry);
	n->entries[n->n].done = done;
	n->entries[n->n].ctx = ctx;
	*ret_index = ++n->n;
	return 0;
}

bool node_is_ready(const struct node *n)
{
	return n->ready;
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

bool rpc_req_is_live(struct rpc_req req)
{
	return req.peer != dead_peer;
}

static bool take_renewals(void *ctx, struct buf *body)
{
	struct fixture *f = ctx;

	if (f->renewals.n == 0)
		return false;
	buf_put_str(body, buf_str(&f->renewals));
	buf_clear(&f->renewals);
	return true;
}

/* --- fixture --- */

static int setup(void **state)
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
				      .ctx = f };
	f->p = proposer_new(&c);
	f->node.ready = true;
	proposer_set_node(f->p, &f->node);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	/* entries that were never committed end as the library ends them */
	for (size_t i = f->committed; i < f->node.n; i++)
		f->node.entries[i].done(f->node.entries[i].ctx,
					-ERR_LEADER_UNAVAILABLE);
	proposer_free(f->p);
	fsm_free(f->fsm);
	kv_close(f->kv);
	loop_free(f->loop);
	settings_done(&f->s);
	for (size_t i = 0; i < f->node.n; i++)
		buf_done(&f->node.entries[i].bytes);
	for (size_t i = 0; i < f->replies_n; i++)
		buf_done(&f->replies[i].body);
	buf_done(&f->renewals);
	arena_done(&f->a);
	free(f);
	return 0;
}

static struct rpc_req submit(struct fixture *f, struct rpc_peer *peer,
			     unsigned op, const void *m, const char *key)
{
	struct buf body = BUF_INIT(0);
	struct rpc_req req = { .peer = peer, .epoch = 7, .id = ++f->next_id };
	struct frame_request item = { .id = req.id, .op = op };

	msg_encode(op_info(op)->request, m, &body);
	item.key = str_from(key);
	item.body = buf_str(&body);
	proposer_submit(f->p, req, &item);
	buf_done(&body);
	return req;
}

static struct rpc_req enqueue(struct fixture *f, const char *id,
			      const char *queue)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, str_from(queue));
	MSG_SET(&m, enqueue, payload, STR("{}"));
	return submit(f, PEER_A, OP_ENQUEUE, &m, queue);
}

static struct rpc_req fetch(struct fixture *f, struct rpc_peer *peer,
			    const char *queue, uint64_t wait_ns)
{
	struct m_fetch m = { 0 };
	struct str q = str_from(queue);

	MSG_SET_LIST(&m, fetch, queues, &q, 1);
	MSG_SET(&m, fetch, worker_id, STR("w1"));
	MSG_SET(&m, fetch, timeout, wait_ns);
	MSG_SET(&m, fetch, lease_duration, 60 * NS_PER_S);
	MSG_SET(&m, fetch, fetch_id, f->next_id + 1000);
	return submit(f, peer, OP_FETCH, &m, queue);
}

static struct entry entry_at(struct fixture *f, size_t i)
{
	struct entry e;

	assert_true(i < f->node.n);
	assert_int_equal(
	    entry_decode(buf_str(&f->node.entries[i].bytes), &f->a, &e), 0);
	return e;
}

/* Commits the next entry, as the log would. */
static void commit(struct fixture *f)
{
	size_t i = f->committed++;

	assert_true(i < f->node.n);
	assert_int_equal(
	    proposer_apply(f->p, i + 1, buf_str(&f->node.entries[i].bytes)), 0);
	f->node.entries[i].done(f->node.entries[i].ctx, 0);
}

static void pump_and_commit_all(struct fixture *f)
{
	proposer_pump(f->p);
	while (f->committed < f->node.n) {
		commit(f);
		proposer_pump(f->p);
	}
}

static struct seen_reply *reply_to(struct fixture *f, struct rpc_req req)
{
	for (size_t i = 0; i < f->replies_n; i++)
		if (f->replies[i].req.id == req.id)
			return &f->replies[i];
	return NULL;
}

/* Number of jobs a fetch was given; -1: no answer yet. */
static int jobs_given(struct fixture *f, struct rpc_req req)
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

/* --- tests --- */

static void parked_fetch_makes_no_entry(void **state)
{
	struct fixture *f = *state;
	struct rpc_req r = fetch(f, PEER_A, "q", 30 * NS_PER_S);

	proposer_pump(f->p);
	assert_int_equal(f->node.n, 0);
	assert_int_equal(jobs_given(f, r), -1);
	assert_int_equal(proposer_stats(f->p)->parked, 1);
}

static void fetch_that_does_not_wait_is_answered_at_once(void **state)
{
	struct fixture *f = *state;
	struct rpc_req r = fetch(f, PEER_A, "q", 0);

	assert_int_equal(jobs_given(f, r), 0);
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 0);
}

static void enqueue_and_its_fetch_share_one_entry(void **state)
{
	struct fixture *f = *state;
	struct rpc_req w = fetch(f, PEER_A, "q", 30 * NS_PER_S);
	struct rpc_req e = enqueue(f, "job_1", "q");
	struct entry entry;

	proposer_pump(f->p);
	assert_int_equal(f->node.n, 1);
	entry = entry_at(f, 0);
	assert_int_equal(entry.n, 2);
	assert_int_equal(entry.items[0].op, OP_ENQUEUE);
	assert_int_equal(entry.items[1].op, OP_FETCH);
	commit(f);
	assert_non_null(reply_to(f, e));
	assert_int_equal(jobs_given(f, w), 1);
	assert_int_equal(proposer_stats(f->p)->parked, 0);
}

static void one_job_calls_one_fetch(void **state)
{
	struct fixture *f = *state;
	struct rpc_req w[10];
	int given = 0;

	for (int i = 0; i < 10; i++)
		w[i] = fetch(f, PEER_A, "q", 30 * NS_PER_S);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	assert_int_equal(f->node.n, 1);
	assert_int_equal(entry_at(f, 0).n, 2);
	for (int i = 0; i < 10; i++)
		given += jobs_given(f, w[i]) == 1;
	assert_int_equal(given, 1);
	assert_int_equal(jobs_given(f, w[0]), 1); /* who came first */
	assert_int_equal(proposer_stats(f->p)->parked, 9);
}

static void entry_in_flight_wakes_whoever_came_meanwhile(void **state)
{
	struct fixture *f = *state;
	struct rpc_req w;

	enqueue(f, "job_1", "q");
	proposer_pump(f->p);
	w = fetch(f, PEER_A, "q", 30 * NS_PER_S);
	assert_int_equal(proposer_stats(f->p)->parked, 1);
	pump_and_commit_all(f);
	assert_int_equal(jobs_given(f, w), 1);
}

static void acks_run_first_and_fetches_last(void **state)
{
	struct fixture *f = *state;
	struct m_ack ack = { 0 };
	struct entry e;

	enqueue(f, "job_0", "q");
	pump_and_commit_all(f);
	fetch(f, PEER_A, "q", 0);
	enqueue(f, "job_1", "q");
	MSG_SET(&ack, ack, job_id, STR("job_0"));
	submit(f, PEER_A, OP_ACK, &ack, "");
	proposer_pump(f->p);
	e = entry_at(f, 1);
	assert_int_equal(e.n, 3);
	assert_int_equal(e.items[0].op, OP_ACK);
	assert_int_equal(e.items[1].op, OP_ENQUEUE);
	assert_int_equal(e.items[2].op, OP_FETCH);
}

static void pipeline_is_bounded_and_gathers(void **state)
{
	struct fixture *f = *state;
	char id[32];

	f->s.apply_inflight = 2;
	for (int i = 0; i < 10; i++) {
		snprintf(id, sizeof(id), "job_%d", i);
		enqueue(f, id, "q");
		proposer_pump(f->p);
	}
	assert_int_equal(f->node.n, 2);
	commit(f);
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 3);
	assert_int_equal(entry_at(f, 2).n, 8);
}

static void too_many_waiting_ops_are_refused(void **state)
{
	struct fixture *f = *state;
	struct rpc_req r;

	f->s.raft_max_pending = 2;
	enqueue(f, "job_1", "q");
	enqueue(f, "job_2", "q");
	r = enqueue(f, "job_3", "q");
	assert_int_equal(reply_to(f, r)->err, ERR_OVERLOADED);
	pump_and_commit_all(f);
	r = enqueue(f, "job_4", "q");
	assert_null(reply_to(f, r));
	assert_int_equal(proposer_stats(f->p)->overload, 1);
}

/* Fetches that wait for a job are nobody who waits for the log. */
static void an_entry_is_crowded_from_16_waiting_ops_on(void **state)
{
	struct fixture *f = *state;
	char id[16];

	for (int i = 0; i < 40; i++)
		fetch(f, PEER_B, "empty", 30 * NS_PER_S);
	for (int i = 0; i < 31; i++) {
		(void)snprintf(id, sizeof(id), "job_%d", i);
		enqueue(f, id, "q");
		if (i == 14) {
			proposer_pump(f->p);
			assert_int_equal(proposer_stats(f->p)->crowded, 0);
			commit(f);
		}
	}
	proposer_pump(f->p);
	assert_int_equal(proposer_stats(f->p)->entries, 2);
	assert_int_equal(proposer_stats(f->p)->crowded, 1);
}

static void too_many_parked_fetches_are_refused(void **state)
{
	struct fixture *f = *state;
	struct rpc_req r;

	f->s.raft_max_parked = 1;
	fetch(f, PEER_A, "q", 30 * NS_PER_S);
	r = fetch(f, PEER_A, "q", 30 * NS_PER_S);
	assert_int_equal(reply_to(f, r)->err, ERR_OVERLOADED);
}

static void full_disk_refuses_writes(void **state)
{
	struct fixture *f = *state;
	struct rpc_req r;

	f->s.raft_segment_size = UINT64_MAX / 8; /* nothing is that large */
	r = enqueue(f, "job_1", "q");
	assert_int_equal(reply_to(f, r)->err, ERR_STORAGE_FULL);
	assert_false(proposer_stats(f->p)->disk_ok);
}

static struct rpc_req maintain(struct fixture *f, unsigned op)
{
	static const struct m_maintain m;

	return submit(f, PEER_A, op, &m, "");
}

/* There would be no way out of it. */
static void nearly_full_disk_takes_what_frees_room(void **state)
{
	struct fixture *f = *state;
	struct m_job_ref job = { 0 };
	uint64_t room;

	MSG_SET(&job, job_ref, job_id, STR("job_1"));
	assert_int_equal(dir_free_bytes(f->s.data_dir, &room), 0);
	f->s.raft_segment_size = room / 10 * 7; /* of which two are kept free */
	assert_int_equal(reply_to(f, enqueue(f, "job_1", "q"))->err,
			 ERR_STORAGE_FULL);
	assert_int_equal(reply_to(f, maintain(f, OP_PROMOTE))->err,
			 ERR_STORAGE_FULL);
	assert_null(reply_to(f, maintain(f, OP_PURGE)));
	assert_null(reply_to(f, maintain(f, OP_TRIM_EVENTS)));
	assert_null(reply_to(f, submit(f, PEER_A, OP_DELETE, &job, "")));
}

static void full_disk_takes_nothing(void **state)
{
	struct fixture *f = *state;

	f->s.raft_segment_size = UINT64_MAX / 8;
	assert_int_equal(reply_to(f, maintain(f, OP_PURGE))->err,
			 ERR_STORAGE_FULL);
}

static void overload_does_not_stop_the_clock(void **state)
{
	struct fixture *f = *state;

	f->s.raft_max_pending = 1;
	enqueue(f, "job_1", "q");
	assert_int_equal(reply_to(f, enqueue(f, "job_2", "q"))->err,
			 ERR_OVERLOADED);
	assert_null(reply_to(f, maintain(f, OP_RECLAIM)));
	assert_null(reply_to(f, maintain(f, OP_PROMOTE)));
}

static void cancelled_wait_gets_no_job(void **state)
{
	struct fixture *f = *state;
	struct rpc_req gone = fetch(f, PEER_A, "q", 30 * NS_PER_S);
	struct rpc_req stays = fetch(f, PEER_A, "q", 30 * NS_PER_S);

	proposer_cancel(f->p, gone);
	assert_int_equal(proposer_stats(f->p)->parked, 1);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	assert_int_equal(jobs_given(f, gone), -1);
	assert_int_equal(jobs_given(f, stays), 1);
}

static struct m_job job_now(struct fixture *f, const char *id)
{
	struct m_job j;

	assert_int_equal(record_job(f->kv, str_from(id), 0, &f->a, &j), 1);
	return j;
}

static void job_of_a_client_that_left_is_given_back(void **state)
{
	struct fixture *f = *state;
	struct rpc_req gone = fetch(f, PEER_A, "q", 30 * NS_PER_S);

	enqueue(f, "job_1", "q");
	proposer_pump(f->p); /* the fetch is in the log now */
	proposer_cancel(f->p, gone);
	pump_and_commit_all(f);
	assert_int_equal(jobs_given(f, gone), -1);
	assert_int_equal(job_now(f, "job_1").state, JOB_PENDING);
	assert_int_equal(job_now(f, "job_1").attempt, 0);
}

static void peer_that_goes_takes_its_waits_along(void **state)
{
	struct fixture *f = *state;
	struct rpc_req a = fetch(f, PEER_A, "q", 30 * NS_PER_S);
	struct rpc_req b = fetch(f, PEER_B, "q", 30 * NS_PER_S);

	dead_peer = PEER_A;
	proposer_peer_down(f->p, PEER_A);
	assert_int_equal(proposer_stats(f->p)->parked, 1);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	assert_int_equal(jobs_given(f, a), -1);
	assert_int_equal(jobs_given(f, b), 1);
}

static void renewals_go_before_a_reclaim(void **state)
{
	struct fixture *f = *state;
	struct m_renew renew = { 0 };
	struct m_maintain m = { 0 };
	struct entry e;

	msg_encode(&msg_renew, &renew, &f->renewals);
	MSG_SET(&m, maintain, limit, 10);
	submit(f, PEER_A, OP_RECLAIM, &m, "");
	proposer_pump(f->p);
	e = entry_at(f, 0);
	assert_int_equal(e.n, 2);
	assert_int_equal(e.items[0].op, OP_RENEW);
	assert_int_equal(e.items[1].op, OP_RECLAIM);
	commit(f);
}

static void lost_leadership_answers_everybody(void **state)
{
	struct fixture *f = *state;
	struct rpc_req e = enqueue(f, "job_1", "q");

	proposer_pump(f->p);
	f->committed = 1;
	f->node.entries[0].done(f->node.entries[0].ctx,
				-ERR_LEADER_UNAVAILABLE);
	assert_int_equal(reply_to(f, e)->err, ERR_LEADER_UNAVAILABLE);
	assert_true(proposer_is_idle(f->p));

	f->node.refuse = true;
	e = enqueue(f, "job_2", "q");
	proposer_pump(f->p);
	assert_int_equal(reply_to(f, e)->err, ERR_LEADER_UNAVAILABLE);
}

static void ops_wait_until_the_node_is_ready(void **state)
{
	struct fixture *f = *state;
	struct rpc_req e;

	f->node.ready = false;
	e = enqueue(f, "job_1", "q");
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 0);
	f->node.ready = true;
	pump_and_commit_all(f);
	assert_int_equal(reply_to(f, e)->err, 0);
}

static void drain_answers_waits_and_refuses_new_ones(void **state)
{
	struct fixture *f = *state;
	struct rpc_req w = fetch(f, PEER_A, "q", 30 * NS_PER_S);
	struct rpc_req e;

	proposer_drain(f->p);
	assert_int_equal(jobs_given(f, w), 0);
	e = enqueue(f, "job_1", "q");
	assert_int_equal(reply_to(f, e)->err, ERR_SHUTTING_DOWN);
}

static void stop_when_answered(void *ctx)
{
	struct fixture *f = ctx;

	if (f->replies_n > 0)
		loop_stop(f->loop);
}

static void wait_ends_in_time_and_not_early(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = clock_mono_ns();
	struct rpc_req w = fetch(f, PEER_A, "q", 30 * NS_PER_MS);

	loop_on_turn_end(f->loop, stop_when_answered, f);
	loop_run(f->loop);
	assert_int_equal(jobs_given(f, w), 0);
	assert_true(clock_mono_ns() - begin >= 30 * NS_PER_MS);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(parked_fetch_makes_no_entry),
		CASE(fetch_that_does_not_wait_is_answered_at_once),
		CASE(enqueue_and_its_fetch_share_one_entry),
		CASE(one_job_calls_one_fetch),
		CASE(entry_in_flight_wakes_whoever_came_meanwhile),
		CASE(acks_run_first_and_fetches_last),
		CASE(pipeline_is_bounded_and_gathers),
		CASE(too_many_waiting_ops_are_refused),
		CASE(an_entry_is_crowded_from_16_waiting_ops_on),
		CASE(too_many_parked_fetches_are_refused),
		CASE(full_disk_refuses_writes),
		CASE(nearly_full_disk_takes_what_frees_room),
		CASE(full_disk_takes_nothing),
		CASE(overload_does_not_stop_the_clock),
		CASE(cancelled_wait_gets_no_job),
		CASE(job_of_a_client_that_left_is_given_back),
		CASE(peer_that_goes_takes_its_waits_along),
		CASE(renewals_go_before_a_reclaim),
		CASE(lost_leadership_answers_everybody),
		CASE(ops_wait_until_the_node_is_ready),
		CASE(drain_answers_waits_and_refuses_new_ones),
		CASE(wait_ends_in_time_and_not_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
