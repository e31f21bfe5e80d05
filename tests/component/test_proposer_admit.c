/*
 * What the proposer takes when there is much to do or little room on the disk.
 * See proposer_world.h.
 */
#include "fsm_level.h"
#include "lib/testlib.h"
#include "proposer_world.h"
#include "rt/file.h"
#include "rt/room.h"

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

/* Not all voters could apply it. */
static void an_op_above_the_feature_level_is_refused(void **state)
{
	struct fixture *f = *state;
	struct seen_reply *r;

	test_set_level(f->fsm, 0);
	r = reply_to(f, enqueue(f, "job_1", "q"));
	assert_int_equal(r->err, ERR_UNSUPPORTED);
	assert_str_is(buf_str(&r->body),
		      "this needs feature level 1; the cluster uses 0 until "
		      "all its nodes are known to know more: try again");
	test_set_level(f->fsm, 1);
	assert_null(reply_to(f, enqueue(f, "job_2", "q")));
}

/* Nor one with a member that not all of them know. */
static void a_member_above_the_feature_level_is_refused(void **state)
{
	struct fixture *f = *state;
	struct m_usage usage = { 0 };
	struct m_ack_item item = { 0 };
	struct m_ack_batch batch = { 0 };
	struct m_ack plain = { 0 };
	struct seen_reply *r;

	MSG_SET(&usage, usage, input_tokens, 5);
	MSG_SET(&item, ack_item, job_id, STR("job_1"));
	MSG_SET_LIST(&batch, ack_batch, acks, &item, 1);
	MSG_SET(&plain, ack, job_id, STR("job_1"));
	test_set_level(f->fsm, 1);
	assert_null(reply_to(f, submit(f, PEER_A, OP_ACK, &plain, "")));
	assert_null(reply_to(f, submit(f, PEER_A, OP_ACK_BATCH, &batch, "")));
	MSG_SET(&item, ack_item, usage, &usage);
	r = reply_to(f, submit(f, PEER_A, OP_ACK_BATCH, &batch, ""));
	assert_int_equal(r->err, ERR_UNSUPPORTED);
	assert_str_is(buf_str(&r->body),
		      "this needs feature level 2; the cluster uses 1 until "
		      "all its nodes are known to know more: try again");
	test_set_level(f->fsm, 2);
	assert_null(reply_to(f, submit(f, PEER_A, OP_ACK_BATCH, &batch, "")));
}

/* How a duration was given is worth no refusal. */
static void below_its_level_an_op_goes_without_what_it_may_lack(void **state)
{
	struct str ids[] = { STR("job_1"), STR("job_2") };
	struct fixture *f = *state;
	struct m_enqueue m = { 0 };
	struct m_job job;

	for (unsigned level = 1; level <= 2; level++) {
		MSG_SET(&m, enqueue, job_id, ids[level - 1]);
		MSG_SET(&m, enqueue, queue, STR("q"));
		MSG_SET(&m, enqueue, expire_after, 5 * NS_PER_S);
		MSG_SET(&m, enqueue, as_numbers, DUR_EXPIRE_AFTER);
		test_set_level(f->fsm, level);
		assert_null(reply_to(f, submit(f, PEER_A, OP_ENQUEUE, &m, "")));
		pump_and_commit_all(f);
		assert_int_equal(record_job(f->kv, m.job_id, 0, &f->a, &job),
				 1);
		assert_str_is(job.queue, "q");
		assert_int_equal(job.expire_after, 5 * NS_PER_S);
		assert_int_equal(MSG_HAS(&job, job, as_numbers), level == 2);
	}
}

/* In the log it would stop every node that cannot read it. */
static void what_cannot_be_read_never_gets_into_the_log(void **state)
{
	struct fixture *f = *state;
	struct m_enqueue m = { 0 };
	struct seen_reply *r;

	MSG_SET(&m, enqueue, job_id, STR("job_1"));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, priority, 77);
	r = reply_to(f, submit(f, PEER_A, OP_ENQUEUE, &m, ""));
	assert_int_equal(r->err, ERR_BAD_MESSAGE);
	assert_str_is(buf_str(&r->body), "the operation could not be read");
	assert_int_equal(proposer_stats(f->p)->pending, 0);
	assert_null(reply_to(f, enqueue(f, "job_2", "q")));
	pump_and_commit_all(f);
}

