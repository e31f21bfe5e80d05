/*
 * Entries, waiting fetches and the end of a node. See proposer_world.h; what
 * is admitted is in test_proposer_admit.c.
 */
#include "proposer_world.h"

#include "fsm_break.h"
#include "fsm_level.h"
#include "propose/proposer_impl.h"

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

static void
a_promote_and_the_fetch_of_what_was_due_share_one_entry(void **state)
{
	struct fixture *f = *state;
	struct m_enqueue later = { 0 };
	struct m_maintain m = { 0 };
	struct rpc_req w, other;
	struct entry entry;

	MSG_SET(&later, enqueue, job_id, STR("job_1"));
	MSG_SET(&later, enqueue, queue, STR("q"));
	MSG_SET(&later, enqueue, payload, STR("{}"));
	MSG_SET(&later, enqueue, delay, 1);
	submit(f, PEER_A, OP_ENQUEUE, &later, "q");
	pump_and_commit_all(f);
	w = fetch(f, PEER_A, "q", 30 * NS_PER_S);
	other = fetch(f, PEER_A, "q2", 30 * NS_PER_S);
	submit(f, PEER_A, OP_PROMOTE, &m, "");
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 2);
	entry = entry_at(f, 1);
	assert_int_equal(entry.n, 2);
	assert_int_equal(entry.items[0].op, OP_PROMOTE);
	assert_int_equal(entry.items[1].op, OP_FETCH);
	commit(f);
	assert_int_equal(jobs_given(f, w), 1);
	assert_null(reply_to(f, other));
	assert_int_equal(proposer_stats(f->p)->parked, 1);
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

static void cancelled_wait_gets_no_job(void **state)
{
	struct fixture *f = *state;
	struct rpc_req gone = fetch(f, PEER_A, "q", 30 * NS_PER_S);
	struct rpc_req stays = fetch(f, PEER_A, "q", 30 * NS_PER_S);

	proposer_cancel(f->p, gone);
	assert_int_equal(proposer_stats(f->p)->parked, 1);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	assert_int_equal(jobs_given(f, gone), 0);
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
	assert_int_equal(jobs_given(f, gone), 0);
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

static void lost_leadership_answers_everybody(void **state)
{
	struct fixture *f = *state;
	struct rpc_req e = enqueue(f, "job_1", "q");

	proposer_pump(f->p);
	f->committed = 1;
	f->node.entries[0].done(f->node.entries[0].ctx, -ERR_OUTCOME_UNKNOWN);
	/* the next leader may have the entry */
	assert_int_equal(reply_to(f, e)->err, ERR_OUTCOME_UNKNOWN);
	assert_true(proposer_is_idle(f->p));

	f->node.refuse = true;
	e = enqueue(f, "job_2", "q");
	proposer_pump(f->p);
	assert_int_equal(reply_to(f, e)->err, ERR_LEADER_UNAVAILABLE);
}

/* The first of two was overwritten: what is applied is not what it waits for,
 * and may not answer it. */
static void an_entry_answers_only_those_in_it(void **state)
{
	struct fixture *f = *state;
	struct rpc_req first = enqueue(f, "job_1", "q"), second;

	proposer_pump(f->p);
	second = enqueue(f, "job_2", "q");
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 2);
	assert_int_equal(proposer_apply(f->p, 1, &f->node.entries[1],
					buf_str(&f->node.entries[1].bytes)),
			 0);
	assert_null(reply_to(f, first));
	assert_null(reply_to(f, second)); /* as the log says when it ends */
}

static void lose_leadership(struct fixture *f)
{
	proposer_pump(f->p);
	f->committed = f->node.n;
	f->node.entries[f->node.n - 1].done(f->node.entries[f->node.n - 1].ctx,
					    -ERR_OUTCOME_UNKNOWN);
}

/* A node sends its own again, to whoever leads then: once is enough. */
static void what_is_of_this_node_goes_to_the_next_leader(void **state)
{
	struct fixture *f = *state;
	struct rpc_req own;

	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	(void)fetch(f, PEER_NODE, "q", 0);
	lose_leadership(f);
	assert_int_equal(f->passed_n, 0);
	own = fetch(f, PEER_A, "q", 0);
	lose_leadership(f);
	assert_int_equal(f->passed_n, 1);
	assert_true(rpc_req_is(f->passed, own));
	assert_int_equal(f->replies_n, 1); /* to the enqueue */
}

/* Also a question whether this node leads: the next leader can read it. */
static void question_who_leads_goes_to_the_next_leader(void **state)
{
	struct fixture *f = *state;
	struct rpc_req req = { .peer = PEER_A, .epoch = 7, .id = 77 };

	f->node.voters = 3;
	proposer_fence(f->p, req, 0);
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 1);
	lose_leadership(f);
	assert_int_equal(f->passed_n, 1);
	assert_true(rpc_req_is(f->passed, req));
	req.id++;
	proposer_fence(f->p, req, 0);
	proposer_step_down(f->p);
	assert_int_equal(f->passed_n, 2);
	assert_true(rpc_req_is(f->passed, req));
	assert_int_equal(f->replies_n, 0);
}

