/*
 * Modes that count: enqueue, fill, fetch, lifecycle, lifecycle-batch.
 */
#include <stdio.h>

#include "load_modes.h"
#include "load_stats.h"
#include "util/clock.h"

/* One at a time: the modes share what they need. */
static struct {
	const struct options *o;
	struct buf job, jobs, fetch, fetch_batch; /* bodies */
	struct stats times;
	uint64_t sent, done; /* jobs */
	uint64_t asked;      /* fetches on their way or answered */
	uint64_t acked;
	uint64_t start_ns; /* of `rate` */
	bool timing;
} run;

static void run_begin(const struct options *o, unsigned wait_s)
{
	run.o = o;
	body_job(&run.job, o);
	body_jobs(&run.jobs, o, o->batch);
	body_fetch(&run.fetch, o, wait_s);
	body_fetch_batch(&run.fetch_batch, o, wait_s);
}

static void run_end(const struct http *h)
{
	if (h->refused > 0)
		printf("refused_429_503 %llu\n",
		       (unsigned long long)h->refused);
	buf_done(&run.job);
	buf_done(&run.jobs);
	buf_done(&run.fetch);
	buf_done(&run.fetch_batch);
	stats_done(&run.times);
}

/* Runs as long as asked for and returns how long it really was. */
static uint64_t measure(struct http *h)
{
	uint64_t start_ns = clock_mono_ns();

	run.timing = true;
	http_run(h, run.o->total > 0 ? 0 : start_ns + run.o->time_ns);
	run.timing = false;
	return clock_mono_ns() - start_ns;
}

/* The body of one more job: the same for all, or another each time. */
static struct buf *next_job(void)
{
	if (run.o->groups > 0 || run.o->words > 0)
		body_job(&run.job, run.o);
	return &run.job;
}

static struct buf *next_jobs(void)
{
	if (run.o->words > 0)
		body_jobs(&run.jobs, run.o, run.o->batch);
	return &run.jobs;
}

/* Refused for a moment is false; anything else would make a figure a lie. */
static bool is_taken(const struct answer *a)
{
	if (a->status != 429 && a->status != 503)
		answer_expect(a, 201);
	return a->status == 201;
}

/* --- enqueue --- */

static void enqueue_next(struct hconn *c, const struct answer *a)
{
	if (a != NULL && is_taken(a)) {
		run.done++;
		stats_add(&run.times, (int64_t)a->took_ns);
	}
	http_send(c, PATH_ENQUEUE, next_job(), enqueue_next);
}

void mode_enqueue(struct http *h, const struct options *o)
{
	uint64_t ns;

	run_begin(o, 0);
	for (unsigned i = 0; i < o->connections; i++)
		enqueue_next(http_connect(h), NULL);
	ns = measure(h);
	print_rate("enqueue_per_s", run.done, ns);
	stats_print(&run.times, "enqueue");
	run_end(h);
}

/* --- fill: count jobs in batches --- */

static void fill_next(struct hconn *c, const struct answer *a)
{
	uint64_t left;

	if (a != NULL && is_taken(a))
		run.done += c->n;
	else if (a != NULL)
		run.sent -= c->n; /* the same again */
	if (run.done == run.o->count)
		c->h->stop = true;
	left = run.o->count - run.sent;
	c->n = MIN(left, run.o->batch);
	if (c->n == 0)
		return;
	run.sent += c->n;
	body_jobs(&c->body, run.o, (unsigned)c->n);
	http_send(c, PATH_ENQUEUE_BATCH, &c->body, fill_next);
}

void mode_fill(struct http *h, const struct options *o)
{
	uint64_t start_ns = clock_mono_ns();

	run_begin(o, 0);
	for (unsigned i = 0; i < o->connections; i++)
		fill_next(http_connect(h), NULL);
	http_run(h, 0);
	print_rate("fill_jobs_per_s", run.done, clock_mono_ns() - start_ns);
	run_end(h);
}

/* --- fetch: count single fetches, timed; acks afterwards, untimed --- */

static void fetch_next(struct hconn *c, const struct answer *a)
{
	if (a != NULL) {
		uint64_t token;
		struct str id;

		answer_expect(a, 200);
		run.done++;
		stats_add(&run.times, (int64_t)a->took_ns);
		if (!answer_text(a, "job_id", &id) ||
		    !answer_number(a, "lease_token", &token))
			die("no job: %.*s", STR_ARG(a->body));
		buf_printf(&run.jobs,
			   "%s{\"job_id\":\"%.*s\",\"lease_token\":%llu}",
			   run.jobs.n > 0 ? "," : "", STR_ARG(id),
			   (unsigned long long)token);
	}
	if (run.done == run.o->count)
		c->h->stop = true;
	if (run.asked == run.o->count)
		return;
	run.asked++;
	http_send(c, PATH_FETCH, &run.fetch, fetch_next);
}

static void on_acked_all(struct hconn *c, const struct answer *a)
{
	answer_expect(a, 200);
	c->h->stop = true;
}

/* run.jobs holds the items with commas; an item has one '}'. */
static void ack_fetched(struct hconn *c, unsigned batch)
{
	struct str rest = buf_str(&run.jobs);

	while (rest.n > 0) {
		size_t end = 0;
		unsigned n = 0;

		while (end < rest.n && n < batch)
			if (rest.p[end++] == '}')
				n++;
		buf_clear(&c->body);
		buf_puts(&c->body, "{\"acks\":[");
		buf_append(&c->body, rest.p, end);
		buf_puts(&c->body, "]}");
		http_send(c, PATH_ACK_BATCH, &c->body, on_acked_all);
		http_run(c->h, 0);
		rest = str_skip(rest, end + 1); /* and the comma */
	}
}

