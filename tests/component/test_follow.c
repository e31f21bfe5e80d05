/*
 * The whole way of a snapshot: a real corvo-raftd takes one, a follower's part
 * fetches it over a link, and a second corvo-raftd puts it in place and serves
 * what the first one had.
 */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/install.h"
#include "follow.h"
#include "lib/testlib.h"
#include "rt/file.h"
#include "util/clock.h"
#include "util/le.h"

#define PAYLOAD_BYTES  20000
#define JOBS_MAX       64
#define SNAPSHOT_BYTES (128u << 10) /* setting */
#define META_HEAD      32 /* bytes before the members, in a .meta file */

extern char **environ;

struct world {
	char dir[64];
	struct loop *loop;
	struct ipc *ipc;
	struct rpc_client *client;
	struct loop_timer *tick;
	pid_t raftd;
	unsigned jobs;
	/* the answer that came last */
	bool answered;
	int err;
	struct buf body;
	struct arena arena;
	/* the follower */
	struct settings s; /* of the second data directory */
	unsigned opened, closed;
	bool ready;
	bool (*until)(struct world *w);
	uint64_t newer_than;
};

static struct buf why = BUF_INIT(0);

static const char *in_dir(const struct world *w, const char *name)
{
	static char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	return path;
}

/* --- the loop --- */

static void turn_end(void *ctx)
{
	struct world *w = ctx;

	if (w->client != NULL)
		rpc_client_flush(w->client);
}

static void on_tick(void *ctx)
{
	struct world *w = ctx;

	if (w->until(w))
		loop_stop(w->loop);
	else
		loop_timer_arm(w->tick, 2 * NS_PER_MS);
}

/* ctest ends what takes for ever. */
static void wait_until(struct world *w, bool (*until)(struct world *w))
{
	w->until = until;
	loop_timer_arm(w->tick, 0);
	loop_run(w->loop);
}

/* --- corvo-raftd --- */

static void start_raftd(struct world *w, const char *name)
{
	const char *build = getenv("CORVO_BUILD_DIR");
	char program[256], data[128], run[128], link[256];
	char snapshot[] = "--snapshot-bytes=128KiB";
	char *argv[] = { program, data, run, snapshot, NULL };

	if (build == NULL)
		fail_msg("CORVO_BUILD_DIR does not say where corvo-raftd is");
	(void)snprintf(program, sizeof(program), "%s/corvo-raftd/corvo-raftd",
		       build);
	(void)snprintf(data, sizeof(data), "--data-dir=%s/%s", w->dir, name);
	(void)snprintf(run, sizeof(run), "--run-dir=%s/%s/run", w->dir, name);
	(void)snprintf(link, sizeof(link), "%s/run", name);
	assert_int_equal(dir_make(in_dir(w, link)), 0);
	assert_int_equal(
	    posix_spawn(&w->raftd, program, NULL, NULL, argv, environ), 0);
	(void)snprintf(link, sizeof(link), "%s/%s/run/raftd-viewd.sock", w->dir,
		       name);
	w->client = rpc_client_new(w->ipc, link, PROC_VIEWD, &why);
	assert_non_null(w->client);
}

static void stop_raftd(struct world *w)
{
	int status;

	rpc_client_free(w->client);
	w->client = NULL;
	assert_int_equal(kill(w->raftd, SIGTERM), 0);
	assert_int_equal(waitpid(w->raftd, &status, 0), w->raftd);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- questions --- */

static void on_reply(void *ctx, const struct rpc_reply *r)
{
	struct world *w = ctx;

	w->answered = true;
	w->err = r->err;
	buf_clear(&w->body);
	buf_put_str(&w->body, r->body);
}

static bool is_answered(struct world *w)
{
	return w->answered;
}

static int ask(struct world *w, unsigned id, const struct msg_desc *d,
	       const void *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	w->answered = false;
	(void)rpc_call(w->client, id, STR_NULL, buf_str(&b), 0,
		       ERR_LEADER_UNAVAILABLE, 0, on_reply, w);
	wait_until(w, is_answered);
	arena_reset(&w->arena);
	return w->err;
}

static void decode(struct world *w, const struct msg_desc *d, void *ret)
{
	assert_int_equal(msg_decode(d, buf_str(&w->body), &w->arena, ret), 0);
}

static void status(struct world *w, struct m_node_status *ret)
{
	struct m_nothing nothing = { 0 };

	assert_int_equal(ask(w, QUERY_NODE_STATUS, &msg_nothing, &nothing), 0);
	decode(w, &msg_node_status, ret);
}

static void job_name(unsigned n, char ret[32])
{
	(void)snprintf(ret, 32, "job-%04u", n);
}

static void enqueue(struct world *w)
{
	struct m_enqueue m = { 0 };
	char id[32], payload[PAYLOAD_BYTES];

	assert_true(w->jobs < JOBS_MAX);
	job_name(w->jobs++, id);
	memset(payload, 'x', sizeof(payload));
	payload[0] = payload[sizeof(payload) - 1] = '"';
	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, payload, str_of(payload, sizeof(payload)));
	assert_int_equal(ask(w, OP_ENQUEUE, &msg_enqueue, &m), 0);
}

