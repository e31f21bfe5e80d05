/*
 * An entry does only so much, weighed in bytes: with the largest documents
 * there are, maintenance goes in smaller portions, and what clients asked for
 * goes on in later entries until all of it is done.
 */
#include "fsm_fixture.h"

#define JOBS  24
#define LARGE (250u << 10)
#define HOUR  (3600 * NS_PER_S)
/* The last job of an entry is done with all that hangs on it. */
#define SLACK (4u << 20)

static struct str large(void)
{
	static char text[LARGE];

	memset(text, 'x', LARGE);
	memcpy(text, "{\"a\":\"", 6);
	memcpy(text + LARGE - 2, "\"}", 2);
	return str_of(text, LARGE);
}

static uint64_t weigh(struct fx *x)
{
	uint64_t n = fsm_entry_weight(x->side[FX_MEM].f);

	assert_int_equal(fsm_entry_weight(x->side[FX_ROCKS].f), n);
	assert_in_range(n, 1, LIMIT_ENTRY_BYTES + SLACK);
	return n;
}

static struct str job_id(char id[16], int i)
{
	(void)snprintf(id, 16, "job_%03d", i);
	return str_from(id);
}

/* Jobs of queue "q" whose end makes another one as large. */
static void make_chains(struct fx *x, uint64_t expire_after)
{
	struct m_chain_step s[3] = { 0 };
	struct m_chain c = { 0 };

	x->unchecked = true; /* the checks read everything each time */
	for (int i = 0; i < JOBS; i++) {
		struct m_enqueue m = { 0 };
		char id[16];

		fx_begin(x);
		MSG_SET(&s[0], chain_step, queue, STR("q"));
		MSG_SET(&s[1], chain_step, queue, STR("next"));
		MSG_SET(&s[1], chain_step, payload, large());
		MSG_SET(&s[2], chain_step, queue, STR("failed"));
		MSG_SET(&s[2], chain_step, payload, large());
		MSG_SET_LIST(&c, chain, steps, s, 2);
		MSG_SET(&c, chain, on_failure, &s[2]);
		MSG_SET(&m, enqueue, job_id, job_id(id, i));
		MSG_SET(&m, enqueue, queue, STR("q"));
		MSG_SET(&m, enqueue, expire_after, expire_after);
		MSG_SET(&m, enqueue, chain_id, m.job_id);
		MSG_SET(&m, enqueue, chain, &c);
		fx_add(x, OP_ENQUEUE, 0, &m);
		fx_commit(x);
		assert_int_equal(x->replies[0].err, 0);
	}
}

static void make_large(struct fx *x, uint64_t scheduled_at)
{
	x->unchecked = true;
	for (int i = 0; i < 4 * JOBS; i++) {
		struct m_enqueue m = { 0 };
		char id[16];

		fx_begin(x);
		MSG_SET(&m, enqueue, job_id, job_id(id, i));
		MSG_SET(&m, enqueue, queue, STR("q"));
		MSG_SET(&m, enqueue, payload, large());
		if (scheduled_at > 0)
			MSG_SET(&m, enqueue, scheduled_at, scheduled_at);
		fx_add(x, OP_ENQUEUE, 0, &m);
		fx_commit(x);
	}
}

static void hand_out_all(struct fx *x)
{
	struct m_fetched j;

	for (int i = 0; i < JOBS; i++)
		assert_true(fx_fetch(x, "q", &j));
}

static uint64_t count(struct fx *x, const char *queue, enum job_state s)
{
	struct m_queue q;

	assert_true(fsm_queue(x->side[FX_ROCKS].f, str_from(queue), &q));
	return s == JOB_PENDING     ? q.pending
	       : s == JOB_COMPLETED ? q.completed
				    : q.dead;
}

/* Runs a maintenance op to its end; the number of entries. */
static int maintain_all(struct fx *x, enum op_id op, uint32_t jobs)
{
	uint32_t all = 0;
	int entries = 0;
	bool more = true;

	for (; more; entries++) {
		all += fx_maintain(x, op, 0, &more);
		weigh(x);
		if (entries == 0)
			fx_restart(x, FX_ROCKS);
	}
	assert_int_equal(all, jobs);
	return entries;
}

static void check_all(struct fx *x)
{
	x->unchecked = false;
	fx_enqueue(x, "last", "elsewhere");
}

/* --- maintenance --- */

static void test_expiry_of_large_chains_goes_in_portions(void **state)
{
	struct fx *x = *state;

	make_chains(x, HOUR);
	x->now_ns += 2 * HOUR;
	assert_in_range(maintain_all(x, OP_EXPIRE, JOBS), 2, JOBS / 4);
	assert_int_equal(count(x, "failed", JOB_PENDING), JOBS);
	check_all(x);
}

