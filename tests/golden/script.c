/*
 * The operations of the golden log. What it does is of no importance as long
 * as it touches everything; what a released one did is frozen in its folder.
 */
#include "script.h"

#define START_NS (1700000000 * NS_PER_S)

#define CALLER       0x1234567890abcdefULL
#define ANSWERS_KEPT 3 /* requests whose answers are on their way */

static void add(struct script *s, enum op_id op, const void *m)
{
	struct entry_caller c = { CALLER, 0 };
	struct entry_item item = { .op = op };

	if (op != OP_FETCH) { /* as corvo-httpd sends them */
		item.caller = 1;
		item.id = ++s->calls;
	}
	c.done = s->calls - MIN(s->calls, (uint64_t)ANSWERS_KEPT);
	if (s->n++ == 0)
		entry_begin_for(&s->w, &s->entry, s->now_ns, s->g->index + 1,
				&c, 1);
	buf_clear(&s->body);
	msg_encode(op_info(op)->request, m, &s->body);
	item.body = s->body.n > 0 ? buf_str(&s->body) : STR("");
	entry_add(&s->w, &item);
}

/* Every item must be accepted. */
static void commit(struct script *s)
{
	entry_end(&s->w);
	golden_add(s->log, buf_str(&s->entry));
	golden_apply(s->g, buf_str(&s->entry));
	for (size_t i = 0; i < s->g->n; i++)
		CHECK(s->g->replies[i].err == 0);
	s->n = 0;
	s->now_ns += SECOND;
}

void script_one(struct script *s, enum op_id op, const void *m, void *reply)
{
	add(s, op, m);
	commit(s);
	if (reply != NULL)
		CHECK(msg_decode(op_info(op)->reply, s->g->replies[0].body,
				 &s->g->arena, reply) == 0);
}

static void job_op(struct script *s, enum op_id op, const char *id)
{
	struct m_job_ref m = { 0 };

	MSG_SET(&m, job_ref, job_id, str_from(id));
	script_one(s, op, &m, NULL);
}

static void maintain(struct script *s, enum op_id op, uint64_t upto_seq,
		     uint64_t retention_ns)
{
	struct m_maintain m = { 0 };

	MSG_SET(&m, maintain, limit, 100);
	if (upto_seq > 0)
		MSG_SET(&m, maintain, upto_seq, upto_seq);
	if (retention_ns > 0)
		MSG_SET(&m, maintain, retention_ns, retention_ns);
	script_one(s, op, &m, NULL);
}

static struct m_enqueue job(const char *id, const char *queue)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, str_from(queue));
	return m;
}

static void enqueue(struct script *s, const char *id, const char *queue)
{
	struct m_enqueue m = job(id, queue);

	script_one(s, OP_ENQUEUE, &m, NULL);
}

/* Takes up to `count` jobs; the token of the last. */
static uint64_t fetch(struct script *s, const char *queue, const char *worker,
		      uint32_t count, uint64_t lease_ns)
{
	struct str name = str_from(queue);
	struct m_fetch m = { 0 };
	struct m_fetch_reply r;

	MSG_SET_LIST(&m, fetch, queues, &name, 1);
	MSG_SET(&m, fetch, worker_id, str_from(worker));
	MSG_SET(&m, fetch, hostname, STR("host-1"));
	MSG_SET(&m, fetch, lease_duration, lease_ns);
	MSG_SET(&m, fetch, count, count);
	MSG_SET(&m, fetch, fetch_id, s->g->index + 1);
	script_one(s, OP_FETCH, &m, &r);
	CHECK(r.jobs_n == count);
	return r.jobs[count - 1].lease_token;
}

static void fail(struct script *s, const char *id, const char *error,
		 bool retry)
{
	struct m_fail m = { 0 };

	MSG_SET(&m, fail, job_id, str_from(id));
	MSG_SET(&m, fail, error, str_from(error));
	MSG_SET(&m, fail, backtrace, STR("main.c:1"));
	if (!retry)
		MSG_SET(&m, fail, retry, false);
	script_one(s, OP_FAIL, &m, NULL);
}