static struct rpc_req maintain(struct fixture *f, unsigned op)
{
	static const struct m_maintain m;

	return submit(f, PEER_A, op, &m, "");
}

static bool is_taken(struct fixture *f, const char *id)
{
	struct seen_reply *r = reply_to(f, enqueue(f, id, "q"));

	if (r != NULL)
		assert_int_equal(r->err, ERR_OVERLOADED);
	return r == NULL;
}

/* Of one enqueue; all of this file are equally long. */
static uint64_t enqueue_bytes(struct fixture *f)
{
	uint64_t n;

	assert_true(is_taken(f, "job_0"));
	n = proposer_stats(f->p)->pending_bytes;
	pump_and_commit_all(f);
	assert_int_equal(proposer_stats(f->p)->pending_bytes, 0);
	return n;
}

static void ops_weigh_until_they_are_applied(void **state)
{
	struct fixture *f = *state;

	f->s.raft_max_pending_bytes = 2 * enqueue_bytes(f) - 1;
	assert_true(is_taken(f, "job_1"));
	assert_false(is_taken(f, "job_2"));
	proposer_pump(f->p);
	assert_false(is_taken(f, "job_3")); /* in an entry, and in memory */
	commit(f);
	assert_true(is_taken(f, "job_4"));
	pump_and_commit_all(f);
}

static void the_log_in_memory_weighs_too(void **state)
{
	struct fixture *f = *state;

	f->s.raft_max_pending_bytes = 1000;
	f->node.log_bytes = 1000 - 2 * enqueue_bytes(f);
	assert_true(is_taken(f, "job_1"));
	f->node.log_bytes++;
	assert_false(is_taken(f, "job_2"));
	assert_null(reply_to(f, maintain(f, OP_RECLAIM)));
	f->node.log_bytes = 100;
	assert_true(is_taken(f, "job_3"));
}

/* Nothing would ever make room for it. */
static void a_heavy_op_that_is_alone_is_taken(void **state)
{
	struct fixture *f = *state;

	f->s.raft_max_pending_bytes = 1;
	assert_true(is_taken(f, "job_1"));
	assert_false(is_taken(f, "job_2"));
	pump_and_commit_all(f);
	f->node.cut_is_due = true; /* this will */
	assert_false(is_taken(f, "job_3"));
	f->node.cut_is_due = false;
	assert_true(is_taken(f, "job_4"));
}

/* Everything may be refused until the log is cut: nobody else cuts it. */
static void a_log_that_waits_to_be_cut_gets_an_entry(void **state)
{
	struct fixture *f = *state;

	proposer_pump(f->p);
	assert_int_equal(f->node.n, 0);
	f->node.cut_is_due = f->node.wants_entry = true;
	f->s.raft_max_pending_bytes = 1;
	assert_false(is_taken(f, "job_1"));
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 1);
	assert_int_equal(entry_at(f, 0).n, 0);
	commit(f);
	assert_true(proposer_is_idle(f->p));
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

/* Of as many queues as a fetch may name; nobody else asks for those. */
static struct rpc_req fetch_of_many(struct fixture *f, struct rpc_peer *peer)
{
	struct str names[LIMIT_FETCH_QUEUES];
	struct m_fetch m;

	for (unsigned i = 0; i < LIMIT_FETCH_QUEUES; i++)
		names[i] = arena_printf(&f->a, "%llu-%u",
					(unsigned long long)f->next_id, i);
	fill_fetch(&m, names, 30 * NS_PER_S, f->next_id + 1000);
	m.queues_n = LIMIT_FETCH_QUEUES;
	return submit(f, peer, OP_FETCH, &m, "many");
}

/* They are a hundred times as large as others. */
static void parked_fetches_of_many_queues_are_bounded_in_bytes(void **state)
{
	struct fixture *f = *state;
	uint64_t parked;

	f->s.raft_max_pending_bytes = 512 << 10;
	for (unsigned n = 0; n < 32; n++)
		fetch_of_many(f, PEER_A);
	parked = proposer_stats(f->p)->parked;
	assert_in_range(parked, 3, 16);
	assert_int_equal(proposer_stats(f->p)->fetch_overload, 32 - parked);
	for (unsigned n = 0; n < 32; n++)
		fetch(f, PEER_B, "q", 30 * NS_PER_S);
	assert_int_equal(proposer_stats(f->p)->parked, parked + 32);
	proposer_peer_down(f->p, PEER_A);
	assert_int_equal(proposer_stats(f->p)->parked, 32);
	fetch_of_many(f, PEER_B);
	assert_int_equal(proposer_stats(f->p)->parked, 33);
}

