/*
 * Modes that look at single moments: wake, park, schedule, lease.
 */
#include <stdio.h>
#include <stdlib.h>

#include "load_modes.h"
#include "util/clock.h"
#include "util/hmap.h"
#include "util/timefmt.h"

#define SETTLE_NS (500 * NS_PER_MS) /* until every fetch is parked */
#define AHEAD_NS  (2 * NS_PER_S)    /* from an enqueue to its schedule */

static struct {
	const struct options *o;
	struct job_kind kind;
	struct buf job; /* of mode schedule */
	struct times times;
	struct hmap leases; /* job id: uint64_t, wall end of its lease */
	struct conn *producer;
	uint64_t sent, done;
	uint64_t start_ns;    /* wall; of the first schedule */
	uint64_t enqueued_ns; /* monotonic; mode wake; 0: none is on its way */
} run;

static void work(struct conn *c, const struct answer *a);

static void begin(struct client *cl, const struct options *o, tick_fn *on_tick)
{
	run.o = o;
	run.kind = kind_of(o);
	if (!client_connect(cl, o->workers + (on_tick != NULL)))
		return;
	if (on_tick != NULL) /* a connection nobody uses would be closed */
		run.producer = cl->conns[o->workers];
	for (unsigned i = 0; i < o->workers; i++)
		work(cl->conns[i], NULL);
	cl->on_tick = on_tick;
	if (on_tick != NULL)
		cl->tick_ns = clock_mono_ns() + SETTLE_NS;
}

static void end(const struct client *cl, const char *name)
{
	if (!client_has_failed(cl))
		print_times(&run.times, name);
	buf_done(&run.job);
}

static void count_one(struct client *cl, int64_t ns)
{
	times_add(&run.times, ns);
	run.done++;
	if (run.done == run.o->count)
		cl->stop = true;
}

static void on_enqueued(struct conn *c, const struct answer *a)
{
	(void)answer_expect(c, a, 201);
}

/* The one job of an answer to fetch; false: the run has failed. */
static bool held_of(struct conn *c, const struct answer *a, struct held *ret)
{
	struct str rest = a->body;

	if (next_held(c, &run.kind, &rest, ret))
		return true;
	client_fail(c->cl, "no job: %.*s", STR_ARG(a->body));
	return false;
}

static void ack(struct conn *c, const struct answer *fetched, answer_fn *fn)
{
	struct held job;

	if (held_of(c, fetched, &job))
		send_ack(c, &run.kind, &job, 1, false, fn);
}

/* --- a worker: what it does with a job depends on the mode --- */

typedef void job_fn(struct conn *c, const struct answer *a);
static job_fn *on_job;

static void fetch_again(struct conn *c, const struct answer *a)
{
	if (a == NULL || answer_expect(c, a, 200))
		send_fetch(c, &run.kind, 1, false, WAIT_S, work);
}

static void work(struct conn *c, const struct answer *a)
{
	if (a != NULL && a->status == 200)
		on_job(c, a);
	else
		fetch_again(c, NULL);
}

/* --- wake: a job reaches a parked worker --- */

static void wake_tick(struct client *cl)
{
	if (run.producer->on_answer != NULL) { /* not answered yet: later */
		cl->tick_ns = clock_mono_ns() + NS_PER_MS;
		return;
	}
	run.enqueued_ns = clock_mono_ns();
	send_enqueue(run.producer, &run.kind, 0, 1, false, on_enqueued);
}

static void on_wake_acked(struct conn *c, const struct answer *a)
{
	fetch_again(c, a);
	c->cl->tick_ns = clock_mono_ns() + run.o->gap_ns;
}

static void on_woken(struct conn *c, const struct answer *a)
{
	if (run.enqueued_ns == 0) {
		client_fail(c->cl, "another job is there: mode wake needs a "
				   "queue of its own (--queue)");
		return;
	}
	count_one(c->cl, (int64_t)(clock_mono_ns() - run.enqueued_ns));
	run.enqueued_ns = 0;
	ack(c, a, on_wake_acked);
}