static int fenced_err;
static uint64_t fenced_seq;

static void on_fenced(void *ctx, int err, uint64_t seq)
{
	(void)ctx;
	fenced_err = err;
	fenced_seq = seq;
}

/* This node itself is told by an entry as well, or that it does not lead. */
static void node_asks_whether_it_leads(void **state)
{
	struct fixture *f = *state;

	f->node.voters = 3;
	fenced_err = -1;
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	proposer_fence_own(f->p, on_fenced, f);
	proposer_pump(f->p);
	assert_int_equal(fenced_err, -1);
	pump_and_commit_all(f);
	assert_int_equal(fenced_err, 0);
	assert_int_equal(fenced_seq, fsm_last_seq(f->fsm));
	proposer_fence_own(f->p, on_fenced, f);
	proposer_pump(f->p);
	lose_leadership(f);
	assert_int_equal(fenced_err, ERR_LEADER_UNAVAILABLE);
	assert_int_equal(f->passed_n, 0);
}

static void nothing_is_proposed_while_leadership_is_handed_over(void **state)
{
	struct fixture *f = *state;
	struct rpc_req e = enqueue(f, "job_1", "q");

	f->node.handing_over = true;
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 0);
	f->node.handing_over = false; /* nobody took it */
	pump_and_commit_all(f);
	assert_int_equal(reply_to(f, e)->err, 0);
}

static int setup_with_others(void **state)
{
	int r;

	has_others = true;
	r = setup(state);
	has_others = false;
	return r;
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

static size_t answers_to(struct fixture *f, struct rpc_req req)
{
	size_t n = 0;

	for (size_t i = 0; i < f->replies_n; i++)
		n += f->replies[i].req.id == req.id;
	return n;
}

/* What an entry has no room for comes first in the next one. */
static void ops_an_entry_has_no_room_for_are_proposed_again(void **state)
{
	struct fixture *f = *state;
	struct rpc_req e[20];
	struct entry second;

	fsm_set_budget(f->fsm, 2000);
	for (int i = 0; i < 20; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%02d", i);
		e[i] = enqueue(f, id, "q");
	}
	proposer_pump(f->p);
	assert_int_equal(entry_at(f, 0).n, 20);
	commit(f);
	assert_in_range(f->replies_n, 1, 19);
	for (size_t i = 0; i < 20; i++) /* in order, each at most once */
		assert_int_equal(answers_to(f, e[i]), i < f->replies_n);
	proposer_pump(f->p);
	second = entry_at(f, 1);
	assert_in_range(second.n, 1, f->replies_n); /* it has learnt */
	pump_and_commit_all(f);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(answers_to(f, e[i]), 1);
		assert_int_equal(reply_to(f, e[i])->err, 0);
	}
	assert_int_equal(proposer_stats(f->p)->pending, 0);
	assert_true(proposer_is_idle(f->p));
}

/* A batch that takes several entries is answered once, as a whole. */
/* Acks of 20 jobs, of which one entry has room for some. */
static struct rpc_req begin_acks(struct fixture *f, uint64_t deadline_ns)
{
	struct m_ack_item acks[20] = { 0 };
	struct m_ack_batch m = { 0 };
	char ids[20][16];
	struct rpc_req req;

	for (int i = 0; i < 20; i++) {
		(void)snprintf(ids[i], sizeof(ids[i]), "job_%02d", i);
		enqueue(f, ids[i], "q");
		fetch(f, PEER_A, "q", 0);
		MSG_SET(&acks[i], ack_item, job_id, str_from(ids[i]));
	}
	pump_and_commit_all(f);
	for (int i = 0; i < 20; i++)
		fetch(f, PEER_A, "q", 0);
	pump_and_commit_all(f);
	fsm_set_budget(f->fsm, 2000);
	MSG_SET_LIST(&m, ack_batch, acks, acks, 20);
	f->deadline_ns = deadline_ns;
	req = submit(f, PEER_A, OP_ACK_BATCH, &m, "");
	proposer_pump(f->p);
	commit(f);
	assert_int_equal(answers_to(f, req), 0);
	assert_int_equal(proposer_stats(f->p)->pending, 1);
	return req;
}

static void all_are_acked(struct fixture *f, struct rpc_req req)
{
	struct m_ack_batch_reply r;

	assert_int_equal(answers_to(f, req), 1);
	assert_int_equal(reply_to(f, req)->err, 0);
	assert_int_equal(msg_decode(&msg_ack_batch_reply,
				    buf_str(&reply_to(f, req)->body), &f->a,
				    &r),
			 0);
	assert_int_equal(r.acked, 20);
	assert_int_equal(r.refused_n, 0);
}

static void a_batch_of_acks_over_several_entries_is_one_answer(void **state)
{
	struct fixture *f = *state;
	struct rpc_req req = begin_acks(f, 0);

	pump_and_commit_all(f);
	all_are_acked(f, req);
}

/* Some of it was done: to withdraw or refuse the rest would be to say that
 * nothing was. */
