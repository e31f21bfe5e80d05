/*
 * Requests that come again, since the answer to the first time got lost. Any op
 * that is sent again after arbitrary other ops gives the same answer and leaves
 * the store as it is, on a replica that was started again as well; and what is
 * kept for that is bounded.
 */
#include "resend_sdb.h"
#include "resend_webhooks.h"

#define STEPS_MAX 3000
#define REMEMBER  60 /* requests that may come again */

/* --- every op, by the table --- */

typedef void make_fn(struct rw *w, void *m);

#define OP(num, NAME, name, request, reply, who, level, doc) \
	static void make_any_##name(struct rw *w, void *m)   \
	{                                                    \
		make_##name(w, m);                           \
	}
#include "proto/defs/ops.def"

static const struct kind {
	enum op_id op;
	make_fn *make;
} kinds[] = {
#define OP(num, NAME, name, request, reply, who, level, doc) \
	{ OP_##NAME, make_any_##name },
#include "proto/defs/ops.def"
};

#define KINDS ARRAY_SIZE(kinds)

/* A request and how it was answered. */
struct sent {
	size_t kind;
	uint64_t id;
	struct buf body, answer;
	int err;
	uint64_t seq;
};

struct run {
	struct rw w;
	struct sent sent[REMEMBER];
	size_t n; /* all there ever were */
	uint64_t accepted[KINDS], again[KINDS];
};

static void sent_done(struct sent *s)
{
	buf_done(&s->body);
	buf_done(&s->answer);
	*s = (struct sent){ 0 };
}

static struct sent *sent_at(struct run *run, size_t i)
{
	return &run->sent[i % REMEMBER];
}

/* Those that came least are made most, half of them such as were never
 * accepted: what they need has to be there by chance. Most need a job, or a
 * worker that has one: a third of all sees to that. */
static size_t some_kind(struct run *run)
{
	size_t best = rng_below(&run->w.r, KINDS);
	bool wanted = one_in(&run->w, 2);
	uint32_t job = one_in(&run->w, 2) ? OP_ENQUEUE : OP_FETCH;
	bool supply = one_in(&run->w, 3);

	for (size_t i = 0; supply && i < KINDS; i++)
		if (kinds[i].op == job)
			return i;
	for (size_t i = 0; wanted && i < KINDS; i++) {
		size_t k = (best + i) % KINDS;

		if (run->accepted[k] == 0)
			return k;
	}
	for (int i = 0; i < 2; i++) {
		size_t k = rng_below(&run->w.r, KINDS);

		if (run->again[k] + run->accepted[k] <
		    run->again[best] + run->accepted[best])
			best = k;
	}
	return best;
}

static void add_new(struct run *run)
{
	struct sent *s = sent_at(run, run->n++);
	const struct call_info *info;
	void *m;

	sent_done(s);
	s->kind = some_kind(run);
	info = op_info(kinds[s->kind].op);
	m = arena_zalloc(&run->w.arena, info->request->size);
	kinds[s->kind].make(&run->w, m);
	msg_encode(info->request, m, &s->body);
	s->id = fx_add_raw(run->w.x, kinds[s->kind].op, 0, buf_str(&s->body));
}

static void note_answer(struct run *run, struct sent *s, size_t item)
{
	const struct fx_reply *r = &run->w.x->replies[item];

	s->err = r->err;
	s->seq = r->seq;
	buf_put_str(&s->answer, r->body);
	run->accepted[s->kind] += r->err == 0;
}

static void expect_same(struct run *run, const struct sent *s, size_t item)
{
	const struct fx_reply *r = &run->w.x->replies[item];

	if (r->err != s->err || r->seq != s->seq ||
	    !str_eq(r->body, buf_str(&s->answer)))
		fail_msg("%s, sent again: %d %.*s, before %d %.*s",
			 op_info(kinds[s->kind].op)->name, r->err,
			 STR_ARG(r->body), s->err,
			 STR_ARG(buf_str(&s->answer)));
	run->again[s->kind]++;
}

static void send_new(struct run *run)
{
	struct fx *x = run->w.x;
	size_t from = run->n;

	fx_begin(x);
	for (uint64_t n = 1 + rng_below(&run->w.r, 4); n > 0; n--)
		add_new(run);
	fx_commit(x);
	for (size_t i = from; i < run->n; i++)
		note_answer(run, sent_at(run, i), i - from);
	arena_reset(&run->w.arena);
}

/* The first try was on its way when it came again: both in one entry. */
static void send_twice_at_once(struct run *run)
{
	struct fx *x = run->w.x;
	struct sent *s;

	fx_begin(x);
	add_new(run);
	s = sent_at(run, run->n - 1);
	if (s->id != 0)
		fx_add_again(x, kinds[s->kind].op, s->id, buf_str(&s->body));
	fx_commit(x);
	note_answer(run, s, 0);
	if (s->id != 0)
		expect_same(run, s, 1);
	arena_reset(&run->w.arena);
}

static void send_again(struct run *run)
{
	struct fx *x = run->w.x;
	struct sent *s = &run->sent[rng_below(&run->w.r, REMEMBER)];
	struct buf before = BUF_INIT(0), after = BUF_INIT(0);

	if (s->id == 0)
		return; /* none yet, or a fetch, which has a way of its own */
	fx_dump_state(x->side[FX_MEM].kv, &before);
	fx_begin(x);
	fx_add_again(x, kinds[s->kind].op, s->id, buf_str(&s->body));
	fx_commit(x);
	expect_same(run, s, 0);
	fx_dump_state(x->side[FX_MEM].kv, &after);
	if (!str_eq(buf_str(&before), buf_str(&after)))
		fail_msg("%s, sent again, changed the store",
			 op_info(kinds[s->kind].op)->name);
	buf_done(&before);
	buf_done(&after);
}

/* What no op has shown yet; NULL: each was accepted and came again. */
static const char *missing(const struct run *run)
{
	for (size_t i = 0; i < KINDS; i++)
		if (run->accepted[i] == 0 ||
		    (run->again[i] < 3 && kinds[i].op != OP_FETCH))
			return op_info(kinds[i].op)->name;
	return NULL;
}

static void test_any_op_sent_again_gives_the_same_answer(void **state)
{
	struct run run = { .w.x = *state };
	int steps = 0;

	test_rng(&run.w.r);
	run.w.x->keep = 4 * REMEMBER;
	fx_raise_level(run.w.x);
	for (; missing(&run) != NULL && steps < STEPS_MAX; steps++) {
		run.w.x->now_ns += rng_below(&run.w.r, NS_PER_S);
		if (one_in(&run.w, 4))
			send_twice_at_once(&run);
		else
			send_new(&run);
		if (one_in(&run.w, 20))
			fx_restart(run.w.x, FX_ROCKS);
		if (one_in(&run.w, 10))
			fx_restart(run.w.x, FX_MEM);
		for (int i = 0; i < 2; i++)
			send_again(&run);
	}
	if (missing(&run) != NULL)
		fail_msg("%s was not accepted, or did not come again, in %d "
			 "steps",
			 missing(&run), steps);
	print_message("%d steps, %zu requests\n", steps, run.n);
	for (size_t i = 0; i < REMEMBER; i++)
		sent_done(&run.sent[i]);
	arena_done(&run.w.arena);
}

/* --- what is kept --- */

static struct m_queue_ref pause_of(const char *queue)
{
	struct m_queue_ref m = { 0 };

	MSG_SET(&m, queue_ref, queue, str_from(queue));
	return m;
}

static void retry_once(struct fx *x, const char *id)
{
	struct m_job_ref m = { 0 };

	fx_make(x, id, JOB_COMPLETED);
	MSG_SET(&m, job_ref, job_id, str_from(id));
	assert_int_equal(fx_do(x, OP_RETRY, &m, NULL), 0);
}

/* It is not carried out a second time, whatever it would do now. */
static void expect_unknown(struct fx *x, const char *id)
{
	struct m_job_ref m = { 0 };
	uint64_t seq = fsm_last_seq(x->side[FX_MEM].f);

	MSG_SET(&m, job_ref, job_id, str_from(id));
	assert_int_equal(fx_resend(x, OP_RETRY, &m, NULL), ERR_OUTCOME_UNKNOWN);
	assert_int_equal(fsm_last_seq(x->side[FX_MEM].f), seq);
}

static void test_after_two_minutes_an_answer_is_not_known_any_more(void **state)
{
	struct m_queue_ref m = pause_of("other");
	struct fx *x = *state;

	x->keep = 1000; /* a caller that says nothing */
	retry_once(x, "job_1");
	x->now_ns += (LIMIT_ANSWERS_S + 1) * NS_PER_S;
	assert_int_equal(fx_do(x, OP_PAUSE, &m, NULL), 0);
	fx_restart(x, FX_ROCKS);
	expect_unknown(x, "job_1");
	/* later requests of the same caller are as any other */
	assert_int_equal(fx_resend(x, OP_PAUSE, &m, NULL), 0);
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
}

static void test_so_many_answers_are_kept_and_no_more(void **state)
{
	struct m_queue_ref m = pause_of("other");
	struct fx *x = *state;

	x->keep = 10 * LIMIT_ANSWERS;
	retry_once(x, "job_1");
	x->unchecked = true;
	for (int n = 0; n < LIMIT_ANSWERS; n += 1024) {
		fx_begin(x);
		for (int i = 0; i < 1024; i++)
			fx_add(x, OP_PAUSE, 0, &m);
		fx_commit(x);
	}
	x->unchecked = false;
	fx_restart(x, FX_ROCKS);
	expect_unknown(x, "job_1");
}

static void test_so_many_bytes_of_answers_are_kept_and_no_more(void **state)
{
	size_t n = 200u << 10;
	char *text = xmalloc(n);
	struct m_schedule_job job = { 0 };
	struct m_schedule s = { 0 };
	struct fx *x = *state;

	memset(text, '1', n);
	MSG_SET(&job, schedule_job, payload, str_of(text, n));
	MSG_SET(&s, schedule, id, STR("sch_1"));
	MSG_SET(&s, schedule, name, STR("a"));
	MSG_SET(&s, schedule, queue, STR("other"));
	MSG_SET(&s, schedule, cron, STR("@daily"));
	MSG_SET(&s, schedule, next_run, x->now_ns + 3600 * NS_PER_S);
	MSG_SET(&s, schedule, job, &job);
	MSG_SET(&s, schedule, create, true);
	x->keep = 1000;
	retry_once(x, "job_1");
	x->unchecked = true;
	for (size_t sum = 0; sum < LIMIT_ANSWERS_BYTES; sum += n) {
		assert_int_equal(fx_do(x, OP_SET_SCHEDULE, &s, NULL), 0);
		MSG_SET(&s, schedule, create, false);
	}
	x->unchecked = false;
	expect_unknown(x, "job_1");
	free(text);
}

static size_t count_answers(struct kv *kv)
{
	struct kv_iter *it = kv_iter_new(kv, STR("an|"), STR("an}"));
	size_t n = 0;

	for (; kv_iter_valid(it); kv_iter_next(it))
		n++;
	kv_iter_free(it);
	return n;
}

static void test_answers_that_arrived_are_forgotten(void **state)
{
	struct fx *x = *state;
	struct fsm *f = x->side[FX_MEM].f;

	x->keep = 1;
	for (int i = 0; i < 100; i++)
		fx_queue_op(x, i % 2 ? OP_RESUME : OP_PAUSE, "q");
	assert_true(count_answers(x->side[FX_MEM].kv) <= 2);
	assert_true(f->answers.n <= 2);
	assert_int_equal(f->answers.lost_n, 0);
}

/* Most of them come and go between two writes of the store. */
static void test_answers_that_come_and_go_are_not_written(void **state)
{
	struct fx *x = *state;
	struct fsm *f = x->side[FX_MEM].f;

	fsm_write_behind(f, 1u << 20);
	fsm_write_behind(x->side[FX_ROCKS].f, 1u << 20);
	x->unchecked = true;
	x->keep = 1;
	for (int i = 0; i < 50; i++)
		fx_queue_op(x, OP_PAUSE, "q");
	assert_int_equal(count_answers(x->side[FX_MEM].kv), 0);
	assert_int_equal(fsm_flush(f), 0);
	assert_int_equal(fsm_flush(x->side[FX_ROCKS].f), 0);
	assert_int_equal(count_answers(x->side[FX_MEM].kv), f->answers.n);
	fx_check_same(x);
}

/* --- what an entry has no room for --- */

static void expect_part(struct fx *x, uint64_t id, struct str body, int err)
{
	fx_begin(x);
	fx_add_again(x, OP_ACK_BATCH, id, body);
	fx_commit(x);
	assert_int_equal(x->replies[0].err, err);
}

/* The second try goes on where the first was, and the first after that. */
static void test_a_part_that_was_done_is_not_done_again(void **state)
{
	static const char *const ids[] = { "job_1", "job_2", "job_3" };
	struct m_ack_item acks[3] = { 0 };
	struct buf body = BUF_INIT(0), rest = BUF_INIT(0);
	struct str line = STR("line");
	struct m_ack_batch m = { 0 };
	struct m_ack_batch_reply r;
	struct fx *x = *state;
	uint64_t id;

	for (int i = 0; i < 3; i++) {
		fx_make(x, ids[i], JOB_ACTIVE);
		MSG_SET(&acks[i], ack_item, job_id, str_from(ids[i]));
		MSG_SET_LIST(&acks[i], ack_item, logs, &line, 1);
	}
	MSG_SET_LIST(&m, ack_batch, acks, acks, 3);
	msg_encode(&msg_ack_batch, &m, &body);
	fx_set_budget(x, 1); /* one job an entry */
	fx_begin(x);
	id = fx_add_raw(x, OP_ACK_BATCH, 0, buf_str(&body));
	fx_commit(x);
	assert_int_equal(x->replies[0].err, FSM_AGAIN);
	buf_put_str(&rest, x->replies[0].body);
	fx_restart(x, FX_ROCKS);
	expect_part(x, id, buf_str(&body), FSM_AGAIN);
	expect_part(x, id, buf_str(&rest), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(msg_decode(&msg_ack_batch_reply,
					    x->replies[0].body, &x->arena, &r),
				 0);
		assert_int_equal(r.acked, 3);
		assert_int_equal(r.refused_n, 0);
		expect_part(x, id, buf_str(&body), 0);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(fx_job(x, ids[i])->log_lines, 1);
	buf_done(&rest);
	buf_done(&body);
}

/* --- several callers --- */

static int pause_by(struct fx *x, uint64_t origin, uint64_t done, uint64_t id,
		    uint32_t flags)
{
	struct m_queue_ref m = pause_of("q");
	struct buf b = BUF_INIT(0);

	msg_encode(&msg_queue_ref, &m, &b);
	arena_reset(&x->arena);
	x->n = 1;
	entry_begin_for(&x->w, &x->entry, x->now_ns, x->raft_index + 1,
			&(struct entry_caller){ origin, done }, 1);
	entry_add(&x->w, &(struct entry_item){ .op = OP_PAUSE,
					       .flags = flags,
					       .caller = 1,
					       .id = id,
					       .body = buf_str(&b) });
	fx_commit(x);
	buf_done(&b);
	return x->replies[0].err;
}

static void test_callers_are_told_apart(void **state)
{
	struct fx *x = *state;
	uint64_t seq;

	assert_int_equal(pause_by(x, 7, 1, 5, 0), 0);
	seq = x->replies[0].seq;
	fx_queue_op(x, OP_RESUME, "q");
	/* the same number of somebody else was never carried out */
	assert_int_equal(pause_by(x, 8, 1, 5, FRAME_RESEND), 0);
	assert_true(x->replies[0].seq > seq);
	fx_restart(x, FX_ROCKS);
	assert_int_equal(pause_by(x, 7, 1, 5, FRAME_RESEND), 0);
	assert_int_equal(x->replies[0].seq, seq);
}

/*
 * Requests get into the log in another order than they were sent in: what was
 * said to have arrived stays so, also on a replica that was started again.
 */
static void test_what_has_arrived_does_not_come_back(void **state)
{
	struct fx *x = *state;

	assert_int_equal(pause_by(x, 7, 1, 5, 0), 0);
	assert_int_equal(pause_by(x, 7, 1, 6, 0), 0);
	assert_int_equal(pause_by(x, 7, 6, 9, 0), 0);
	assert_int_equal(pause_by(x, 7, 3, 8, 0), 0);
	fx_restart(x, FX_ROCKS);
	assert_int_equal(pause_by(x, 7, 2, 10, 0), 0);
	fx_check_same(x);
	/* nobody waits for this one: a try that was overtaken */
	assert_int_equal(pause_by(x, 7, 2, 5, FRAME_RESEND),
			 ERR_OUTCOME_UNKNOWN);
	assert_int_equal(pause_by(x, 7, 2, 6, FRAME_RESEND), 0);
}

static void test_a_caller_that_is_idle_holds_up_nobody(void **state)
{
	struct fx *x = *state;
	const struct answers *a = &x->side[FX_MEM].f->answers;
	uint64_t seq;

	assert_int_equal(pause_by(x, 7, 1, 1, 0), 0);
	seq = x->replies[0].seq;
	for (uint64_t id = 1; id <= 100; id++) {
		assert_int_equal(pause_by(x, 8, id, id, 0), 0);
		assert_true(a->n <= 3);
	}
	fx_restart(x, FX_ROCKS);
	assert_int_equal(pause_by(x, 7, 1, 1, FRAME_RESEND), 0);
	assert_int_equal(x->replies[0].seq, seq);
}

/*
 * What is kept is the same on a replica that was started again, whoever asked
 * and in whatever order (fx_commit compares the two).
 */
static void test_random_callers(void **state)
{
	struct m_queue_ref m = pause_of("q");
	struct buf body = BUF_INIT(0);
	uint64_t ids[4] = { 0 };
	struct fx *x = *state;
	struct rng r;

	test_rng(&r);
	msg_encode(&msg_queue_ref, &m, &body);
	for (int i = 0; i < 600; i++) {
		uint64_t first = rng_below(&r, 4);
		size_t n = 1 + rng_below(&r, 2);
		struct entry_caller c[2];

		for (size_t k = 0; k < n; k++) {
			uint64_t at = (first + k) % 4;
			uint64_t back = rng_below(&r, 12);

			c[k].origin = 1 + at;
			c[k].done = ids[at] - MIN(ids[at], back);
			ids[at] += rng_below(&r, 3);
		}
		arena_reset(&x->arena);
		x->n = n;
		entry_begin_for(&x->w, &x->entry, x->now_ns, i, c, n);
		for (uint32_t k = 0; k < n; k++)
			entry_add(&x->w,
				  &(struct entry_item){
				      .op = OP_PAUSE,
				      .flags = (uint32_t)rng_below(&r, 2),
				      .body = buf_str(&body),
				      .caller = k + 1,
				      .id = ids[(first + k) % 4] });
		fx_commit(x);
		x->now_ns += rng_below(&r, 4 * NS_PER_S);
		if (rng_below(&r, 5) == 0)
			fx_restart(x, FX_ROCKS);
	}
	buf_done(&body);
}

/* Many entries' answers end at one moment: the work is shared out. */
static void test_old_answers_go_a_few_at_a_time(void **state)
{
	struct fx *x = *state;
	const struct answers *a = &x->side[FX_MEM].f->answers;
	uint64_t id = 1;
	size_t before;

	for (; id <= 200; id++)
		assert_int_equal(pause_by(x, 7, 1, id, 0), 0);
	x->now_ns += (LIMIT_ANSWERS_S + 1) * NS_PER_S;
	before = a->n;
	assert_int_equal(before, 200);
	for (int entries = 1; a->n > 4; entries++) {
		assert_int_equal(pause_by(x, 7, 1, id++, 0), 0);
		assert_in_range(before + 1 - a->n, 1, 64);
		assert_in_range(entries, 1, 4);
		before = a->n;
	}
	fx_restart(x, FX_ROCKS);
	fx_check_same(x);
}

/* One that is gone for good does not keep those of others for ever. */
static void test_a_caller_that_is_gone_is_forgotten(void **state)
{
	struct fx *x = *state;
	struct answers *a = &x->side[FX_MEM].f->answers;

	for (uint64_t gone = 1; gone <= 2 * LIMIT_ANSWERS_LOST; gone++) {
		assert_int_equal(pause_by(x, 1000 + gone, 1, 3, 0), 0);
		x->now_ns += (LIMIT_ANSWERS_S + 1) * NS_PER_S;
		assert_int_equal(pause_by(x, 1, gone, gone, 0), 0);
		assert_true(a->n <= 2);
		assert_true(a->callers_n <= 2);
		assert_true(a->lost_n <= LIMIT_ANSWERS_LOST);
	}
	fx_restart(x, FX_ROCKS);
	assert_int_equal(
	    pause_by(x, 1000 + 2 * LIMIT_ANSWERS_LOST, 1, 3, FRAME_RESEND),
	    ERR_OUTCOME_UNKNOWN);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_any_op_sent_again_gives_the_same_answer),
		TEST(test_after_two_minutes_an_answer_is_not_known_any_more),
		TEST(test_so_many_answers_are_kept_and_no_more),
		TEST(test_so_many_bytes_of_answers_are_kept_and_no_more),
		TEST(test_answers_that_arrived_are_forgotten),
		TEST(test_answers_that_come_and_go_are_not_written),
		TEST(test_a_part_that_was_done_is_not_done_again),
		TEST(test_callers_are_told_apart),
		TEST(test_what_has_arrived_does_not_come_back),
		TEST(test_a_caller_that_is_idle_holds_up_nobody),
		TEST(test_random_callers),
		TEST(test_old_answers_go_a_few_at_a_time),
		TEST(test_a_caller_that_is_gone_is_forgotten),
	};

	return cmocka_run_group_tests_name("fsm_resend", tests, NULL, NULL);
}