/* --- queues --- */

static void queues(struct script *s)
{
	struct m_set_queue fair = { 0 }, slow = { 0 };
	struct m_group_limit groups[2] = { 0 };
	struct m_queue_ref ref = { 0 };

	MSG_SET(&groups[0], group_limit, name, STR("blue"));
	MSG_SET(&groups[0], group_limit, weight, 3);
	MSG_SET(&groups[1], group_limit, name, STR("red"));
	MSG_SET(&groups[1], group_limit, max_concurrency, 5);
	MSG_SET(&fair, set_queue, queue, STR("fair"));
	MSG_SET(&fair, set_queue, fairness, FAIRNESS_GROUP);
	MSG_SET(&fair, set_queue, group_rate, 100);
	MSG_SET(&fair, set_queue, group_period, 60 * SECOND);
	MSG_SET_LIST(&fair, set_queue, groups, groups, 2);
	script_one(s, OP_SET_QUEUE, &fair, NULL);
	MSG_SET(&slow, set_queue, queue, STR("slow"));
	MSG_SET(&slow, set_queue, max_concurrency, 10);
	MSG_SET(&slow, set_queue, rate, 50);
	MSG_SET(&slow, set_queue, period, 60 * SECOND);
	MSG_SET(&slow, set_queue, lease_duration, 30 * SECOND);
	MSG_SET(&slow, set_queue, max_retries, 4);
	MSG_SET(&slow, set_queue, retry_backoff, BACKOFF_LINEAR);
	MSG_SET(&slow, set_queue, retry_jitter, 0.5);
	MSG_SET(&slow, set_queue, max_backlog, 1000);
	MSG_SET(&slow, set_queue, retention, 86400 * SECOND);
	script_one(s, OP_SET_QUEUE, &slow, NULL);
	MSG_SET(&ref, queue_ref, queue, STR("slow"));
	script_one(s, OP_PAUSE, &ref, NULL);
	script_one(s, OP_RESUME, &ref, NULL);
	MSG_SET(&ref, queue_ref, queue, STR("paused"));
	script_one(s, OP_PAUSE, &ref, NULL);
}

/* --- jobs --- */

static void jobs(struct script *s)
{
	static const char *const groups[] = { "blue", "red", "blue", "" };
	struct m_enqueue m = job("job_full", "mail");

	MSG_SET(&m, enqueue, payload, STR("{\"to\":\"ada\"}"));
	MSG_SET(&m, enqueue, priority, PRIORITY_HIGH);
	MSG_SET(&m, enqueue, max_retries, 5);
	MSG_SET(&m, enqueue, retry_backoff, BACKOFF_FIXED);
	MSG_SET(&m, enqueue, retry_base_delay, 2 * SECOND);
	MSG_SET(&m, enqueue, retry_max_delay, 9 * SECOND);
	MSG_SET(&m, enqueue, retry_jitter, 0.25);
	MSG_SET(&m, enqueue, expire_after, 86400 * SECOND);
	MSG_SET(&m, enqueue, timeout, 3600 * SECOND);
	MSG_SET(&m, enqueue, tags, STR("{\"team\":\"post\"}"));
	MSG_SET(&m, enqueue, checkpoint, STR("{\"at\":0}"));
	MSG_SET(&m, enqueue, parent_id, STR("job_other"));
	MSG_SET(&m, enqueue, unique_key, STR("ada"));
	MSG_SET(&m, enqueue, unique_period, 7200 * SECOND);
	MSG_SET(&m, enqueue, as_numbers, DUR_UNIQUE_PERIOD);
	MSG_SET(&m, enqueue, idempotency_key, STR("request-1"));
	MSG_SET(&m, enqueue, idempotency_hash, 12345);
	script_one(s, OP_ENQUEUE, &m, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		char id[16] = { 'j', 'o', 'b', '_', 'g', (char)('0' + i) };

		m = job(id, "fair");
		if (groups[i][0] != '\0')
			MSG_SET(&m, enqueue, group, str_from(groups[i]));
		add(s, OP_ENQUEUE, &m); /* several operations of an entry */
	}
	commit(s);
	m = job("job_later", "mail");
	MSG_SET(&m, enqueue, scheduled_at, s->now_ns + 3600 * SECOND);
	script_one(s, OP_ENQUEUE, &m, NULL);
	m = job("job_soon", "mail");
	MSG_SET(&m, enqueue, scheduled_at, s->now_ns + 2 * SECOND);
	script_one(s, OP_ENQUEUE, &m, NULL);
	enqueue(s, "job_slow", "slow");
	enqueue(s, "job_waits", "paused");
}

