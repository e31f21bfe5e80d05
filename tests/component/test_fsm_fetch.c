/*
 * fetch: order, several queues, counts, resends, workers.
 */
#include "fsm_fixture.h"

static void enqueue(struct fx *x, const char *id, const char *queue,
		    enum priority p)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, str_from(queue));
	MSG_SET(&m, enqueue, priority, p);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

/* Ids handed out by one fetch, in order, as one text. */
static void expect_fetch(struct fx *x, const struct m_fetch *m, bool resend,
			 const char *expected)
{
	struct m_fetch_reply r;
	struct buf b = BUF_INIT(0);

	assert_int_equal(resend ? fx_resend(x, OP_FETCH, m, &r)
				: fx_do(x, OP_FETCH, m, &r),
			 0);
	for (size_t i = 0; i < r.jobs_n; i++)
		buf_printf(&b, "%s%.*s", i ? " " : "",
			   STR_ARG(r.jobs[i].job_id));
	assert_str_is(b.n ? buf_str(&b) : STR(""), expected);
	buf_done(&b);
}

static void test_what_is_handed_out(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = { 0 };
	struct str queue = STR("q");
	struct m_fetch f = { 0 };
	struct m_fetch_reply r;
	const struct m_job *j;

	MSG_SET(&m, enqueue, job_id, STR("job_1"));
	MSG_SET(&m, enqueue, queue, queue);
	MSG_SET(&m, enqueue, payload, STR("[1]"));
	MSG_SET(&m, enqueue, tags, STR("{\"a\":\"b\"}"));
	MSG_SET(&m, enqueue, checkpoint, STR("{\"at\":1}"));
	MSG_SET(&m, enqueue, priority, PRIORITY_HIGH);
	MSG_SET(&m, enqueue, max_retries, 4);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	x->now_ns += NS_PER_S;
	MSG_SET_LIST(&f, fetch, queues, &queue, 1);
	MSG_SET(&f, fetch, worker_id, STR("w1"));
	MSG_SET(&f, fetch, hostname, STR("host"));
	MSG_SET(&f, fetch, lease_duration, 7 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
	assert_int_equal(r.jobs_n, 1);
	assert_str_is(r.jobs[0].job_id, "job_1");
	assert_str_is(r.jobs[0].queue, "q");
	assert_str_is(r.jobs[0].payload, "[1]");
	assert_str_is(r.jobs[0].tags, "{\"a\":\"b\"}");
	assert_str_is(r.jobs[0].checkpoint, "{\"at\":1}");
	assert_int_equal(r.jobs[0].priority, PRIORITY_HIGH);
	assert_int_equal(r.jobs[0].attempt, 1);
	assert_int_equal(r.jobs[0].max_retries, 4);
	assert_int_equal(r.jobs[0].lease_duration, 7 * NS_PER_S);
	assert_int_equal(r.jobs[0].lease_token, 3); /* its started event */

	j = fx_job(x, "job_1");
	assert_int_equal(j->state, JOB_ACTIVE);
	assert_int_equal(j->attempt, 1);
	assert_str_is(j->worker_id, "w1");
	assert_str_is(j->hostname, "host");
	assert_int_equal(j->started_at, FX_START_NS + NS_PER_S);
	assert_int_equal(j->lease_expires_at, FX_START_NS + 8 * NS_PER_S);
	fx_timeline(x, "job_1", "enqueued started");
}

static void test_lease_limits(void **state)
{
	struct fx *x = *state;
	static const struct {
		uint64_t asked, granted;
	} rows[] = {
		{ 0, 60 * NS_PER_S },
		{ 1, 1 },
		{ UINT64_MAX, LIMIT_LEASE_S * NS_PER_S },
	};
	struct str queue = STR("q");

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct m_fetch f = { 0 };
		struct m_fetch_reply r;
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%zu", i);
		fx_enqueue(x, id, "q");
		MSG_SET_LIST(&f, fetch, queues, &queue, 1);
		MSG_SET(&f, fetch, lease_duration, rows[i].asked);
		assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
		assert_int_equal(r.jobs[0].lease_duration, rows[i].granted);
	}
}

