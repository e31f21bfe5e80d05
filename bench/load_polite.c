/*
 * Mode polite: each of --connections clients adds a job, takes it, acknowledges
 * it and asks on a new connection whether the node is well; after a pause of
 * --gap again. What goes wrong is counted and said, and they go on, until a
 * line comes on standard input.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "load_modes.h"
#include "util/clock.h"

#define FETCH_S    5
#define LOOK_NS    (2 * NS_PER_MS)
#define AGAIN_MS   100 /* after a failure */
#define SAID_MAX   5   /* failures that are told in words */
#define QUEUE_SIZE 64

struct polite {
	struct job_kind kind;
	char queue[QUEUE_SIZE];
	uint64_t begun_ns; /* the request that is under way */
	uint64_t next_ns;  /* the next round; 0: one is under way */
};

static struct {
	const struct options *o;
	struct polite *all;
	struct times times;
	uint64_t failed;
	bool over;
} run;

static void say_failed(const char *what, struct str why)
{
	run.failed++;
	if (run.failed <= SAID_MAX)
		printf("failure %s: %.*s\n", what, (int)MIN(why.n, 150), why.p);
}

static struct polite *begin_request(struct conn *c)
{
	struct polite *p = c->own;

	p->begun_ns = clock_mono_ns();
	return p;
}

static void rest(struct conn *c, uint64_t ns)
{
	struct polite *p = c->own;

	p->next_ns = clock_mono_ns() + ns;
}

/* True: as it should be. Otherwise the round is over. */
static bool was_good(struct conn *c, const struct answer *a, const char *what,
		     int status)
{
	struct polite *p = c->own;
	char text[64];

	times_add(&run.times, (int64_t)(clock_mono_ns() - p->begun_ns));
	if (a->status == status)
		return true;
	(void)snprintf(text, sizeof(text), "%s %d", what, a->status);
	say_failed(text, a->body);
	rest(c, AGAIN_MS * NS_PER_MS);
	return false;
}

static void on_health(struct conn *c, const struct answer *a)
{
	if (was_good(c, a, "health", 200))
		rest(c, run.o->gap_ns);
}

static void on_acked(struct conn *c, const struct answer *a)
{
	if (!was_good(c, a, "ack", 200))
		return;
	(void)begin_request(c);
	client_connect_again(c);
	client_send(c, "/healthz", NULL, on_health);
}

static void on_fetched(struct conn *c, const struct answer *a)
{
	struct polite *p = c->own;
	struct str rest_of = a->body;
	struct held job;

	if (!was_good(c, a, "fetch", 200) ||
	    !next_held(c, &p->kind, &rest_of, &job))
		return;
	(void)begin_request(c);
	send_ack(c, &p->kind, &job, 1, false, on_acked);
}

static void on_enqueued(struct conn *c, const struct answer *a)
{
	struct polite *p = c->own;

	if (!was_good(c, a, "enqueue", 201))
		return;
	(void)begin_request(c);
	send_fetch(c, &p->kind, 1, false, FETCH_S, on_fetched);
}

static void begin_round(struct conn *c)
{
	struct polite *p = begin_request(c);

	p->next_ns = 0;
	send_enqueue(c, &p->kind, 0, 1, false, on_enqueued);
}

/* Within so long. */
static bool is_told_to_stop(int wait_ms)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, wait_ms) > 0;
}

static void tick(struct client *cl)
{
	uint64_t now_ns = clock_mono_ns();

	run.over = run.over || is_told_to_stop(0);
	if (run.over && cl->busy == 0)
		cl->stop = true;
	cl->tick_ns = now_ns + LOOK_NS;
	for (unsigned i = 0; i < cl->conns_n && !run.over; i++) {
		const struct polite *p = cl->conns[i]->own;

		if (p->next_ns != 0 && p->next_ns <= now_ns)
			begin_round(cl->conns[i]);
	}
}

/* All of them, on new connections. */
static void begin(struct client *cl)
{
	uint64_t gap_ns = run.o->gap_ns / run.o->connections;

	if (!client_connect(cl, run.o->connections))
		return;
	for (unsigned i = 0; i < cl->conns_n; i++) {
		cl->conns[i]->own = &run.all[i];
		rest(cl->conns[i], i * gap_ns);
	}
	cl->tick_ns = clock_mono_ns();
}

/* A connection that was closed, or an answer nobody can read. */
static void begin_anew(struct client *cl)
{
	say_failed("client", buf_str(&cl->why));
	client_hang_up(cl);
	buf_clear(&cl->why);
	run.over = run.over || is_told_to_stop(AGAIN_MS);
}

/* The slowest tenth of them, each for a thousandth of all: from several such
 * lines the times of all their clients can be told. */
static void print_tail(const struct times *t)
{
	printf("tail_us");
	for (unsigned i = 900; i < 1000; i++)
		printf(" %.1f", times_at(t, (i + 0.5) / 1000) / 1e3);
	printf("\n");
}

void mode_polite(struct client *cl, const struct options *o)
{
	run.o = o;
	run.all = xcalloc(o->connections, sizeof(*run.all));
	for (unsigned i = 0; i < o->connections; i++) {
		struct polite *p = &run.all[i];

		(void)snprintf(p->queue, sizeof(p->queue), "%s-%u", o->queue,
			       i);
		p->kind = kind_of(o);
		p->kind.queue = p->queue;
	}
	cl->on_tick = tick;
	while (!run.over) {
		begin(cl);
		client_run(cl, 0);
		if (client_has_failed(cl))
			begin_anew(cl);
	}
	print_times(&run.times, "polite");
	print_tail(&run.times);
	printf("failed %llu\n", (unsigned long long)run.failed);
	free(run.all);
}
