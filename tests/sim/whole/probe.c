/*
 * When all is at rest a request has an answer at once, a fetch that waits is
 * woken by a job, whoever took it, and one that waits in vain ends in time. Who
 * has applied the same gives the same answers.
 */
#include "proto/proto.h"
#include "util/clock.h"
#include "util/hash.h"
#include "whole.h"

#define SOON_NS (500 * NS_PER_MS)
#define WAIT_NS (2 * NS_PER_S)
#define TRIES   50 /* to ask all of them between two entries */

struct heard {
	bool is_there;
	int err;
	size_t jobs;
	uint64_t hash; /* of the answer to a question */
};

static void on_fetched(void *ctx, const struct rpc_reply *r)
{
	struct heard *h = ctx;
	struct arena a = ARENA_INIT;
	struct m_fetch_reply m;

	*h = (struct heard){ .is_there = true, .err = r->err };
	if (r->err == 0) {
		CHECK(msg_decode(&msg_fetch_reply, r->body, &a, &m) == 0);
		h->jobs = m.jobs_n;
	}
	arena_done(&a);
}

static void on_done(void *ctx, const struct rpc_reply *r)
{
	*(struct heard *)ctx =
	    (struct heard){ .is_there = true, .err = r->err };
}

static void run(struct whole *w, uint64_t ns, const struct heard *h)
{
	uint64_t end = w->sim->now_ns + ns;

	while (w->sim->now_ns < end && (h == NULL || !h->is_there))
		CHECK(sim_step(w->sim));
}

static void fetch(struct machine *m, struct heard *h)
{
	struct str queues[] = { STR("probe") };
	struct m_fetch f = { 0 };
	struct buf b = BUF_INIT(0);

	*h = (struct heard){ 0 };
	MSG_SET_LIST(&f, fetch, queues, queues, 1);
	MSG_SET(&f, fetch, worker_id, STR("probe"));
	MSG_SET(&f, fetch, timeout, WAIT_NS);
	MSG_SET(&f, fetch, lease_duration, 3600 * NS_PER_S);
	MSG_SET(&f, fetch, count, 1);
	MSG_SET(&f, fetch, fetch_id, rng_u64(&m->w->sim->rng));
	msg_encode(&msg_fetch, &f, &b);
	(void)desk_ask(m->desk, OP_FETCH, buf_str(&b),
		       clock_mono_ns() + WAIT_NS + OP_TIMEOUT_NS, on_fetched,
		       h);
	buf_done(&b);
}

static void enqueue(struct machine *m, unsigned n, struct heard *h)
{
	struct m_enqueue e = { 0 };
	struct arena a = ARENA_INIT;
	struct buf b = BUF_INIT(0);

	*h = (struct heard){ 0 };
	MSG_SET(&e, enqueue, job_id, arena_printf(&a, "probe_%u", n));
	MSG_SET(&e, enqueue, queue, STR("probe"));
	MSG_SET(&e, enqueue, payload, STR("1"));
	msg_encode(&msg_enqueue, &e, &b);
	(void)desk_ask(m->desk, OP_ENQUEUE, buf_str(&b),
		       clock_mono_ns() + OP_TIMEOUT_NS, on_done, h);
	buf_done(&b);
	arena_done(&a);
}

static const char *word(const struct heard *h, const char *otherwise)
{
	if (!h->is_there)
		return "no answer";
	return h->err != 0 ? err_code(h->err) : otherwise;
}

/* It ends with its time, and not before. */
static void wait_in_vain(struct whole *w, struct machine *m)
{
	struct heard got;

	fetch(m, &got);
	run(w, WAIT_NS - SOON_NS, &got);
	if (got.is_there)
		whole_fail(w, "a fetch by node %u does not wait: %s",
			   m->host.number, word(&got, "it is answered"));
	run(w, 2 * SOON_NS, &got);
	if (!got.is_there || got.err != 0 || got.jobs != 0)
		whole_fail(w,
			   "a fetch by node %u waits in vain, and at the end "
			   "there is %s",
			   m->host.number, word(&got, "a job"));
}