/* --- snapshots on the disk --- */

/* The file beside its .meta file comes last. */
static bool is_snapshot(int dir, const char *meta, uint64_t *ret_index)
{
	uint64_t term, at;
	char name[128];
	int end = 0;

	if (sscanf(meta, "snapshot-%" SCNu64 "-%" SCNu64 "-%" SCNu64 ".meta%n",
		   &term, ret_index, &at, &end) != 3 ||
	    end == 0 || meta[end] != '\0')
		return false;
	(void)snprintf(name, sizeof(name), "%.*s",
		       (int)(strlen(meta) - strlen(".meta")), meta);
	return faccessat(dir, name, F_OK, 0) == 0;
}

static bool is_checkpoint(const char *name, uint64_t *ret_index)
{
	int end = 0;

	return sscanf(name, "snapshot-%" SCNu64 "%n", ret_index, &end) == 1 &&
	       name[end] == '\0';
}

/* The newest name of that kind, and its index; 0: none. */
static uint64_t newest(struct world *w, const char *folder, bool is_meta,
		       char ret[128])
{
	DIR *d = opendir(in_dir(w, folder));
	uint64_t best = 0, index;

	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
		if ((is_meta ? is_snapshot(dirfd(d), e->d_name, &index)
			     : is_checkpoint(e->d_name, &index)) &&
		    index >= best) {
			best = index;
			(void)snprintf(ret, 128, "%.100s", e->d_name);
		}
	if (d != NULL)
		(void)closedir(d);
	return best;
}

static bool has_snapshot(struct world *w)
{
	char name[128];
	uint64_t raft = newest(w, "a/raft", true, name);

	return raft > w->newer_than &&
	       newest(w, "a/checkpoints", false, name) == raft;
}

/* Enqueues until the log is cut, with the last of them. */
static uint64_t fill(struct world *w)
{
	char name[128];

	for (unsigned i = 0; i * PAYLOAD_BYTES < SNAPSHOT_BYTES; i++)
		enqueue(w);
	wait_until(w, has_snapshot);
	return newest(w, "a/raft", true, name);
}

/* What the leader would send. */
static void read_offer(struct world *w, struct buf *meta,
		       struct node_install *ret)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	char name[128], path[256];
	unsigned long long term;

	(void)newest(w, "a/raft", true, name);
	(void)snprintf(path, sizeof(path), "a/raft/%s", name);
	assert_int_equal(file_read(in_dir(w, path), 1u << 20, meta), 0);
	path[strlen(path) - strlen(".meta")] = '\0';
	assert_int_equal(file_read(in_dir(w, path), 1u << 20, &text), 0);
	*ret = (struct node_install){ .leader = 7 };
	assert_true(manifest_parse(buf_str(&text), &ret->manifest));
	assert_int_equal(sscanf(name, "snapshot-%llu-", &term), 1);
	ret->term = term;
	ret->members_index = get_le64(meta->p + 16);
	ret->members =
	    str_of(meta->p + META_HEAD, (size_t)get_le64(meta->p + 24));
}

/* --- the follower --- */

static struct rpc_client *open_link(void *ctx, uint64_t raft_id)
{
	struct world *w = ctx;

	assert_int_equal(raft_id, 7);
	return w->opened++ == 0 ? NULL : w->client; /* not at once */
}

static void close_link(void *ctx, struct rpc_client *c)
{
	struct world *w = ctx;

	assert_ptr_equal(c, w->client);
	w->closed++;
}

