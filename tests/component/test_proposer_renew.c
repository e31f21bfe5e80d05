/*
 * Leases that heartbeats extended, and reclaims. See proposer_world.h.
 */
#include "proposer_world.h"

#include "propose/proposer_impl.h"
#include "util/clock.h"

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
	const char *text;

	for (size_t i = 0; i < f->node.n; i++) {
		struct entry e = entry_at(f, i);

		for (size_t k = 0; k < e.n; k++)
			buf_printf(&b, "%s%s", k > 0 ? " " : "",
				   op_info(e.items[k].op)->name);
		buf_puts(&b, "\n");
	}
	text = arena_cstr(&f->a, buf_str(&b));
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
	leases_lead(f->leases, 0);
	pump_and_commit_all(f);
}

/* True: it was answered, and does not go into the log. */
static bool heartbeat_is_answered(struct fixture *f, const char *id)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct rpc_req req = { .peer = PEER_A, .epoch = 7 };
	struct frame_request item = { .op = OP_HEARTBEAT };
	struct m_heartbeat m = { 0 };
	struct m_beat b = { 0 };

	MSG_SET(&b, beat, job_id, str_from(id));
	MSG_SET_LIST(&m, heartbeat, jobs, &b, 1);
	msg_encode(&msg_heartbeat, &m, &body);
	item.body = buf_str(&body);
	req.id = ++f->next_id;
	return leases_heartbeat(f->leases, req, &item);
}

static void heartbeat(struct fixture *f, const char *id)
{
	assert_true(heartbeat_is_answered(f, id));
}