/* Two segments are kept free; it looks at the disk now and then. */
static void need_segments_of(struct fixture *f, uint64_t bytes, bool ok)
{
	f->s.raft_segment_size = bytes;
	while (proposer_stats(f->p)->disk_ok != ok)
		proposer_pump(f->p);
}

#define SEGMENT_TOO_LARGE (UINT64_MAX / 8) /* for any disk */

static void full_disk_refuses_writes(void **state)
{
	struct fixture *f = *state;
	struct rpc_req r;

	need_segments_of(f, SEGMENT_TOO_LARGE, false);
	r = enqueue(f, "job_1", "q");
	assert_int_equal(reply_to(f, r)->err, ERR_STORAGE_FULL);
	assert_false(proposer_stats(f->p)->disk_ok);
}

/* There would be no way out of it. */
static void nearly_full_disk_takes_what_frees_room(void **state)
{
	struct fixture *f = *state;
	struct m_job_ref job = { 0 };
	uint64_t room;

	MSG_SET(&job, job_ref, job_id, STR("job_1"));
	assert_int_equal(dir_free_bytes(f->s.data_dir, &room), 0);
	need_segments_of(f, room / 10 * 7, false);
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

	need_segments_of(f, SEGMENT_TOO_LARGE, false);
	assert_int_equal(reply_to(f, maintain(f, OP_PURGE))->err,
			 ERR_STORAGE_FULL);
}

/* What is laid out again first would be one write too many. */
static void a_low_disk_needs_more_room_to_begin_than_to_go_on(void **state)
{
	struct fixture *f = *state;
	uint64_t room;

	assert_int_equal(dir_free_bytes(f->s.data_dir, &room), 0);
	f->s.raft_segment_size = room / 10 * 3;
	assert_int_equal(room_look(&f->s, ROOM_OK), ROOM_OK);
	assert_int_equal(room_look(&f->s, ROOM_LOW), ROOM_LOW);
	assert_int_equal(room_look(&f->s, ROOM_NONE), ROOM_NONE);
	need_segments_of(f, SEGMENT_TOO_LARGE, false);
	need_segments_of(f, 4096, true);
}

/* They went around admission, and a log that cannot be written ends us. */
static void renewals_stay_in_memory_while_the_disk_is_full(void **state)
{
	struct fixture *f = *state;

	need_segments_of(f, SEGMENT_TOO_LARGE, false);
	f->renewals = 1;
	proposer_renew(f->p);
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 0);
	assert_int_equal(f->renewals, 1);
	need_segments_of(f, 4096, true);
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 1);
	assert_int_equal(f->renewals, 0);
	commit(f);
}

