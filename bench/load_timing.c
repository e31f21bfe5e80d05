/*
 * Modes that look at single moments: wake, park, schedule, lease.
 */
#include <stdio.h>
#include <stdlib.h>

#include "load_modes.h"
#include "load_stats.h"
#include "util/clock.h"
#include "util/hmap.h"
#include "util/timefmt.h"

#define SETTLE_NS (500 * NS_PER_MS) /* until every fetch is parked */
#define AHEAD_NS  (2 * NS_PER_S)    /* from an enqueue to its schedule */

static struct {
	const struct options *o;
	struct buf job, fetch;
	struct stats times;
	struct hmap leases; /* job id: uint64_t, wall end of its lease */
	struct hconn *producer;
	uint64_t sent, done;
	uint64_t start_ns;    /* wall; of the first schedule */
	uint64_t enqueued_ns; /* monotonic; mode wake */
} run;

static void work(struct hconn *c, const struct answer *a);

static void begin(struct http *h, const struct options *o, tick_fn *on_tick)
{
	run.o = o;
	body_job(&run.job, o);
	body_fetch(&run.fetch, o, WAIT_S);
	if (on_tick != NULL) /* a connection nobody uses would be closed */
		run.producer = http_connect(h);
	for (unsigned i = 0; i < o->workers; i++)
		work(http_connect(h), NULL);
	h->on_tick = on_tick;
	if (on_tick != NULL)
		h->tick_ns = clock_mono_ns() + SETTLE_NS;
}

static void end(const char *name)
{
	stats_print(&run.times, name);
	stats_done(&run.times);
	buf_done(&run.job);
	buf_done(&run.fetch);
}

static void count_one(struct http *h, int64_t ns)
{
	stats_add(&run.times, ns);
	run.done++;
	if (run.done == run.o->count)
		h->stop = true;
}

static void on_enqueued(struct hconn *c, const struct answer *a)
{
	(void)c;
	answer_expect(a, 201);
}

/* --- a worker: what it does with a job depends on the mode --- */

typedef void job_fn(struct hconn *c, const struct answer *a);
static job_fn *on_job;

static void fetch_again(struct hconn *c, const struct answer *a)
{
	if (a != NULL)
		answer_expect(a, 200);
	http_send(c, PATH_FETCH, &run.fetch, work);
}

static void work(struct hconn *c, const struct answer *a)
{
	if (a != NULL && a->status == 200)
		on_job(c, a);
	else
		fetch_again(c, NULL);
}

/* --- wake: a job reaches a parked worker --- */

static void wake_tick(struct http *h)
{
	if (run.producer->on_answer != NULL) { /* not answered yet: later */
		h->tick_ns = clock_mono_ns() + NS_PER_MS;
		return;
	}
	run.enqueued_ns = clock_mono_ns();
	http_send(run.producer, PATH_ENQUEUE, &run.job, on_enqueued);
}

static void on_wake_acked(struct hconn *c, const struct answer *a)
{
	fetch_again(c, a);
	c->h->tick_ns = clock_mono_ns() + run.o->gap_ns;
}

static void on_woken(struct hconn *c, const struct answer *a)
{
	count_one(c->h, (int64_t)(clock_mono_ns() - run.enqueued_ns));
	send_ack(c, a, on_wake_acked);
}

void mode_wake(struct http *h, const struct options *o)
{
	on_job = on_woken;
	begin(h, o, wake_tick);
	http_run(h, 0);
	end("wake");
}

/* --- park: hold so many fetches --- */

static void on_parked_job(struct hconn *c, const struct answer *a)
{
	send_ack(c, a, fetch_again);
}

void mode_park(struct http *h, const struct options *o)
{
	on_job = on_parked_job;
	begin(h, o, NULL);
	printf("parked %u\n", o->workers);
	(void)fflush(stdout); /* a script waits for this line */
	http_run(h, clock_mono_ns() + o->time_ns);
	end("park");
}

/* --- schedule: from the time of a job to its worker --- */

static void schedule_tick(struct http *h)
{
	uint64_t due_ns;

	if (run.producer->on_answer == NULL) {
		if (run.start_ns == 0)
			run.start_ns = clock_wall_ns() + AHEAD_NS;
		due_ns = run.start_ns + run.sent * run.o->gap_ns;
		buf_clear(&run.job);
		buf_printf(&run.job,
			   "{\"queue\":\"%s\",\"payload\":{\"due\":%llu},"
			   "\"scheduled_at\":\"",
			   run.o->queue, (unsigned long long)due_ns);
		time_format(&run.job, due_ns);
		buf_puts(&run.job, "\"}");
		http_send(run.producer, PATH_ENQUEUE, &run.job, on_enqueued);
		run.sent++;
	}
	if (run.sent < run.o->count)
		h->tick_ns = clock_mono_ns() + run.o->gap_ns / 2;
}

static void on_due(struct hconn *c, const struct answer *a)
{
	uint64_t now_ns = clock_wall_ns();
	uint64_t due_ns;

	if (!answer_number(a, "due", &due_ns))
		die("no due time: %.*s", STR_ARG(a->body));
	count_one(c->h, (int64_t)(now_ns - due_ns));
	send_ack(c, a, fetch_again);
}

void mode_schedule(struct http *h, const struct options *o)
{
	on_job = on_due;
	begin(h, o, schedule_tick);
	http_run(h, 0);
	end("schedule_delay");
}

/* --- lease: from the end of a lease to the next worker --- */

static void lease_tick(struct http *h)
{
	if (run.producer->on_answer == NULL) {
		http_send(run.producer, PATH_ENQUEUE, &run.job, on_enqueued);
		run.sent++;
	}
	if (run.sent < run.o->count)
		h->tick_ns = clock_mono_ns() + run.o->gap_ns;
}

/* The exact end is the server's; it is read, not guessed. */
static void on_first_held(struct hconn *c, const struct answer *a)
{
	struct str id, text;
	uint64_t *end_ns;

	answer_expect(a, 200);
	end_ns = xmalloc(sizeof(*end_ns));
	if (!answer_text(a, "id", &id) ||
	    !answer_text(a, "lease_expires_at", &text) ||
	    !time_parse(text, end_ns))
		die("no lease: %.*s", STR_ARG(a->body));
	free(hmap_put(&run.leases, id, end_ns));
	fetch_again(c, NULL);
}

static void on_leased(struct hconn *c, const struct answer *a)
{
	uint64_t now_ns = clock_wall_ns();
	uint64_t attempt = 0;
	const uint64_t *end_ns;
	char path[128];
	struct str id;

	if (!answer_number(a, "attempt", &attempt) ||
	    !answer_text(a, "job_id", &id) || id.n > 64)
		die("no job: %.*s", STR_ARG(a->body));
	if (attempt == 1) {
		(void)snprintf(path, sizeof(path), PATH_JOB "%.*s",
			       STR_ARG(id));
		http_send(c, path, NULL, on_first_held);
		return;
	}
	end_ns = hmap_get(&run.leases, id);
	if (end_ns == NULL)
		die("a lease ended before it was read; use a longer --lease");
	count_one(c->h, (int64_t)(now_ns - *end_ns));
	send_ack(c, a, fetch_again);
}

static void free_leases(void)
{
	struct str id;
	size_t pos = 0;
	void *end_ns;

	while (hmap_next(&run.leases, &pos, &id, &end_ns))
		free(end_ns);
	hmap_done(&run.leases);
}

void mode_lease(struct http *h, const struct options *o)
{
	on_job = on_leased;
	begin(h, o, lease_tick);
	http_run(h, 0);
	end("lease_delay");
	free_leases();
}
