/*
 * Times the view by itself: answers of raftd with 8192 events each, decoded
 * and written to SQLite as corvo-viewd does it. A lifecycle is a fresh job
 * with a 100-byte payload of 14 words that is enqueued, handed out and
 * completed.
 *
 *   whole   all three events of a job in one answer: one row write
 *   split   each in an answer of its own: one insert, two updates
 *   late    as split, but the job has long ended: one insert, two looks
 *   rows    as whole, without the full text, which is added afterwards
 *
 * view_bench [directory for SQLite] [lifecycles] [jobs loaded before]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/proto.h"
#include "util/clock.h"
#include "util/id.h"
#include "view.h"

#define EVENTS         8192
#define CYCLES_DEFAULT 300000
#define QUEUES         8

struct bench {
	struct view view;
	struct id_gen ids;
	struct arena arena;
	struct buf body;
	uint64_t jobs;
	uint64_t seq, now_ns;
	uint64_t ended_ns; /* when the jobs of the group ended */
	uint64_t decode_ns, write_ns, text_ns;
	bool rows_first; /* the full text afterwards, by itself */
};

/* The jobs one answer is about, named once and used in up to three. */
struct group {
	char ids[EVENTS][ID_LEN_MAX];
	size_t n;
};

static void add_event(struct bench *b, struct m_tail_reply *r, unsigned type,
		      const char *id)
{
	struct m_event *e = &r->events[r->events_n++];

	*e = (struct m_event){ 0 };
	b->now_ns += 1000;
	MSG_SET(e, event, type, type);
	MSG_SET(e, event, at, b->now_ns);
	MSG_SET(e, event, seq, ++b->seq);
	MSG_SET(e, event, job_id, str_from(id));
	MSG_SET(e, event, queue, STR("queue-1"));
	MSG_SET(e, event, attempt, 1);
}

/* Some words are everywhere, some are rare, some in one job only. */
static struct str payload(struct bench *b)
{
	uint64_t n = ++b->jobs;

	return arena_printf(&b->arena,
			    "{\"to\":\"user%llu@example.com\",\"order\":%llu,"
			    "\"template\":\"word%llu\",\"lines\":"
			    "[\"red shoes\",\"blue hat %llu\"],\"net\":%llu}",
			    (unsigned long long)(n * 2654435761 % 1000003),
			    (unsigned long long)(n * 40503 % 100000007),
			    (unsigned long long)(n % 50),
			    (unsigned long long)(n % 997),
			    (unsigned long long)(n * 7919 % 100000));
}

/* In the arena, as it lies in the store. */
static struct str stored(struct bench *b, const struct msg_desc *d,
			 const void *m)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);

	msg_encode(d, m, &out);
	return arena_copy(&b->arena, buf_str(&out));
}

static struct str make_doc(struct bench *b, size_t i)
{
	static const char *const queues[QUEUES] = { "queue-1", "queue-2",
						    "queue-3", "queue-4",
						    "queue-5", "queue-6",
						    "queue-7", "queue-8" };
	struct m_job_doc d = { 0 };

	MSG_SET(&d, job_doc, queue, str_from(queues[i % QUEUES]));
	MSG_SET(&d, job_doc, payload, payload(b));
	MSG_SET(&d, job_doc, priority, PRIORITY_NORMAL);
	MSG_SET(&d, job_doc, max_retries, 3);
	MSG_SET(&d, job_doc, retry_backoff, BACKOFF_EXPONENTIAL);
	MSG_SET(&d, job_doc, retry_base_delay, 5 * NS_PER_S);
	MSG_SET(&d, job_doc, retry_max_delay, 600 * NS_PER_S);
	MSG_SET(&d, job_doc, created_at, b->now_ns);
	MSG_SET(&d, job_doc, seq, i);
	return stored(b, &msg_job_doc, &d);
}

static struct str make_live(struct bench *b, enum job_state state, size_t i)
{
	struct m_job_live l = { 0 };

	MSG_SET(&l, job_live, state, state);
	MSG_SET(&l, job_live, seq, i);
	MSG_SET(&l, job_live, attempt, 1);
	MSG_SET(&l, job_live, worker_id, STR("worker-1"));
	MSG_SET(&l, job_live, hostname, STR("host-1"));
	MSG_SET(&l, job_live, started_at, b->ended_ns);
	if (state == JOB_COMPLETED)
		MSG_SET(&l, job_live, completed_at, b->ended_ns);
	return stored(b, &msg_job_live, &l);
}

static void add_job(struct bench *b, struct m_tail_reply *r, const char *id,
		    enum job_state state, bool whole)
{
	size_t i = r->records_n++;
	struct m_job_record *rec = &r->records[i];

	*rec = (struct m_job_record){ 0 };
	MSG_SET(rec, job_record, id, str_from(id));
	if (whole)
		MSG_SET(rec, job_record, doc, make_doc(b, i));
	if (state != JOB_PENDING)
		MSG_SET(rec, job_record, live, make_live(b, state, i));
	if (state == JOB_ACTIVE)
		MSG_SET(rec, job_record, lease_expires_at,
			b->ended_ns + NS_PER_S);
}

static void new_group(struct bench *b, struct group *g, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)id_make(&b->ids, "job_", b->now_ns, g->ids[i]);
	g->n = n;
	b->ended_ns = b->now_ns + NS_PER_S;
}

/* Of the CPU, so that it does not matter what else the machine does. */
static uint64_t cpu_ns(void)
{
	struct rusage u;

	CHECK(getrusage(RUSAGE_SELF, &u) == 0);
	return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) *
		   NS_PER_S +
	       ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) *
		   NS_PER_US;
}