static void heartbeat_of_all(struct fixture *f)
{
	char id[16];

	for (int i = 0; i < WORKERS; i++) {
		(void)snprintf(id, sizeof(id), "job_%d", i);
		heartbeat(f, id);
	}
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

static size_t count_in_log(struct fixture *f, const char *word)
{
	size_t n = 0;

	for (const char *at = log_text(f); (at = strstr(at, word)) != NULL;
	     at += strlen(word))
		n++;
	return n;
}

#define MANY_QUEUES  LIMIT_FETCH_QUEUES
#define MANY_WORKERS 100

/* What a worker is written with may be large: then an op has fewer of them. */
static void renewals_of_workers_with_many_queues_are_several_ops(void **state)
{
	struct fixture *f = *state;
	static char names[MANY_QUEUES][LIMIT_QUEUE_NAME_BYTES + 1];
	struct str queues[MANY_QUEUES];
	char id[16], worker[16];

	for (size_t i = 0; i < MANY_QUEUES; i++) {
		memset(names[i], 'x', LIMIT_QUEUE_NAME_BYTES);
		(void)snprintf(names[i], sizeof(names[i]), "%zu", i);
		names[i][strlen(names[i])] = 'x';
		queues[i] = str_of(names[i], LIMIT_QUEUE_NAME_BYTES);
	}
	f->leases = leases_new(f->loop, f->fsm, f->p);
	for (int i = 0; i < MANY_WORKERS; i++) {
		(void)snprintf(id, sizeof(id), "job_%d", i);
		enqueue(f, id, "q");
	}
	pump_and_commit_all(f);
	queues[0] = STR("q");
	for (int i = 0; i < MANY_WORKERS; i++) {
		struct m_fetch m;

		(void)snprintf(worker, sizeof(worker), "w%d", i);
		fill_fetch(&m, queues, 0, 0);
		MSG_SET_LIST(&m, fetch, queues, queues, MANY_QUEUES);
		MSG_SET(&m, fetch, worker_id, str_from(worker));
		submit(f, PEER_A, OP_FETCH, &m, "q");
	}
	pump_and_commit_all(f);
	leases_lead(f->leases, 0);
	for (int i = 0; i < MANY_WORKERS; i++) {
		(void)snprintf(id, sizeof(id), "job_%d", i);
		heartbeat(f, id);
	}
	proposer_renew(f->p);
	pump_and_commit_all(f);
	assert_int_equal(count_in_log(f, "renew"), 2);
	assert_int_equal(leases_renewed(f->leases), MANY_WORKERS);
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

/* As sched asks for it, which looks every now and then. */
static void reclaim_when_due(struct fixture *f)
{
	struct fsm_lease lease;

	assert_true(fsm_lease_find(f->fsm, STR("job_0"), &lease));
	wait_for(f, MIN(proposer_now(f->p) + 5 * NS_PER_MS, lease.expires_ns));
	if (lease.expires_ns > proposer_now(f->p))
		return;
	reclaim(f);
	pump_and_commit_all(f);
}

/*
 * The log is slow: a reclaim is on its way when the worker speaks, too late.
 * Told that all is well, it would go on while another one gets the job.
 */
static void heartbeat_behind_a_reclaim_asks_the_log(void **state)
{
	struct fixture *f = *state;
	struct fsm_lease lease;

	f->leases = leases_new(f->loop, f->fsm, f->p);
	take_for_a_short_time(f);
	assert_true(fsm_lease_find(f->fsm, STR("job_0"), &lease));
	wait_for(f, lease.expires_ns - SHORT_LEASE_NS / 2);
	heartbeat(f, "job_0");
	wait_for(f, lease.expires_ns);
	reclaim(f); /* what was said before goes with it */
	pump_and_commit_all(f);
	assert_true(fsm_lease_find(f->fsm, STR("job_0"), &lease));

	wait_for(f, lease.expires_ns);
	reclaim(f);
	proposer_pump(f->p);
	assert_false(heartbeat_is_answered(f, "job_0"));
	pump_and_commit_all(f);
	assert_false(is_held(f));
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
	leases_lead(f->leases, 0);
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

/*
 * What a worker said when this node led before is no reason to leave out the
 * grace: it may have spoken to another leader since.
 */
static void second_leadership_gives_grace_again(void **state)
{
	struct fixture *f = *state;
	struct fsm_lease lease;
	uint64_t began;

	f->leases = leases_new(f->loop, f->fsm, f->p);
	take_for_a_short_time(f);
	leases_lead(f->leases, 0);
	heartbeat(f, "job_0");
	leases_lead_no_more(f->leases);
	wait_for(f, proposer_now(f->p) + SHORT_LEASE_NS / 2);
	began = proposer_now(f->p);
	leases_lead(f->leases, 0);
	assert_true(leases_end(f->leases, STR("job_0")) >=
		    began + SHORT_LEASE_NS);
	wait_for(f, began + SHORT_LEASE_NS / 2);
	reclaim(f);
	pump_and_commit_all(f);
	assert_true(is_held(f));
	assert_true(fsm_lease_find(f->fsm, STR("job_0"), &lease));
	assert_true(lease.expires_ns >= began + SHORT_LEASE_NS);
}

/* The leader before may have answered while this one did, too. */
static void early_heartbeat_does_not_shorten_the_grace(void **state)
{
	struct fixture *f = *state;
	uint64_t began;

	f->leases = leases_new(f->loop, f->fsm, f->p);
	take_for_a_short_time(f);
	began = proposer_now(f->p);
	leases_lead(f->leases, SHORT_LEASE_NS);
	heartbeat(f, "job_0");
	assert_true(leases_end(f->leases, STR("job_0")) >=
		    began + 2 * SHORT_LEASE_NS);
	proposer_renew(f->p);
	pump_and_commit_all(f);
	while (is_held(f))
		reclaim_when_due(f);
	assert_true(proposer_now(f->p) >= began + 2 * SHORT_LEASE_NS);
}

/* --- while the wall clock is set --- */

#define JUMPS   3 /* each less than what counts as a step */
#define JUMP_NS (300 * NS_PER_MS)
#define LOOK_NS (100 * NS_PER_MS) /* so often, as if it were a second */
#define READ_NS (2 * NS_PER_MS)   /* both clocks are read no better than that */

static void begin_to_lead(struct fixture *f)
{
	f->leases = leases_new(f->loop, f->fsm, f->p);
	proposer_pump(f->p); /* time begins */
	loop_timer_disarm(f->p->clock_look);
	leases_lead(f->leases, 0);
}

static void wait_until(struct fixture *f, uint64_t mono_ns)
{
	while (clock_mono_ns() < mono_ns)
		wait_for(f, proposer_now(f->p) + NS_PER_MS);
}

/* The wall clock is set, again and again. */
static void jump(struct fixture *f, uint64_t by_ns)
{
	uint64_t began = clock_mono_ns(), wall, mono;

	for (uint64_t n = 1; n <= JUMPS; n++) {
		wait_until(f, began + n * LOOK_NS);
		clock_both_ns(&wall, &mono);
		assert_false(
		    wallclock_look(&f->p->clock, wall + n * by_ns, mono));
	}
}

static void small_steps_forward_do_not_shorten_a_lease(void **state)
{
	struct fixture *f = *state;
	uint64_t began;

	begin_to_lead(f);
	/* what a new leader gives to all of them is over */
	wait_until(f, clock_mono_ns() + JUMPS * JUMP_NS);
	began = clock_mono_ns();
	take_for_a_short_time(f);
	jump(f, JUMP_NS);
	while (is_held(f))
		reclaim_when_due(f);
	assert_true(clock_mono_ns() - began + READ_NS >= SHORT_LEASE_NS);
}

/*
 * By as much as the clock was set, once: what is written down then tells its
 * begin by the clock that there is now, and not by the one that was.
 */
static void a_step_forward_is_given_once(void **state)
{
	struct fixture *f = *state;
	uint64_t wall, mono, began;

	begin_to_lead(f);
	wait_until(f, clock_mono_ns() + LOOK_NS);
	began = clock_mono_ns();
	take_for_a_short_time(f);
	wait_until(f, began + SHORT_LEASE_NS / 3 * 2);
	clock_both_ns(&wall, &mono);
	assert_false(wallclock_look(&f->p->clock, wall + JUMP_NS, mono));
	while (is_held(f))
		reclaim_when_due(f);
	assert_true(clock_mono_ns() - began + READ_NS >= SHORT_LEASE_NS);
	assert_int_equal(count_in_log(f, "renew"), 1);
}

/* Time does not stand still for as long as the clock was set back. */
static void small_steps_back_do_not_lengthen_a_lease(void **state)
{
	struct fixture *f = *state;
	struct fsm_lease lease;

	begin_to_lead(f);
	jump(f, -JUMP_NS);
	take_for_a_short_time(f);
	assert_true(fsm_lease_find(f->fsm, STR("job_0"), &lease));
	/* that is when entries will have come to its end */
	assert_true(lease.expires_ns - f->p->clock.offset <
		    clock_mono_ns() + SHORT_LEASE_NS + JUMP_NS / 2);
}

/* What was asked for before the clock was set is not answered by both. */
static void reclaim_finds_nothing_while_leases_move(void **state)
{
	struct fixture *f = *state;
	struct seen_reply *r;
	struct rpc_req req;
	struct m_maintain m = { 0 };
	struct m_maintain_reply reply;

	f->leases = leases_new(f->loop, f->fsm, f->p);
	take_for_a_short_time(f);
	wait_for(f, proposer_now(f->p) + SHORT_LEASE_NS);
	f->p->step =
	    (struct wallclock_step){ proposer_now(f->p),
				     proposer_now(f->p) + 60 * NS_PER_S };
	f->p->step_due = true;
	req = submit(f, PEER_A, OP_RECLAIM, &m, "");
	pump_and_commit_all(f);
	assert_string_equal(strstr(log_text(f), "clock_set"), "clock_set\n");
	r = reply_to(f, req);
	assert_non_null(r);
	assert_int_equal(r->err, 0);
	assert_int_equal(
	    msg_decode(&msg_maintain_reply, buf_str(&r->body), &f->a, &reply),
	    0);
	assert_int_equal(reply.count, 0);
	assert_true(is_held(f));
}

/* It could not be logged then. By now the clock is another one. */
static void a_step_of_an_earlier_lead_is_not_logged(void **state)
{
	struct fixture *f = *state;

	pump_and_commit_all(f);
	f->node.handing_over = true;
	f->p->step =
	    (struct wallclock_step){ proposer_now(f->p),
				     proposer_now(f->p) + 60 * NS_PER_S };
	f->p->step_due = true;
	proposer_pump(f->p);
	f->node.ready = f->node.handing_over = false;
	proposer_pump(f->p);
	f->node.ready = true;
	pump_and_commit_all(f);
	assert_int_equal(count_in_log(f, "clock_set"), 0);
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
		CASE(renewals_of_workers_with_many_queues_are_several_ops),
		CASE(heartbeat_behind_a_reclaim_asks_the_log),
		CASE(lease_that_ended_meanwhile_gets_one_period),
		CASE(second_leadership_gives_grace_again),
		CASE(early_heartbeat_does_not_shorten_the_grace),
		CASE(small_steps_forward_do_not_shorten_a_lease),
		CASE(a_step_forward_is_given_once),
		CASE(small_steps_back_do_not_lengthen_a_lease),
		CASE(reclaim_finds_nothing_while_leases_move),
		CASE(a_step_of_an_earlier_lead_is_not_logged),
		CASE(what_the_leader_told_is_the_end_of_a_lease),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