void mode_wake(struct client *cl, const struct options *o)
{
	on_job = on_woken;
	begin(cl, o, wake_tick);
	client_run(cl, 0);
	end(cl, "wake");
}

/* --- park: hold so many fetches --- */

static void on_parked_job(struct conn *c, const struct answer *a)
{
	ack(c, a, fetch_again);
}

void mode_park(struct client *cl, const struct options *o)
{
	on_job = on_parked_job;
	begin(cl, o, NULL);
	if (client_has_failed(cl))
		return;
	printf("parked %u\n", o->workers);
	(void)fflush(stdout); /* a script waits for this line */
	client_run(cl, clock_mono_ns() + o->time_ns);
	end(cl, "park");
}

/* --- schedule: from the time of a job to its worker --- */

static void schedule_tick(struct client *cl)
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
		client_send(run.producer, PATH_ENQUEUE, &run.job, on_enqueued);
		run.sent++;
	}
	if (run.sent < run.o->count)
		cl->tick_ns = clock_mono_ns() + run.o->gap_ns / 2;
}

static void on_due(struct conn *c, const struct answer *a)
{
	uint64_t now_ns = clock_wall_ns();
	uint64_t due_ns;

	if (!body_number(a->body, "due", &due_ns)) {
		client_fail(c->cl, "no due time: %.*s", STR_ARG(a->body));
		return;
	}
	count_one(c->cl, (int64_t)(now_ns - due_ns));
	ack(c, a, fetch_again);
}

void mode_schedule(struct client *cl, const struct options *o)
{
	on_job = on_due;
	begin(cl, o, schedule_tick);
	client_run(cl, 0);
	end(cl, "schedule_delay");
}

/* --- lease: from the end of a lease to the next worker --- */

static void lease_tick(struct client *cl)
{
	if (run.producer->on_answer == NULL) {
		send_enqueue(run.producer, &run.kind, 0, 1, false, on_enqueued);
		run.sent++;
	}
	if (run.sent < run.o->count)
		cl->tick_ns = clock_mono_ns() + run.o->gap_ns;
}

/* The exact end is the server's; it is read, not guessed. */
static void on_first_held(struct conn *c, const struct answer *a)
{
	struct str id, text;
	uint64_t *end_ns;

	if (!answer_expect(c, a, 200))
		return;
	end_ns = xmalloc(sizeof(*end_ns));
	if (!body_text(a->body, "id", &id) ||
	    !body_text(a->body, "lease_expires_at", &text) ||
	    !time_parse(text, end_ns)) {
		client_fail(c->cl, "no lease: %.*s", STR_ARG(a->body));
		free(end_ns);
		return;
	}
	free(hmap_put(&run.leases, id, end_ns));
	fetch_again(c, NULL);
}

static void on_leased(struct conn *c, const struct answer *a)
{
	uint64_t now_ns = clock_wall_ns();
	uint64_t attempt = 0;
	const uint64_t *end_ns;
	char path[sizeof(PATH_JOB) + ID_LEN_MAX];
	struct held job;

	if (!held_of(c, a, &job))
		return;
	(void)body_number(a->body, "attempt", &attempt);
	if (attempt == 1) {
		(void)snprintf(path, sizeof(path), PATH_JOB "%s", job.id);
		client_send(c, path, NULL, on_first_held);
		return;
	}
	end_ns = hmap_get(&run.leases, str_from(job.id));
	if (end_ns == NULL) {
		client_fail(c->cl, "a lease ended before it was read; use a "
				   "longer --lease");
		return;
	}
	count_one(c->cl, (int64_t)(now_ns - *end_ns));
	send_ack(c, &run.kind, &job, 1, false, fetch_again);
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

void mode_lease(struct client *cl, const struct options *o)
{
	on_job = on_leased;
	begin(cl, o, lease_tick);
	client_run(cl, 0);
	end(cl, "lease_delay");
	free_leases();
}
