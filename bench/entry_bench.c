/*
 * What one entry costs at most when documents are as large as they may be:
 * memory above what the process had before the entry, and time. Through
 * fsm_apply on RocksDB, each row with jobs of its own; what an entry leaves
 * over goes into the next one, as the proposer does it.
 *
 * entry_bench [row...]
 */
#include <ftw.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "fsm/fsm.h"
#include "util/clock.h"

#define LARGE     (250u << 10) /* a payload, a step of a chain, ... */
#define FEW       512
#define MANY      1000
#define FIRES     256
#define START_NS  (1700000000 * NS_PER_S)
#define HOUR_NS   (3600 * NS_PER_S)
#define BEHIND    (256u << 10)
#define OPEN_DIRS 8

/* An operation that waits for its entry; it came before `next`. */
struct item {
	struct item *next;
	uint32_t op;
	struct buf body;
};

struct bench {
	char dir[64];
	struct kv *kv;
	struct fsm *f;
	struct arena arena; /* of the row */
	struct item *first, **end;
	uint64_t index, now_ns;
	struct buf entry;
	struct item *answered;
	uint32_t repeat;           /* the operation says that there is more */
	size_t acted;              /* jobs the last bulk_act got to */
	struct str held[MANY + 1]; /* jobs handed out */
	uint64_t tokens[MANY + 1];
	size_t held_n;
	/* of the row */
	bool measured;
	size_t entries, peak;
	uint64_t longest_ns;
	char *large; /* a JSON text */
};

/* --- memory --- */

static size_t status_bytes(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	size_t kb = 0;

	CHECK(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, name, strlen(name)) == 0)
			kb = strtoul(line + strlen(name) + 1, NULL, 10);
	(void)fclose(file);
	return kb << 10;
}

/* What is used from now on is the new peak. */
static size_t forget_peak(void)
{
	FILE *file = fopen("/proc/self/clear_refs", "w");

	CHECK(file != NULL && fputs("5", file) >= 0 && fclose(file) == 0);
	return status_bytes("VmRSS");
}

/* --- entries --- */

static void add(struct bench *b, uint32_t op, const void *request)
{
	struct item *i = xcalloc(1, sizeof(*i));

	i->op = op;
	msg_encode(op_info(op)->request, request, &i->body);
	if (b->first == NULL)
		b->end = &b->first;
	*b->end = i;
	b->end = &i->next;
}

static struct item *item_free(struct item *i)
{
	struct item *next = i->next;

	buf_done(&i->body);
	free(i);
	return next;
}

static void keep_fetched(struct bench *b, struct str body)
{
	struct m_fetch_reply r;

	CHECK(msg_decode(&msg_fetch_reply, arena_copy(&b->arena, body),
			 &b->arena, &r) == 0);
	for (size_t i = 0; i < r.jobs_n && b->held_n < MANY; i++) {
		b->held[b->held_n] = r.jobs[i].job_id;
		b->tokens[b->held_n++] = r.jobs[i].lease_token;
	}
}

static void keep_acted(struct bench *b, struct str body)
{
	struct m_bulk_result r;

	CHECK(msg_decode(&msg_bulk_result, body, &b->arena, &r) == 0);
	CHECK(r.affected == r.total && r.total > 0);
	b->acted = r.total;
}

static bool has_more(uint32_t op, struct str body, struct arena *a)
{
	struct m_maintain_reply m;
	struct m_clear_queue_reply c;
	const struct msg_desc *d = op_info(op)->reply;

	if (d == &msg_maintain_reply)
		return msg_decode(d, body, a, &m) == 0 && m.more;
	return d == &msg_clear_queue_reply && msg_decode(d, body, a, &c) == 0 &&
	       c.more;
}

static void on_reply(void *ctx, size_t n, int err, uint64_t seq,
		     struct str body)
{
	struct bench *b = ctx;
	struct item *i = b->answered;

	(void)n;
	(void)seq;
	b->answered = i->next;
	if (err == FSM_AGAIN) { /* goes into the next entry, as it is now */
		struct item *again = xcalloc(1, sizeof(*again));

		again->op = i->op;
		buf_put_str(&again->body, body);
		*b->end = again;
		b->end = &again->next;
		return;
	}
	if (err != 0) {
		printf("refused: %.*s\n", STR_ARG(body));
		exit(1);
	}
	if (i->op == OP_FETCH)
		keep_fetched(b, body);
	if (i->op == OP_BULK_ACT)
		keep_acted(b, body);
	b->repeat = has_more(i->op, body, &b->arena) ? i->op : 0;
}