static void batches(struct script *s)
{
	struct str on_first = STR("#0");
	struct m_enqueue items[3] = { job("job_b0", "mail"),
				      job("job_b1", "mail"),
				      job("job_b2", "mail") };
	struct m_batch_options options = { 0 };
	struct m_enqueue_batch m = { 0 };
	struct m_open_batch open = { 0 };
	struct m_batch_ref ref = { 0 };
	struct m_enqueue late = job("job_b3", "mail");

	MSG_SET_LIST(&items[1], enqueue, depends_on, &on_first, 1);
	MSG_SET(&items[1], enqueue, on_dependency_failure, DEPENDENCY_IGNORE);
	MSG_SET(&options, batch_options, callback_queue, STR("mail"));
	MSG_SET(&options, batch_options, callback_payload, STR("{\"b\":1}"));
	MSG_SET_LIST(&m, enqueue_batch, jobs, items, 3);
	MSG_SET(&m, enqueue_batch, batch, &options);
	MSG_SET(&m, enqueue_batch, batch_id, STR("batch_1"));
	MSG_SET(&m, enqueue_batch, idempotency_key, STR("request-2"));
	MSG_SET(&m, enqueue_batch, idempotency_hash, 777);
	script_one(s, OP_ENQUEUE_BATCH, &m, NULL);
	MSG_SET(&open, open_batch, batch_id, STR("batch_2"));
	MSG_SET(&open, open_batch, callback_queue, STR("mail"));
	MSG_SET(&open, open_batch, callback_payload, STR("[2]"));
	script_one(s, OP_OPEN_BATCH, &open, NULL);
	MSG_SET(&late, enqueue, batch_id, STR("batch_2"));
	script_one(s, OP_ENQUEUE, &late, NULL);
	MSG_SET(&ref, batch_ref, batch_id, STR("batch_2"));
	script_one(s, OP_SEAL_BATCH, &ref, NULL);
	MSG_SET(&open, open_batch, batch_id, STR("batch_3"));
	script_one(s, OP_OPEN_BATCH, &open, NULL);
}

static void chains(struct script *s)
{
	struct m_chain_step steps[2] = { 0 }, failed = { 0 }, left = { 0 };
	struct m_chain chain = { 0 };
	static const char *const ids[] = { "job_c1", "job_c2" };

	MSG_SET(&steps[0], chain_step, queue, STR("steps"));
	MSG_SET(&steps[1], chain_step, queue, STR("steps"));
	MSG_SET(&steps[1], chain_step, payload, STR("{\"step\":2}"));
	MSG_SET(&failed, chain_step, queue, STR("sorry"));
	MSG_SET(&left, chain_step, queue, STR("sorry"));
	MSG_SET_LIST(&chain, chain, steps, steps, 2);
	MSG_SET(&chain, chain, on_failure, &failed);
	MSG_SET(&chain, chain, on_exit, &left);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct m_enqueue m = job(ids[i], "steps");

		MSG_SET(&m, enqueue, payload, STR("{\"step\":1}"));
		MSG_SET(&m, enqueue, chain, &chain);
		MSG_SET(&m, enqueue, chain_id, STR("chn_1"));
		script_one(s, OP_ENQUEUE, &m, NULL);
	}
}

