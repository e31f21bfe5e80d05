/*
 * See view_world.h. Operations are chosen so that every state and every
 * event comes up in a few thousand steps; refused ones are part of the life.
 */
#include "view_world.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/testlib.h"
#include "rt/file.h"
#include "store/format.h"
#include "view.h"

static struct str queue_name(struct world *w)
{
	static const char *const names[WORLD_QUEUES] = { "mail",
							 "a \"quoted\" queue",
							 "z\xc3\xbcrich", "x" };

	return str_from(names[rng_below(w->rng, WORLD_QUEUES)]);
}

static bool chance(struct world *w, unsigned percent)
{
	return rng_below(w->rng, 100) < percent;
}

/* --- operations --- */

static void on_reply(void *ctx, size_t item, int err, uint64_t seq,
		     struct str body)
{
	struct world *w = ctx;
	struct arena a = ARENA_INIT;
	struct m_fetch_reply r;

	(void)item;
	(void)seq;
	if (err != 0)
		return;
	assert_int_equal(msg_decode(&msg_fetch_reply, body, &a, &r), 0);
	for (size_t i = 0; i < r.jobs_n; i++) {
		struct world_held *h;

		if (w->held_n == w->held_cap) {
			w->held_cap = MAX(w->held_cap * 2, (size_t)64);
			w->held =
			    xrealloc(w->held, w->held_cap * sizeof(*w->held));
		}
		h = &w->held[w->held_n++];
		(void)snprintf(h->id, sizeof(h->id), "%.*s",
			       STR_ARG(r.jobs[i].job_id));
		h->token = r.jobs[i].lease_token;
	}
	arena_done(&a);
}

static void apply(struct world *w, enum op_id op, const struct msg_desc *d,
		  const void *m)
{
	struct entry_item item = { .op = op };
	struct frame_writer fw;

	buf_clear(&w->body);
	msg_encode(d, m, &w->body);
	item.body = buf_str(&w->body);
	entry_begin(&fw, &w->entry, w->now_ns, rng_u64(w->rng));
	entry_add(&fw, &item);
	entry_end(&fw);
	assert_int_equal(fsm_apply(w->fsm, ++w->index, buf_str(&w->entry),
				   op == OP_FETCH ? on_reply : NULL, w),
			 0);
}

static struct str any_job(struct world *w)
{
	/* Mostly a late one: earlier ones have ended or are gone. */
	uint64_t back = rng_below(w->rng, MIN(w->jobs_n, (size_t)60));

	return str_from(w->jobs[w->jobs_n - 1 - back]);
}

static struct str any_batch(struct world *w)
{
	size_t n = MIN(w->batches_n, (size_t)WORLD_BATCHES);

	return str_from(w->batches[rng_below(w->rng, n)]);
}

static void open_batch(struct world *w)
{
	struct m_open_batch m = { 0 };
	char id[ID_LEN_MAX];

	(void)id_make(&w->ids, "batch_", w->now_ns, id);
	MSG_SET(&m, open_batch, batch_id, str_from(id));
	if (chance(w, 50))
		MSG_SET(&m, open_batch, callback_queue, queue_name(w));
	if (chance(w, 50))
		MSG_SET(&m, open_batch, callback_payload, STR("{\"a\":1}"));
	if (chance(w, 30) && w->batches_n > 0)
		MSG_SET(&m, open_batch, parent_id, any_batch(w));
	apply(w, OP_OPEN_BATCH, &msg_open_batch, &m);
	(void)snprintf(w->batches[w->batches_n++ % WORLD_BATCHES], ID_LEN_MAX,
		       "%s", id);
}

static void seal_batch(struct world *w)
{
	struct m_batch_ref m = { 0 };

	if (w->batches_n == 0)
		return;
	MSG_SET(&m, batch_ref, batch_id, any_batch(w));
	apply(w, OP_SEAL_BATCH, &msg_batch_ref, &m);
}