/* All that was added, in one entry; what it leaves over is added again. */
static void apply(struct bench *b)
{
	struct item *all = b->first;
	struct frame_writer w;
	uint64_t began, rss = 0;

	entry_begin(&w, &b->entry, b->now_ns, ++b->index);
	for (struct item *i = all; i != NULL; i = i->next)
		entry_add(&w, &(struct entry_item){
				  .op = i->op, .body = buf_str(&i->body) });
	entry_end(&w);
	b->first = NULL;
	b->end = &b->first;
	b->answered = all;
	if (b->measured) {
		malloc_trim(0);
		rss = forget_peak();
	}
	began = clock_mono_ns();
	CHECK(fsm_apply(b->f, b->index, buf_str(&b->entry), on_reply, b) == 0);
	if (b->measured) {
		b->longest_ns = MAX(b->longest_ns, clock_mono_ns() - began);
		b->peak = MAX(b->peak, status_bytes("VmHWM") - rss);
		b->entries++;
	}
	while (all != NULL)
		all = item_free(all);
}

static void apply_all(struct bench *b)
{
	while (b->first != NULL)
		apply(b);
}

/* The same, until the operation has nothing more to do. */
static void measure(struct bench *b)
{
	b->measured = true;
	apply_all(b);
	b->measured = false;
}

static void measure_maintain(struct bench *b, uint32_t op)
{
	struct m_maintain m = { 0 };

	MSG_SET(&m, maintain, limit, LIMIT_MAINTAIN_JOBS);
	MSG_SET(&m, maintain, retention_ns, HOUR_NS);
	do {
		add(b, op, &m);
		measure(b);
	} while (b->repeat != 0);
}

/* --- jobs --- */

static struct str job_id(struct bench *b, const char *what, size_t i)
{
	return arena_printf(&b->arena, "job_%s_%04zu", what, i);
}

static struct str large_text(const struct bench *b)
{
	return str_of(b->large, LARGE);
}

static struct m_enqueue new_job(struct bench *b, const char *what, size_t i)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, job_id(b, what, i));
	MSG_SET(&m, enqueue, queue, STR("q"));
	return m;
}

static void add_job(struct bench *b, const struct m_enqueue *m)
{
	add(b, OP_ENQUEUE, m);
	apply(b);
}

static void set_chain(struct bench *b, struct m_enqueue *m)
{
	struct m_chain *c = arena_zalloc(&b->arena, sizeof(*c));
	struct m_chain_step *s = arena_zalloc(&b->arena, 3 * sizeof(*s));

	MSG_SET(&s[0], chain_step, queue, m->queue);
	MSG_SET(&s[1], chain_step, queue, STR("next"));
	MSG_SET(&s[1], chain_step, payload, large_text(b));
	MSG_SET(&s[2], chain_step, queue, STR("failed"));
	MSG_SET(&s[2], chain_step, payload, large_text(b));
	MSG_SET_LIST(c, chain, steps, s, 2);
	MSG_SET(c, chain, on_failure, &s[2]);
	MSG_SET(m, enqueue, chain, c);
	MSG_SET(m, enqueue, chain_id, m->job_id);
}

/* Jobs with a large chain, or with a large payload. */
static void make_jobs(struct bench *b, const char *what, size_t n, bool chains)
{
	for (size_t i = 0; i < n; i++) {
		struct m_enqueue m = new_job(b, what, i);

		MSG_SET(&m, enqueue, max_retries, 1);
		MSG_SET(&m, enqueue, expire_after, 24 * HOUR_NS);
		if (chains)
			set_chain(b, &m);
		else
			MSG_SET(&m, enqueue, payload, large_text(b));
		add_job(b, &m);
	}
}

static void add_fetch(struct bench *b, uint32_t count)
{
	struct str queue = STR("q");
	struct m_fetch m = { 0 };

	MSG_SET_LIST(&m, fetch, queues, &queue, 1);
	MSG_SET(&m, fetch, count, count);
	MSG_SET(&m, fetch, lease_duration, HOUR_NS);
	add(b, OP_FETCH, &m);
}

static void hand_out(struct bench *b, size_t n)
{
	while (b->held_n < n) {
		add_fetch(b, 1);
		apply_all(b);
	}
}

static void add_beats(struct bench *b, size_t from, size_t n, struct str what)
{
	struct m_beat *beats = arena_zalloc(&b->arena, n * sizeof(*beats));
	struct m_heartbeat m = { 0 };

	for (size_t i = 0; i < n; i++) {
		MSG_SET(&beats[i], beat, job_id, b->held[from + i]);
		MSG_SET(&beats[i], beat, lease_token, b->tokens[from + i]);
		if (what.n > LIMIT_PROGRESS_BYTES)
			MSG_SET(&beats[i], beat, checkpoint, what);
		else
			MSG_SET(&beats[i], beat, progress, what);
	}
	MSG_SET_LIST(&m, heartbeat, jobs, beats, n);
	add(b, OP_HEARTBEAT, &m);
}