/* A job that came by that node ends the wait at once. */
static void be_woken(struct whole *w, struct machine *m, struct machine *by)
{
	struct heard got, done;

	fetch(m, &got);
	run(w, SOON_NS, &got);
	enqueue(by, m->host.number, &done);
	run(w, SOON_NS, &done);
	if (!done.is_there || done.err != 0)
		whole_fail(w,
			   "all is at rest, and for a job by node %u there "
			   "is %s",
			   by->host.number, word(&done, ""));
	run(w, SOON_NS, &got);
	if (!got.is_there || got.err != 0 || got.jobs != 1)
		whole_fail(w,
			   "a fetch waits at node %u, node %u takes a job, "
			   "and there is %s",
			   m->host.number, by->host.number,
			   word(&got, "no job"));
}

/* --- the same question to all --- */

static void on_answer(void *ctx, const struct rpc_reply *r)
{
	struct heard *h = ctx;

	*h = (struct heard){ .is_there = true, .err = r->err };
	if (r->err == 0 && r->body.n > 0)
		h->hash = hash_stable(r->body.p, r->body.n);
}

static bool are_equal(const struct whole *w)
{
	for (unsigned i = 0; i < w->plan.machines; i++)
		if (w->machine[i].applied != w->tally.entries)
			return false;
	return true;
}

/* False: an entry came meanwhile. */
static bool compare(struct whole *w, unsigned query, struct str body)
{
	struct heard got[SIM_NODES] = { 0 };
	uint64_t entries = w->tally.entries;
	bool are_same = true;

	for (unsigned i = 0; i < w->plan.machines; i++)
		(void)desk_ask(w->machine[i].desk, query, body,
			       clock_mono_ns() + OP_TIMEOUT_NS, on_answer,
			       &got[i]);
	for (unsigned i = 0; i < w->plan.machines; i++) {
		run(w, SOON_NS, &got[i]);
		if (!got[i].is_there)
			whole_fail(
			    w,
			    "all is at rest, and node %u does not answer "
			    "%s",
			    i, query_info(query)->name);
		are_same = are_same && got[i].err == got[0].err &&
			   got[i].hash == got[0].hash;
	}
	if (w->tally.entries != entries)
		return false;
	if (!are_same)
		whole_fail(w,
			   "nodes are at the same entry, and answer %s "
			   "differently",
			   query_info(query)->name);
	return true;
}

static void ask_all(struct whole *w, unsigned query, const struct msg_desc *d,
		    const void *m)
{
	struct buf b = BUF_INIT(0);
	unsigned tries = 0;

	msg_encode(d, m, &b);
	while (!are_equal(w) || !compare(w, query, buf_str(&b))) {
		if (++tries == TRIES)
			break;
		run(w, NS_PER_MS, NULL);
	}
	buf_done(&b);
}

static void ask_for_all(struct whole *w)
{
	static const struct m_nothing nothing;
	static const struct m_list_schedules schedules;
	static const unsigned lists[] = {
		QUERY_GET_SETTINGS, QUERY_GET_USAGE_SETTINGS,
		QUERY_LIST_PRICES,  QUERY_LIST_POLICIES,
		QUERY_LIST_HOOKS,   QUERY_LIST_WEBHOOKS,
		QUERY_LIST_BULKS,   QUERY_LIST_PROVIDERS,
		QUERY_SDB_NUMBERS,
	};
	static const char *const queues[] = { "w0", "wtimer", "wcostly", "q0",
					      "q1" };
	struct m_queue_ref ref = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		ask_all(w, lists[i], &msg_nothing, &nothing);
	ask_all(w, QUERY_LIST_SCHEDULES, &msg_list_schedules, &schedules);
	for (size_t i = 0; i < ARRAY_SIZE(queues); i++) {
		MSG_SET(&ref, queue_ref, queue, str_from(queues[i]));
		ask_all(w, QUERY_GET_QUEUE, &msg_queue_ref, &ref);
	}
}

void probe_run(struct whole *w)
{
	ask_for_all(w);
	for (unsigned i = 0; i < w->plan.machines; i++) {
		wait_in_vain(w, &w->machine[i]);
		be_woken(w, &w->machine[i],
			 &w->machine[sim_below(w->sim, w->plan.machines)]);
	}
}
