/*
 * Modes over streams of StreamLifecycle: stream-enqueue, stream-lifecycle.
 *
 * A producer keeps --depth frames under way, each adds --batch jobs. A worker
 * keeps as many that wait for --batch jobs; the next frame of a place acks what
 * the last one brought. Answers are read by hand, as little of them as is
 * needed: what is spent here is taken from the server's processors.
 */
#include <stdio.h>
#include <stdlib.h>

#include "load_h2.h"
#include "load_modes.h"
#include "rpc/pb/wire.h"
#include "util/clock.h"

#define PATH_LIFECYCLE "/corvo.v1.WorkerService/StreamLifecycle"

/* Numbers of docs/reference/worker.proto. */
enum {
	ASK_REQUEST_ID = 1,
	ASK_QUEUES = 2,
	ASK_WORKER_ID = 3,
	ASK_FETCH_COUNT = 6,
	ASK_ACKS = 7,
	ASK_ENQUEUES = 8,
	ASK_WAIT_MS = 102,
	ASK_LEASE_MS = 103,
	ENQUEUE_QUEUE = 1,
	ENQUEUE_PAYLOAD = 2,
	REPLY_REQUEST_ID = 1,
	REPLY_JOBS = 2,
	REPLY_ACKED = 3,
	REPLY_ERROR = 4,
	REPLY_JOB_IDS = 5,
	JOB_ID = 1, /* of a fetched job, and of an ack */
	JOB_TOKEN = 100,
};

struct producer {
	struct h2_call *call;
	uint64_t *sent_ns; /* of the frames under way, a ring */
	unsigned first, n;
	uint64_t request_id; /* of the newest of them */
};

struct worker {
	struct h2_call *call;
	unsigned *acks; /* by place: how many its frame has */
};

static struct {
	const struct options *o;
	struct h2_load load;
	struct producer *producers;
	struct worker *workers;
	struct buf jobs, fetch; /* frames without their first members */
	struct times times;
	uint64_t sent, added, acked; /* jobs */
	uint64_t refused;            /* frames */
	bool has_workers;
} run;

/* --- answers --- */

struct reply {
	uint64_t request_id;
	uint64_t acked;
	unsigned job_ids, jobs;
	bool is_refused;
};

static void note_error(struct reply *r, struct str text)
{
	if (!str_starts(text, STR("OVERLOADED")))
		die("a frame was refused: %.*s", STR_ARG(text));
	r->is_refused = true;
	run.refused++;
}

/* The next field of a message: *v or *bytes, by its type. 0: there is none. */
static uint32_t next_field(struct wire *w, uint64_t *v, struct str *bytes)
{
	enum wire_type type;
	uint32_t number;

	if (w->p == w->end)
		return 0;
	if (!wire_tag(w, &number, &type) ||
	    !(type == WIRE_VARINT ? wire_varint(w, v)
				  : type == WIRE_BYTES && wire_bytes(w, bytes)))
		die("an answer cannot be read");
	return number;
}

static struct reply read_reply(struct str message)
{
	struct wire w = wire_of(message);
	struct reply r = { 0 };
	struct str bytes;
	uint32_t number;
	uint64_t v;

	while ((number = next_field(&w, &v, &bytes)) != 0) {
		r.job_ids += number == REPLY_JOB_IDS;
		r.jobs += number == REPLY_JOBS;
		if (number == REPLY_REQUEST_ID)
			r.request_id = v;
		else if (number == REPLY_ACKED)
			r.acked = v;
		else if (number == REPLY_ERROR)
			note_error(&r, bytes);
	}
	return r;
}

/* --- producers --- */

static bool may_begin(void)
{
	return !run.has_workers || run.sent < run.acked + run.o->backlog;
}

static void produce(struct producer *p)
{
	while (p->n < run.o->depth && may_begin()) {
		size_t start;
		struct buf *b = h2_message_begin(p->call, &start);

		wire_put_number(b, ASK_REQUEST_ID, ++p->request_id);
		buf_put_str(b, buf_str(&run.jobs));
		h2_message_end(p->call, start);
		p->sent_ns[(p->first + p->n++) % run.o->depth] =
		    clock_mono_ns();
		run.sent += run.o->batch;
	}
}

static void on_added(struct h2_call *c, struct str message)
{
	struct producer *p = c->ctx;
	struct reply r = read_reply(message);

	if (p->n == 0 || r.request_id != p->request_id - p->n + 1)
		die("an answer to no frame, or not in order");
	if (r.job_ids != (r.is_refused ? 0 : run.o->batch))
		die("%u jobs were added instead of %u", r.job_ids,
		    run.o->batch);
	times_add(&run.times,
		  (int64_t)(clock_mono_ns() - p->sent_ns[p->first]));
	p->first = (p->first + 1) % run.o->depth;
	p->n--;
	run.added += r.job_ids;
	if (r.is_refused)
		run.sent -= run.o->batch;
	produce(p);
}

/* --- workers --- */

static void put_ack(struct buf *b, struct str job)
{
	struct wire w = wire_of(job);
	size_t start = wire_open(b, ASK_ACKS);
	struct str bytes;
	uint32_t number;
	uint64_t v;

	while ((number = next_field(&w, &v, &bytes)) != 0)
		if (number == JOB_ID)
			wire_put_bytes(b, JOB_ID, bytes);
		else if (number == JOB_TOKEN)
			wire_put_number(b, JOB_TOKEN, v);
	wire_close(b, start);
}

