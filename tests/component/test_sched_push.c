/*
 * corvo-sched and a push queue, against a raftd that answers late or refuses:
 * no job is lost to it, and no report.
 */
#include "component/sched_world.h"

#define VERSION   7 /* of the push queues */
#define MAX_CALLS 4 /* where there may be few */
#define REFUSALS  40

/* Jobs so far, and what of them is not reported yet. */
static unsigned handed_out, open_jobs;

/* --- a raftd with one push queue --- */

static void answer_watch(struct rpc_req req, const struct frame_request *item)
{
	struct arena a = ARENA_INIT;
	struct m_push_watch_reply reply_m = { 0 };
	struct m_push_watch m;

	EXPECT(msg_decode(&msg_push_watch, item->body, &a, &m) == 0);
	MSG_SET(&reply_m, push_watch_reply, version, VERSION);
	MSG_SET(&reply_m, push_watch_reply, active, true);
	if (m.version != VERSION || !m.active)
		reply(req, &msg_push_watch_reply, &reply_m);
	arena_done(&a);
}

/* Its jobs call nothing, and end at once. */
static void list_reply(struct rpc_req req, uint64_t version)
{
	struct m_push_list_reply m = { 0 };
	struct m_push_queue q = { 0 };
	struct m_push push = { 0 };

	MSG_SET(&push, push, format, PUSH_SCHEDDB);
	MSG_SET(&push, push, concurrency, 64);
	MSG_SET(&q, push_queue, queue, STR("q"));
	MSG_SET(&q, push_queue, push, &push);
	MSG_SET(&m, push_list_reply, version, version);
	MSG_SET_LIST(&m, push_list_reply, queues, &q, 1);
	reply(req, &msg_push_list_reply, &m);
}

static void answer_list(struct rpc_req req)
{
	list_reply(req, VERSION);
}

static void hand_out(struct rpc_req req, unsigned n)
{
	struct m_fetch_reply m = { 0 };
	struct m_fetched jobs[LIMIT_FETCH_COUNT] = { 0 };
	char ids[LIMIT_FETCH_COUNT][16];

	EXPECT(n <= LIMIT_FETCH_COUNT);
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(ids[i], sizeof(ids[i]), "job_%u", ++handed_out);
		MSG_SET(&jobs[i], fetched, job_id, str_from(ids[i]));
		MSG_SET(&jobs[i], fetched, queue, STR("q"));
		MSG_SET(&jobs[i], fetched, payload, STR("{}"));
		MSG_SET(&jobs[i], fetched, attempt, 1);
		MSG_SET(&jobs[i], fetched, lease_duration, 3600 * NS_PER_S);
		MSG_SET(&jobs[i], fetched, lease_token, handed_out);
		MSG_SET(&jobs[i], fetched, push_version, 0);
	}
	open_jobs += n;
	MSG_SET_LIST(&m, fetch_reply, jobs, jobs, n);
	reply(req, &msg_fetch_reply, &m);
}

static void take_report(struct rpc_req req)
{
	struct m_fail_reply m = { 0 };

	open_jobs--;
	reply(req, &msg_fail_reply, &m);
}

static uint32_t count_of(const struct frame_request *item)
{
	struct arena a = ARENA_INIT;
	struct m_fetch m;
	uint32_t n;

	EXPECT(msg_decode(&msg_fetch, item->body, &a, &m) == 0);
	n = MAX(m.count, 1u);
	arena_done(&a);
	return n;
}

/* The number of the job that a report is about. */
static unsigned job_of(const struct frame_request *item, bool *requeued)
{
	struct arena a = ARENA_INIT;
	struct m_fail m;
	unsigned n;

	EXPECT(item->op == OP_FAIL);
	EXPECT(msg_decode(&msg_fail, item->body, &a, &m) == 0);
	EXPECT(sscanf(m.job_id.p, "job_%u", &n) == 1 && m.lease_token == n);
	*requeued = m.requeue;
	arena_done(&a);
	return n;
}