/* --- work --- */

static void heartbeats(struct script *s, const char *worker, const char *id,
		       uint64_t token)
{
	struct str line = STR("a line");
	struct m_beat beat = { 0 };
	struct m_heartbeat m = { 0 };
	struct m_renewal lease = { 0 };
	struct m_renew renew = { 0 };

	MSG_SET(&beat, beat, job_id, str_from(id));
	MSG_SET(&beat, beat, progress, STR("{\"done\":50}"));
	MSG_SET(&beat, beat, checkpoint, STR("{\"at\":5}"));
	MSG_SET(&beat, beat, lease_token, token);
	MSG_SET_LIST(&beat, beat, logs, &line, 1);
	MSG_SET(&m, heartbeat, worker_id, str_from(worker));
	MSG_SET_LIST(&m, heartbeat, jobs, &beat, 1);
	script_one(s, OP_HEARTBEAT, &m, NULL);
	MSG_SET(&lease, renewal, job_id, str_from(id));
	MSG_SET(&lease, renewal, lease_token, token);
	MSG_SET(&lease, renewal, lease_expires_at, s->now_ns + 900 * SECOND);
	MSG_SET_LIST(&renew, renew, leases, &lease, 1);
	script_one(s, OP_RENEW, &renew, NULL);
}

static void ack(struct script *s, const char *id, uint64_t token)
{
	struct str line = STR("done");
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, str_from(id));
	MSG_SET(&m, ack, result, STR("{\"sent\":true}"));
	MSG_SET(&m, ack, lease_token, token);
	MSG_SET_LIST(&m, ack, logs, &line, 1);
	script_one(s, OP_ACK, &m, NULL);
}

static void work(struct script *s)
{
	struct m_ack_item items[2] = { 0 };
	struct m_ack_batch acks = { 0 };
	struct m_fail back = { 0 };
	uint64_t token = fetch(s, "mail", "worker-1", 1, 600 * SECOND);

	heartbeats(s, "worker-1", "job_full", token);
	ack(s, "job_full", token);
	(void)fetch(s, "mail", "worker-2", 3, 600 * SECOND); /* b0, b2, b3 */
	MSG_SET(&items[0], ack_item, job_id, STR("job_b0"));
	MSG_SET(&items[0], ack_item, result, STR("1"));
	MSG_SET(&items[1], ack_item, job_id, STR("job_b3"));
	MSG_SET_LIST(&acks, ack_batch, acks, items, 2);
	script_one(s, OP_ACK_BATCH, &acks, NULL);
	fail(s, "job_b2", "no route", true);
	token = fetch(s, "steps", "worker-1", 1, 600 * SECOND);
	ack(s, "job_c1", token);
	(void)fetch(s, "steps", "worker-1", 1, 600 * SECOND);
	fail(s, "job_c2", "broken", false);
	(void)fetch(s, "fair", "worker-3", 2, 600 * SECOND);
	(void)fetch(s, "slow", "worker-3", 1, 600 * SECOND);
	MSG_SET(&back, fail, job_id, STR("job_slow"));
	MSG_SET(&back, fail, requeue, true);
	script_one(s, OP_FAIL, &back, NULL);
	(void)fetch(s, "slow", "worker-3", 1, 600 * SECOND);
	maintain(s, OP_PROMOTE, 0, 0);
	maintain(s, OP_RELEASE, 0, 0);
}

/* --- what people do --- */

static void hold_op(struct script *s, enum op_id op, const char *id)
{
	struct m_hold m = { 0 };

	MSG_SET(&m, hold, job_id, str_from(id));
	MSG_SET(&m, hold, reason, STR("look at it first"));
	script_one(s, op, &m, NULL);
}

