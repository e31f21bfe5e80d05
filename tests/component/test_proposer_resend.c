/*
 * Fetches that are sent again because their link or raftd went away. See
 * proposer_world.h.
 */
#include "proposer_world.h"

#define FETCH_ID 77
#define WAIT_NS  (30 * NS_PER_S)

static struct rpc_req first_try(struct fixture *f)
{
	return fetch_named(f, PEER_A, FETCH_ID, WAIT_NS, 0);
}

/* The link is lost, and the fetch comes again by another. */
static struct rpc_req second_try(struct fixture *f, uint64_t wait_ns)
{
	if (dead_peer == NULL) {
		dead_peer = PEER_A;
		proposer_peer_down(f->p, PEER_A);
	}
	return fetch_named(f, PEER_B, FETCH_ID, wait_ns, FRAME_RESEND);
}

/* The job of an answer, decoded. */
static struct m_fetched job_given(struct fixture *f, struct rpc_req req)
{
	struct seen_reply *r = reply_to(f, req);
	struct m_fetch_reply m;

	assert_non_null(r);
	assert_int_equal(r->err, 0);
	assert_int_equal(
	    msg_decode(&msg_fetch_reply, buf_str(&r->body), &f->a, &m), 0);
	assert_int_equal(m.jobs_n, 1);
	return m.jobs[0];
}

/* What is left in the queue; -1: nobody was answered. */
static int take_one(struct fixture *f)
{
	struct rpc_req r = fetch_named(f, PEER_B, 1, 0, 0);

	pump_and_commit_all(f);
	return jobs_given(f, r);
}

static int ack_by(struct fixture *f, const struct m_fetched *j)
{
	struct m_ack m = { 0 };
	struct rpc_req r;

	MSG_SET(&m, ack, job_id, j->job_id);
	MSG_SET(&m, ack, lease_token, j->lease_token);
	r = submit(f, PEER_B, OP_ACK, &m, "");
	pump_and_commit_all(f);
	return reply_to(f, r)->err;
}

static void resent_fetch_that_holds_nothing_makes_no_entry(void **state)
{
	struct fixture *f = *state;
	struct rpc_req r = second_try(f, WAIT_NS);

	pump_and_commit_all(f);
	assert_int_equal(f->node.n, 0);
	assert_int_equal(proposer_stats(f->p)->parked, 1);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	assert_int_equal(jobs_given(f, r), 1);
}

static void ten_thousand_resent_fetches_are_not_too_many(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 10000; i++)
		(void)fetch_named(f, PEER_A, 1000 + (uint64_t)i, WAIT_NS,
				  FRAME_RESEND);
	assert_int_equal(f->replies_n, 0);
	assert_int_equal(proposer_stats(f->p)->parked, 10000);
	proposer_peer_down(f->p, PEER_A);
}

/* Answered, but the answer never arrived. */
static void resent_fetch_gets_what_it_was_given(void **state)
{
	struct fixture *f = *state;
	struct m_fetched old, new;
	struct rpc_req r;

	enqueue(f, "job_1", "q");
	enqueue(f, "job_2", "q");
	pump_and_commit_all(f);
	r = first_try(f);
	pump_and_commit_all(f);
	old = job_given(f, r);
	r = second_try(f, WAIT_NS);
	pump_and_commit_all(f);
	new = job_given(f, r);
	assert_true(str_eq(new.job_id, old.job_id));
	assert_int_equal(ack_by(f, &old), ERR_LEASE_LOST);
	assert_int_equal(ack_by(f, &new), 0);
}

/*
 * The first try is on its way through the log when its link goes; what it gets
 * is given back, while the second try waits or is on its way, too.
 */
static void expect_one_holder(struct fixture *f, int jobs)
{
	struct m_fetched j;
	struct rpc_req r;
	char id[16];

	for (int i = 0; i < jobs; i++) {
		(void)snprintf(id, sizeof(id), "job_%d", i);
		enqueue(f, id, "q");
	}
	pump_and_commit_all(f);
	first_try(f);
	proposer_pump(f->p);
	r = second_try(f, WAIT_NS);
	proposer_pump(f->p);
	pump_and_commit_all(f);
	j = job_given(f, r);
	for (int i = 1; i < jobs; i++)
		assert_int_equal(take_one(f), 1);
	assert_int_equal(take_one(f), 0);
	assert_int_equal(ack_by(f, &j), 0);
}

static void job_of_a_lost_answer_has_one_holder(void **state)
{
	expect_one_holder(*state, 1);
}

static void job_of_a_lost_answer_has_one_holder_among_others(void **state)
{
	expect_one_holder(*state, 2);
}

/* What a raftd that was killed left in its log. */
static void replay_first_try(struct fixture *f, uint64_t index)
{
	struct buf entry = BUF_INIT(0), job = BUF_INIT(0), ask = BUF_INIT(0);
	struct frame_writer w;
	struct m_enqueue e = { 0 };
	struct str q = STR("q");
	struct m_fetch m;

	MSG_SET(&e, enqueue, job_id, STR("job_1"));
	MSG_SET(&e, enqueue, queue, q);
	msg_encode(&msg_enqueue, &e, &job);
	fill_fetch(&m, &q, WAIT_NS, FETCH_ID);
	msg_encode(&msg_fetch, &m, &ask);
	entry_begin(&w, &entry, clock_wall_ns(), 1);
	entry_add(&w, &(struct entry_item){ .op = OP_ENQUEUE,
					    .body = buf_str(&job) });
	entry_add(
	    &w, &(struct entry_item){ .op = OP_FETCH, .body = buf_str(&ask) });
	entry_end(&w);
	assert_int_equal(proposer_apply(f->p, index, NULL, buf_str(&entry)), 0);
	buf_done(&entry);
	buf_done(&job);
	buf_done(&ask);
}

/* It comes before the new raftd has read what the first try was given. */
static void expect_replayed_job(struct fixture *f, uint64_t wait_ns)
{
	struct rpc_req r;

	f->node.ready = false;
	r = second_try(f, wait_ns);
	proposer_pump(f->p);
	assert_int_equal(jobs_given(f, r), -1);
	replay_first_try(f, ++f->node.n);
	f->committed = f->node.n;
	f->node.ready = true;
	pump_and_commit_all(f);
	assert_int_equal(jobs_given(f, r), 1);
}

static void fetch_resent_during_replay_gets_what_it_was_given(void **state)
{
	expect_replayed_job(*state, WAIT_NS);
}

static void fetch_that_does_not_wait_gets_it_too(void **state)
{
	expect_replayed_job(*state, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(resent_fetch_that_holds_nothing_makes_no_entry),
		CASE(resent_fetch_gets_what_it_was_given),
		CASE(job_of_a_lost_answer_has_one_holder),
		CASE(job_of_a_lost_answer_has_one_holder_among_others),
		CASE(fetch_resent_during_replay_gets_what_it_was_given),
		CASE(fetch_that_does_not_wait_gets_it_too),
		CASE(ten_thousand_resent_fetches_are_not_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