static void what_is_done_in_part_is_not_refused(void **state)
{
	struct fixture *f = *state;
	struct rpc_req req = begin_acks(f, clock_mono_ns() + 600 * NS_PER_S);
	const struct op *rest = list_entry(f->p->pending.next, struct op, node);

	assert_int_equal(rest->deadline_ns, 0);
	f->node.refuse = true;
	proposer_pump(f->p);
	assert_int_equal(answers_to(f, req), 1);
	assert_int_equal(reply_to(f, req)->err, ERR_OUTCOME_UNKNOWN);
}

/* A check fails in the second part: only that is undone. */
static void what_is_undone_in_part_is_not_undone(void **state)
{
	struct fixture *f = *state;
	struct m_budget m = { 0 };
	struct rpc_req req;

	test_set_level(f->fsm, 2); /* jobs say what they will cost */
	MSG_SET(&m, budget, scope, BUDGET_QUEUE);
	MSG_SET(&m, budget, target, STR("q"));
	MSG_SET(&m, budget, on_exceed, BUDGET_ALERT);
	MSG_SET(&m, budget, daily_usd, NS_PER_S);
	(void)submit(f, PEER_A, OP_SET_BUDGET, &m, "");
	pump_and_commit_all(f);
	f->expected_cost = 4 * NS_PER_S;
	req = begin_acks(f, 0);
	fsm_break_budget(f->fsm, STR("q"));
	pump_and_commit_all(f);
	assert_int_equal(answers_to(f, req), 1);
	assert_int_equal(reply_to(f, req)->err, ERR_OUTCOME_UNKNOWN);
	assert_true(fsm_counters(f->fsm)->undone > 0);
}

#define MANY 100
#define MIB  (1u << 20)

static void enqueue_many(struct fixture *f)
{
	static char payload[2048];

	memset(payload, '1', sizeof(payload));
	for (int i = 0; i < MANY; i++) {
		struct m_enqueue m = { 0 };
		char id[32];

		(void)snprintf(id, sizeof(id), "job_%zu_%d", f->node.n, i);
		MSG_SET(&m, enqueue, job_id, str_from(id));
		MSG_SET(&m, enqueue, queue, STR("q"));
		MSG_SET(&m, enqueue, payload, str_of(payload, sizeof(payload)));
		(void)submit(f, PEER_A, OP_ENQUEUE, &m, "q");
	}
	proposer_pump(f->p);
}

/* The last ones cost so much that few of them fit into a moment. */
static void an_entry_holds_what_takes_a_moment(void **state)
{
	struct fixture *f = *state;
	size_t n;

	for (int i = 0; i < 50; i++)
		weight_took(&f->p->weight, MIB, 400 * NS_PER_MS);
	n = f->node.n;
	enqueue_many(f);
	assert_in_range(entry_at(f, n).n, 10, MANY - 1);
	pump_and_commit_all(f);
	assert_int_equal(proposer_stats(f->p)->pending, 0);
	/* what is small says nothing of what is large */
	weight_took(&f->p->weight, 100, 1);
	assert_true(f->p->weight.most < MIB);
	for (int i = 0; i < 100; i++)
		weight_took(&f->p->weight, MIB, NS_PER_MS);
	n = f->node.n;
	enqueue_many(f);
	assert_int_equal(entry_at(f, n).n, MANY);
	pump_and_commit_all(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(parked_fetch_makes_no_entry),
		CASE(fetch_that_does_not_wait_is_answered_at_once),
		CASE(enqueue_and_its_fetch_share_one_entry),
		CASE(a_promote_and_the_fetch_of_what_was_due_share_one_entry),
		CASE(one_job_calls_one_fetch),
		CASE(entry_in_flight_wakes_whoever_came_meanwhile),
		CASE(acks_run_first_and_fetches_last),
		CASE(pipeline_is_bounded_and_gathers),
		CASE(cancelled_wait_gets_no_job),
		CASE(job_of_a_client_that_left_is_given_back),
		CASE(peer_that_goes_takes_its_waits_along),
		CASE(lost_leadership_answers_everybody),
		CASE(an_entry_answers_only_those_in_it),
		cmocka_unit_test_setup_teardown(
		    what_is_of_this_node_goes_to_the_next_leader,
		    setup_with_others, teardown),
		cmocka_unit_test_setup_teardown(
		    question_who_leads_goes_to_the_next_leader,
		    setup_with_others, teardown),
		cmocka_unit_test_setup_teardown(node_asks_whether_it_leads,
						setup_with_others, teardown),
		CASE(nothing_is_proposed_while_leadership_is_handed_over),
		CASE(ops_wait_until_the_node_is_ready),
		CASE(drain_answers_waits_and_refuses_new_ones),
		CASE(ops_an_entry_has_no_room_for_are_proposed_again),
		CASE(a_batch_of_acks_over_several_entries_is_one_answer),
		CASE(what_is_done_in_part_is_not_refused),
		CASE(what_is_undone_in_part_is_not_undone),
		CASE(an_entry_holds_what_takes_a_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