static void actions(struct script *s)
{
	struct m_move move = { 0 };
	struct m_set_priority priority = { 0 };

	for (char c = '0'; c <= '6'; c++) {
		char id[16] = { 'j', 'o', 'b', '_', 'a', c };

		enqueue(s, id, "desk");
	}
	job_op(s, OP_CANCEL, "job_a0");
	job_op(s, OP_RETRY, "job_a0");
	job_op(s, OP_CANCEL, "job_g0"); /* a worker has it */
	job_op(s, OP_REQUEUE, "job_c2");
	job_op(s, OP_DELETE, "job_a1");
	hold_op(s, OP_HOLD, "job_a2");
	hold_op(s, OP_HOLD, "job_a3");
	hold_op(s, OP_HOLD, "job_a4");
	job_op(s, OP_APPROVE, "job_a2");
	hold_op(s, OP_REJECT, "job_a3");
	MSG_SET(&move, move, job_id, STR("job_a5"));
	MSG_SET(&move, move, queue, STR("fair"));
	script_one(s, OP_MOVE, &move, NULL);
	MSG_SET(&priority, set_priority, job_id, STR("job_a6"));
	MSG_SET(&priority, set_priority, priority, PRIORITY_CRITICAL);
	script_one(s, OP_PRIORITY, &priority, NULL);
}

static void schedules(struct script *s)
{
	struct m_schedule_job what = { 0 };
	struct m_schedule m = { 0 }, made;
	struct m_schedule_ref ref = { 0 };
	struct m_pause_schedule pause = { 0 };
	struct m_fire fire = { 0 };

	MSG_SET(&what, schedule_job, payload, STR("{\"report\":1}"));
	MSG_SET(&m, schedule, name, STR("nightly"));
	MSG_SET(&m, schedule, queue, STR("reports"));
	MSG_SET(&m, schedule, cron, STR("0 3 * * *"));
	MSG_SET(&m, schedule, timezone, STR("Europe/Berlin"));
	MSG_SET(&m, schedule, create, true);
	MSG_SET(&m, schedule, job, &what);
	MSG_SET(&m, schedule, next_run, START_NS + 3600 * SECOND);
	MSG_SET(&m, schedule, id, STR("sch_1"));
	script_one(s, OP_SET_SCHEDULE, &m, NULL);
	MSG_SET(&m, schedule, id, STR("sch_2"));
	MSG_SET(&m, schedule, name, STR("hourly"));
	script_one(s, OP_SET_SCHEDULE, &m, &made);
	MSG_SET(&fire, fire, id, STR("sch_2"));
	MSG_SET(&fire, fire, job_id, STR("job_run"));
	script_one(s, OP_RUN_SCHEDULE, &fire, NULL);
	MSG_SET(&fire, fire, job_id, STR("job_fired"));
	MSG_SET(&fire, fire, due_ns, START_NS + 3600 * SECOND);
	MSG_SET(&fire, fire, next_ns, START_NS + 7200 * SECOND);
	MSG_SET(&fire, fire, version, made.version);
	script_one(s, OP_FIRE, &fire, NULL);
	MSG_SET(&pause, pause_schedule, id, STR("sch_2"));
	MSG_SET(&pause, pause_schedule, paused, true);
	script_one(s, OP_PAUSE_SCHEDULE, &pause, NULL);
	MSG_SET(&m, schedule, id, STR("sch_3"));
	MSG_SET(&m, schedule, name, STR("never"));
	script_one(s, OP_SET_SCHEDULE, &m, NULL);
	MSG_SET(&ref, schedule_ref, id, STR("never"));
	script_one(s, OP_DELETE_SCHEDULE, &ref, NULL);
}

