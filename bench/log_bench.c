/*
 * The raft log of one node by itself: entries of some bytes, so many under way
 * at a time, for a while, through cluster/node.h; nothing is applied.
 *
 *   log_bench [uv|segment [seconds [bytes of an entry [DIR]]]]
 *
 * Without a kind: both, in turn. DIR: where to write, /tmp if not given; what
 * is measured is its disk. CORVO_DURABLE=false and CORVO_RAFT_SEGMENT_SIZE
 * work as they do for a node.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cluster/node.h"
#include "rt/file.h"
#include "util/clock.h"

#define SAMPLES    (1u << 20)
#define ROUNDS     3
#define SECONDS    3
#define BYTES      512
#define BYTES_MAX  (1u << 20)
#define PART(n, d) ((n) / (d))

struct bench {
	struct loop *loop;
	struct node *node;
	struct settings s;
	const char *dir;
	char *entry;
	size_t bytes;
	unsigned inflight, under_way;
	uint64_t run_ns, until_ns, began_ns;
	bool begun, over;
	/* of the round */
	uint64_t n;
	uint64_t *took_ns;
	uint64_t flushes;
	struct rusage before;
};

struct one {
	struct bench *b;
	uint64_t at_ns;
};

static uint64_t flushes;

/* Ours is found before libc's, so what the log flushes is counted. */
int fdatasync(int fd)
{
	__atomic_add_fetch(&flushes, 1, __ATOMIC_RELAXED);
	return (int)syscall(SYS_fdatasync, fd);
}

/* --- entries --- */

static void propose(struct bench *b);

static void on_stopped(void *ctx)
{
	struct bench *b = ctx;

	loop_stop(b->loop);
}

static void on_done(void *ctx, int err)
{
	struct one *o = ctx;
	struct bench *b = o->b;

	CHECK(err == 0);
	if (b->n < SAMPLES)
		b->took_ns[b->n] = clock_mono_ns() - o->at_ns;
	b->n++;
	b->under_way--;
	free(o);
	if (clock_mono_ns() < b->until_ns)
		propose(b);
	else
		b->over = b->under_way == 0;
}

static void propose(struct bench *b)
{
	struct one *o = xcalloc(1, sizeof(*o));
	const void *tag;

	o->b = b;
	o->at_ns = clock_mono_ns();
	b->under_way++;
	CHECK(node_propose(b->node, str_of(b->entry, b->bytes), &tag, on_done,
			   o) == 0);
}

static int on_apply(void *ctx, uint64_t index, const void *tag,
		    const struct entry_origin *o, struct str entry)
{
	(void)ctx;
	(void)index;
	(void)tag;
	(void)o;
	(void)entry;
	return 0;
}

static int on_before_snapshot(void *ctx)
{
	(void)ctx;
	return 0;
}

static int on_make_durable(void *ctx, uint64_t index, struct buf *why)
{
	(void)ctx;
	(void)index;
	(void)why;
	return 0;
}

static void on_change(void *ctx)
{
	struct bench *b = ctx;

	if (b->begun || !node_is_ready(b->node))
		return;
	b->begun = true;
	b->began_ns = clock_mono_ns();
	b->until_ns = b->began_ns + b->run_ns;
	b->flushes = flushes;
	(void)getrusage(RUSAGE_SELF, &b->before);
	for (unsigned i = 0; i < b->inflight; i++)
		propose(b);
}

/* At the end of each turn: not from inside of the node. */
static void on_turn(void *ctx)
{
	struct bench *b = ctx;

	node_turn(b->node);
	if (!b->over)
		return;
	b->over = false;
	node_stop(b->node, on_stopped, b);
}

/* --- figures --- */