static void test_nothing_writes_nothing(void **state)
{
	struct fx *x = *state;
	struct str queues[2] = { STR("q"), STR("never") };
	struct m_fetch f = { 0 };
	struct m_fetch_reply r;
	uint64_t seq;

	fx_enqueue(x, "job_1", "q");
	fx_expect(x, "q", "job_1");
	seq = fsm_last_seq(x->side[0].f);
	MSG_SET_LIST(&f, fetch, queues, queues, 2);
	MSG_SET(&f, fetch, worker_id, STR("another"));
	assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
	assert_int_equal(r.jobs_n, 0);
	assert_int_equal(x->replies[0].seq, seq);
	/* none named at all */
	f.queues_n = 0;
	assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
	assert_int_equal(r.jobs_n, 0);
	assert_int_equal(fsm_last_seq(x->side[0].f), seq);
}

/* Best priority over all queues, then the first created over all queues. */
static void test_order_over_queues(void **state)
{
	struct fx *x = *state;
	struct str queues[] = { STR("b"), STR("a"), STR("c"), STR("b") };
	struct m_fetch f = { 0 };

	enqueue(x, "a_normal_1", "a", PRIORITY_NORMAL);
	enqueue(x, "b_normal_2", "b", PRIORITY_NORMAL);
	enqueue(x, "a_high_3", "a", PRIORITY_HIGH);
	enqueue(x, "c_critical_4", "c", PRIORITY_CRITICAL);
	enqueue(x, "b_high_5", "b", PRIORITY_HIGH);
	enqueue(x, "a_normal_6", "a", PRIORITY_NORMAL);
	enqueue(x, "d_critical_7", "d", PRIORITY_CRITICAL);
	MSG_SET_LIST(&f, fetch, queues, queues, ARRAY_SIZE(queues));
	expect_fetch(x, &f, false, "c_critical_4");
	expect_fetch(x, &f, false, "a_high_3");
	expect_fetch(x, &f, false, "b_high_5");
	expect_fetch(x, &f, false, "a_normal_1");
	MSG_SET(&f, fetch, count, 10);
	expect_fetch(x, &f, false, "b_normal_2 a_normal_6");
	expect_fetch(x, &f, false, "");
}

static void test_count_limits(void **state)
{
	struct fx *x = *state;
	struct str queue = STR("q");
	struct m_fetch f = { 0 };
	struct m_fetch_reply r;
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, queue, queue);
	fx_begin(x);
	for (int i = 0; i < 600; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%03d", i);
		MSG_SET(&m, enqueue, job_id, str_from(id));
		fx_add(x, OP_ENQUEUE, 0, &m);
	}
	fx_commit(x);
	MSG_SET_LIST(&f, fetch, queues, &queue, 1);
	MSG_SET(&f, fetch, count, 0);
	expect_fetch(x, &f, false, "job_000");
	MSG_SET(&f, fetch, count, 1000000);
	assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
	assert_int_equal(r.jobs_n, LIMIT_FETCH_COUNT);
	assert_str_is(r.jobs[LIMIT_FETCH_COUNT - 1].job_id, "job_512");
}

/* Large payloads: an answer ends before it is too big for a message. */
static void test_bytes_limit(void **state)
{
	struct fx *x = *state;
	struct str queue = STR("q");
	char *payload = xmalloc(256 << 10);
	struct m_fetch f = { 0 };
	struct m_fetch_reply r;
	struct m_enqueue m = { 0 };
	size_t total = 0;

	memset(payload, '1', 256 << 10);
	MSG_SET(&m, enqueue, queue, queue);
	MSG_SET(&m, enqueue, payload, str_of(payload, 256 << 10));
	x->unchecked = true;
	for (int i = 0; i < 40; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%02d", i);
		MSG_SET(&m, enqueue, job_id, str_from(id));
		assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	}
	MSG_SET_LIST(&f, fetch, queues, &queue, 1);
	MSG_SET(&f, fetch, count, 512);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fx_do(x, OP_FETCH, &f, &r), 0);
		total += r.jobs_n;
		assert_true(r.jobs_n > 0 && r.jobs_n <= 33);
	}
	assert_int_equal(total, 40);
	free(payload);
}