static void test_lost_leases_of_large_chains_go_in_portions(void **state)
{
	struct fx *x = *state;
	struct m_set_queue once = { 0 };

	MSG_SET(&once, set_queue, queue, STR("q"));
	MSG_SET(&once, set_queue, max_retries, 1);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &once, NULL), 0);
	make_chains(x, 0);
	hand_out_all(x);
	x->now_ns += HOUR;
	assert_in_range(maintain_all(x, OP_RECLAIM, JOBS), 2, JOBS / 4);
	assert_int_equal(count(x, "failed", JOB_PENDING), JOBS);
	check_all(x);
}

static void test_large_jobs_are_promoted_in_portions(void **state)
{
	struct fx *x = *state;

	make_large(x, x->now_ns + HOUR);
	x->now_ns += HOUR;
	assert_in_range(maintain_all(x, OP_PROMOTE, 4 * JOBS), 2, 4);
	assert_int_equal(count(x, "q", JOB_PENDING), 4 * JOBS);
	check_all(x);
}

static void test_large_chains_are_cleared_in_portions(void **state)
{
	struct fx *x = *state;
	struct m_clear_queue m = { 0 };
	struct m_clear_queue_reply r = { .more = true };
	int entries = 0;
	uint32_t all = 0;

	make_large(x, 0);
	MSG_SET(&m, clear_queue, queue, STR("q"));
	for (; r.more; entries++) {
		assert_int_equal(fx_do(x, OP_CLEAR_QUEUE, &m, &r), 0);
		weigh(x);
		all += r.count;
	}
	assert_int_equal(all, 4 * JOBS);
	assert_in_range(entries, 2, 4);
	check_all(x);
}

static void test_a_bulk_action_says_how_far_it_got(void **state)
{
	struct fx *x = *state;
	struct str ids[4 * JOBS];
	char texts[4 * JOBS][16];
	struct m_bulk_act m = { 0 };
	struct m_bulk_result r;
	size_t at = 0;

	make_large(x, 0);
	for (int i = 0; i < 4 * JOBS; i++)
		ids[i] = job_id(texts[i], i);
	MSG_SET(&m, bulk_act, action, BULK_MOVE);
	MSG_SET(&m, bulk_act, move_to_queue, STR("there"));
	while (at < 4 * JOBS) {
		MSG_SET_LIST(&m, bulk_act, job_ids, ids + at, 4 * JOBS - at);
		assert_int_equal(fx_do(x, OP_BULK_ACT, &m, &r), 0);
		weigh(x);
		assert_int_equal(r.affected, r.total);
		assert_in_range(r.total, 1, 4 * JOBS - 1);
		at += r.total;
	}
	assert_int_equal(count(x, "there", JOB_PENDING), 4 * JOBS);
	check_all(x);
}

/* --- what clients asked for --- */

/* Proposes again what the entry left over, as the proposer does. */
static int go_on(struct fx *x, enum op_id op, void *reply)
{
	int entries = 1;

	for (; x->replies[0].err == FSM_AGAIN; entries++) {
		struct buf rest = BUF_INIT(0);
		struct entry_item item = { .op = op };

		weigh(x);
		buf_put_str(&rest, x->replies[0].body);
		fx_begin(x);
		item.body = buf_str(&rest);
		entry_add(&x->w, &item);
		x->n = 1;
		fx_commit(x);
		buf_done(&rest);
	}
	weigh(x);
	assert_int_equal(x->replies[0].err, 0);
	assert_int_equal(msg_decode(op_info(op)->reply, x->replies[0].body,
				    &x->arena, reply),
			 0);
	return entries;
}

static void test_acks_of_large_chains_are_answered_in_full(void **state)
{
	struct fx *x = *state;
	struct m_ack_item acks[JOBS + 2] = { 0 };
	char ids[JOBS][16];
	struct m_ack_batch m = { 0 };
	struct m_ack_batch_reply r;

	make_chains(x, 0);
	hand_out_all(x);
	MSG_SET(&acks[0], ack_item, job_id, STR("none"));
	for (int i = 0; i < JOBS; i++)
		MSG_SET(&acks[i + 1], ack_item, job_id, job_id(ids[i], i));
	MSG_SET(&acks[JOBS + 1], ack_item, job_id, STR("none either"));
	MSG_SET_LIST(&m, ack_batch, acks, acks, JOBS + 2);
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &m, NULL), FSM_AGAIN);
	assert_in_range(go_on(x, OP_ACK_BATCH, &r), 2, JOBS / 4);
	assert_int_equal(r.acked, JOBS);
	assert_int_equal(r.refused_n, 2);
	assert_str_is(r.refused[0].job_id, "none");
	assert_str_is(r.refused[1].job_id, "none either");
	assert_int_equal(count(x, "next", JOB_PENDING), JOBS);
	check_all(x);
}