static int compare(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

static double cpu_us(const struct timeval *a, const struct timeval *b)
{
	return (double)(b->tv_sec - a->tv_sec) * 1e6 +
	       (double)(b->tv_usec - a->tv_usec);
}

static void report(struct bench *b, uint64_t end_ns)
{
	double s = (double)(end_ns - b->began_ns) / NS_PER_S;
	double n = (double)b->n;
	size_t samples = MIN(b->n, SAMPLES);
	struct rusage after;

	(void)getrusage(RUSAGE_SELF, &after);
	qsort(b->took_ns, samples, sizeof(*b->took_ns), compare);
	(void)printf("%-8s %4u  %9.0f  %8.1f  %8.1f  %9.1f  %6.1f  %6.1f  ",
		     b->s.raft_store, b->inflight, n / s,
		     (double)b->took_ns[PART(samples, 2)] / NS_PER_US,
		     (double)b->took_ns[samples - 1 - PART(samples, 100)] /
			 NS_PER_US,
		     (double)b->took_ns[samples - 1] / NS_PER_US,
		     cpu_us(&b->before.ru_utime, &after.ru_utime) / n,
		     cpu_us(&b->before.ru_stime, &after.ru_stime) / n);
	/* the library flushes in another way, which is not seen here */
	if (strcmp(b->s.raft_store, "uv") == 0)
		(void)printf("%7s\n", "-");
	else
		(void)printf("%7.3f\n", (double)(flushes - b->flushes) / n);
	(void)fflush(stdout);
}

static void run(struct bench *b, const char *store, unsigned inflight)
{
	static const struct node_ops ops = {
		.apply = on_apply,
		.before_snapshot = on_before_snapshot,
		.make_durable = on_make_durable,
		.on_change = on_change,
	};
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct node_config c = { .settings = &b->s };
	uint64_t end_ns;

	CHECK(settings_load(0, NULL, &b->s, &why) == 0);
	b->s.data_dir = b->dir;
	b->s.raft_store = store;
	b->inflight = inflight;
	b->n = 0;
	b->begun = false;
	CHECK(dir_remove(b->dir) == 0 && dir_make(b->dir) == 0);
	b->loop = loop_new();
	if (node_start(b->loop, &c, &ops, b, &b->node, &why) != 0) {
		(void)fprintf(stderr, "%.*s\n", STR_ARG(buf_str(&why)));
		exit(EXIT_FAILURE);
	}
	loop_on_turn_end(b->loop, on_turn, b);
	loop_run(b->loop);
	end_ns = MAX(b->until_ns, b->began_ns + 1);
	report(b, end_ns);
	node_free(b->node);
	loop_free(b->loop);
	settings_done(&b->s);
}

int main(int argc, char **argv)
{
	static const unsigned inflight[] = { 1, 16, 128 };
	static const char *const stores[] = { "uv", "segment" };
	struct bench b = { .run_ns = SECONDS * NS_PER_S, .bytes = BYTES };
	const char *only = argc > 1 ? argv[1] : "";
	char dir[512];

	if (argc > 2)
		b.run_ns = strtoul(argv[2], NULL, 10) * NS_PER_S;
	if (argc > 3)
		b.bytes = MIN(strtoul(argv[3], NULL, 10), BYTES_MAX);
	(void)snprintf(dir, sizeof(dir), "%s/corvo-log-bench.%d",
		       argc > 4 ? argv[4] : "/tmp", (int)getpid());
	b.dir = dir;
	b.entry = xcalloc(1, BYTES_MAX);
	b.took_ns = xcalloc(SAMPLES, sizeof(*b.took_ns));
	(void)printf("entries of %zu bytes; times in us\n"
		     "store    under way  per s  p50  p99  max  user  sys  "
		     "flushes per entry\n",
		     b.bytes);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < ARRAY_SIZE(inflight); i++)
			for (size_t k = 0; k < ARRAY_SIZE(stores); k++)
				if (*only == '\0' ||
				    strcmp(only, stores[k]) == 0)
					run(&b, stores[k], inflight[i]);
	(void)dir_remove(dir);
	free(b.entry);
	free(b.took_ns);
	return EXIT_SUCCESS;
}