/* Three of them, set, run and deleted again and again. */
static void set_schedule(struct world *w, struct str id, struct str name)
{
	struct m_schedule_job job = { 0 };
	struct m_schedule m = { 0 };

	MSG_SET(&m, schedule, id, id);
	MSG_SET(&m, schedule, name, name);
	MSG_SET(&m, schedule, queue, queue_name(w));
	MSG_SET(&m, schedule, cron, STR("@daily"));
	MSG_SET(&m, schedule, create, chance(w, 80));
	MSG_SET(&m, schedule, overlap, (uint32_t)rng_below(w->rng, 3));
	MSG_SET(&m, schedule, next_run, w->now_ns + NS_PER_S);
	if (chance(w, 50))
		MSG_SET(&m, schedule, jitter, 1500001);
	if (chance(w, 50)) {
		MSG_SET(&job, schedule_job, payload, STR("[1]"));
		MSG_SET(&job, schedule_job, unique_key, STR("u"));
		MSG_SET(&m, schedule, job, &job);
	}
	if (chance(w, 20))
		MSG_SET(&m, schedule, max_runs, 2);
	apply(w, OP_SET_SCHEDULE, &msg_schedule, &m);
}

static void schedule(struct world *w)
{
	static const char *const ids[] = { "sched_1", "sched_2", "sched_3" };
	struct str id = str_from(ids[rng_below(w->rng, 3)]);
	struct m_schedule_ref ref = { 0 };
	struct m_pause_schedule pause = { 0 };
	struct m_fire fire = { 0 };
	char job[ID_LEN_MAX];

	switch (rng_below(w->rng, 4)) {
	case 0:
		set_schedule(w, id, str_from(ids[rng_below(w->rng, 3)]));
		break;
	case 1:
		MSG_SET(&ref, schedule_ref, id, id);
		apply(w, OP_DELETE_SCHEDULE, &msg_schedule_ref, &ref);
		break;
	case 2:
		MSG_SET(&pause, pause_schedule, id, id);
		MSG_SET(&pause, pause_schedule, paused, chance(w, 70));
		apply(w, OP_PAUSE_SCHEDULE, &msg_pause_schedule, &pause);
		break;
	default:
		(void)id_make(&w->ids, "job_", w->now_ns, job);
		MSG_SET(&fire, fire, id, id);
		MSG_SET(&fire, fire, job_id, str_from(job));
		apply(w, OP_RUN_SCHEDULE, &msg_fire, &fire);
	}
}

/* What ties it to other jobs; `parents` and `steps` are the caller's. */
static void fill_links(struct world *w, struct m_enqueue *m,
		       struct str *parents, struct m_chain *chain,
		       struct m_chain_step *steps)
{
	if (chance(w, 15)) {
		parents[0] = any_job(w);
		MSG_SET_LIST(m, enqueue, depends_on, parents, 1);
		MSG_SET(m, enqueue, on_dependency_failure,
			(uint32_t)rng_below(w->rng, 2));
	}
	if (chance(w, 10)) {
		MSG_SET(m, enqueue, unique_key,
			chance(w, 50) ? STR("u") : STR("\"v\""));
		if (chance(w, 50))
			MSG_SET(m, enqueue, unique_period, 30 * NS_PER_S);
		MSG_SET(m, enqueue, unique_action, UNIQUE_REPLACE);
	}
	if (chance(w, 20) && w->batches_n > 0)
		MSG_SET(m, enqueue, batch_id, any_batch(w));
	if (chance(w, 20))
		MSG_SET(m, enqueue, group, STR("g"));
	if (chance(w, 20))
		MSG_SET(m, enqueue, timeout, 10 * NS_PER_S);
	if (!chance(w, 10))
		return;
	MSG_SET(&steps[0], chain_step, queue, m->queue);
	MSG_SET(&steps[1], chain_step, queue, queue_name(w));
	MSG_SET_LIST(chain, chain, steps, steps, 2);
	MSG_SET(chain, chain, on_exit, &steps[1]);
	MSG_SET(m, enqueue, chain, chain);
	MSG_SET(m, enqueue, chain_id, STR("chn_1"));
}