static void test_heartbeats_of_large_jobs_are_answered_in_full(void **state)
{
	struct fx *x = *state;
	struct m_beat beats[JOBS * 2] = { 0 };
	char ids[JOBS * 2][16];
	struct m_heartbeat m = { 0 };
	struct m_heartbeat_reply r;

	make_large(x, 0);
	for (int i = 0; i < 2 * JOBS; i++) {
		struct m_fetched j;

		assert_true(fx_fetch(x, "q", &j));
		MSG_SET(&beats[i], beat, job_id, job_id(ids[i], i));
		MSG_SET(&beats[i], beat, checkpoint, large());
		MSG_SET_LIST(&m, heartbeat, jobs, &beats[i], 1);
		assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, NULL), 0);
		MSG_UNSET(&beats[i], beat, checkpoint);
		MSG_SET(&beats[i], beat, progress, STR("1"));
	}
	MSG_SET_LIST(&m, heartbeat, jobs, beats, 2 * JOBS);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, NULL), FSM_AGAIN);
	assert_in_range(go_on(x, OP_HEARTBEAT, &r), 2, 6);
	assert_int_equal(r.jobs_n, 2 * JOBS);
	for (int i = 0; i < 2 * JOBS; i++) {
		assert_str_is(r.jobs[i].job_id, ids[i]);
		assert_str_is(r.jobs[i].status, "ok");
	}
	check_all(x);
}

static void test_ops_without_room_wait_for_a_later_entry(void **state)
{
	struct fx *x = *state;
	size_t done = 0, first;

	make_chains(x, 0);
	hand_out_all(x);
	fx_begin(x);
	for (int i = 0; i < JOBS; i++) {
		struct m_ack m = { 0 };
		char id[16];

		MSG_SET(&m, ack, job_id, job_id(id, i));
		fx_add(x, OP_ACK, 0, &m);
	}
	fx_commit(x);
	weigh(x);
	while (done < x->n && x->replies[done].err == 0)
		done++;
	assert_in_range(done, 4, JOBS - 4);
	first = done;
	for (; done < x->n; done++) { /* nothing of them was done */
		struct m_ack m;
		char id[16];

		assert_int_equal(x->replies[done].err, FSM_AGAIN);
		assert_int_equal(
		    msg_decode(&msg_ack, x->replies[done].body, &x->arena, &m),
		    0);
		assert_true(str_eq(m.job_id, job_id(id, (int)done)));
	}
	assert_int_equal(count(x, "q", JOB_COMPLETED), first);
	assert_int_equal(count(x, "next", JOB_PENDING), first);
	check_all(x);
}

/* Each would be read and written again whole. */
static void test_too_many_large_jobs_cannot_be_replaced_at_once(void **state)
{
	struct fx *x = *state;
	struct m_enqueue jobs[JOBS * 2] = { 0 };
	char ids[JOBS * 2][16], keys[JOBS * 2][16];
	struct m_enqueue_batch m = { 0 };

	x->unchecked = true;
	for (int i = 0; i < 2 * JOBS; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "key%d", i);
		jobs[i] = fx_new("", "q");
		MSG_SET(&jobs[i], enqueue, job_id, job_id(ids[i], i));
		MSG_SET(&jobs[i], enqueue, unique_key, str_from(keys[i]));
		MSG_SET(&jobs[i], enqueue, payload, large());
		assert_int_equal(fx_do(x, OP_ENQUEUE, &jobs[i], NULL), 0);
		ids[i][0] = 'n';
		MSG_SET(&jobs[i], enqueue, unique_action, UNIQUE_REPLACE);
		MSG_SET(&jobs[i], enqueue, payload, STR("1"));
	}
	x->unchecked = false;
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, 2 * JOBS);
	fx_refused(x, OP_ENQUEUE_BATCH, &m, ERR_VALIDATION_ERROR,
		   "jobs[32].unique_action: the jobs to replace are too large "
		   "together; send fewer jobs in one request");
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, JOBS);
	assert_int_equal(fx_do(x, OP_ENQUEUE_BATCH, &m, NULL), 0);
	weigh(x);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_expiry_of_large_chains_goes_in_portions),
		TEST(test_lost_leases_of_large_chains_go_in_portions),
		TEST(test_large_jobs_are_promoted_in_portions),
		TEST(test_large_chains_are_cleared_in_portions),
		TEST(test_a_bulk_action_says_how_far_it_got),
		TEST(test_acks_of_large_chains_are_answered_in_full),
		TEST(test_heartbeats_of_large_jobs_are_answered_in_full),
		TEST(test_ops_without_room_wait_for_a_later_entry),
		TEST(test_too_many_large_jobs_cannot_be_replaced_at_once),
	};

	return cmocka_run_group_tests_name("fsm_budget", tests, NULL, NULL);
}
