/*
 * Leases that heartbeats extended, and reclaims. See proposer_world.h.
 */
#include "proposer_world.h"

#define WORKERS        50
#define SHORT_LEASE_NS (1500 * NS_PER_MS)

static void reclaim(struct fixture *f)
{
	struct m_maintain m = { 0 };

	MSG_SET(&m, maintain, limit, 10);
	submit(f, PEER_A, OP_RECLAIM, &m, "");
}

/* Items of all entries so far, as one text: a word each, an entry a line. */
static const char *log_text(struct fixture *f)
{
	struct buf b = BUF_INIT(0);
	char *text;

	for (size_t i = 0; i < f->node.n; i++) {
		struct entry e = entry_at(f, i);

		for (size_t k = 0; k < e.n; k++)
			buf_printf(&b, "%s%s", k > 0 ? " " : "",
				   op_info(e.items[k].op)->name);
		buf_puts(&b, "\n");
	}
	text = arena_alloc(&f->a, b.n + 1);
	memcpy(text, b.p, b.n);
	text[b.n] = '\0';
	buf_done(&b);
	return text;
}

static void renewals_go_before_a_reclaim(void **state)
{
	struct fixture *f = *state;
	struct m_ack ack = { 0 };

	f->renewals = 1;
	MSG_SET(&ack, ack, job_id, STR("job_1"));
	submit(f, PEER_A, OP_ACK, &ack, "");
	reclaim(f);
	pump_and_commit_all(f);
	assert_string_equal(log_text(f), "renew ack reclaim\n");
}

/* However many there are: the entries stay small, and the reclaim waits. */
static void reclaim_waits_for_the_last_renewal(void **state)
{
	struct fixture *f = *state;

	f->renewals = 3;
	reclaim(f);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	assert_string_equal(log_text(f),
			    "renew\nrenew\nrenew reclaim enqueue\n");
}

static void renewals_alone_make_an_entry(void **state)
{
	struct fixture *f = *state;

	f->renewals = 1;
	pump_and_commit_all(f);
	assert_int_equal(f->node.n, 0);
	proposer_renew(f->p);
	pump_and_commit_all(f);
	assert_string_equal(log_text(f), "renew\n");
	/* made as the entry was: it has waited for no time, not for ages */
	assert_int_equal(proposer_stats(f->p)->queue_time.total, 1);
	assert_true(proposer_stats(f->p)->queue_time.sum_s < 60);
	proposer_renew(f->p); /* a reclaim took them meanwhile */
	pump_and_commit_all(f);
	assert_int_equal(f->node.n, 1);
}

/* --- with the real leases --- */

static void start_workers(struct fixture *f)
{
	char id[16];

	f->leases = leases_new(f->loop, f->fsm, f->p);
	for (int i = 0; i < WORKERS; i++) {
		(void)snprintf(id, sizeof(id), "job_%d", i);
		enqueue(f, id, "q");
		pump_and_commit_all(f);
		fetch(f, PEER_A, "q", 0);
		pump_and_commit_all(f);
	}
	leases_grace(f->leases, 0);
	pump_and_commit_all(f);
}

static void heartbeat_of_all(struct fixture *f)
{
	struct rpc_req req = { .peer = PEER_A, .epoch = 7 };
	struct frame_request item = { .op = OP_HEARTBEAT };
	struct buf body = BUF_INIT(0);

	for (int i = 0; i < WORKERS; i++) {
		struct m_heartbeat m = { 0 };
		struct m_beat b = { 0 };
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		MSG_SET(&b, beat, job_id, str_from(id));
		MSG_SET_LIST(&m, heartbeat, jobs, &b, 1);
		buf_clear(&body);
		msg_encode(&msg_heartbeat, &m, &body);
		item.body = buf_str(&body);
		req.id = ++f->next_id;
		assert_true(leases_heartbeat(f->leases, req, &item));
	}
	buf_done(&body);
}

static void stop_loop(void *ctx)
{
	loop_stop(ctx);
}

/* The timer of the leases was armed before and fires first. */
static void let_the_period_end(struct fixture *f)
{
	struct loop_timer *t = loop_timer_add(f->loop, stop_loop, f->loop);

	loop_timer_arm(t, NS_PER_S + NS_PER_MS);
	loop_run(f->loop);
	loop_timer_remove(t);
}

/*
 * A reclaim waits for its turn; the workers give a sign of life; the second
 * after which that is written down is over before the reclaim's turn comes.
 */
static void waiting_reclaim_does_not_overtake_renewals(void **state)
{
	struct fixture *f = *state;
	const char *text;

	start_workers(f);
	f->s.apply_batch_max = f->s.apply_inflight = 1;
	enqueue(f, "job_first", "q");
	proposer_pump(f->p);
	reclaim(f);
	heartbeat_of_all(f);
	let_the_period_end(f);
	pump_and_commit_all(f);
	text = strstr(log_text(f), "reclaim");
	assert_non_null(text);
	assert_null(strstr(text, "renew"));
	assert_int_equal(leases_renewed(f->leases), WORKERS);
}