static void enqueue(struct world *w)
{
	struct m_chain_step steps[2] = { 0 };
	struct m_chain chain = { 0 };
	struct m_enqueue m = { 0 };
	struct m_agent agent = { 0 };
	struct str parents[1];
	char *id;

	if (w->jobs_n == w->jobs_cap) {
		w->jobs_cap = MAX(w->jobs_cap * 2, (size_t)256);
		w->jobs = xrealloc(w->jobs, w->jobs_cap * sizeof(*w->jobs));
	}
	id = w->jobs[w->jobs_n++];
	(void)id_make(&w->ids, "job_", w->now_ns, id);
	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, queue_name(w));
	MSG_SET(&m, enqueue, payload, STR("{\"to\": \"somebody\"}"));
	MSG_SET(&m, enqueue, priority, (uint32_t)rng_below(w->rng, 3));
	MSG_SET(&m, enqueue, max_retries, (uint32_t)rng_below(w->rng, 4));
	if (chance(w, 20))
		MSG_SET(&m, enqueue, retry_base_delay, 1500001);
	if (chance(w, 20))
		MSG_SET(&m, enqueue, retry_jitter, 0.25);
	if (chance(w, 30))
		MSG_SET(&m, enqueue, scheduled_at,
			w->now_ns + rng_below(w->rng, 60 * NS_PER_S));
	if (chance(w, 20))
		MSG_SET(&m, enqueue, expire_after,
			1 + rng_below(w->rng, 120 * NS_PER_S));
	if (chance(w, 20))
		MSG_SET(&m, enqueue, as_numbers, DUR_EXPIRE_AFTER);
	if (chance(w, 20))
		MSG_SET(&m, enqueue, tags, STR("{\"a\":\"b\"}"));
	if (chance(w, 20))
		MSG_SET(&m, enqueue, checkpoint, STR("\"first\""));
	if (chance(w, 10))
		MSG_SET(&m, enqueue, parent_id, str_from(w->jobs[0]));
	if (chance(w, 30))
		MSG_SET(&m, enqueue, agent, &agent);
	fill_links(w, &m, parents, &chain, steps);
	apply(w, OP_ENQUEUE, &msg_enqueue, &m);
}

static void fetch(struct world *w)
{
	struct m_fetch m = { 0 };
	struct str queues[2] = { queue_name(w), queue_name(w) };
	char worker[16];

	(void)snprintf(worker, sizeof(worker), "worker-%u",
		       (unsigned)rng_below(w->rng, 5));
	MSG_SET_LIST(&m, fetch, queues, queues, 2);
	MSG_SET(&m, fetch, worker_id, str_from(worker));
	MSG_SET(&m, fetch, hostname, STR("host"));
	MSG_SET(&m, fetch, lease_duration, 20 * NS_PER_S);
	MSG_SET(&m, fetch, count, 1 + (uint32_t)rng_below(w->rng, 3));
	MSG_SET(&m, fetch, fetch_id, ++w->fetches);
	apply(w, OP_FETCH, &msg_fetch, &m);
}

/* Takes one job out of the hands of the workers; false when there is none. */
static bool take_held(struct world *w, struct world_held *ret)
{
	size_t i;

	if (w->held_n == 0)
		return false;
	i = rng_below(w->rng, w->held_n);
	*ret = w->held[i];
	w->held[i] = w->held[--w->held_n];
	return true;
}

/* As agents do; of other jobs most of it is refused. */
static void fill_turn(struct world *w, struct m_ack *m, struct m_usage *u)
{
	if (chance(w, 50))
		MSG_SET(m, ack, agent_status, (uint32_t)rng_below(w->rng, 3));
	if (chance(w, 20))
		MSG_SET(m, ack, hold_reason, STR("ask me"));
	if (chance(w, 20))
		MSG_SET(m, ack, trace, STR("{\"t\":1}"));
	if (!chance(w, 50))
		return;
	MSG_SET(u, usage, input_tokens, rng_below(w->rng, 100));
	MSG_SET(u, usage, cost_usd, rng_below(w->rng, NS_PER_S));
	MSG_SET(u, usage, model, chance(w, 50) ? STR("large") : STR("small"));
	MSG_SET(u, usage, provider, chance(w, 50) ? STR("acme") : STR("zeta"));
	MSG_SET(m, ack, usage, u);
}

static void ack(struct world *w)
{
	struct m_ack m = { 0 };
	struct m_usage u = { 0 };
	struct world_held h;

	if (!take_held(w, &h))
		return;
	MSG_SET(&m, ack, job_id, str_from(h.id));
	MSG_SET(&m, ack, lease_token, h.token);
	if (chance(w, 50))
		MSG_SET(&m, ack, result, STR("[1, 2]"));
	if (chance(w, 20))
		MSG_SET(&m, ack, checkpoint, STR("\"last\""));
	fill_turn(w, &m, &u);
	apply(w, OP_ACK, &msg_ack, &m);
}