static void bulks(struct script *s)
{
	struct str ids[3] = { STR("job_k0"), STR("job_k1"), STR("job_k2") };
	struct m_bulk_act act = { 0 };
	struct m_bulk_create create = { 0 };
	struct m_bulk_add more = { 0 };
	struct m_bulk_step step = { 0 };
	struct m_bulk_control control = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct m_enqueue m = { 0 };

		MSG_SET(&m, enqueue, job_id, ids[i]);
		MSG_SET(&m, enqueue, queue, STR("bulk"));
		script_one(s, OP_ENQUEUE, &m, NULL);
	}
	(void)fetch(s, "bulk", "worker-1", 3, 600 * SECOND);
	fail(s, "job_k0", "broken", false);
	fail(s, "job_k1", "broken", false);
	fail(s, "job_k2", "broken", false);
	MSG_SET(&act, bulk_act, action, BULK_RETRY);
	MSG_SET_LIST(&act, bulk_act, job_ids, ids, 1);
	script_one(s, OP_BULK_ACT, &act, NULL);
	MSG_SET(&create, bulk_create, bulk_id, STR("bulk_1"));
	MSG_SET(&create, bulk_create, action, BULK_RETRY);
	MSG_SET(&create, bulk_create, canary, 1);
	script_one(s, OP_BULK_CREATE, &create, NULL);
	MSG_SET(&more, bulk_add, bulk_id, STR("bulk_1"));
	MSG_SET_LIST(&more, bulk_add, job_ids, ids + 1, 2);
	MSG_SET(&more, bulk_add, last, true);
	script_one(s, OP_BULK_ADD, &more, NULL);
	MSG_SET(&step, bulk_step, bulk_id, STR("bulk_1"));
	MSG_SET(&step, bulk_step, processed, 0);
	MSG_SET(&step, bulk_step, max, 1);
	script_one(s, OP_BULK_STEP, &step, NULL); /* the canary is pending */
	MSG_SET(&control, bulk_control, bulk_id, STR("bulk_1"));
	MSG_SET(&control, bulk_control, status, BULK_PAUSED);
	script_one(s, OP_BULK_CONTROL, &control, NULL);
}

/* --- time goes by --- */

/* The key of a job that is scheduled at that time, in this release. */
static struct str cursor_of(struct script *s, const char *queue)
{
	struct kv_iter *it = kv_iter_new(s->g->kv, STR("s|"), STR("s}"));
	struct str found = STR_NULL;

	for (; kv_iter_valid(it) && found.n == 0; kv_iter_next(it)) {
		struct str key = kv_iter_key(it);

		if (memmem(key.p, key.n, queue, strlen(queue)) != NULL)
			found = arena_copy(&s->g->arena, key);
	}
	kv_iter_free(it);
	CHECK(found.n > 0);
	return found;
}

static void clears(struct script *s)
{
	struct m_clear_queue m = { 0 };

	for (char c = '0'; c <= '2'; c++) {
		char id[16] = { 'j', 'o', 'b', '_', 'z', c };
		struct m_enqueue e = job(id, "full");

		MSG_SET(&e, enqueue, scheduled_at,
			s->now_ns + (uint64_t)(c - '0' + 60) * SECOND);
		script_one(s, OP_ENQUEUE, &e, NULL);
	}
	enqueue(s, "job_d0", "dropped");
	MSG_SET(&m, clear_queue, queue, STR("full"));
	MSG_SET(&m, clear_queue, cursor, cursor_of(s, "full"));
	script_one(s, OP_CLEAR_QUEUE, &m, NULL); /* job_z0 stays */
	m = (struct m_clear_queue){ 0 };
	MSG_SET(&m, clear_queue, queue, STR("dropped"));
	script_one(s, OP_DELETE_QUEUE, &m, NULL);
}