static void on_ready(void *ctx)
{
	struct world *w = ctx;

	w->ready = true;
}

/* --- setup --- */

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/corvo-follow-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->loop = loop_new();
	w->ipc = ipc_new(w->loop);
	w->tick = loop_timer_add(w->loop, on_tick, w);
	loop_on_turn_end(w->loop, turn_end, w);
	w->arena = (struct arena)ARENA_INIT;
	start_raftd(w, "a");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	stop_raftd(w);
	ipc_free(w->ipc);
	loop_timer_remove(w->tick);
	loop_free(w->loop);
	arena_done(&w->arena);
	buf_done(&w->body);
	dir_remove(w->dir);
	free(w);
	return 0;
}

/* --- tests --- */

struct offering {
	struct world *w;
	struct follow *f;
	struct node_install i;
	struct loop_timer *timer;
};

/* As the leader does, again and again. */
static void on_offer(void *ctx)
{
	struct offering *o = ctx;

	follow_offer(o->f, &o->i);
	loop_timer_arm(o->timer, 50 * NS_PER_MS);
}

static bool is_ready(struct world *w)
{
	return w->ready;
}

static bool is_needed(void *ctx _unused_, const struct node_install *i _unused_)
{
	return true;
}

static void follow_it(struct world *w, const struct node_install *i)
{
	struct follow_config c = { .loop = w->loop,
				   .settings = &w->s,
				   .open = open_link,
				   .close = close_link,
				   .is_needed = is_needed,
				   .on_ready = on_ready,
				   .ctx = w };
	struct offering o = { .w = w, .i = *i };
	struct follow_status st;

	o.f = follow_new(&c);
	follow_status(o.f, &st);
	assert_false(st.active);
	o.timer = loop_timer_add(w->loop, on_offer, &o);
	loop_timer_arm(o.timer, 0);
	wait_until(w, is_ready);
	loop_timer_remove(o.timer);
	follow_status(o.f, &st);
	assert_true(st.active);
	assert_int_equal(st.index, i->manifest.index);
	assert_true(st.total > 0);
	assert_int_equal(st.done, st.total);
	follow_free(o.f);
	assert_int_equal(w->opened, 2); /* at first there was no link */
	assert_int_equal(w->closed, 1);
}

/* The snapshot of the first is ready for the second; its index. */
static uint64_t bring_over(struct world *w)
{
	_cleanup_(buf_done) struct buf meta = BUF_INIT(0);
	struct node_install i;
	char data[128];

	read_offer(w, &meta, &i);
	assert_int_equal(settings_load(0, NULL, &w->s, &why), 0);
	(void)snprintf(data, sizeof(data), "%s/b", w->dir);
	w->s.data_dir = data;
	assert_int_equal(dir_make(data), 0);
	follow_it(w, &i);
	settings_done(&w->s);
	assert_int_equal(access(in_dir(w, "b/incoming/ready"), F_OK), 0);
	return i.manifest.index;
}

static void a_second_node_has_what_the_first_had(void **state)
{
	_cleanup_(buf_done) struct buf history = BUF_INIT(0);
	struct world *w = *state;
	struct m_node_status st;
	struct m_job_ref ref = { 0 };
	struct m_job job;
	uint64_t seq, index;
	char id[32];

	(void)fill(w);
	status(w, &st);
	seq = st.last_seq;
	buf_put_str(&history, st.history);
	index = bring_over(w);
	stop_raftd(w);

	start_raftd(w, "b"); /* which puts it in place */
	do
		status(w, &st);
	while (!st.ready);
	assert_true(st.last_seq >= seq);
	assert_true(str_eq(st.history, buf_str(&history)));
	assert_true(st.snapshot_index >= index);
	assert_int_equal(access(in_dir(w, "b/incoming"), F_OK), -1);
	for (unsigned k = 0; k < w->jobs; k++) {
		job_name(k, id);
		MSG_SET(&ref, job_ref, job_id, str_from(id));
		assert_int_equal(ask(w, QUERY_GET_JOB, &msg_job_ref, &ref), 0);
		decode(w, &msg_job, &job);
		assert_int_equal(job.payload.n, PAYLOAD_BYTES);
	}
	enqueue(w); /* it goes on */
}

