/*
 * Times the state machine by itself: jobs enqueued, fetched and acknowledged
 * through fsm_apply, in entries of 128 operations, on the store in memory and
 * on RocksDB, with few and with many jobs queued before them. With usage each
 * ack has a report, and at the end the sums are compared with our own.
 *
 * fsm_bench [directory for RocksDB] [cycles] [memory|rocksdb|all] [usage]
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "fsm/fsm.h"
#include "store/record.h"
#include "util/clock.h"
#include "util/id.h"

#define ENTRY_OPS      128
#define PAYLOAD_BYTES  100
#define CYCLES_DEFAULT 300000
#define FLUSH_ENTRIES  10000 /* the memory twin keeps what it may go back to */
#define SHALLOW        1000
#define DEEP           1000000
#define OPEN_DIRS      8

struct bench {
	struct kv *kv;
	struct fsm *f;
	struct id_gen ids;
	struct frame_writer w;
	struct buf entry, body;
	struct arena arena;
	uint64_t index;
	uint64_t calls;
	size_t n; /* operations in the entry */
	/* jobs handed out and not acknowledged yet */
	char (*held)[ID_LEN_MAX];
	uint64_t *tokens;
	size_t held_n;
	char payload[PAYLOAD_BYTES + 1];
	uint64_t apply_ns, ack_ns;
	/* with usage: what was reported */
	bool usage;
	uint64_t reports, tokens_sum, cost;
};

static void on_reply(void *ctx, size_t item, int err, uint64_t seq,
		     struct str body)
{
	struct bench *b = ctx;
	struct m_fetch_reply r;

	(void)item;
	(void)seq;
	CHECK(err == 0);
	if (b->held == NULL)
		return;
	arena_reset(&b->arena);
	CHECK(msg_decode(&msg_fetch_reply, body, &b->arena, &r) == 0);
	for (size_t i = 0; i < r.jobs_n; i++) {
		(void)snprintf(b->held[b->held_n], ID_LEN_MAX, "%.*s",
			       STR_ARG(r.jobs[i].job_id));
		b->tokens[b->held_n++] = r.jobs[i].lease_token;
	}
}

static void entry_start(struct bench *b)
{
	/* the answers of four entries are on their way */
	const uint64_t late = (uint64_t)4 * ENTRY_OPS;
	struct entry_caller c = { 1, b->calls - MIN(b->calls, late) + 1 };

	entry_begin_for(&b->w, &b->entry, clock_wall_ns(), b->index, &c, 1);
	b->n = 0;
}

static void entry_apply(struct bench *b, fsm_reply_fn *fn)
{
	uint64_t start;

	if (b->n == 0)
		return;
	entry_end(&b->w);
	start = clock_mono_ns();
	CHECK(fsm_apply(b->f, ++b->index, buf_str(&b->entry), fn, b) == 0);
	b->apply_ns += clock_mono_ns() - start;
	if (b->index % FLUSH_ENTRIES == 0)
		CHECK(kv_flush(b->kv, NULL) == 0);
	entry_start(b);
}

static void add(struct bench *b, enum op_id op, const struct msg_desc *d,
		const void *m, fsm_reply_fn *fn)
{
	struct entry_item item = { .op = op, .id = ++b->calls };

	item.caller = op != OP_FETCH; /* as corvo-httpd asks for */
	buf_clear(&b->body);
	msg_encode(d, m, &b->body);
	item.body = buf_str(&b->body);
	entry_add(&b->w, &item);
	if (++b->n == ENTRY_OPS)
		entry_apply(b, fn);
}

static void enqueue(struct bench *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct m_enqueue m = { 0 };
		char id[ID_LEN_MAX];
		size_t len = id_make(&b->ids, "job_", clock_wall_ns(), id);

		MSG_SET(&m, enqueue, job_id, str_of(id, len));
		MSG_SET(&m, enqueue, queue, STR("bench"));
		MSG_SET(&m, enqueue, payload,
			str_of(b->payload, PAYLOAD_BYTES));
		add(b, OP_ENQUEUE, &msg_enqueue, &m, NULL);
	}
	entry_apply(b, NULL);
}

static void fetch(struct bench *b, size_t n)
{
	struct str queue = STR("bench");

	for (size_t i = 0; i < n; i++) {
		struct m_fetch m = { 0 };

		MSG_SET_LIST(&m, fetch, queues, &queue, 1);
		MSG_SET(&m, fetch, worker_id, STR("worker-1"));
		MSG_SET(&m, fetch, hostname, STR("bench-host"));
		MSG_SET(&m, fetch, fetch_id, b->index * ENTRY_OPS + i + 1);
		add(b, OP_FETCH, &msg_fetch, &m, on_reply);
	}
	entry_apply(b, on_reply);
}

/* Of a few models, with costs that no two of them share. */
static void report(struct bench *b, struct m_usage *u)
{
	static const char *const models[] = { "small", "medium", "large" };
	uint64_t n = b->reports++;

	*u = (struct m_usage){ 0 };
	MSG_SET(u, usage, input_tokens, 1000 + n % 997);
	MSG_SET(u, usage, output_tokens, 100 + n % 89);
	MSG_SET(u, usage, model, str_from(models[n % ARRAY_SIZE(models)]));
	MSG_SET(u, usage, provider, STR("acme"));
	MSG_SET(u, usage, cost_usd, 1000003 + n);
	b->tokens_sum += u->input_tokens + u->output_tokens;
	b->cost += u->cost_usd;
}

