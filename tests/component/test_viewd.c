/*
 * corvo-viewd as its neighbours see it: waiting for an event, giving up on it,
 * having no view, every reason to rebuild, and who is answered first.
 */
#include <stdio.h>

#include "viewd_world.h"

/* Until it is so: only a failure takes as long. */
#define WAIT_LONG_NS  (ACTOR_WAIT_MS * NS_PER_MS)
#define WAIT_SHORT_NS (50 * NS_PER_MS)

/* --- scripts --- */

/* A list waits for the event it names, and no longer than told. */
static void wait_start(struct fake *f)
{
	ask_queues(f, 1, WAIT_LONG_NS);
}

static void wait_on_answer(struct fake *f, const struct rpc_reply *r)
{
	uint64_t waited = clock_mono_ns() - f->asked_ns;
	uint64_t lag = expect_queue(r, "queue-1");

	if (f->step++ == 0) {
		EXPECT(f->head == 1 && lag == 0);
		EXPECT(f->released);
		EXPECT(r->seq == 1);
		ask_queues(f, 99, WAIT_SHORT_NS);
		return;
	}
	EXPECT(lag >= 1);
	EXPECT(waited >= WAIT_SHORT_NS - NS_PER_MS);
	done(f);
}

/* --- a view that is late --- */

static unsigned long prompt_waits; /* of its thread, before */

/* The question that followed may come after the answer, and so may the end of
 * what the thread did for it. */
static void look_whether_late(void *ctx)
{
	struct fake *f = ctx;

	if (f->tail_late && thread_waits(f, "writer-prompt") > prompt_waits)
		done(f);
	else
		later(f, 1, look_whether_late);
}

/* It is written, and asked for, without yielding to anybody. */
static void late_on_answer(struct fake *f, const struct rpc_reply *r)
{
	if (f->step++ == 0) {
		(void)expect_queue(r, "queue-1");
		EXPECT(!f->tail_late);
		prompt_waits = thread_waits(f, "writer-prompt");
		f->age_ns = 10 * NS_PER_S;
		publish(f, 2);
		ask_queues(f, 2, WAIT_LONG_NS);
		return;
	}
	(void)expect_queue(r, "queue-2");
	look_whether_late(f);
}

/* An empty view beside a store that is not: no list until it is rebuilt. */
static void empty_start(struct fake *f)
{
	f->head = 70;
	ask_queues(f, 0, 0);
}

static void empty_on_answer(struct fake *f, const struct rpc_reply *r)
{
	struct arena a = ARENA_INIT;
	struct m_metrics m;

	switch (f->step++) {
	case 0:
		EXPECT(r->err == ERR_VIEW_UNAVAILABLE);
		ask(f, QUERY_VIEWD_METRICS, &(struct m_nothing){ 0 });
		break;
	case 1:
		EXPECT(r->err == 0);
		EXPECT(msg_decode(&msg_metrics, r->body, &a, &m) == 0);
		EXPECT(m.values_n >= 3);
		ask_queues(f, 70, WAIT_LONG_NS);
		break;
	default:
		EXPECT(expect_queue(r, "rebuilt") == 0);
		done(f);
	}
	arena_done(&a);
}

/* The first checkpoint fails, the second cannot be read, the third is good. */
static void empty_on_ask(struct fake *f, struct rpc_req req, unsigned id)
{
	struct m_checkpoint_ref ref = { 0 };

	if (id != QUERY_CHECKPOINT)
		return;
	switch (f->checkpoints) {
	case 0:
		f->checkpoints++;
		rpc_reply(req, ERR_STORAGE_FULL, 0, STR("no"));
		break;
	case 1:
		f->checkpoints++;
		MSG_SET(&ref, checkpoint_ref, path, STR("/nowhere"));
		MSG_SET(&ref, checkpoint_ref, seq, 70);
		reply(req, &msg_checkpoint_ref, &ref);
		break;
	default:
		answer_checkpoint(f, req, "rebuilt", 70);
	}
}

/* Events are gone: the old view is shown, with its age, until the new one. */
static void lost_start(struct fake *f)
{
	ask_queues(f, 1, WAIT_LONG_NS);
}

static void lose_events(void *ctx)
{
	struct fake *f = ctx;

	f->lost = true;
	publish(f, 9);
}

static void lost_on_answer(struct fake *f, const struct rpc_reply *r)
{
	switch (f->step++) {
	case 0:
		EXPECT(expect_queue(r, "queue-1") == 0);
		later(f, 0, lose_events);
		break;
	case 1:
		EXPECT(expect_queue(r, "queue-1") >= 1);
		break;
	default:
		EXPECT(expect_queue(r, "from checkpoint") == 0);
		done(f);
	}
}