static void test_paused(void **state)
{
	struct fx *x = *state;

	fx_enqueue(x, "job_1", "q");
	fx_queue_op(x, OP_PAUSE, "q");
	assert_int_equal(fsm_queue_takeable(x->side[0].f, STR("q"), x->now_ns),
			 0);
	fx_expect_none(x, "q");
	fx_restart(x, FX_ROCKS);
	fx_expect_none(x, "q");
	fx_queue_op(x, OP_RESUME, "q");
	fx_expect(x, "q", "job_1");
}

/* Cancelled and deleted jobs are never handed out. */
static void test_gone_jobs(void **state)
{
	struct fx *x = *state;

	fx_enqueue(x, "job_1", "q");
	fx_enqueue(x, "job_2", "q");
	fx_enqueue(x, "job_3", "q");
	fx_enqueue(x, "job_4", "q");
	fx_job_op(x, OP_CANCEL, "job_1", "cancelled");
	fx_job_op(x, OP_DELETE, "job_3", "deleted");
	fx_expect(x, "q", "job_2");
	fx_expect(x, "q", "job_4");
	fx_expect_none(x, "q");
	/* all that is left in the window is stale */
	fx_enqueue(x, "job_5", "q");
	fx_job_op(x, OP_CANCEL, "job_5", "cancelled");
	fx_expect_none(x, "q");
	fx_enqueue(x, "job_6", "q");
	fx_expect(x, "q", "job_6");
}

static void test_expired_dies_at_fetch(void **state)
{
	struct fx *x = *state;
	struct m_enqueue m = { 0 };
	const struct m_job *j;

	MSG_SET(&m, enqueue, job_id, STR("job_1"));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, expire_after, NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	fx_enqueue(x, "job_2", "q");
	x->now_ns += NS_PER_S;
	fx_expect(x, "q", "job_2");
	j = fx_job(x, "job_1");
	assert_int_equal(j->state, JOB_DEAD);
	assert_str_is(j->last_error, "job expired");
	assert_int_equal(j->errors_n, 1);
	assert_false(MSG_HAS(&j->errors[0], job_error, worker_id));
	fx_timeline(x, "job_1", "enqueued expired dead");
	assert_int_equal(fsm_counters(x->side[0].f)->expired, 1);
}

/* --- resends --- */

static struct m_fetch fetch_of(struct str *queue, uint64_t fetch_id,
			       uint32_t count)
{
	struct m_fetch f = { 0 };

	MSG_SET_LIST(&f, fetch, queues, queue, 1);
	MSG_SET(&f, fetch, fetch_id, fetch_id);
	MSG_SET(&f, fetch, count, count);
	MSG_SET(&f, fetch, worker_id, STR("w1"));
	return f;
}

/* A fetch whose answer was lost gets the same jobs again. */
static void test_resend(void **state)
{
	struct fx *x = *state;
	struct str queue = STR("q");
	struct m_fetch f = fetch_of(&queue, 77, 2);

	for (int i = 0; i < 5; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		fx_enqueue(x, id, "q");
	}
	expect_fetch(x, &f, true, "job_0 job_1"); /* nothing given yet */
	expect_fetch(x, &f, true, "job_0 job_1");
	fx_restart(x, FX_ROCKS);
	expect_fetch(x, &f, true, "job_0 job_1");
	assert_int_equal(fx_job(x, "job_0")->attempt, 1);
	MSG_SET(&f, fetch, fetch_id, 78);
	expect_fetch(x, &f, true, "job_2 job_3");
	/* without the mark it is a new fetch */
	expect_fetch(x, &f, false, "job_4");
}