/* One job's loop, so many times around; nothing else happens meanwhile. */
void world_loop(struct world *w, unsigned turns)
{
	struct m_agent agent = { 0 };
	struct m_enqueue job = { 0 };
	struct m_fetch take = { 0 };
	struct m_ack ack = { 0 };
	struct str queue = STR("loop");

	MSG_SET(&job, enqueue, job_id, STR("job_loop"));
	MSG_SET(&job, enqueue, queue, queue);
	MSG_SET(&job, enqueue, agent, &agent);
	if (!w->loops)
		apply(w, OP_ENQUEUE, &msg_enqueue, &job);
	w->loops = true;
	MSG_SET_LIST(&take, fetch, queues, &queue, 1);
	MSG_SET(&ack, ack, job_id, job.job_id);
	MSG_SET(&ack, ack, agent_status, AGENT_CONTINUE);
	for (unsigned i = 0; i < turns; i++) {
		w->now_ns += NS_PER_S;
		MSG_SET(&take, fetch, fetch_id, ++w->fetches);
		apply(w, OP_FETCH, &msg_fetch, &take);
		apply(w, OP_ACK, &msg_ack, &ack);
	}
}

static void score(struct world *w)
{
	struct m_score m = { 0 };

	if (w->jobs_n == 0)
		return;
	MSG_SET(&m, score, job_id, any_job(w));
	MSG_SET(&m, score, name, chance(w, 50) ? STR("good") : STR("neat"));
	MSG_SET(&m, score, value, (double)rng_below(w->rng, 9));
	if (chance(w, 50))
		MSG_SET(&m, score, iteration, 1);
	apply(w, OP_SCORE, &msg_score, &m);
}

static void fail_job(struct world *w)
{
	struct m_fail m = { 0 };
	struct world_held h;

	if (!take_held(w, &h))
		return;
	MSG_SET(&m, fail, job_id, str_from(h.id));
	MSG_SET(&m, fail, lease_token, h.token);
	MSG_SET(&m, fail, error, STR("it broke"));
	if (chance(w, 30))
		MSG_SET(&m, fail, backtrace, STR("line 1\nline 2"));
	if (chance(w, 20))
		MSG_SET(&m, fail, requeue, true);
	if (chance(w, 50))
		MSG_SET(&m, fail, provider, STR("acme"));
	apply(w, OP_FAIL, &msg_fail, &m);
}

static void heartbeat(struct world *w)
{
	struct m_heartbeat m = { 0 };
	struct m_beat b = { 0 };

	if (w->held_n == 0)
		return;
	MSG_SET(&b, beat, job_id,
		str_from(w->held[rng_below(w->rng, w->held_n)].id));
	MSG_SET(&b, beat, progress, STR("{\"current\": 1}"));
	MSG_SET(&b, beat, checkpoint, STR("\"on the way\""));
	MSG_SET_LIST(&m, heartbeat, jobs, &b, 1);
	apply(w, OP_HEARTBEAT, &msg_heartbeat, &m);
}

static void on_any_job(struct world *w, enum op_id op)
{
	struct m_job_ref m = { 0 };

	if (w->jobs_n == 0)
		return;
	MSG_SET(&m, job_ref, job_id,
		str_from(w->jobs[rng_below(w->rng, w->jobs_n)]));
	apply(w, op, &msg_job_ref, &m);
}

static void move(struct world *w)
{
	struct m_move m = { 0 };

	if (w->jobs_n == 0)
		return;
	MSG_SET(&m, move, job_id, any_job(w));
	MSG_SET(&m, move, queue, queue_name(w));
	apply(w, OP_MOVE, &msg_move, &m);
}

static void set_priority(struct world *w)
{
	struct m_set_priority m = { 0 };

	if (w->jobs_n == 0)
		return;
	MSG_SET(&m, set_priority, job_id, any_job(w));
	MSG_SET(&m, set_priority, priority, (uint32_t)rng_below(w->rng, 3));
	apply(w, OP_PRIORITY, &msg_set_priority, &m);
}

static void hold(struct world *w, enum op_id op)
{
	struct m_hold m = { 0 };

	if (w->jobs_n == 0)
		return;
	MSG_SET(&m, hold, job_id, any_job(w));
	MSG_SET(&m, hold, reason, STR("to be looked at"));
	apply(w, op, &msg_hold, &m);
}