/* True: it was a question about push queues, which is answered. */
static bool is_settled(struct rpc_req req, const struct frame_request *item)
{
	if (item->op == QUERY_PUSH_WATCH) {
		answer_watch(req, item);
	} else if (item->op == QUERY_PUSH_LIST) {
		answer_list(req);
	} else if (item->op == OP_HEARTBEAT) {
		struct m_heartbeat_reply m = { 0 };

		reply(req, &msg_heartbeat_reply, &m);
	} else {
		return false;
	}
	return true;
}

static void start(struct fake *f)
{
	f->due = (struct m_due_reply){ .leader = true };
	due_changed(f);
}

/* --- scripts --- */

/* The answer to a fetch comes when its time is over, and nobody waits. */
static void late_on_item(struct fake *f, struct rpc_req req,
			 const struct frame_request *item)
{
	bool requeued;

	if (is_settled(req, item))
		return;
	if (item->op == OP_FETCH && !f->holding) {
		f->held = req;
		f->holding = true;
	} else if (item->op == OP_FETCH && handed_out == 0) {
		hand_out(f->held, 2);
	} else if (item->op != OP_FETCH) {
		EXPECT(job_of(item, &requeued) == ++f->ops && requeued);
		take_report(req);
		if (f->ops == 2)
			done(f);
	}
}

/* Each report is refused when it comes for the first time, and there is always
 * another one: those that were refused before come again all the same. */
static void refused_on_item(struct fake *f, struct rpc_req req,
			    const struct frame_request *item)
{
	static bool seen[REFUSALS + 1];
	bool requeued;
	unsigned job;

	if (is_settled(req, item))
		return;
	if (item->op == OP_FETCH) {
		EXPECT(handed_out < REFUSALS); /* or none came again */
		f->held = req;
		timer_in_ms(f, 50);
		return;
	}
	job = job_of(item, &requeued);
	EXPECT(!requeued);
	if (seen[job])
		done(f);
	seen[job] = true;
	rpc_reply(req, ERR_OVERLOADED, 0, STR("no"));
}

static void refused_on_timer(struct fake *f)
{
	hand_out(f->held, 1);
}

/* As long as no report is taken, no more jobs are fetched than there may be
 * calls; then it goes on. */
static void bounded_on_item(struct fake *f, struct rpc_req req,
			    const struct frame_request *item)
{
	uint32_t n;
	bool requeued;

	if (is_settled(req, item))
		return;
	if (item->op == OP_FETCH) {
		n = count_of(item);
		EXPECT(open_jobs + n <= MAX_CALLS);
		hand_out(req, n);
		return;
	}
	(void)job_of(item, &requeued);
	if (++f->ops % 5 != 0)
		rpc_reply(req, ERR_STORAGE_FULL, 0, STR("no"));
	else
		take_report(req);
	if (handed_out - open_jobs == 3 * MAX_CALLS)
		done(f);
}

/* What may pass is no answer: the report comes again until there is one. */
static void passing_on_item(struct fake *f, struct rpc_req req,
			    const struct frame_request *item)
{
	static const int errors[] = { ERR_STORAGE_ERROR, ERR_STORAGE_FULL,
				      ERR_OVERLOADED, ERR_LEADER_UNAVAILABLE,
				      ERR_OUTCOME_UNKNOWN };
	bool requeued;

	if (is_settled(req, item))
		return;
	if (item->op == OP_FETCH) {
		if (handed_out == 0)
			hand_out(req, 1);
		return;
	}
	EXPECT(job_of(item, &requeued) == 1);
	if (f->ops == ARRAY_SIZE(errors)) {
		take_report(req);
		done(f);
		return;
	}
	rpc_reply(req, errors[f->ops++], 0, STR("no"));
}

/* --- a queue that is away for a while --- */

static struct {
	uint64_t version; /* of the push queues */
	bool is_away, is_back;
	struct rpc_req watch, report; /* without an answer */
} absence;

static void tell_version(struct rpc_req req)
{
	struct m_push_watch_reply m = { 0 };

	MSG_SET(&m, push_watch_reply, version, absence.version);
	MSG_SET(&m, push_watch_reply, active, true);
	reply(req, &msg_push_watch_reply, &m);
}