/* A queue nobody needs goes. */
static void limits(struct script *s)
{
	struct m_limits m = { 0 };
	struct m_maintain idle = { 0 };
	struct m_queue_ref ref = { 0 };

	MSG_SET(&ref, queue_ref, queue, STR("idle"));
	script_one(s, OP_RESUME, &ref, NULL);
	MSG_SET(&ref, queue_ref, queue, STR("idle-later"));
	s->now_ns += SECOND;
	script_one(s, OP_RESUME, &ref, NULL);
	MSG_SET(&idle, maintain, idle_ns, SECOND);
	script_one(s, OP_PURGE, &idle, NULL);
	MSG_SET(&m, limits, max_queues, 1000);
	script_one(s, OP_SET_LIMITS, &m, NULL);
}

static void times(struct script *s)
{
	struct m_enqueue m = job("job_brief", "mail");

	MSG_SET(&m, enqueue, expire_after, SECOND);
	script_one(s, OP_ENQUEUE, &m, NULL);
	s->now_ns += 10 * SECOND;
	maintain(s, OP_EXPIRE, 0, 0);
	enqueue(s, "job_lost", "lost");
	(void)fetch(s, "lost", "worker-4", 1, 5 * SECOND);
	s->now_ns += 30 * SECOND;
	maintain(s, OP_RECLAIM, 0, 0);
	maintain(s, OP_PROMOTE, 0, 0);
	maintain(s, OP_TRIM_EVENTS, 20, 0);
	maintain(s, OP_PURGE, 0, 60 * SECOND);
	limits(s);
}

/* The clock is set back, and then forward; something of each kind moves. */
static void set_clock(struct script *s, uint64_t by)
{
	struct m_clock_set m = { 0 };

	MSG_SET(&m, clock_set, from_ns, s->now_ns);
	s->now_ns += by;
	MSG_SET(&m, clock_set, to_ns, s->now_ns);
	script_one(s, OP_CLOCK_SET, &m, NULL);
}

/* --- what is there at the end, of the kinds that are gone by now --- */

static void leftovers(struct script *s)
{
	struct str parent = STR("job_y0");
	struct m_enqueue m = job("job_y0", "end");
	struct m_open_batch open = { 0 };
	struct m_batch_ref ref = { 0 };
	uint64_t token;

	MSG_SET(&m, enqueue, unique_key, STR("only\0one"));
	MSG_SET(&m, enqueue, expire_after, 86400 * SECOND);
	script_one(s, OP_ENQUEUE, &m, NULL);
	m = job("job_y1", "end");
	MSG_SET_LIST(&m, enqueue, depends_on, &parent, 1);
	script_one(s, OP_ENQUEUE, &m, NULL);
	enqueue(s, "job_y2", "retry");
	token = fetch(s, "retry", "worker-5", 1, 600 * SECOND);
	heartbeats(s, "worker-5", "job_y2", token);
	fail(s, "job_y2", "not yet", true);
	MSG_SET(&open, open_batch, batch_id, STR("batch_4"));
	script_one(s, OP_OPEN_BATCH, &open, NULL);
	MSG_SET(&open, open_batch, batch_id, STR("batch_5"));
	MSG_SET(&open, open_batch, callback_queue, STR("end"));
	script_one(s, OP_OPEN_BATCH, &open, NULL);
	MSG_SET(&ref, batch_ref, batch_id, STR("batch_5"));
	script_one(s, OP_SEAL_BATCH, &ref, NULL); /* empty: it ends */
}

void golden_script(struct golden *g, struct golden_lines *log)
{
	struct script s = { .g = g, .log = log, .now_ns = START_NS };

	queues(&s);
	jobs(&s);
	batches(&s);
	chains(&s);
	work(&s);
	actions(&s);
	schedules(&s);
	bulks(&s);
	clears(&s);
	times(&s);
	leftovers(&s);
	set_clock(&s, -(uint64_t)(1800 * SECOND));
	set_clock(&s, 900 * SECOND);
	script_cluster(&s);
	script_usage(&s);
	script_push(&s);
	script_agent(&s);
	script_hooks(&s);
	script_sdb(&s);
	script_webhooks(&s);
	script_policy(&s);
	buf_done(&s.entry);
	buf_done(&s.body);
}