static void ack_all(struct bench *b)
{
	uint64_t before = b->apply_ns;
	struct m_usage u;

	for (size_t i = 0; i < b->held_n; i++) {
		struct m_ack m = { 0 };

		MSG_SET(&m, ack, job_id, str_from(b->held[i]));
		MSG_SET(&m, ack, lease_token, b->tokens[i]);
		if (b->usage) {
			report(b, &u);
			MSG_SET(&m, ack, usage, &u);
		}
		add(b, OP_ACK, &msg_ack, &m, NULL);
	}
	entry_apply(b, NULL);
	b->held_n = 0;
	b->ack_ns += b->apply_ns - before;
}

/* Exact to the last unit. */
static void check_sums(struct bench *b)
{
	struct m_usage_ask ask = { 0 };
	struct buf why = BUF_INIT(0);
	struct m_usage_reply r;

	CHECK(fsm_flush(b->f) == 0);
	MSG_SET(&ask, usage_ask, to, UINT64_MAX / 2);
	arena_reset(&b->arena);
	CHECK(record_usage(b->kv, &ask, &b->arena, &r, &why) == 0);
	CHECK(r.totals->count == b->reports);
	CHECK(r.totals->input_tokens + r.totals->output_tokens ==
	      b->tokens_sum);
	CHECK(r.totals->cost_usd == b->cost);
	buf_done(&why);
}

static double run_cycles(struct bench *b, size_t cycles)
{
	const size_t step = 8 * ENTRY_OPS; /* jobs under way at a time */
	size_t done;

	b->held = xcalloc(step, sizeof(*b->held));
	b->tokens = xcalloc(step, sizeof(*b->tokens));
	b->apply_ns = b->ack_ns = 0;
	for (done = 0; done < cycles; done += step) {
		enqueue(b, step);
		fetch(b, step);
		CHECK(b->held_n == step);
		ack_all(b);
	}
	free(b->held);
	free(b->tokens);
	b->held = NULL;
	return (double)done * 1e9 / (double)b->apply_ns;
}

static double cpu_seconds(int who)
{
	struct rusage u;

	CHECK(getrusage(who, &u) == 0);
	return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Reports belong to a level. */
static void raise_level(struct bench *b)
{
	struct m_level m = { 0 };

	MSG_SET(&m, level, level, FEATURE_LEVEL);
	add(b, OP_SET_LEVEL, &msg_level, &m, NULL);
	entry_apply(b, NULL);
}

static bool with_usage;

static void run(const char *name, struct kv *kv, size_t queued, size_t cycles)
{
	struct bench b = { .kv = kv, .f = fsm_new(kv), .usage = with_usage };
	double rate, all, own;

	CHECK(fsm_load(b.f) == 0);
	memset(b.payload, 'x', PAYLOAD_BYTES);
	b.payload[0] = b.payload[PAYLOAD_BYTES - 1] = '"';
	entry_start(&b);
	raise_level(&b);
	enqueue(&b, queued);
	all = cpu_seconds(RUSAGE_SELF);
	own = cpu_seconds(RUSAGE_THREAD);
	rate = run_cycles(&b, cycles);
	own = cpu_seconds(RUSAGE_THREAD) - own;
	all = cpu_seconds(RUSAGE_SELF) - all;
	if (b.usage)
		check_sums(&b);
	printf("%-7s %7zu queued: %7.0f cycles/s in apply; CPU per cycle: "
	       "%.2f us, %.2f with other threads; an ack%s %.2f us\n",
	       name, queued, rate, own * 1e6 / (double)cycles,
	       all * 1e6 / (double)cycles, b.usage ? " with usage" : "",
	       (double)b.ack_ns / 1e3 / (double)cycles);
	fsm_free(b.f);
	buf_done(&b.entry);
	buf_done(&b.body);
	arena_done(&b.arena);
	kv_close(kv);
}

static void run_rocks(const char *dir, size_t queued, size_t cycles)
{
	struct kv_options o = { .write_buffer_bytes = 64u << 20,
				.cache_bytes = 64u << 20 };
	struct buf why = BUF_INIT(1024);
	char path[512];
	struct kv *kv;

	(void)snprintf(path, sizeof(path), "%s/fsm_bench_%zu", dir, queued);
	if (kv_rocks_open(path, &o, &kv, &why) < 0) {
		(void)fprintf(stderr, "%s: %.*s\n", path,
			      STR_ARG(buf_str(&why)));
		exit(1);
	}
	run("rocksdb", kv, queued, cycles);
	buf_done(&why);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/fsm_bench_XXXXXX";
	uint64_t cycles = CYCLES_DEFAULT;
	const char *only = argc > 3 ? argv[3] : "";
	const char *where = argc > 1 ? argv[1] : mkdtemp(dir);

	if (where == NULL) {
		perror("mkdtemp");
		return 1;
	}
	if (argc > 2 && !str_parse_u64(str_from(argv[2]), &cycles)) {
		(void)fprintf(stderr, "%s is not a number\n", argv[2]);
		return 2;
	}
	with_usage = argc > 4 && strcmp(argv[4], "usage") == 0;
	printf("entries of %d operations, payloads of %d bytes, in %s\n",
	       ENTRY_OPS, PAYLOAD_BYTES, where);
	if (strcmp(only, "rocksdb") != 0) {
		run("memory", kv_mem_new(), SHALLOW, cycles);
		run("memory", kv_mem_new(), DEEP, cycles);
	}
	if (strcmp(only, "memory") != 0) {
		run_rocks(where, SHALLOW, cycles);
		run_rocks(where, DEEP, cycles);
	}
	/* a directory that was named stays, to be looked at */
	if (where == dir &&
	    nftw(dir, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS) != 0)
		perror(dir);
	return 0;
}
