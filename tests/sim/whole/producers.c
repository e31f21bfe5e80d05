/*
 * Producers. What they send follows from the number of a job: its id, its
 * payload. Jobs that the server is to make have a number, too, in the payload
 * that a chain or a batch gives them.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "clients_impl.h"
#include "util/clock.h"

#define PRODUCE_MIN_NS NS_PER_MS
#define PRODUCE_MAX_NS (200 * NS_PER_MS)
#define BURST_MAX      6
#define STEPS_MAX      4
#define TURNS_MAX      4
#define KEYS           6 /* unique ones */

/* --- a job --- */

static struct str payload_of(uint64_t number, enum job_made made,
			     struct arena *a)
{
	return arena_printf(
	    a, made == MADE_BY_CLIENT ? "%" PRIu64 : "{\"n\":%" PRIu64 "}",
	    number);
}

static void fill_job(struct clients *c, struct m_enqueue *m, uint64_t number,
		     unsigned queue, struct arena *a)
{
	struct sim *s = c->w->sim;
	struct job_known *j = job(c, number);

	*m = (struct m_enqueue){ 0 };
	j->queue = queue;
	MSG_SET(m, enqueue, job_id, clients_job_id(c, number, a));
	MSG_SET(m, enqueue, queue, queue_name(queue));
	MSG_SET(m, enqueue, payload, payload_of(number, MADE_BY_CLIENT, a));
	MSG_SET(m, enqueue, max_retries, ATTEMPTS);
	MSG_SET(m, enqueue, retry_base_delay, 10 * NS_PER_MS);
	MSG_SET(m, enqueue, retry_max_delay, 200 * NS_PER_MS);
	MSG_SET(m, enqueue, priority, (uint32_t)sim_below(s, 3));
	if (!sim_chance(s, 15))
		return;
	MSG_SET(m, enqueue, delay, sim_skewed(s, NS_PER_MS, 3 * NS_PER_S));
	j->not_before_ns = s->now_ns + m->delay;
}

static unsigned some_queue(struct clients *c)
{
	return (unsigned)sim_below(c->w->sim, QUEUE_PLAIN);
}

/* --- what else it may be --- */

/* On some that exist, whatever becomes of them. */
static void depend(struct clients *c, struct m_enqueue *m, uint64_t number,
		   struct arena *a)
{
	struct job_known *j = job(c, number);
	struct str *ids = arena_alloc(a, JOB_AFTER * sizeof(*ids));
	size_t most = sim_between(c->w->sim, 1, JOB_AFTER), n = 0;

	for (size_t i = 0; i < most; i++) {
		uint64_t on = some_job(c);

		if (on == 0 || on == number || job(c, on)->is_aside ||
		    (n > 0 && on == j->after[0].from))
			continue;
		ids[n] = clients_job_id(c, on, a);
		j->after[n++] = (struct job_range){ on, 1 };
	}
	if (n == 0)
		return;
	MSG_SET_LIST(m, enqueue, depends_on, ids, n);
	MSG_SET(m, enqueue, on_dependency_failure, DEPENDENCY_IGNORE);
}

static void be_unique(struct clients *c, struct m_enqueue *m, uint64_t number,
		      struct arena *a)
{
	struct job_known *j = job(c, number);

	j->key = 1 + (unsigned)sim_below(c->w->sim, KEYS);
	j->queue = j->key % QUEUE_PLAIN;
	MSG_SET(m, enqueue, queue, queue_name(j->queue));
	MSG_SET(m, enqueue, unique_key, arena_printf(a, "key%u", j->key));
}

static void be_agent(struct clients *c, struct m_enqueue *m, uint64_t number,
		     struct arena *a)
{
	job(c, number)->turns = (unsigned)sim_between(c->w->sim, 1, TURNS_MAX);
	MSG_SET(m, enqueue, agent, arena_zalloc(a, sizeof(*m->agent)));
}

/* The next ones are made by the server, one after the other. */
static uint64_t be_chain(struct clients *c, struct m_enqueue *m,
			 uint64_t number, struct arena *a)
{
	uint64_t n = sim_between(c->w->sim, 2, STEPS_MAX);
	struct m_chain *chain = arena_zalloc(a, sizeof(*chain));
	struct m_chain_step *steps = arena_zalloc(a, n * sizeof(*steps));

	MSG_SET(&steps[0], chain_step, queue, m->queue);
	for (uint64_t i = 1; i < n; i++) {
		uint64_t at = new_job(c);
		struct job_known *j = job(c, at);

		CHECK(at == number + i);
		j->made = MADE_BY_CHAIN;
		j->queue = some_queue(c);
		j->after[0] = (struct job_range){ at - 1, 1 };
		MSG_SET(&steps[i], chain_step, queue, queue_name(j->queue));
		MSG_SET(&steps[i], chain_step, payload,
			payload_of(at, j->made, a));
	}
	MSG_SET_LIST(chain, chain, steps, steps, n);
	MSG_SET(m, enqueue, chain, chain);
	MSG_SET(m, enqueue, chain_id,
		arena_printf(a, "chain_%" PRIu64, number));
	return n;
}