static void test_fetch_knows_whether_it_holds_jobs(void **state)
{
	struct fx *x = *state;
	struct str queue = STR("q");
	struct m_fetch f = fetch_of(&queue, 77, 1);
	struct m_ack ack = { 0 };

	fx_enqueue(x, "job_1", "q");
	assert_false(fsm_fetch_holds(x->side[FX_ROCKS].f, 77));
	expect_fetch(x, &f, false, "job_1");
	assert_true(fsm_fetch_holds(x->side[FX_ROCKS].f, 77));
	fx_restart(x, FX_ROCKS);
	assert_true(fsm_fetch_holds(x->side[FX_ROCKS].f, 77));
	assert_false(fsm_fetch_holds(x->side[FX_ROCKS].f, 78));
	MSG_SET(&ack, ack, job_id, STR("job_1"));
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	assert_false(fsm_fetch_holds(x->side[FX_ROCKS].f, 77));
}

/*
 * The first answer was lost, and the job in it is on its way back to the queue
 * when the fetch is sent again: who got the second answer keeps it.
 */
static void
test_old_token_cannot_give_back_what_was_handed_out_again(void **state)
{
	struct fx *x = *state;
	struct str queue = STR("q");
	struct m_fetch f = fetch_of(&queue, 77, 1);
	struct m_fetch_reply first, second;
	struct m_fail back = { 0 };
	struct m_ack ack = { 0 };
	uint64_t old, new;

	fx_enqueue(x, "job_1", "q");
	assert_int_equal(fx_do(x, OP_FETCH, &f, &first), 0);
	old = first.jobs[0].lease_token;
	assert_int_equal(fx_resend(x, OP_FETCH, &f, &second), 0);
	assert_int_equal(second.jobs_n, 1);
	new = second.jobs[0].lease_token;
	MSG_SET(&back, fail, job_id, STR("job_1"));
	MSG_SET(&back, fail, requeue, true);
	MSG_SET(&back, fail, lease_token, old);
	fx_refused(x, OP_FAIL, &back, ERR_LEASE_LOST,
		   "the lease on job \"job_1\" is no longer yours");
	fx_expect_none(x, "q");
	MSG_SET(&ack, ack, job_id, STR("job_1"));
	MSG_SET(&ack, ack, lease_token, new);
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	fx_expect_state(x, "job_1", JOB_COMPLETED);
}

/* Whoever gets the job late has as much time as if it were the first. */
static void
test_lease_and_timeout_begin_when_it_is_handed_out_again(void **state)
{
	struct fx *x = *state;
	struct str queue = STR("q");
	struct m_fetch f = fetch_of(&queue, 77, 1);
	struct m_enqueue m = fx_new("job_1", "q");
	const struct m_job *j;

	MSG_SET(&m, enqueue, timeout, 20 * NS_PER_S);
	MSG_SET(&f, fetch, lease_duration, 10 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	expect_fetch(x, &f, false, "job_1");
	x->now_ns += 9 * NS_PER_S;
	expect_fetch(x, &f, true, "job_1");
	j = fx_job(x, "job_1");
	assert_int_equal(j->started_at, x->now_ns);
	assert_int_equal(j->lease_expires_at, x->now_ns + 10 * NS_PER_S);
	assert_int_equal(j->timeout_at, x->now_ns + 20 * NS_PER_S);
	assert_int_equal(j->attempt, 1);
	fx_timeline(x, "job_1", "enqueued started started");
	fx_restart(x, FX_MEM);
	x->now_ns += 10 * NS_PER_S - 1;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 0);
	x->now_ns++;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 0, NULL), 1);
}

/* --- workers --- */

static bool read_worker(struct fx *x, const char *id, struct m_worker *ret)
{
	struct m_tail_reply r;

	assert_int_equal(
	    record_feed(x->side[0].kv, 0, LIMIT_TAIL_EVENTS, &x->arena, &r), 0);
	for (size_t i = 0; i < r.workers_n; i++) {
		if (str_is(r.workers[i].id, id)) {
			*ret = r.workers[i];
			return true;
		}
	}
	return false;
}