static void set_checkpoints(struct bench *b)
{
	for (size_t i = 0; i < b->held_n; i++) {
		add_beats(b, i, 1, large_text(b));
		apply_all(b);
	}
}

static void add_acks(struct bench *b, size_t n)
{
	struct m_ack_item *acks = arena_zalloc(&b->arena, n * sizeof(*acks));
	struct m_ack_batch m = { 0 };

	for (size_t i = 0; i < n; i++) {
		MSG_SET(&acks[i], ack_item, job_id, b->held[i]);
		MSG_SET(&acks[i], ack_item, lease_token, b->tokens[i]);
	}
	MSG_SET_LIST(&m, ack_batch, acks, acks, n);
	add(b, OP_ACK_BATCH, &m);
}

static void ack_with_results(struct bench *b)
{
	for (size_t i = 0; i < b->held_n; i++) {
		struct m_ack m = { 0 };

		MSG_SET(&m, ack, job_id, b->held[i]);
		MSG_SET(&m, ack, result, large_text(b));
		add(b, OP_ACK, &m);
		apply_all(b);
	}
}

/* --- rows --- */

static void row_expire(struct bench *b)
{
	make_jobs(b, "expire", MANY, true);
	b->now_ns += 25 * HOUR_NS;
	measure_maintain(b, OP_EXPIRE);
}

static void row_ack_batch(struct bench *b)
{
	make_jobs(b, "ack", FEW, true);
	hand_out(b, FEW);
	add_acks(b, FEW);
	measure(b);
}

static void row_heartbeat(struct bench *b)
{
	make_jobs(b, "beat", FEW, false);
	hand_out(b, FEW);
	set_checkpoints(b);
	add_beats(b, 0, FEW, STR("{\"done\":1}"));
	measure(b);
}

static void row_promote(struct bench *b)
{
	for (size_t i = 0; i < MANY; i++) {
		struct m_enqueue m = new_job(b, "later", i);

		MSG_SET(&m, enqueue, payload, large_text(b));
		MSG_SET(&m, enqueue, scheduled_at, b->now_ns + HOUR_NS);
		add_job(b, &m);
	}
	b->now_ns += HOUR_NS;
	measure_maintain(b, OP_PROMOTE);
}

static void row_purge(struct bench *b)
{
	make_jobs(b, "old", MANY, false);
	hand_out(b, MANY);
	ack_with_results(b);
	b->now_ns += 2 * HOUR_NS;
	measure_maintain(b, OP_PURGE);
}

static void row_clear(struct bench *b)
{
	struct m_clear_queue m = { 0 };

	MSG_SET(&m, clear_queue, queue, STR("q"));
	make_jobs(b, "clear", MANY, true);
	do {
		add(b, OP_CLEAR_QUEUE, &m);
		measure(b);
	} while (b->repeat != 0);
}

/* What an answer says it did not get to is asked for again. */
static void bulk(struct bench *b, const char *what, enum bulk_action action)
{
	struct str *ids = arena_alloc(&b->arena, MANY * sizeof(*ids));

	for (size_t i = 0; i < MANY; i++)
		ids[i] = job_id(b, what, i);
	for (size_t at = 0; at < MANY; at += b->acted) {
		struct m_bulk_act m = { 0 };

		MSG_SET(&m, bulk_act, action, action);
		MSG_SET(&m, bulk_act, move_to_queue, STR("elsewhere"));
		MSG_SET_LIST(&m, bulk_act, job_ids, ids + at,
			     MIN(MANY - at, (size_t)LIMIT_BULK_STEP));
		add(b, OP_BULK_ACT, &m);
		measure(b);
	}
}

static void row_bulk_move(struct bench *b)
{
	make_jobs(b, "move", MANY, true);
	bulk(b, "move", BULK_MOVE);
}

static void row_bulk_delete(struct bench *b)
{
	make_jobs(b, "delete", MANY, false);
	bulk(b, "delete", BULK_DELETE);
}

static void row_release(struct bench *b)
{
	struct m_enqueue parent = new_job(b, "parent", 0);
	struct str id = parent.job_id;

	add_job(b, &parent);
	for (size_t i = 0; i < MANY; i++) {
		struct m_enqueue m = new_job(b, "child", i);

		MSG_SET(&m, enqueue, payload, large_text(b));
		MSG_SET_LIST(&m, enqueue, depends_on, &id, 1);
		set_chain(b, &m);
		add_job(b, &m);
	}
	hand_out(b, 1);
	add_acks(b, 1);
	measure(b);
	measure_maintain(b, OP_RELEASE);
}