static void what_waits_while_the_disk_fills_is_refused(void **state)
{
	struct fixture *f = *state;
	struct m_fail fail = { 0 };
	struct buf body = BUF_INIT(0);
	struct rpc_req r;

	f->s.apply_inflight = 0; /* the log is busy */
	r = enqueue(f, "job_1", "q");
	MSG_SET(&fail, fail, job_id, STR("job_0"));
	msg_encode(&msg_fail, &fail, &body);
	proposer_submit_own(f->p, OP_FAIL, buf_str(&body));
	buf_done(&body);
	need_segments_of(f, SEGMENT_TOO_LARGE, false);
	proposer_pump(f->p);
	assert_int_equal(reply_to(f, r)->err, ERR_STORAGE_FULL);
	assert_int_equal(proposer_stats(f->p)->pending, 1); /* our own */
	proposer_drain(f->p);
	proposer_pump(f->p);
	assert_true(proposer_is_idle(f->p));
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

/* --- deadlines --- */

static void answered_late(struct fixture *f, struct rpc_req r)
{
	assert_non_null(reply_to(f, r));
	assert_int_equal(reply_to(f, r)->err, ERR_LEADER_UNAVAILABLE);
}

static void stop_when_answered(void *ctx)
{
	struct fixture *f = ctx;

	proposer_pump(f->p);
	if (f->replies_n > 0)
		loop_stop(f->loop);
}

/* Nobody waits for it any more: it must not be carried out later. */
static void what_waits_at_its_deadline_is_withdrawn(void **state)
{
	struct fixture *f = *state;
	struct rpc_req late, other;

	f->node.ready = false;
	f->deadline_ns = clock_mono_ns() + 20 * NS_PER_MS;
	late = enqueue(f, "job_1", "q");
	f->deadline_ns += 600 * NS_PER_S;
	other = enqueue(f, "job_2", "q");
	loop_on_turn_end(f->loop, stop_when_answered, f);
	proposer_pump(f->p);
	loop_run(f->loop);
	answered_late(f, late);
	assert_null(reply_to(f, other));
	assert_int_equal(proposer_stats(f->p)->pending, 1);
	f->node.ready = true;
	pump_and_commit_all(f);
	assert_int_equal(entry_at(f, 0).n, 1);
	assert_int_equal(reply_to(f, other)->err, 0);
}

static void what_comes_after_its_deadline_is_refused(void **state)
{
	struct fixture *f = *state;

	f->deadline_ns = clock_mono_ns() - 1;
	answered_late(f, enqueue(f, "job_1", "q"));
	answered_late(f, fetch(f, PEER_A, "q", 30 * NS_PER_S));
	assert_true(proposer_is_idle(f->p));
}

/* It may wait behind a slow log, without a turn of the loop in between. */
static void nothing_late_goes_into_an_entry(void **state)
{
	struct fixture *f = *state;
	struct rpc_req late;

	f->node.ready = false;
	f->deadline_ns = clock_mono_ns() + NS_PER_MS;
	late = enqueue(f, "job_1", "q");
	while (clock_mono_ns() < f->deadline_ns)
		;
	f->node.ready = true;
	proposer_pump(f->p);
	answered_late(f, late);
	assert_int_equal(f->node.n, 0);
	assert_int_equal(proposer_stats(f->p)->pending, 0);
}

/* The first try of it may be in the log. */
static void refused_resend_is_no_refusal(void **state)
{
	struct fixture *f = *state;
	struct rpc_req r;

	f->flags = FRAME_RESEND;
	f->s.raft_max_pending = 0;
	r = enqueue(f, "job_1", "q");
	assert_int_equal(reply_to(f, r)->err, ERR_OUTCOME_UNKNOWN);
	f->s.raft_max_pending = 10;
	f->s.raft_max_parked = 0;
	r = fetch(f, PEER_A, "q", 30 * NS_PER_S);
	assert_int_equal(reply_to(f, r)->err, ERR_OUTCOME_UNKNOWN);
	f->node.refuse = true;
	r = enqueue(f, "job_1", "q");
	proposer_pump(f->p);
	assert_int_equal(reply_to(f, r)->err, ERR_OUTCOME_UNKNOWN);
	proposer_drain(f->p);
	r = enqueue(f, "job_1", "q");
	assert_int_equal(reply_to(f, r)->err, ERR_OUTCOME_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(too_many_waiting_ops_are_refused),
		CASE(an_op_above_the_feature_level_is_refused),
		CASE(a_member_above_the_feature_level_is_refused),
		CASE(below_its_level_an_op_goes_without_what_it_may_lack),
		CASE(what_cannot_be_read_never_gets_into_the_log),
		CASE(ops_weigh_until_they_are_applied),
		CASE(the_log_in_memory_weighs_too),
		CASE(a_heavy_op_that_is_alone_is_taken),
		CASE(a_log_that_waits_to_be_cut_gets_an_entry),
		CASE(an_entry_is_crowded_from_16_waiting_ops_on),
		CASE(too_many_parked_fetches_are_refused),
		CASE(parked_fetches_of_many_queues_are_bounded_in_bytes),
		CASE(full_disk_refuses_writes),
		CASE(nearly_full_disk_takes_what_frees_room),
		CASE(full_disk_takes_nothing),
		CASE(a_low_disk_needs_more_room_to_begin_than_to_go_on),
		CASE(renewals_stay_in_memory_while_the_disk_is_full),
		CASE(what_waits_while_the_disk_fills_is_refused),
		CASE(overload_does_not_stop_the_clock),
		CASE(what_waits_at_its_deadline_is_withdrawn),
		CASE(what_comes_after_its_deadline_is_refused),
		CASE(nothing_late_goes_into_an_entry),
		CASE(refused_resend_is_no_refusal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