/* The next frame of a place: acks the jobs of its last answer. */
static void work(struct worker *w, uint64_t request_id, struct str answer)
{
	struct wire in = wire_of(answer);
	size_t start;
	struct buf *b = h2_message_begin(w->call, &start);
	struct str bytes;
	uint32_t number;
	uint64_t v;

	wire_put_number(b, ASK_REQUEST_ID, request_id);
	buf_put_str(b, buf_str(&run.fetch));
	while ((number = next_field(&in, &v, &bytes)) != 0)
		if (number == REPLY_JOBS)
			put_ack(b, bytes);
	h2_message_end(w->call, start);
}

static void on_jobs(struct h2_call *c, struct str message)
{
	struct worker *w = c->ctx;
	struct reply r = read_reply(message);

	if (r.request_id == 0 || r.request_id > run.o->depth)
		die("an answer to no frame");
	if (r.is_refused)
		die("a worker was refused");
	if (r.acked != w->acks[r.request_id - 1])
		die("only %llu of %u jobs were acked",
		    (unsigned long long)r.acked, w->acks[r.request_id - 1]);
	run.acked += r.acked;
	w->acks[r.request_id - 1] = r.jobs;
	work(w, r.request_id, message);
	for (unsigned i = 0; i < run.o->producers && may_begin(); i++)
		produce(&run.producers[i]);
}

/* --- the modes --- */

static void put_jobs(struct buf *b, const struct options *o)
{
	_cleanup_(buf_done) struct buf payload = BUF_INIT(0);

	buf_puts(&payload, "{\"text\":\"");
	for (unsigned i = 0; i + 11 < o->payload; i++)
		buf_putc(&payload, (char)('a' + i % 26));
	buf_puts(&payload, "\"}");
	for (unsigned i = 0; i < o->batch; i++) {
		size_t start = wire_open(b, ASK_ENQUEUES);

		wire_put_bytes(b, ENQUEUE_QUEUE, str_from(o->queue));
		wire_put_bytes(b, ENQUEUE_PAYLOAD, buf_str(&payload));
		wire_close(b, start);
	}
}

static void put_fetch(struct buf *b, const struct options *o)
{
	wire_put_bytes(b, ASK_QUEUES, str_from(o->queue));
	wire_put_bytes(b, ASK_WORKER_ID, STR("load"));
	wire_put_number(b, ASK_FETCH_COUNT, o->batch);
	wire_put_number(b, ASK_WAIT_MS, WAIT_S * 1000);
	wire_put_number(b, ASK_LEASE_MS, o->lease_ns / NS_PER_MS);
}

static void start_workers(const struct options *o)
{
	run.has_workers = true;
	run.workers = xcalloc(o->workers, sizeof(*run.workers));
	for (unsigned i = 0; i < o->workers; i++) {
		struct worker *w = &run.workers[i];

		w->acks = xcalloc(o->depth, sizeof(*w->acks));
		w->call = h2_open(&run.load, PATH_LIFECYCLE, on_jobs, w);
		for (unsigned k = 1; k <= o->depth; k++)
			work(w, k, STR(""));
	}
}

static void start_producers(const struct options *o)
{
	run.producers = xcalloc(o->producers, sizeof(*run.producers));
	for (unsigned i = 0; i < o->producers; i++) {
		struct producer *p = &run.producers[i];

		p->sent_ns = xcalloc(o->depth, sizeof(*p->sent_ns));
		p->call = h2_open(&run.load, PATH_LIFECYCLE, on_added, p);
	}
	for (unsigned i = 0; i < o->producers; i++)
		produce(&run.producers[i]);
}

static void run_end(const struct options *o, const char *name, uint64_t jobs,
		    uint64_t ns)
{
	printf("%s %.0f\n", name, (double)jobs * 1e9 / (double)ns);
	print_times(&run.times, "stream_enqueue");
	if (run.refused > 0)
		printf("refused_frames %llu\n",
		       (unsigned long long)run.refused);
	h2_load_done(&run.load);
	for (unsigned i = 0; i < o->producers; i++)
		free(run.producers[i].sent_ns);
	for (unsigned i = 0; run.has_workers && i < o->workers; i++)
		free(run.workers[i].acks);
	free(run.producers);
	free(run.workers);
	buf_done(&run.jobs);
	buf_done(&run.fetch);
}

static uint64_t measure(struct client *cl, const struct options *o, bool lives)
{
	uint64_t start_ns;

	run.o = o;
	put_jobs(&run.jobs, o);
	put_fetch(&run.fetch, o);
	h2_load_init(&run.load, cl, o->connections);
	start_ns = clock_mono_ns();
	if (lives)
		start_workers(o);
	start_producers(o);
	h2_run(&run.load, start_ns + o->time_ns);
	return clock_mono_ns() - start_ns;
}

void mode_stream_enqueue(struct client *cl, const struct options *o)
{
	uint64_t ns = measure(cl, o, false);

	run_end(o, "stream_enqueue_per_s", run.added, ns);
}

void mode_stream_lifecycle(struct client *cl, const struct options *o)
{
	uint64_t ns = measure(cl, o, true);

	run_end(o, "stream_lifecycles_per_s", run.acked, ns);
}
