/*
 * corvo-sched and bulk operations that go on in the background: which steps
 * it proposes when, how large they are, and what each kind of answer does.
 */
#include "component/sched_rounds.h"

#define OPS_MAX    20
#define FIRST_STEP 200 /* jobs of the first round */
#define LEAST_STEP 100
#define SLOW_MS    25 /* a round that took so long was too large */

/* Each script runs in a process of its own, which starts with zeroes. */
static struct {
	struct m_bulk list[OPS_MAX]; /* what is due, as raftd says it */
	size_t n;
	unsigned steps;
	uint32_t max; /* of the last step */
	struct rpc_req step;
	uint64_t due_ns;      /* none may come before; wall clock */
	bool slow;            /* answers take SLOW_MS from now on */
	uint64_t ops;         /* in the log, of everybody */
	uint64_t answered_ns; /* the last step was; monotonic */
} w;

static struct m_bulk *bulk(const char *id)
{
	struct m_bulk *b = &w.list[w.n++];

	MSG_SET(b, bulk, id, str_from(id));
	MSG_SET(b, bulk, status, BULK_RUNNING);
	MSG_SET(b, bulk, total, 1000000);
	MSG_SET(b, bulk, processed, 40);
	return b;
}

static void due_at(struct fake *f, uint64_t ns)
{
	f->due.leader = true;
	f->due.bulk_ns = ns;
	due_changed(f);
}

static void answer_due(struct rpc_req req)
{
	struct m_bulk_list list = { 0 };

	EXPECT(clock_wall_ns() >= w.due_ns);
	MSG_SET_LIST(&list, bulk_list, operations, w.list, w.n);
	MSG_SET(&list, bulk_list, ops, w.ops + w.steps);
	reply(req, &msg_bulk_list, &list);
}

/* A step for the operation as it stands; its size. */
static uint32_t read_step(const struct frame_request *item,
			  const struct m_bulk *b)
{
	struct arena a = ARENA_INIT;
	struct m_bulk_step m;

	EXPECT(item->op == OP_BULK_STEP);
	EXPECT(msg_decode(&msg_bulk_step, item->body, &a, &m) == 0);
	EXPECT(str_eq(m.bulk_id, b->id));
	EXPECT(m.processed == b->processed);
	EXPECT(m.max >= 1 && m.max <= LIMIT_BULK_STEP);
	w.steps++;
	arena_done(&a);
	return m.max;
}

/* The step was taken; the next one may come after so long. */
static void answer_step(struct rpc_req req, struct m_bulk *b, uint32_t n,
			uint64_t after_ms)
{
	b->processed += n;
	w.due_ns = in_ms(after_ms);
	MSG_SET(b, bulk, due_ns, w.due_ns);
	reply(req, &msg_bulk, b);
}

static void end(struct fake *f, struct rpc_req req)
{
	struct m_bulk *b = &w.list[0];

	MSG_SET(b, bulk, status, BULK_COMPLETED);
	f->due.bulk_ns = 0;
	reply(req, &msg_bulk, b);
	due_changed(f);
	done(f);
}

static void one_start(struct fake *f)
{
	(void)bulk("b");
	due_at(f, in_ms(1));
}

/* --- size --- */

/* Grows while rounds are short; halves with each one that was long. */
static void size_answer(struct fake *f)
{
	rounds_open = 0;
	if (w.slow && w.max == LEAST_STEP) {
		end(f, w.step);
		return;
	}
	/* due at once: no DUE is needed for the next */
	answer_step(w.step, &w.list[0], w.max, 0);
}

static void size_on_item(struct fake *f, struct rpc_req req,
			 const struct frame_request *item)
{
	uint32_t max;

	if (round_begins(req, item))
		return;
	EXPECT(rounds_open == 0);
	max = read_step(item, &w.list[0]);
	if (w.steps == 1)
		EXPECT(max == FIRST_STEP);
	else if (w.slow)
		EXPECT(max == MAX(w.max / 2, (uint32_t)LEAST_STEP));
	w.slow |= max > FIRST_STEP;
	w.max = max;
	w.step = req;
	rounds_open = 1;
	if (w.slow)
		timer_in_ms(f, SLOW_MS);
	else
		size_answer(f);
}

/* --- others --- */

/* Others write between the rounds: as long as one took, the log is theirs. */
static void beside_on_item(struct fake *f, struct rpc_req req,
			   const struct frame_request *item)
{
	if (item->op == kind.query && w.answered_ns != 0)
		EXPECT(clock_mono_ns() - w.answered_ns >= SLOW_MS * NS_PER_MS);
	w.ops += item->op == kind.query;
	if (round_begins(req, item))
		return;
	EXPECT(read_step(item, &w.list[0]) <= FIRST_STEP);
	w.step = req;
	timer_in_ms(f, SLOW_MS);
}

static void beside_on_timer(struct fake *f)
{
	w.answered_ns = clock_mono_ns();
	if (w.steps == 3)
		end(f, w.step);
	else
		answer_step(w.step, &w.list[0], 10, 0);
}

/* --- rate --- */

static void rate_start(struct fake *f)
{
	struct m_bulk *b = bulk("b");

	MSG_SET(b, bulk, rate, 50);
	due_at(f, in_ms(1));
}