static void lost_on_ask(struct fake *f, struct rpc_req req, unsigned id)
{
	if (id == QUERY_CHECKPOINT && f->step < 2) {
		if (!f->asked) /* before there is a new view */
			ask_queues(f, 9, 0);
		f->asked = true;
		rpc_reply(req, ERR_OVERLOADED, 0, STR("not now"));
	} else if (id == QUERY_CHECKPOINT) {
		f->lost = false;
		answer_checkpoint(f, req, "from checkpoint", 9);
	} else if (id == QUERY_CHECKPOINT_DONE) {
		ask_queues(f, 9, WAIT_LONG_NS);
	}
}

/*
 * viewd is ahead of a raftd that still reads its log (it waits), and of one
 * that has other data (it rebuilds). The view of the script before is there.
 */
static void get_ready(void *ctx)
{
	struct fake *f = ctx;

	EXPECT(f->checkpoints == 0);
	f->not_ready = false;
}

static void ahead_start(struct fake *f)
{
	f->head = 3;
	f->not_ready = true;
	ask_queues(f, 0, WAIT_LONG_NS);
}

static void ahead_on_answer(struct fake *f, const struct rpc_reply *r)
{
	if (f->step++ == 0) {
		(void)expect_queue(r, "from checkpoint");
		later(f, 300, get_ready);
		return;
	}
	EXPECT(expect_queue(r, "other data") == 0);
	done(f);
}

static void ahead_on_ask(struct fake *f, struct rpc_req req, unsigned id)
{
	EXPECT(f->step == 1 && !f->not_ready);
	if (id == QUERY_CHECKPOINT)
		answer_checkpoint(f, req, "other data", 3);
	else
		ask_queues(f, 3, WAIT_LONG_NS);
}

/*
 * A rebuild that was asked for and gets no checkpoint is given up: the view is
 * good without it, and goes on.
 */
static void refused_start(struct fake *f)
{
	ask_queues(f, 1, WAIT_LONG_NS);
}

static void refused_on_answer(struct fake *f, const struct rpc_reply *r)
{
	switch (f->step++) {
	case 0:
		EXPECT(expect_queue(r, "queue-1") == 0);
		ask(f, QUERY_REBUILD_VIEW, &(struct m_nothing){ 0 });
		break;
	case 1:
		EXPECT(r->err == ERR_OVERLOADED);
		EXPECT(str_is(r->body, "corvo-raftd made no checkpoint"));
		publish(f, 2);
		ask_queues(f, 2, WAIT_LONG_NS);
		break;
	default:
		EXPECT(expect_queue(r, "queue-2") == 0);
		EXPECT(f->checkpoints == 1);
		done(f);
	}
}

static void refused_on_ask(struct fake *f, struct rpc_req req, unsigned id)
{
	EXPECT(id == QUERY_CHECKPOINT);
	f->checkpoints++;
	rpc_reply(req, ERR_OVERLOADED, 0, STR("not now"));
}

/* For searches that take as long as they may. */
#define ENDLESS_JOBS   3000
#define ENDLESS_TESTS  200
#define ENDLESS_BUDGET (10 * NS_PER_S)
#define SHORT_BUDGET   (100 * NS_PER_MS)

static void make_jobs(struct fake *f, unsigned n)
{
	static char ids[ENDLESS_JOBS][16];
	static struct m_job jobs[ENDLESS_JOBS];
	struct buf payload = BUF_INIT(0);

	buf_putc(&payload, '{');
	for (unsigned i = 0; i < 400; i++)
		buf_printf(&payload, "\"member%u\":[%u],", i, i);
	buf_puts(&payload, "\"a\":1}");
	for (unsigned i = 0; i < n; i++) {
		struct m_job *j = &jobs[i];

		(void)snprintf(ids[i], sizeof(ids[i]), "job_%u", i);
		MSG_SET(j, job, id, str_from(ids[i]));
		MSG_SET(j, job, queue, STR("queue-1"));
		MSG_SET(j, job, state, JOB_PENDING);
		MSG_SET(j, job, payload, buf_str(&payload));
		MSG_SET(j, job, created_at, clock_wall_ns());
	}
	f->jobs = jobs;
	f->jobs_n = n;
	ask_queues(f, 1, WAIT_LONG_NS);
}