/* --- answers --- */

/* Two jobs of the same key cannot both be there. */
static void look_at_key(struct call *x)
{
	struct clients *c = x->c;
	unsigned key = job(c, x->number)->key;

	for (uint64_t i = 1; i < c->jobs_n; i++) {
		const struct job_known *j = &c->jobs[i];

		if (i != x->number && j->key == key &&
		    j->enqueue == JOB_ACKED && j->acked_ns < x->asked_ns &&
		    clients_have_not_ended(c, i))
			whole_fail(c->w,
				   "job %" PRIu64 " is created with the key of "
				   "job %" PRIu64 ", which has not ended",
				   x->number, i);
	}
}

/* The key was held by another one: this job never was. */
static void look_at_holder(struct call *x, struct str id)
{
	struct clients *c = x->c;
	uint64_t number = number_of_id(id);
	const struct job_known *j;

	if (number == 0 || number >= c->jobs_n ||
	    job(c, number)->key != job(c, x->number)->key)
		whole_fail(c->w,
			   "the key of job %" PRIu64 " is said to be held by "
			   "%.*s, which does not have it",
			   x->number, STR_ARG(id));
	j = job(c, number);
	if (j->is_done && !j->is_again && x->asked_ns > j->done_ns)
		whole_fail(c->w,
			   "the key of job %" PRIu64 " is held by job %" PRIu64
			   ", whose end was answered before",
			   x->number, number);
}

static enum known look_at_one(struct call *x, const struct rpc_reply *r)
{
	struct clients *c = x->c;
	struct job_known *j = job(c, x->number);
	struct arena a = ARENA_INIT;
	struct m_enqueue_reply m;
	enum known ret = JOB_ACKED;

	CHECK(msg_decode(&msg_enqueue_reply, r->body, &a, &m) == 0);
	if (m.unique_existing) {
		look_at_holder(x, m.job_id);
		ret = JOB_REFUSED;
	} else if (j->key > 0) {
		look_at_key(x);
	}
	if (j->again > 0) { /* which of them it is */
		if (number_of_id(m.job_id) != x->number)
			whole_fail(c->w, "job %" PRIu64 " is said to be %.*s",
				   x->number, STR_ARG(m.job_id));
		for (unsigned i = 1; i <= j->again; i++) {
			unsigned last = j->again;

			j->again = i;
			if (str_eq(clients_job_id(c, x->number, &a), m.job_id))
				break;
			j->again = last;
		}
	}
	arena_done(&a);
	return ret;
}

static void note_one(struct call *x, uint64_t number, enum known k, int err)
{
	struct clients *c = x->c;
	struct job_known *j = job(c, number);

	if (k == JOB_REFUSED && j->times > 0)
		whole_fail(
		    c->w,
		    "job %" PRIu64 " was given to a worker, and then its "
		    "enqueue was refused (%s)",
		    number, err != 0 ? err_code(err) : "its key is held");
	if (k == JOB_ACKED) {
		j->acked_ns = c->w->sim->now_ns;
		j->acked_by = x->by;
	}
	j->enqueue =
	    k == JOB_ACKED && j->made != MADE_BY_CLIENT ? JOB_FOLLOWS : k;
}

void note_enqueued(struct call *x, const struct rpc_reply *r)
{
	enum known k = is_refusal(r->err) ? JOB_REFUSED : JOB_UNKNOWN;

	if (r->err == 0)
		k = x->op == OP_ENQUEUE ? look_at_one(x, r) : JOB_ACKED;
	for (uint64_t i = 0; i < x->n; i++)
		note_one(x, x->number + i, k, r->err);
}

/* --- under an Idempotency-Key: until it is known --- */

static void ask_again(struct clients *c, uint64_t number);

static void on_kept(struct call *x, const struct rpc_reply *r)
{
	/* after an answer that says nothing a refusal says nothing either */
	if (is_unsure(r->err) ||
	    (r->err != 0 && job(x->c, x->number)->again > 1))
		ask_again(x->c, x->number);
	else
		note_enqueued(x, r);
}