static void rate_on_item(struct fake *f, struct rpc_req req,
			 const struct frame_request *item)
{
	struct m_bulk *b = &w.list[0];

	if (round_begins(req, item))
		return;
	/* A tenth of a second's jobs at a time, but one at least. */
	EXPECT(read_step(item, b) == (b->rate == 50 ? 5 : 1));
	if (w.steps == 3)
		MSG_SET(b, bulk, rate, 3);
	if (w.steps == 5) {
		end(f, req);
		return;
	}
	answer_step(req, b, 5, 60);
	due_at(f, w.due_ns);
}

/* --- several --- */

static void several_start(struct fake *f)
{
	static const char *const ids[OPS_MAX] = { "b0", "b1", "b2" };

	for (size_t i = 0; i < 3; i++)
		(void)bulk(ids[i]);
	due_at(f, in_ms(1));
}

static void several_on_item(struct fake *f, struct rpc_req req,
			    const struct frame_request *item)
{
	struct m_bulk *b;

	/* a round begins when the one before was complete */
	EXPECT(item->op != kind.query || w.steps % 3 == 0);
	if (round_begins(req, item))
		return;
	/* One step each, and they share what a round may have. */
	b = &w.list[w.steps % 3];
	w.max = read_step(item, b);
	if (rounds == 1)
		EXPECT(w.max == FIRST_STEP / 3);
	if (rounds < 3) {
		answer_step(req, b, w.max, 0);
		return;
	}
	MSG_SET(b, bulk, status, BULK_COMPLETED);
	f->due.bulk_ns = 0;
	reply(req, &msg_bulk, b);
	due_changed(f);
	if (w.steps == 9)
		done(f);
}

/* --- answers that are no --- */

/* Paused between question and step: nothing more until it is resumed. */
static void paused_on_item(struct fake *f, struct rpc_req req,
			   const struct frame_request *item)
{
	struct m_bulk *b = &w.list[0];

	EXPECT(b->status == BULK_RUNNING);
	if (round_begins(req, item))
		return;
	(void)read_step(item, b);
	if (w.steps == 2) {
		end(f, req);
		return;
	}
	MSG_SET(b, bulk, status, BULK_PAUSED);
	f->due.bulk_ns = 0;
	answer_step(req, b, 0, 0);
	due_changed(f);
	timer_in_ms(f, 200);
}

static void paused_on_timer(struct fake *f)
{
	EXPECT(rounds == 1 && w.steps == 1);
	MSG_SET(&w.list[0], bulk, status, BULK_RUNNING);
	due_at(f, clock_wall_ns());
}

/* Somebody else has taken the step: the next one names the new place. */
static void stale_on_item(struct fake *f, struct rpc_req req,
			  const struct frame_request *item)
{
	struct m_bulk *b = &w.list[0];

	if (round_begins(req, item))
		return;
	(void)read_step(item, b);
	if (w.steps == 3)
		end(f, req);
	else
		answer_step(req, b, 17, 0);
}

/* --- tests --- */

static void read_first(const struct frame_request *item)
{
	(void)read_step(item, &w.list[0]);
}

const struct kind kind = {
	.query = QUERY_DUE_BULKS,
	.answer_due = answer_due,
	.read_op = read_first,
	.end = end,
};

enum script_id {
	SIZE = OWN_SCRIPTS,
	BESIDE,
	RATE,
	SEVERAL,
	PAUSED,
	STALE,
};

const struct script scripts[] = {
	ROUND_SCRIPTS(one_start),
	[SIZE] = { .start = one_start,
		   .on_item = size_on_item,
		   .on_timer = size_answer },
	[BESIDE] = { .start = one_start,
		     .on_item = beside_on_item,
		     .on_timer = beside_on_timer },
	[RATE] = { .start = rate_start, .on_item = rate_on_item },
	[SEVERAL] = { .start = several_start, .on_item = several_on_item },
	[PAUSED] = { .start = one_start,
		     .on_item = paused_on_item,
		     .on_timer = paused_on_timer },
	[STALE] = { .start = one_start, .on_item = stale_on_item },
};

PLAY(test_one_step_at_a_time_as_large_as_it_stays_short, SIZE)
PLAY(test_others_have_half_of_the_time, BESIDE)
PLAY(test_a_rate_bounds_each_step_and_its_moment, RATE)
PLAY(test_operations_share_a_round, SEVERAL)
PLAY(test_a_paused_operation_rests_until_it_is_resumed, PAUSED)
PLAY(test_a_stale_step_is_followed_by_one_from_the_new_place, STALE)

static void test_raftd_restarts_during_a_step(void **state)
{
	round_lost_then(state, STALE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ROUND_TESTS,
		TEST(test_one_step_at_a_time_as_large_as_it_stays_short),
		TEST(test_others_have_half_of_the_time),
		TEST(test_a_rate_bounds_each_step_and_its_moment),
		TEST(test_operations_share_a_round),
		TEST(test_a_paused_operation_rests_until_it_is_resumed),
		TEST(test_a_stale_step_is_followed_by_one_from_the_new_place),
		TEST(test_raftd_restarts_during_a_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
