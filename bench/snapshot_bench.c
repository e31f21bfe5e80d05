/*
 * What a follower that fetches a snapshot costs the one who gives it: answers
 * to single enqueues, one at a time, without and with a fetch beside them.
 *
 *   snapshot_bench CORVO-RAFTD [MiB of state [rate, as 64MiB]]
 *
 * Starts a corvo-raftd of its own in a folder below the working directory, and
 * removes it.
 */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/download.h"
#include "rt/file.h"
#include "util/clock.h"

#define PAYLOAD   100000 /* of what fills the store */
#define WINDOW    16     /* of them under way */
#define SMALL     200    /* of what is timed */
#define SAMPLES   100000
#define ALONE_NS  (5 * NS_PER_S)
#define SEED_STEP 0x9e3779b97f4a7c15ULL

extern char **environ;

struct bench {
	char dir[64];
	char data[128]; /* of the follower */
	struct loop *loop;
	struct ipc *ipc;
	struct rpc_client *ops, *files;
	struct worker *worker;
	struct download *download;
	struct settings s;
	uint64_t bytes; /* to fill with */
	uint64_t seed, number;
	char payload[PAYLOAD];
	unsigned inflight;
	bool timing, over;
	uint64_t began_ns, until_ns;
	uint64_t took_ns[SAMPLES];
	size_t n;
};

static void fill_payload(struct bench *b, size_t n)
{
	b->payload[0] = b->payload[n - 1] = '"';
	for (size_t i = 1; i + 1 < n; i++) {
		b->seed = b->seed * 6364136223846793005ULL + SEED_STEP;
		b->payload[i] = (char)('0' + (b->seed >> 33) % 64);
		if (b->payload[i] == '\\')
			b->payload[i] = 'x';
	}
}

static void enqueue(struct bench *b, size_t n);

static void on_reply(void *ctx, const struct rpc_reply *r)
{
	struct bench *b = ctx;
	uint64_t now_ns = clock_mono_ns();

	if (r->err != 0) {
		fprintf(stderr, "enqueue: %.*s\n", STR_ARG(r->body));
		exit(1);
	}
	b->inflight--;
	if (b->timing) {
		if (b->n < SAMPLES)
			b->took_ns[b->n++] = now_ns - b->began_ns;
		if (b->over || (b->until_ns != 0 && now_ns >= b->until_ns))
			loop_stop(b->loop);
		else
			enqueue(b, SMALL);
		return;
	}
	if (b->number * PAYLOAD < b->bytes)
		enqueue(b, PAYLOAD);
	else if (b->inflight == 0)
		loop_stop(b->loop);
}

static void enqueue(struct bench *b, size_t n)
{
	struct buf body = BUF_INIT(0);
	struct m_enqueue m = { 0 };
	char id[32];

	(void)snprintf(id, sizeof(id), "job-%" PRIu64, b->number++);
	fill_payload(b, n);
	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, payload, str_of(b->payload, n));
	msg_encode(&msg_enqueue, &m, &body);
	b->inflight++;
	b->began_ns = clock_mono_ns();
	(void)rpc_call(b->ops, OP_ENQUEUE, STR("q"), buf_str(&body), 0,
		       ERR_LEADER_UNAVAILABLE, 0, on_reply, b);
	buf_done(&body);
}

static void turn_end(void *ctx)
{
	struct bench *b = ctx;

	rpc_client_flush(b->ops);
	rpc_client_flush(b->files);
}

static void on_done(void *ctx, int err, struct str why)
{
	struct bench *b = ctx;

	if (err != 0)
		fprintf(stderr, "fetch: %.*s\n", STR_ARG(why));
	b->over = true;
}

static int compare(const void *pa, const void *pb)
{
	const uint64_t *a = pa, *b = pb;

	return *a < *b ? -1 : *a > *b;
}

static void print(struct bench *b, const char *what)
{
	qsort(b->took_ns, b->n, sizeof(*b->took_ns), compare);
	printf("%-12s %7zu answers  p50 %6.2f ms  p99 %6.2f ms  p99.9 %6.2f "
	       "ms  max %7.2f ms\n",
	       what, b->n, (double)b->took_ns[b->n / 2] / 1e6,
	       (double)b->took_ns[b->n * 99 / 100] / 1e6,
	       (double)b->took_ns[b->n * 999 / 1000] / 1e6,
	       (double)b->took_ns[b->n - 1] / 1e6);
	(void)fflush(stdout);
}

