/*
 * Heartbeats: the leases of the jobs in our hands, each prolonged when its own
 * time has come. A message has room for LIMIT_HEARTBEAT_JOBS; when more are
 * due, those that have waited longest go first, and the others follow as soon
 * as it is answered. See push/push_impl.h.
 */
#include "push/outcome.h"
#include "push/push_impl.h"

#define BEAT_NS    NS_PER_S
#define BEAT_SHARE 3 /* of a lease passes between two heartbeats */

/* Between two heartbeats of a job. */
static uint64_t beat_ns(const struct pcall *c)
{
	return MIN(BEAT_NS, MAX(c->job.lease_duration / BEAT_SHARE, NS_PER_MS));
}

/* The next one waits for the answer to the last. */
static void arm(struct push *p)
{
	const struct heap_node *first = heap_min(&p->beats_due);
	uint64_t now_ns = clock_mono_ns();

	if (first == NULL || p->beat != NULL)
		return;
	loop_timer_arm(p->beats, first->key > now_ns ? first->key - now_ns : 0);
}

void pcall_beat_first(struct pcall *c)
{
	heap_update(&c->p->beats_due, &c->beat, clock_mono_ns() + beat_ns(c));
	if (heap_min(&c->p->beats_due) == &c->beat)
		arm(c->p);
}

void pcall_beat_end(struct pcall *c)
{
	heap_remove(&c->p->beats_due, &c->beat);
	list_remove(&c->beaten);
}

/* --- the answer --- */

static void stop(struct pcall *c, bool lost)
{
	struct outcome o = { .kind = OUTCOME_FAILED,
			     .error = "cancelled: the job was cancelled" };

	if (c->state == PCALL_REPORTING)
		return; /* what it reports is answered by itself */
	if (c->state == PCALL_CALLING) {
		call_cancel(c->call);
		c->call = NULL;
		target_note_drop(c->target);
	}
	list_remove(&c->wait);
	if (lost) {
		pcall_leave(c);
		pcall_free(c);
	} else {
		pcall_report_outcome(c, &o);
	}
}

/* Among those of the heartbeat that is answered: mostly its first. */
static struct pcall *find(struct push *p, struct str id)
{
	LIST_FOREACH (it, &p->beaten) {
		struct pcall *c = list_entry(it, struct pcall, beaten);

		if (str_eq(c->job.job_id, id))
			return c;
	}
	return NULL;
}

/* They are answered in the order they were asked in; some have ended since. */
static void take_answer(struct push *p, const struct m_beat_reply *b)
{
	struct pcall *c = find(p, b->job_id);

	if (c == NULL)
		return;
	list_remove(&c->beaten);
	if (!str_is(b->status, "ok"))
		stop(c, b->code.n > 0 || b->unknown);
}

static void on_beaten(void *ctx, const struct rpc_reply *r)
{
	struct push *p = ctx;
	struct arena a = ARENA_INIT;
	struct m_heartbeat_reply m = { 0 };

	p->beat = NULL;
	if (r->err == 0 &&
	    msg_decode(&msg_heartbeat_reply, r->body, &a, &m) == 0)
		for (size_t i = 0; i < m.jobs_n; i++)
			take_answer(p, &m.jobs[i]);
	arena_done(&a);
	while (!list_empty(&p->beaten))
		list_remove(p->beaten.next);
	arm(p);
	push_check_drained(p);
}

/* --- the question --- */

/* In one message also those that would be due soon after it. */
static bool is_due(const struct heap_node *n, uint64_t now_ns)
{
	const struct pcall *c = container_of(n, struct pcall, beat);

	return n->key <= now_ns + beat_ns(c) / 2;
}

static size_t take_due(struct push *p, uint64_t now_ns, struct m_beat *ret)
{
	struct heap_node *first;
	size_t n = 0;

	while (n < LIMIT_HEARTBEAT_JOBS &&
	       (first = heap_min(&p->beats_due)) != NULL &&
	       is_due(first, now_ns)) {
		struct pcall *c = container_of(first, struct pcall, beat);

		heap_update(&p->beats_due, first, now_ns + beat_ns(c));
		list_push_back(&p->beaten, &c->beaten);
		MSG_SET(&ret[n], beat, job_id, c->job.job_id);
		MSG_SET(&ret[n], beat, lease_token, c->job.lease_token);
		n++;
	}
	return n;
}

void pcalls_beat(struct push *p)
{
	uint64_t now_ns = clock_mono_ns();
	struct m_heartbeat m = { 0 };
	struct m_beat *beats;
	size_t n;

	if (p->beat != NULL)
		return; /* its answer goes on */
	arena_reset(&p->scratch);
	beats =
	    arena_zalloc(&p->scratch, LIMIT_HEARTBEAT_JOBS * sizeof(*beats));
	n = take_due(p, now_ns, beats);
	if (n == 0) {
		arm(p);
		return;
	}
	MSG_SET(&m, heartbeat, worker_id, p->worker);
	MSG_SET_LIST(&m, heartbeat, jobs, beats, n);
	buf_clear(&p->out);
	msg_encode(&msg_heartbeat, &m, &p->out);
	p->beat = rpc_call(p->raftd, OP_HEARTBEAT, beats[0].job_id,
			   buf_str(&p->out), now_ns + p->d->settings.op_timeout,
			   ERR_LEADER_UNAVAILABLE, RPC_CHANGES, on_beaten, p);
}