/* It was told of the last change: the queue is there again. */
static void on_absence_watch(struct rpc_req req,
			     const struct frame_request *item)
{
	struct arena a = ARENA_INIT;
	struct m_push_watch m;

	EXPECT(msg_decode(&msg_push_watch, item->body, &a, &m) == 0);
	if (absence.is_away && m.version == absence.version) {
		absence.is_away = false;
		absence.is_back = true;
		absence.version++;
	}
	if (m.version != absence.version || !m.active)
		tell_version(req);
	else
		absence.watch = req;
	arena_done(&a);
}

static void on_absence_list(struct rpc_req req)
{
	struct m_push_list_reply m = { 0 };

	if (!absence.is_away) {
		list_reply(req, absence.version);
		return;
	}
	MSG_SET(&m, push_list_reply, version, absence.version);
	reply(req, &msg_push_list_reply, &m);
}

/* As of a raftd that was started again, and has yet to apply what made the
 * queue one: it comes back as it was, with a job that is not reported yet. */
static void absence_on_item(struct fake *f, struct rpc_req req,
			    const struct frame_request *item)
{
	if (item->op == QUERY_PUSH_WATCH) {
		on_absence_watch(req, item);
	} else if (item->op == QUERY_PUSH_LIST) {
		on_absence_list(req);
	} else if (item->op == OP_FETCH && absence.is_back) {
		done(f);
	} else if (item->op == OP_FETCH && handed_out == 0) {
		hand_out(req, 1);
	} else if (item->op == OP_FAIL && absence.version == VERSION) {
		absence.report = req;
		absence.is_away = true;
		absence.version++;
		tell_version(absence.watch);
	}
}

static void absence_start(struct fake *f)
{
	absence.version = VERSION;
	start(f);
}

enum { LATE, REFUSED, BOUNDED, PASSING, ABSENCE };

const struct script scripts[] = {
	[LATE] = { .start = start, .on_item = late_on_item, .pushes = true },
	[REFUSED] = { .start = start,
		      .on_item = refused_on_item,
		      .on_timer = refused_on_timer,
		      .pushes = true },
	[BOUNDED] = { .start = start,
		      .on_item = bounded_on_item,
		      .pushes = true },
	[PASSING] = { .start = start,
		      .on_item = passing_on_item,
		      .pushes = true },
	[ABSENCE] = { .start = absence_start,
		      .on_item = absence_on_item,
		      .pushes = true },
};

/* It takes as long as a fetch may wait. */
static void test_jobs_that_come_too_late_go_back(void **state)
{
	play(*state, LATE);
}

static void test_a_report_comes_again_though_others_are_refused(void **state)
{
	play(*state, REFUSED);
}

static void test_what_is_not_reported_counts_as_a_call(void **state)
{
	play(*state, BOUNDED);
}

static void test_a_report_comes_again_after_what_may_pass(void **state)
{
	play(*state, PASSING);
}

static void test_a_queue_that_comes_back_is_fetched_from(void **state)
{
	play(*state, ABSENCE);
}

static int setup_few(void **state)
{
	char text[16];
	int r;

	(void)snprintf(text, sizeof(text), "%d", MAX_CALLS);
	(void)setenv("CORVO_PUSH_MAX_CALLS", text, 1);
	r = setup(state);
	(void)unsetenv("CORVO_PUSH_MAX_CALLS");
	return r;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_report_comes_again_though_others_are_refused),
		TEST(test_a_report_comes_again_after_what_may_pass),
		cmocka_unit_test_setup_teardown(
		    test_what_is_not_reported_counts_as_a_call, setup_few,
		    teardown),
		TEST(test_a_queue_that_comes_back_is_fetched_from),
		TEST(test_jobs_that_come_too_late_go_back),
	};

	/* beside that of the fetch itself */
	(void)setenv("CORVO_OP_TIMEOUT", "100ms", 1);
	return cmocka_run_group_tests_name("sched_push", tests, NULL, NULL);
}