/* Through msgpack, as it comes from raftd. */
static void apply(struct bench *b, struct m_tail_reply *made)
{
	struct arena a = { .block_size = 256 * 1024 };
	struct m_tail_reply r;
	uint64_t start, decoded;
	int err;

	/* Of its events raftd sends the first and the last. */
	made->events[1] = made->events[made->events_n - 1];
	made->events_n = MIN(made->events_n, (size_t)2);
	made->has |= MSG_BIT(tail_reply, events) | MSG_BIT(tail_reply, records);
	MSG_SET(made, tail_reply, last_seq, b->seq);
	MSG_SET(made, tail_reply, head_seq, b->seq);
	buf_clear(&b->body);
	msg_encode(&msg_tail_reply, made, &b->body);
	start = cpu_ns();
	CHECK(msg_decode(&msg_tail_reply, buf_str(&b->body), &a, &r) == 0);
	decoded = cpu_ns();
	err = b->rows_first ? mirror_apply_rows(b->view.mirror, &r)
			    : mirror_apply(b->view.mirror, &r);
	if (err < 0)
		fprintf(stderr, "%s\n", db_error(b->view.writer));
	CHECK(err == 0);
	b->decode_ns += decoded - start;
	b->write_ns += cpu_ns() - decoded;
	arena_done(&a);
	arena_reset(&b->arena);
}

static void new_reply(struct bench *b, struct m_tail_reply *r)
{
	*r = (struct m_tail_reply){ 0 };
	r->events = arena_alloc(&b->arena, EVENTS * sizeof(*r->events));
	r->records = arena_alloc(&b->arena, EVENTS * sizeof(*r->records));
}

static void run_whole(struct bench *b, struct group *g, size_t cycles)
{
	for (size_t done = 0; done < cycles; done += g->n) {
		struct m_tail_reply r;

		new_reply(b, &r);
		new_group(b, g, MIN(cycles - done, (size_t)EVENTS / 3));
		for (size_t i = 0; i < g->n; i++) {
			add_event(b, &r, EVENT_ENQUEUED, g->ids[i]);
			add_event(b, &r, EVENT_STARTED, g->ids[i]);
			add_event(b, &r, EVENT_COMPLETED, g->ids[i]);
			add_job(b, &r, g->ids[i], JOB_COMPLETED, true);
		}
		apply(b, &r);
	}
}

static void run_step(struct bench *b, struct group *g, unsigned type,
		     enum job_state state)
{
	struct m_tail_reply r;

	new_reply(b, &r);
	for (size_t i = 0; i < g->n; i++) {
		add_event(b, &r, type, g->ids[i]);
		add_job(b, &r, g->ids[i], state, type == EVENT_ENQUEUED);
	}
	apply(b, &r);
}

static void run_split(struct bench *b, struct group *g, size_t cycles,
		      bool late)
{
	for (size_t done = 0; done < cycles; done += g->n) {
		new_group(b, g, MIN(cycles - done, (size_t)EVENTS));
		run_step(b, g, EVENT_ENQUEUED,
			 late ? JOB_COMPLETED : JOB_PENDING);
		run_step(b, g, EVENT_STARTED,
			 late ? JOB_COMPLETED : JOB_ACTIVE);
		run_step(b, g, EVENT_COMPLETED, JOB_COMPLETED);
	}
}

static void add_text(struct bench *b)
{
	uint64_t start = cpu_ns();

	while (!mirror_text_is_whole(b->view.mirror))
		CHECK(mirror_text_step(b->view.mirror) == 0);
	b->text_ns += cpu_ns() - start;
}

static void report(struct bench *b, const char *name, size_t cycles)
{
	printf("%-7s %8zu lifecycles: decode %5.2f us, write %6.2f us each, "
	       "%8.0f/s on two threads\n",
	       name, cycles, (double)b->decode_ns / 1e3 / (double)cycles,
	       (double)b->write_ns / 1e3 / (double)cycles,
	       (double)cycles * 1e9 / (double)MAX(b->write_ns, b->decode_ns));
	if (b->text_ns > 0)
		printf("        the full text afterwards: %.2f us each\n",
		       (double)b->text_ns / 1e3 / (double)cycles);
	b->decode_ns = b->write_ns = b->text_ns = 0;
}

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : "/tmp/corvo-view-bench";
	uint64_t cycles = CYCLES_DEFAULT, before = 0;
	struct group *g = xmalloc(sizeof(*g));
	struct buf why = BUF_INIT(0);
	struct bench b = { .now_ns = clock_wall_ns() };

	if ((argc > 2 && !str_parse_u64(str_from(argv[2]), &cycles)) ||
	    (argc > 3 && !str_parse_u64(str_from(argv[3]), &before))) {
		fprintf(stderr, "view_bench [directory] [lifecycles] "
				"[jobs loaded before]\n");
		return 2;
	}
	if (view_init(&b.view, dir, &why) < 0 ||
	    (unlink(b.view.path), view_open(&b.view, &why)) < 0) {
		fprintf(stderr, "%.*s\n", STR_ARG(buf_str(&why)));
		return 1;
	}
	if (before > 0) {
		run_whole(&b, g, before);
		report(&b, "before", before);
	}
	run_whole(&b, g, cycles);
	report(&b, "whole", cycles);
	run_split(&b, g, cycles, false);
	report(&b, "split", cycles);
	run_split(&b, g, cycles, true);
	report(&b, "late", cycles);
	b.rows_first = true;
	run_whole(&b, g, cycles);
	add_text(&b);
	report(&b, "rows", cycles);
	view_close(&b.view, true);
	view_done(&b.view);
	arena_done(&b.arena);
	buf_done(&b.body);
	buf_done(&why);
	free(g);
	return 0;
}