/* Or the next start would put it in the place of what was recovered. */
static void recover_puts_a_snapshot_in_place_first(void **state)
{
	struct world *w = *state;
	char program[256], data[128], word[] = "recover";
	char *argv[] = { program, word, data, NULL };
	int status;
	pid_t pid;

	(void)fill(w);
	(void)bring_over(w);
	(void)snprintf(program, sizeof(program), "%s/corvo-raftd/corvo-raftd",
		       getenv("CORVO_BUILD_DIR"));
	(void)snprintf(data, sizeof(data), "--data-dir=%s/b", w->dir);
	assert_int_equal(posix_spawn(&pid, program, NULL, NULL, argv, environ),
			 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(access(in_dir(w, "b/incoming"), F_OK), -1);
	assert_int_equal(access(in_dir(w, "b/rocks/CURRENT"), F_OK), 0);
	/* and found that it fits */
	assert_int_equal(access(in_dir(w, "b/raft.old-1"), F_OK), -1);
}

static int ask_files(struct world *w, uint64_t index,
		     struct m_snapshot_list *ret)
{
	struct m_snapshot_ask m = { 0 };
	int e;

	MSG_SET(&m, snapshot_ask, index, index);
	e = ask(w, QUERY_SNAPSHOT_FILES, &msg_snapshot_ask, &m);
	if (e == 0)
		decode(w, &msg_snapshot_list, ret);
	return e;
}

/* Removed by hand: a new snapshot is taken, without any traffic. */
static void a_lost_checkpoint_is_made_up_for(void **state)
{
	struct world *w = *state;
	struct m_snapshot_list m;
	uint64_t index = fill(w);
	unsigned asked;
	char path[128];
	int e;

	(void)snprintf(path, sizeof(path), "a/checkpoints/snapshot-%" PRIu64,
		       index);
	assert_int_equal(dir_remove(in_dir(w, path)), 0);
	for (asked = 0; (e = ask_files(w, index, &m)) == 0; asked++)
		assert_true(m.later);
	assert_int_equal(e, ERR_NOT_FOUND);
	assert_true(asked > 0);
	w->newer_than = index;
	wait_until(w, has_snapshot);
	index = newest(w, "a/raft", true, path);
	assert_int_equal(ask_files(w, index, &m), 0);
	assert_false(m.later);
	assert_true(m.files_n > 3);
}

static int ask_part(struct world *w, uint64_t index, struct str name,
		    uint64_t at, uint32_t n)
{
	struct m_snapshot_part m = { 0 };

	MSG_SET(&m, snapshot_part, index, index);
	MSG_SET(&m, snapshot_part, name, name);
	MSG_SET(&m, snapshot_part, at, at);
	MSG_SET(&m, snapshot_part, n, n);
	return ask(w, QUERY_SNAPSHOT_CHUNK, &msg_snapshot_part, &m);
}

static void only_parts_of_listed_files_are_given(void **state)
{
	struct world *w = *state;
	uint64_t index = fill(w);
	struct m_snapshot_list m;

	/* the list comes first */
	assert_int_equal(ask_part(w, index, STR("CURRENT"), 0, 1),
			 ERR_VALIDATION_ERROR);
	assert_int_equal(ask_files(w, index, &m), 0);
	assert_int_equal(ask_part(w, index, STR("CURRENT"), 0, 1), 0);
	assert_int_equal(ask_part(w, index, STR("CURRENT"), 0, 1u << 16),
			 ERR_VALIDATION_ERROR);
	assert_int_equal(ask_part(w, index, STR("CURRENT"), UINT64_MAX, 2),
			 ERR_VALIDATION_ERROR);
	assert_int_equal(ask_part(w, index, STR("../../node"), 0, 1),
			 ERR_VALIDATION_ERROR);
	assert_int_equal(ask_part(w, index, STR("."), 0, 0),
			 ERR_VALIDATION_ERROR);
	assert_int_equal(ask_part(w, index - 1, STR("CURRENT"), 0, 1),
			 ERR_NOT_FOUND);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_second_node_has_what_the_first_had),
		TEST(recover_puts_a_snapshot_in_place_first),
		TEST(a_lost_checkpoint_is_made_up_for),
		TEST(only_parts_of_listed_files_are_given),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	buf_done(&why);
	ipc_exit();
	return r;
}