static void row_fetches(struct bench *b)
{
	make_jobs(b, "fetch", FEW, false);
	for (size_t i = 0; i < FEW; i++)
		add_fetch(b, 1);
	measure(b);
}

static void row_fires(struct bench *b)
{
	struct m_schedule_job job = { 0 };

	MSG_SET(&job, schedule_job, payload, large_text(b));
	for (size_t i = 0; i < FIRES; i++) {
		struct m_schedule m = { 0 };

		MSG_SET(&m, schedule, id, job_id(b, "schedule", i));
		MSG_SET(&m, schedule, name, m.id);
		MSG_SET(&m, schedule, queue, STR("q"));
		MSG_SET(&m, schedule, cron, STR("* * * * *"));
		MSG_SET(&m, schedule, create, true);
		MSG_SET(&m, schedule, next_run, b->now_ns + HOUR_NS);
		MSG_SET(&m, schedule, job, &job);
		add(b, OP_SET_SCHEDULE, &m);
		apply(b);
	}
	for (size_t i = 0; i < FIRES; i++) {
		struct m_fire m = { 0 };

		MSG_SET(&m, fire, id, job_id(b, "schedule", i));
		MSG_SET(&m, fire, job_id, job_id(b, "fired", i));
		add(b, OP_RUN_SCHEDULE, &m);
	}
	measure(b);
}

/* One request as large as they come. */
static void row_enqueue_batch(struct bench *b)
{
	struct m_enqueue *jobs = arena_zalloc(&b->arena, 60 * sizeof(*jobs));
	struct m_enqueue_batch m = { 0 };

	for (size_t i = 0; i < 60; i++) {
		jobs[i] = new_job(b, "batch", i);
		MSG_SET(&jobs[i], enqueue, payload, large_text(b));
	}
	MSG_SET_LIST(&m, enqueue_batch, jobs, jobs, 60);
	make_jobs(b, "before", 100, false);
	add(b, OP_ENQUEUE_BATCH, &m);
	measure(b);
}

static const struct {
	const char *name;
	void (*fn)(struct bench *b);
} rows[] = {
	{ "expire", row_expire },
	{ "ack_batch", row_ack_batch },
	{ "heartbeat", row_heartbeat },
	{ "promote", row_promote },
	{ "purge", row_purge },
	{ "clear", row_clear },
	{ "bulk_move", row_bulk_move },

	{ "bulk_delete", row_bulk_delete },
	{ "release", row_release },
	{ "fetches", row_fetches },
	{ "fires", row_fires },
	{ "enqueue_batch", row_enqueue_batch },
};

/* --- one row --- */

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void bench_open(struct bench *b)
{
	struct kv_options o = { .write_buffer_bytes = 16u << 20,
				.cache_bytes = 64u << 20 };
	struct buf why = BUF_INIT(1024);

	(void)snprintf(b->dir, sizeof(b->dir), "/tmp/entry_bench_XXXXXX");
	CHECK(mkdtemp(b->dir) != NULL);
	CHECK(kv_rocks_open(b->dir, &o, &b->kv, &why) == 0);
	buf_done(&why);
	b->f = fsm_new(b->kv);
	fsm_write_behind(b->f, BEHIND);
	CHECK(fsm_load(b->f) == 0);
	b->now_ns = START_NS;
	b->end = &b->first;
	b->large = xmalloc(LARGE);
	memset(b->large, 'x', LARGE);
	memcpy(b->large, "{\"a\":\"", 6);
	memcpy(b->large + LARGE - 2, "\"}", 2);
}

static void bench_close(struct bench *b)
{
	fsm_free(b->f);
	kv_close(b->kv);
	buf_done(&b->entry);
	arena_done(&b->arena);
	free(b->large);
	if (nftw(b->dir, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS) != 0)
		perror(b->dir);
}

static void run(size_t row)
{
	struct bench *b = xcalloc(1, sizeof(*b));

	bench_open(b);
	rows[row].fn(b);
	printf("%-14s %4zu entries, longest %6.1f ms, %7.1f MB above base\n",
	       rows[row].name, b->entries, (double)b->longest_ns / 1e6,
	       (double)b->peak / 1e6);
	bench_close(b);
	free(b);
}

static bool is_wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc < 2;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (is_wanted(rows[i].name, argc, argv))
			run(i);
	return 0;
}