static void time_alone(struct bench *b)
{
	b->timing = true;
	b->n = 0;
	b->until_ns = clock_mono_ns() + ALONE_NS;
	enqueue(b, SMALL);
	loop_run(b->loop);
	print(b, "alone");
}

static uint64_t newest(struct bench *b)
{
	char path[128];
	uint64_t best = 0, index;
	DIR *d;
	int end;

	(void)snprintf(path, sizeof(path), "%s/a/checkpoints", b->dir);
	d = opendir(path);
	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
		if (sscanf(e->d_name, "snapshot-%" SCNu64 "%n", &index, &end) ==
			1 &&
		    e->d_name[end] == '\0' && index > best)
			best = index;
	if (d != NULL)
		(void)closedir(d);
	return best;
}

static void time_beside(struct bench *b)
{
	struct download_config c = { .loop = b->loop,
				     .worker = b->worker,
				     .settings = &b->s,
				     .client = b->files,
				     .index = newest(b),
				     .done = on_done,
				     .ctx = b };
	uint64_t begin_ns = clock_mono_ns();
	struct download_progress p;

	b->n = 0;
	b->until_ns = 0;
	b->download = download_new(&c);
	enqueue(b, SMALL);
	loop_run(b->loop);
	print(b, "with a fetch");
	download_progress(b->download, &p);
	printf("fetched %.0f MiB in %.2f s\n", (double)p.done / 1048576,
	       (double)(clock_mono_ns() - begin_ns) / 1e9);
	download_free(b->download);
}

static pid_t spawn(struct bench *b, char *program)
{
	char data[128], run[128], path[128];
	char *argv[] = { program, data, run, NULL };
	pid_t pid;

	(void)snprintf(data, sizeof(data), "--data-dir=%s/a", b->dir);
	(void)snprintf(run, sizeof(run), "--run-dir=%s/run", b->dir);
	(void)snprintf(path, sizeof(path), "%s/run", b->dir);
	CHECK(dir_make(path) == 0);
	CHECK(posix_spawn(&pid, program, NULL, NULL, argv, environ) == 0);
	return pid;
}

static void dial(struct bench *b, enum proc_id who, const char *name,
		 struct rpc_client **ret)
{
	struct buf why = BUF_INIT(0);
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/run/raftd-%s.sock", b->dir,
		       name);
	*ret = rpc_client_new(b->ipc, path, who, &why);
	CHECK(*ret != NULL);
}

static void begin(struct bench *b, int argc, char **argv)
{
	struct buf why = BUF_INIT(0);
	char rate[64];
	char *flags[] = { rate };

	(void)snprintf(b->dir, sizeof(b->dir), "snapshot-bench-XXXXXX");
	CHECK(mkdtemp(b->dir) != NULL);
	(void)snprintf(b->data, sizeof(b->data), "%s/b", b->dir);
	CHECK(dir_make(b->data) == 0);
	(void)snprintf(rate, sizeof(rate), "--snapshot-rate=%s",
		       argc > 3 ? argv[3] : "64MiB");
	CHECK(settings_load(1, flags, &b->s, &why) == 0);
	b->s.data_dir = b->data;
	b->bytes = (argc > 2 ? strtoull(argv[2], NULL, 10) : 500) << 20;
	b->loop = loop_new();
	b->ipc = ipc_new(b->loop);
	b->worker = worker_new(b->loop, "snapshot", 10);
	loop_on_turn_end(b->loop, turn_end, b);
	dial(b, PROC_VIEWD, "viewd", &b->ops);
	dial(b, PROC_SCHED, "sched", &b->files);
}

int main(int argc, char **argv)
{
	struct bench *b = xcalloc(1, sizeof(*b));
	pid_t raftd;

	if (argc < 2) {
		fprintf(stderr, "usage: %s CORVO-RAFTD [MiB of state [rate]]\n",
			argv[0]);
		return 2;
	}
	begin(b, argc, argv);
	raftd = spawn(b, argv[1]);
	for (unsigned i = 0; i < WINDOW; i++)
		enqueue(b, PAYLOAD);
	loop_run(b->loop);
	time_alone(b);
	time_beside(b);
	(void)kill(raftd, SIGTERM);
	(void)waitpid(raftd, NULL, 0);
	rpc_client_free(b->ops);
	rpc_client_free(b->files);
	worker_free(b->worker);
	ipc_free(b->ipc);
	loop_free(b->loop);
	settings_done(&b->s);
	(void)dir_remove(b->dir);
	free(b);
	ipc_exit();
	return 0;
}