void mode_fetch(struct http *h, const struct options *o)
{
	uint64_t start_ns, ns;

	run_begin(o, 0);
	buf_clear(&run.jobs);
	for (unsigned i = 0; i < o->connections; i++)
		(void)http_connect(h);
	start_ns = clock_mono_ns();
	for (unsigned i = 0; i < o->connections; i++)
		fetch_next(h->conns[i], NULL);
	http_run(h, 0);
	ns = clock_mono_ns() - start_ns;
	print_rate("fetch_per_s", run.done, ns);
	stats_print(&run.times, "fetch");
	ack_fetched(h->conns[0], MIN(o->batch, 512u));
	run_end(h);
}

/* --- lifecycles: which of them may begin --- */

#define RATE_TICK_NS (NS_PER_MS)

static bool may_begin(void)
{
	const struct options *o = run.o;
	double s = (double)(clock_mono_ns() - run.start_ns) / 1e9;

	/* others may have left jobs: more can be done than were sent */
	return run.sent < run.acked + o->backlog &&
	       (o->total == 0 || run.sent < o->total) &&
	       (o->rate == 0 || (double)run.sent < s * o->rate);
}

/* Producers that had to wait go on. */
static void wake_producers(struct http *h, answer_fn *produce)
{
	for (unsigned i = 0; i < run.o->producers && may_begin(); i++) {
		struct hconn *c = h->conns[i];

		if (!c->waits)
			continue;
		c->waits = false;
		produce(c, NULL);
	}
}

static void count_acked(struct http *h, uint64_t n)
{
	run.acked += n;
	if (run.timing)
		run.done += n;
	if (run.o->total > 0 && run.acked >= run.o->total)
		h->stop = true;
}

static void next_tick(struct http *h)
{
	h->tick_ns = clock_mono_ns() + RATE_TICK_NS;
}

static void run_lifecycles(struct http *h, const struct options *o,
			   answer_fn *produce, answer_fn *work, tick_fn *tick,
			   const char *name)
{
	uint64_t ns;

	run_begin(o, WAIT_S);
	run.start_ns = clock_mono_ns();
	if (o->rate > 0) {
		h->on_tick = tick;
		next_tick(h);
	}
	for (unsigned i = 0; i < o->producers + o->workers; i++)
		(void)http_connect(h);
	for (unsigned i = 0; i < o->workers; i++)
		work(h->conns[o->producers + i], NULL);
	for (unsigned i = 0; i < o->producers; i++)
		produce(h->conns[i], NULL);
	ns = measure(h);
	print_rate(name, run.done, ns);
	run_end(h);
}

/* --- lifecycle: one by one --- */

static void produce(struct hconn *c, const struct answer *a)
{
	if (a != NULL && !is_taken(a))
		run.sent--;
	if (!may_begin()) {
		c->waits = true;
		return;
	}
	run.sent++;
	http_send(c, PATH_ENQUEUE, next_job(), produce);
}

static void work(struct hconn *c, const struct answer *a);

static void on_acked(struct hconn *c, const struct answer *a)
{
	answer_expect(a, 200);
	count_acked(c->h, 1);
	http_send(c, PATH_FETCH, &run.fetch, work);
	wake_producers(c->h, produce);
}

static void work(struct hconn *c, const struct answer *a)
{
	if (a != NULL && a->status == 200)
		send_ack(c, a, on_acked);
	else
		http_send(c, PATH_FETCH, &run.fetch, work);
}

static void on_tick(struct http *h)
{
	next_tick(h);
	wake_producers(h, produce);
}

void mode_lifecycle(struct http *h, const struct options *o)
{
	run_lifecycles(h, o, produce, work, on_tick, "lifecycles_per_s");
}

/* --- lifecycle-batch --- */

static void produce_batch(struct hconn *c, const struct answer *a)
{
	if (a != NULL && !is_taken(a))
		run.sent -= run.o->batch;
	if (!may_begin()) {
		c->waits = true;
		return;
	}
	run.sent += run.o->batch;
	http_send(c, PATH_ENQUEUE_BATCH, next_jobs(), produce_batch);
}

static void work_batch(struct hconn *c, const struct answer *a);

static void on_batch_acked(struct hconn *c, const struct answer *a)
{
	uint64_t acked = 0;

	answer_expect(a, 200);
	if (!answer_number(a, "acked", &acked) || acked != c->n)
		die("only %llu of %llu acked: %.*s", (unsigned long long)acked,
		    (unsigned long long)c->n, STR_ARG(a->body));
	count_acked(c->h, acked);
	http_send(c, PATH_FETCH_BATCH, &run.fetch_batch, work_batch);
	wake_producers(c->h, produce_batch);
}

static void work_batch(struct hconn *c, const struct answer *a)
{
	c->n = 0;
	if (a != NULL && a->status == 200)
		c->n = send_acks(c, a, on_batch_acked);
	if (c->n == 0)
		http_send(c, PATH_FETCH_BATCH, &run.fetch_batch, work_batch);
}

static void on_batch_tick(struct http *h)
{
	next_tick(h);
	wake_producers(h, produce_batch);
}

void mode_lifecycle_batch(struct http *h, const struct options *o)
{
	run_lifecycles(h, o, produce_batch, work_batch, on_batch_tick,
		       "batch_lifecycles_per_s");
}