/* However many there are: most are acked or renewed before they end. */
static void start_writes_no_renewals(void **state)
{
	struct fixture *f = *state;

	start_workers(f);
	reclaim(f);
	pump_and_commit_all(f);
	assert_null(strstr(log_text(f), "renew"));
}

static void take_for_a_short_time(struct fixture *f)
{
	struct str q = STR("q");
	struct m_fetch m;

	enqueue(f, "job_0", "q");
	pump_and_commit_all(f);
	fill_fetch(&m, &q, 0, 1);
	MSG_SET(&m, fetch, lease_duration, SHORT_LEASE_NS);
	submit(f, PEER_A, OP_FETCH, &m, "q");
	pump_and_commit_all(f);
}

static bool is_held(struct fixture *f)
{
	struct fsm_lease lease;

	return fsm_lease_find(f->fsm, STR("job_0"), &lease);
}

static void wait_for(struct fixture *f, uint64_t at_ns)
{
	struct loop_timer *t = loop_timer_add(f->loop, stop_loop, f->loop);

	while (proposer_now(f->p) <= at_ns) {
		loop_timer_arm(t, at_ns - proposer_now(f->p) + NS_PER_MS);
		loop_run(f->loop);
	}
	loop_timer_remove(t);
}

/*
 * A lease that ended while nobody led lives for one period of the new leader;
 * a worker that is silent for that time too has lost it.
 */
static void lease_that_ended_meanwhile_gets_one_period(void **state)
{
	struct fixture *f = *state;
	struct fsm_lease lease;
	uint64_t began;

	f->leases = leases_new(f->loop, f->fsm, f->p);
	take_for_a_short_time(f);
	assert_true(fsm_lease_find(f->fsm, STR("job_0"), &lease));
	wait_for(f, lease.expires_ns);
	began = proposer_now(f->p);
	leases_grace(f->leases, 0);
	assert_true(leases_end(f->leases, STR("job_0")) >=
		    began + SHORT_LEASE_NS);

	reclaim(f);
	pump_and_commit_all(f);
	assert_non_null(strstr(log_text(f), "renew reclaim"));
	assert_true(fsm_lease_find(f->fsm, STR("job_0"), &lease));
	assert_true(lease.expires_ns >= began + SHORT_LEASE_NS);

	wait_for(f, lease.expires_ns);
	reclaim(f);
	pump_and_commit_all(f);
	assert_false(is_held(f));
	assert_int_equal(leases_end(f->leases, STR("job_0")), 0);
}

/* --- as a node that follows --- */

static void tell(struct fixture *f, const char *id, uint64_t end_ns)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct m_heartbeat_reply m = { 0 };
	struct m_beat_reply b = { 0 };

	MSG_SET(&b, beat_reply, job_id, str_from(id));
	MSG_SET(&b, beat_reply, status, STR("ok"));
	MSG_SET(&b, beat_reply, lease_expires_at, end_ns);
	MSG_SET_LIST(&m, heartbeat_reply, jobs, &b, 1);
	msg_encode(&msg_heartbeat_reply, &m, &body);
	leases_told(f->leases, buf_str(&body));
}

static void what_the_leader_told_is_the_end_of_a_lease(void **state)
{
	struct fixture *f = *state;
	struct fsm_lease lease;

	f->leases = leases_new(f->loop, f->fsm, f->p);
	take_for_a_short_time(f);
	assert_true(fsm_lease_find(f->fsm, STR("job_0"), &lease));
	tell(f, "job_0", lease.expires_ns + NS_PER_S);
	assert_int_equal(leases_end(f->leases, STR("job_0")),
			 lease.expires_ns + NS_PER_S);
	tell(f, "job_0", lease.expires_ns - 1); /* the log has more already */
	assert_int_equal(leases_end(f->leases, STR("job_0")), lease.expires_ns);
	tell(f, "job_none", lease.expires_ns);
	assert_int_equal(leases_end(f->leases, STR("job_none")), 0);
	/* of that lease, and of no later one */
	tell(f, "job_0", lease.expires_ns + 3600 * NS_PER_S);
	wait_for(f, lease.expires_ns);
	reclaim(f);
	pump_and_commit_all(f);
	assert_false(is_held(f));
	assert_int_equal(leases_end(f->leases, STR("job_0")), 0);
	fetch(f, PEER_A, "q", 0);
	pump_and_commit_all(f);
	assert_true(fsm_lease_find(f->fsm, STR("job_0"), &lease));
	assert_int_equal(leases_end(f->leases, STR("job_0")), lease.expires_ns);
	leases_told(f->leases, STR("\xc1 no message"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(renewals_go_before_a_reclaim),
		CASE(reclaim_waits_for_the_last_renewal),
		CASE(renewals_alone_make_an_entry),
		CASE(waiting_reclaim_does_not_overtake_renewals),
		CASE(start_writes_no_renewals),
		CASE(lease_that_ended_meanwhile_gets_one_period),
		CASE(what_the_leader_told_is_the_end_of_a_lease),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