static void test_workers(void **state)
{
	struct fx *x = *state;
	struct str queues[2] = { STR("q"), STR("\"r\"") };
	struct m_fetch f = { 0 };
	struct m_worker w;
	uint64_t seq;

	for (int i = 0; i < 8; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		fx_enqueue(x, id, "q");
	}
	MSG_SET_LIST(&f, fetch, queues, queues, 2);
	MSG_SET(&f, fetch, worker_id, STR("w1"));
	MSG_SET(&f, fetch, hostname, STR("h1"));
	expect_fetch(x, &f, false, "job_0");
	assert_true(read_worker(x, "w1", &w));
	assert_str_is(w.hostname, "h1");
	assert_str_is(w.queues, "[\"q\",\"\\\"r\\\"\"]");
	assert_int_equal(w.last_heartbeat, FX_START_NS);
	assert_int_equal(w.started_at, FX_START_NS);
	/* not written again within five seconds */
	x->now_ns += 4 * NS_PER_S;
	seq = fsm_last_seq(x->side[0].f);
	expect_fetch(x, &f, false, "job_1");
	assert_int_equal(fsm_last_seq(x->side[0].f), seq + 1);
	/* unless something changed */
	MSG_SET(&f, fetch, hostname, STR("h2"));
	expect_fetch(x, &f, false, "job_2");
	assert_int_equal(fsm_last_seq(x->side[0].f), seq + 3);
	fx_restart(x, FX_ROCKS);
	x->now_ns += 5 * NS_PER_S;
	expect_fetch(x, &f, false, "job_3");
	assert_true(read_worker(x, "w1", &w));
	assert_int_equal(w.last_heartbeat, FX_START_NS + 9 * NS_PER_S);
	assert_int_equal(w.started_at, FX_START_NS);
	/* a new one drops those not seen for a day */
	x->now_ns += 86400 * NS_PER_S;
	MSG_SET(&f, fetch, worker_id, STR("w2"));
	expect_fetch(x, &f, false, "job_4");
	assert_true(read_worker(x, "w2", &w));
	assert_false(read_worker(x, "w1", &w));
	/* a nameless one leaves no record */
	MSG_SET(&f, fetch, worker_id, STR(""));
	seq = fsm_last_seq(x->side[0].f);
	expect_fetch(x, &f, false, "job_5");
	assert_int_equal(fsm_last_seq(x->side[0].f), seq + 1);
}

static uint64_t seen_ns(struct fx *x)
{
	struct m_worker w;

	assert_true(read_worker(x, "w1", &w));
	return w.last_heartbeat;
}

/* Also of one that does not say who it is, as clients of v0.3.0 do not. */
static void test_the_end_of_a_job_is_a_sign_of_life(void **state)
{
	struct fx *x = *state;
	struct str queue = STR("q");
	struct m_ack_item item = { 0 };
	struct m_ack_batch batch = { 0 };
	struct m_fetch f = { 0 };
	struct m_fail fail = { 0 };
	struct m_ack ack = { 0 };

	MSG_SET_LIST(&f, fetch, queues, &queue, 1);
	MSG_SET(&f, fetch, worker_id, STR("w1"));
	MSG_SET(&f, fetch, count, 4);
	for (int i = 0; i < 4; i++)
		fx_enqueue(x, ((const char *[]){ "a", "b", "c", "d" })[i], "q");
	expect_fetch(x, &f, false, "a b c d");
	x->now_ns += 9 * NS_PER_S;
	MSG_SET(&ack, ack, job_id, STR("a"));
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
	assert_int_equal(seen_ns(x), x->now_ns);
	x->now_ns += 9 * NS_PER_S;
	MSG_SET(&fail, fail, job_id, STR("b"));
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	assert_int_equal(seen_ns(x), x->now_ns);
	x->now_ns += 9 * NS_PER_S;
	MSG_SET(&item, ack_item, job_id, STR("c"));
	MSG_SET_LIST(&batch, ack_batch, acks, &item, 1);
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &batch, NULL), 0);
	assert_int_equal(seen_ns(x), x->now_ns);
	/* what an older leader wrote is done as it did it */
	x->now_ns += 9 * NS_PER_S;
	MSG_SET(&ack, ack, job_id, STR("d"));
	assert_int_equal(fx_do_old(x, OP_ACK, 0, &ack), 0);
	assert_int_equal(seen_ns(x), x->now_ns - 9 * NS_PER_S);
}