/* What people do to jobs, each rarely. */
static void act(struct world *w)
{
	static const enum op_id ops[] = { OP_APPROVE, OP_REQUEUE };

	switch (rng_below(w->rng, 6)) {
	case 5:
		score(w);
		break;
	case 0:
		move(w);
		break;
	case 1:
		set_priority(w);
		break;
	case 2:
		hold(w, OP_HOLD);
		break;
	case 3:
		hold(w, OP_REJECT);
		break;
	default:
		on_any_job(w, ops[rng_below(w->rng, 2)]);
	}
}

/* A portion; what is left goes with the next ones. */
static void clear(struct world *w)
{
	struct m_clear_queue m = { 0 };

	MSG_SET(&m, clear_queue, queue, queue_name(w));
	apply(w, chance(w, 50) ? OP_CLEAR_QUEUE : OP_DELETE_QUEUE,
	      &msg_clear_queue, &m);
}

static void on_queue(struct world *w, enum op_id op)
{
	struct m_queue_ref m = { 0 };

	MSG_SET(&m, queue_ref, queue, queue_name(w));
	apply(w, op, &msg_queue_ref, &m);
}

static void maintain(struct world *w, enum op_id op)
{
	struct m_maintain m = { 0 };

	MSG_SET(&m, maintain, limit, 1 + (uint32_t)rng_below(w->rng, 10));
	MSG_SET(&m, maintain, retention_ns, 600 * NS_PER_S);
	apply(w, op, &msg_maintain, &m);
}

void world_apply(struct world *w, enum op_id op, const struct msg_desc *d,
		 const void *m)
{
	apply(w, op, d, m);
}

void world_step(struct world *w)
{
	uint64_t dice = rng_below(w->rng, 122);

	w->now_ns += rng_below(w->rng, NS_PER_S);
	if (dice < 30)
		enqueue(w);
	else if (dice < 50)
		fetch(w);
	else if (dice < 60)
		ack(w);
	else if (dice < 70)
		fail_job(w);
	else if (dice < 74)
		heartbeat(w);
	else if (dice < 78)
		on_any_job(w, OP_CANCEL);
	else if (dice < 82)
		on_any_job(w, OP_RETRY);
	else if (dice < 85)
		on_any_job(w, OP_DELETE);
	else if (dice < 86)
		on_queue(w, OP_PAUSE);
	else if (dice < 88)
		on_queue(w, OP_RESUME);
	else if (dice < 92)
		maintain(w, OP_PROMOTE);
	else if (dice < 96)
		maintain(w, OP_RECLAIM);
	else if (dice < 99)
		maintain(w, OP_EXPIRE);
	else if (dice < 100)
		maintain(w, OP_PURGE);
	else if (dice < 109)
		act(w);
	else if (dice < 111)
		open_batch(w);
	else if (dice < 113)
		seal_batch(w);
	else if (dice < 115)
		schedule(w);
	else if (dice < 117)
		world_webhook(w);
	else if (dice < 121)
		world_scheddb(w);
	else if (chance(w, 10))
		clear(w);
}

/* --- life --- */

const char *world_path(struct world *w, const char *name)
{
	static char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	return path;
}

void world_init(struct world *w, struct rng *r)
{
	struct kv_options o = { .write_buffer_bytes = 8u << 20,
				.cache_bytes = 8u << 20 };
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct m_level level = { 0 };

	*w = (struct world){ .rng = r, .now_ns = 1794700000 * NS_PER_S };
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/corvo-view-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(
	    kv_rocks_open(world_path(w, "rocks"), &o, &w->kv, &why), 0);
	assert_int_equal(format_prepare(w->kv, NULL, &why), 0);
	w->fsm = fsm_new(w->kv);
	assert_int_equal(fsm_load(w->fsm), 0);
	MSG_SET(&level, level, level, FEATURE_LEVEL);
	apply(w, OP_SET_LEVEL, &msg_level, &level);
}

void world_done(struct world *w)
{
	fsm_free(w->fsm);
	kv_close(w->kv);
	assert_int_equal(dir_remove(w->dir), 0);
	free(w->jobs);
	free(w->held);
	buf_done(&w->entry);
	buf_done(&w->body);
}

void world_open_view(struct world *w, struct view *v)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	assert_int_equal(view_init(v, w->dir, &why), 0);
	assert_int_equal(view_open(v, &why), 0);
}

void world_close_view(struct view *v)
{
	view_close(v, false);
	view_done(v);
}