static void expect_found(const struct rpc_reply *r, size_t n)
{
	struct arena a = ARENA_INIT;
	struct m_search_reply m;

	EXPECT(msg_decode(&msg_search_reply, r->body, &a, &m) == 0);
	EXPECT(!m.partial && m.jobs_n == n);
	arena_done(&a);
}

static void ask_long_search(struct fake *f, uint64_t budget_ns)
{
	struct buf jq = BUF_INIT(0);
	struct m_search m = { 0 };

	for (unsigned i = 0; i < ENDLESS_TESTS; i++)
		buf_printf(&jq, "%s.member%u==2", i > 0 ? " or " : "", i);
	MSG_SET(&m, search, payload_jq, buf_str(&jq));
	MSG_SET(&m, search, time_budget, budget_ns);
	ask(f, QUERY_SEARCH_JOBS, &m);
	buf_done(&jq);
}

/*
 * A search that goes on for seconds: the new file does not wait for it, and it
 * is answered from there.
 */
static void swap_start(struct fake *f)
{
	make_jobs(f, ENDLESS_JOBS);
}

static void swap_on_answer(struct fake *f, const struct rpc_reply *r)
{
	static const unsigned order[] = { QUERY_LIST_QUEUES, QUERY_REBUILD_VIEW,
					  QUERY_SEARCH_JOBS };

	EXPECT(r->err == 0);
	EXPECT(f->answered == order[f->step]);
	switch (f->step++) {
	case 0:
		ask(f, QUERY_REBUILD_VIEW, &(struct m_nothing){ 0 });
		break;
	case 2:
		expect_found(r, 0);
		done(f);
		break;
	default:
		break;
	}
}

static void swap_on_ask(struct fake *f, struct rpc_req req, unsigned id)
{
	if (id != QUERY_CHECKPOINT)
		return;
	/* both leave at the end of this turn */
	answer_checkpoint(f, req, "rebuilt", 1);
	ask_long_search(f, ENDLESS_BUDGET);
}

/*
 * More long searches than may wait: one is refused while the others are under
 * way. When nobody wants them any more, the readers and the lane are free.
 */
#define LONG_READERS 2
#define LONG_ASKED   (LONG_READERS + LIMIT_LONG_SEARCHES + 1)

static void ask_metrics(void *ctx)
{
	ask(ctx, QUERY_VIEWD_METRICS, &(struct m_nothing){ 0 });
}

static double metrics_sum(const struct rpc_reply *r, unsigned one, unsigned two)
{
	struct arena a = ARENA_INIT;
	struct m_metrics m;
	double n = 0;

	EXPECT(msg_decode(&msg_metrics, r->body, &a, &m) == 0);
	for (size_t i = 0; i < m.values_n; i++)
		if (m.values[i].metric == one || m.values[i].metric == two)
			n += m.values[i].value;
	arena_done(&a);
	return n;
}

static double long_searches(const struct rpc_reply *r)
{
	return metrics_sum(r, METRIC_LONG_SEARCHES,
			   METRIC_LONG_SEARCHES_WAITING);
}

static void many_on_answer(struct fake *f, const struct rpc_reply *r)
{
	switch (f->step) {
	case 0:
		f->step++;
		for (unsigned i = 0; i < LONG_ASKED; i++)
			ask_long_search(f, ENDLESS_BUDGET);
		break;
	case 1: /* the first to be answered */
		f->step++;
		EXPECT(f->answered == QUERY_SEARCH_JOBS);
		EXPECT(r->err == ERR_OVERLOADED);
		EXPECT(str_starts(r->body, STR("too many long searches")));
		ask_metrics(f);
		break;
	case 2: /* all others are still there */
		f->step++;
		EXPECT(f->answered == QUERY_VIEWD_METRICS);
		EXPECT(long_searches(r) == LONG_ASKED - 1);
		EXPECT(cancel_all(f) == LONG_ASKED - 1);
		ask_metrics(f);
		break;
	default:
		EXPECT(f->answered == QUERY_VIEWD_METRICS);
		if (long_searches(r) > 0)
			later(f, 10, ask_metrics);
		else
			done(f);
	}
}

/* Two searches that go on for seconds do not hold up one that is cheap. */
static void cheap_on_answer(struct fake *f, const struct rpc_reply *r)
{
	struct m_search m = { 0 };

	EXPECT(r->err == 0);
	switch (f->step++) {
	case 0:
		for (unsigned i = 0; i < LONG_READERS + 1; i++)
			ask_long_search(f, ENDLESS_BUDGET);
		ask_metrics(f);
		break;
	case 1: /* until they are known to be long */
		if (long_searches(r) < LONG_READERS + 1) {
			f->step--;
			later(f, 10, ask_metrics);
			break;
		}
		MSG_SET(&m, search, queue, STR("queue-1"));
		MSG_SET(&m, search, limit, 3);
		ask(f, QUERY_SEARCH_JOBS, &m);
		break;
	case 2:
		expect_found(r, 3);
		ask_metrics(f);
		break;
	default:
		EXPECT(long_searches(r) == LONG_READERS + 1);
		EXPECT(cancel_all(f) == LONG_READERS + 1);
		done(f);
	}
}