/* As an httpd does it for a client that sends it again: under another id. */
static void ask_again(struct clients *c, uint64_t number)
{
	struct arena a = ARENA_INIT;
	struct m_enqueue m;
	struct job_known *j = job(c, number);

	j->again++;
	fill_job(c, &m, number, j->again > 1 ? j->queue : some_queue(c), &a);
	MSG_UNSET(&m, enqueue, delay);
	j->not_before_ns = m.delay = 0;
	MSG_SET(&m, enqueue, idempotency_key,
		arena_printf(&a, "once_%" PRIu64, number));
	MSG_SET(&m, enqueue, idempotency_hash, number);
	call(c,
	     (struct call){
		 .op = OP_ENQUEUE, .fn = on_kept, .number = number, .n = 1 },
	     &msg_enqueue, &m, 0);
	arena_done(&a);
}

/* --- requests --- */

static void enqueue_one(struct clients *c)
{
	struct arena a = ARENA_INIT;
	struct m_enqueue m;
	struct sim *s = c->w->sim;
	uint64_t number = new_job(c), n = 1, kind = sim_below(s, 100);

	fill_job(c, &m, number, some_queue(c), &a);
	if (kind < 10)
		depend(c, &m, number, &a);
	else if (kind < 18)
		be_unique(c, &m, number, &a);
	else if (kind < 26)
		be_agent(c, &m, number, &a);
	else if (kind < 32)
		n = be_chain(c, &m, number, &a);
	call(c,
	     (struct call){ .op = OP_ENQUEUE,
			    .fn = note_enqueued,
			    .number = number,
			    .n = n },
	     &msg_enqueue, &m, 0);
	arena_done(&a);
}

/* A batch, with a job at its end. */
static uint64_t be_batch(struct clients *c, struct m_enqueue_batch *m,
			 uint64_t first, uint64_t n, struct arena *a)
{
	struct m_batch_options *o = arena_zalloc(a, sizeof(*o));
	uint64_t number = new_job(c);
	struct job_known *j = job(c, number);

	j->made = MADE_BY_BATCH;
	j->queue = some_queue(c);
	j->after[0] = (struct job_range){ first, n };
	MSG_SET(o, batch_options, callback_queue, queue_name(j->queue));
	MSG_SET(o, batch_options, callback_payload,
		payload_of(number, j->made, a));
	MSG_SET(m, enqueue_batch, batch, o);
	MSG_SET(m, enqueue_batch, batch_id,
		arena_printf(a, "batch_%" PRIu64, first));
	return 1;
}

static void enqueue_some(struct clients *c)
{
	struct arena a = ARENA_INIT;
	struct m_enqueue jobs[BURST_MAX];
	struct m_enqueue_batch m = { 0 };
	uint64_t n = sim_between(c->w->sim, 2, BURST_MAX), first = c->jobs_n;

	for (uint64_t i = 0; i < n; i++)
		fill_job(c, &jobs[i], new_job(c), some_queue(c), &a);
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, n);
	if (people_have_set_queues(c->people) && sim_chance(c->w->sim, 30))
		n += be_batch(c, &m, first, n, &a);
	call(c,
	     (struct call){ .op = OP_ENQUEUE_BATCH,
			    .fn = note_enqueued,
			    .number = first,
			    .n = n },
	     &msg_enqueue_batch, &m, 0);
	arena_done(&a);
}

uint64_t produce_into(struct clients *c, unsigned queue, uint64_t n,
		      call_fn *fn, void *of)
{
	struct arena a = ARENA_INIT;
	struct m_enqueue *jobs = arena_alloc(&a, n * sizeof(*jobs));
	struct m_enqueue_batch m = { 0 };
	uint64_t first = c->jobs_n;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t number = new_job(c);

		fill_job(c, &jobs[i], number, queue, &a);
		job(c, number)->is_aside = queue == QUEUE_COSTLY;
	}
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, n);
	call(c,
	     (struct call){ .op = OP_ENQUEUE_BATCH,
			    .fn = fn,
			    .of = of,
			    .number = first,
			    .n = n },
	     &msg_enqueue_batch, &m, 0);
	arena_done(&a);
	return first;
}

static void on_produce(void *ctx)
{
	struct clients *c = ctx;
	struct sim *s = c->w->sim;
	unsigned n = (unsigned)sim_skewed(s, 1, BURST_MAX);

	for (unsigned i = 0; i < n; i++) {
		uint64_t kind = sim_below(s, 100);

		if (kind < 30)
			enqueue_some(c);
		else if (kind < 35)
			ask_again(c, new_job(c));
		else if (kind < 40 && people_have_set_budget(c->people))
			(void)produce_into(c, QUEUE_COSTLY, 1, note_enqueued,
					   NULL);
		else
			enqueue_one(c);
	}
	sim_after(s, &c->produce, NULL,
		  sim_skewed(s, PRODUCE_MIN_NS, PRODUCE_MAX_NS), on_produce, c);
}

void produce_begin(struct clients *c)
{
	on_produce(c);
}