/* Such a name is a text like any other. */
static void test_worker_with_a_nul_in_its_name(void **state)
{
	struct fx *x = *state;
	struct str queue = STR("q"), name = STR("w\0x");
	struct m_fetch f = { 0 };
	struct m_tail_reply r;

	fx_enqueue(x, "job_0", "q");
	MSG_SET_LIST(&f, fetch, queues, &queue, 1);
	MSG_SET(&f, fetch, worker_id, name);
	MSG_SET(&f, fetch, hostname, STR("h\0y"));
	expect_fetch(x, &f, false, "job_0");
	assert_int_equal(
	    record_feed(x->side[0].kv, 0, LIMIT_TAIL_EVENTS, &x->arena, &r), 0);
	assert_int_equal(r.workers_n, 1);
	assert_true(str_eq(r.workers[0].id, name));
	assert_true(str_eq(r.workers[0].hostname, STR("h\0y")));
}

/* --- what the leader asks --- */

static void note_woken(void *ctx, struct str queue)
{
	buf_printf(ctx, "%.*s ", STR_ARG(queue));
}

static void expect_woken(struct fx *x, const char *expected)
{
	for (int i = 0; i < FX_SIDES; i++) {
		struct buf b = BUF_INIT(0);

		fsm_take_woken(x->side[i].f, note_woken, &b);
		assert_str_is(b.n ? buf_str(&b) : STR(""), expected);
		buf_done(&b);
	}
}

static void test_woken(void **state)
{
	struct fx *x = *state;
	struct m_fail fail = { 0 };

	fx_enqueue(x, "job_1", "a");
	fx_enqueue(x, "job_2", "b");
	fx_enqueue(x, "job_3", "a");
	expect_woken(x, "a b ");
	expect_woken(x, "");
	fx_expect(x, "a", "job_1");
	fx_expect(x, "b", "job_2");
	expect_woken(x, "");
	MSG_SET(&fail, fail, job_id, STR("job_1"));
	MSG_SET(&fail, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	expect_woken(x, "a ");
	fx_queue_op(x, OP_PAUSE, "a");
	fx_enqueue(x, "job_4", "a");
	expect_woken(x, "");
	fx_queue_op(x, OP_RESUME, "a");
	expect_woken(x, "a ");
	x->now_ns += 60 * NS_PER_S;
	assert_int_equal(fx_maintain(x, OP_RECLAIM, 10, NULL), 1);
	expect_woken(x, "b ");
	fx_job_op(x, OP_CANCEL, "job_2", "cancelled");
	fx_job_op(x, OP_RETRY, "job_2", "retried");
	expect_woken(x, "b ");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_handed_out),
		TEST(test_lease_limits),
		TEST(test_nothing_writes_nothing),
		TEST(test_order_over_queues),
		TEST(test_count_limits),
		TEST(test_bytes_limit),
		TEST(test_paused),
		TEST(test_gone_jobs),
		TEST(test_expired_dies_at_fetch),
		TEST(test_resend),
		TEST(test_fetch_knows_whether_it_holds_jobs),
		TEST(test_old_token_cannot_give_back_what_was_handed_out_again),
		TEST(test_lease_and_timeout_begin_when_it_is_handed_out_again),
		TEST(test_workers),
		TEST(test_the_end_of_a_job_is_a_sign_of_life),
		TEST(test_worker_with_a_nul_in_its_name),
		TEST(test_woken),
	};

	return cmocka_run_group_tests_name("fsm_fetch", tests, NULL, NULL);
}