/*
 * Writers need the processors: long searches come one at a time, so of two that
 * do not end one waits. What is quick by its nature waits for neither. When
 * they end, each has its turn after a rest.
 */
static void busy_start(struct fake *f)
{
	f->busy = true;
	make_jobs(f, ENDLESS_JOBS);
}

static bool is_one_at_a_time(const struct rpc_reply *r)
{
	return metrics_sum(r, METRIC_LONG_SEARCHES, METRIC_LONG_SEARCHES) ==
		   1 &&
	       metrics_sum(r, METRIC_LONG_SEARCHES_WAITING,
			   METRIC_LONG_SEARCHES_WAITING) == 1;
}

static void busy_on_answer(struct fake *f, const struct rpc_reply *r)
{
	static const unsigned order[] = {
		QUERY_LIST_QUEUES, QUERY_VIEWD_METRICS, QUERY_LIST_QUEUES,
		QUERY_SEARCH_JOBS, QUERY_SEARCH_JOBS,
	};

	EXPECT(r->err == 0);
	EXPECT(f->answered == order[f->step]);
	switch (f->step++) {
	case 0:
		ask_long_search(f, ENDLESS_BUDGET);
		ask_long_search(f, ENDLESS_BUDGET);
		ask_metrics(f);
		break;
	case 1:
		if (is_one_at_a_time(r)) {
			ask(f, QUERY_LIST_QUEUES, &(struct m_view_query){ 0 });
			break;
		}
		f->step--;
		later(f, 10, ask_metrics);
		break;
	case 2:
		EXPECT(cancel_all(f) == 2);
		ask_long_search(f, SHORT_BUDGET);
		ask_long_search(f, SHORT_BUDGET);
		break;
	case 4:
		done(f);
		break;
	default:
		break;
	}
}

static const struct script wait_script = { wait_start, wait_on_answer, NULL };
static const struct script late_script = { wait_start, late_on_answer, NULL };
static const struct script empty_script = { empty_start, empty_on_answer,
					    empty_on_ask };
static const struct script lost_script = { lost_start, lost_on_answer,
					   lost_on_ask };
static const struct script ahead_script = { ahead_start, ahead_on_answer,
					    ahead_on_ask };
static const struct script refused_script = { refused_start, refused_on_answer,
					      refused_on_ask };
static const struct script busy_script = { busy_start, busy_on_answer, NULL };
static const struct script swap_script = { swap_start, swap_on_answer,
					   swap_on_ask };
static const struct script many_script = { swap_start, many_on_answer, NULL };
static const struct script cheap_script = { swap_start, cheap_on_answer, NULL };

static void test_wait(void **state)
{
	play(*state, &wait_script);
}

static void test_a_view_that_is_late_does_not_yield(void **state)
{
	play(*state, &late_script);
}

static void test_empty_view(void **state)
{
	play(*state, &empty_script);
}

static void test_lost_and_ahead(void **state)
{
	play(*state, &lost_script);
	play(*state, &ahead_script);
}

static void test_refused_rebuild_leaves_the_view_as_it_was(void **state)
{
	play(*state, &refused_script);
}

static void test_quick_questions_pass_resting_searches(void **state)
{
	play(*state, &busy_script);
}

static void test_a_search_does_not_hold_up_a_new_file(void **state)
{
	play(*state, &swap_script);
}

static void test_long_searches_are_bounded_and_can_be_withdrawn(void **state)
{
	play(*state, &many_script);
}

static void test_long_searches_do_not_hold_up_a_cheap_one(void **state)
{
	play(*state, &cheap_script);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(test_wait),
		TEST(test_a_view_that_is_late_does_not_yield),
		TEST(test_empty_view),
		TEST(test_lost_and_ahead),
		TEST(test_refused_rebuild_leaves_the_view_as_it_was),
		TEST(test_quick_questions_pass_resting_searches),
		TEST(test_a_search_does_not_hold_up_a_new_file),
		TEST(test_long_searches_are_bounded_and_can_be_withdrawn),
		TEST(test_long_searches_do_not_hold_up_a_cheap_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
