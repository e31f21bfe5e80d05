/*
 * The raft node over crashes: a child process appends entries and dies without
 * warning; the next start must give back every one of them, in order.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/node.h"
#include "proto/err.h"
#include "rt/file.h"

#define LENGTHS 96 /* entries of 1 to so many bytes */

struct run {
	struct loop *loop;
	struct node *node;
	struct loop_timer *stop;
	struct settings s;
	int append; /* entries to propose once it leads */
	int proposed;
	int applied; /* entries seen by apply */
	bool bad;    /* one was not what was proposed */
	bool die;    /* SIGKILL itself when all are applied */
	bool no_bootstrap;
};

static void fill(int number, char *ret)
{
	for (int i = 0; i < number; i++)
		ret[i] = (char)(number + i);
}

static int on_apply(void *ctx, uint64_t raft_index, struct str entry)
{
	struct run *r = ctx;
	char want[LENGTHS + 1];
	int number = ++r->applied;

	(void)raft_index;
	fill(number, want);
	if (!str_eq(entry, str_of(want, (size_t)number)))
		r->bad = true;
	return 0;
}

static int on_before_snapshot(void *ctx)
{
	(void)ctx;
	return 0;
}

static int on_make_durable(void *ctx)
{
	(void)ctx;
	return 0;
}

static void on_stopped(void *ctx)
{
	struct run *r = ctx;

	loop_stop(r->loop);
}

static void on_stop_time(void *ctx)
{
	struct run *r = ctx;

	loop_timer_remove(r->stop);
	node_stop(r->node, on_stopped, r);
}

/* In a turn of its own, as cluster/node.h asks for. */
static void stop_soon(struct run *r)
{
	r->stop = loop_timer_add(r->loop, on_stop_time, r);
	loop_timer_arm(r->stop, 0);
}

static void propose_next(struct run *r);

static void on_proposed(void *ctx, int err)
{
	struct run *r = ctx;

	if (err != 0)
		r->bad = true;
	propose_next(r);
}

static void propose_next(struct run *r)
{
	char bytes[LENGTHS + 1];
	uint64_t index;

	if (r->proposed == r->append) {
		if (r->die)
			kill(getpid(), SIGKILL);
		stop_soon(r);
		return;
	}
	r->proposed++;
	fill(r->proposed, bytes);
	if (node_propose(r->node, str_of(bytes, (size_t)r->proposed), &index,
			 on_proposed, r) != 0)
		r->bad = true;
}

static void on_change(void *ctx)
{
	struct run *r = ctx;

	if (!node_is_ready(r->node))
		return;
	if (r->append > 0)
		propose_next(r);
	else
		stop_soon(r);
}

static const struct node_ops ops = {
	.apply = on_apply,
	.before_snapshot = on_before_snapshot,
	.make_durable = on_make_durable,
	.on_change = on_change,
};

/* Starts a node in `dir` and runs it until it stops. */
static void run_node(struct run *r, const char *dir)
{
	struct buf why = BUF_INIT(0);
	struct node_config c = { .settings = &r->s };

	assert_int_equal(settings_load(0, NULL, &r->s, &why), 0);
	r->s.data_dir = dir;
	r->s.bootstrap = !r->no_bootstrap;
	r->s.raft_segment_size = 64 * 1024; /* so that it takes several */
	r->loop = loop_new();
	assert_int_equal(node_start(r->loop, &c, &ops, r, &r->node, &why), 0);
	loop_run(r->loop);
	node_free(r->node);
	loop_free(r->loop);
	settings_done(&r->s);
}

/* The same in a child, which may be killed. */
static void run_child(struct run *r, const char *dir)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		run_node(r, dir);
		_exit(r->bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (r->die)
		assert_true(WIFSIGNALED(status));
	else
		assert_int_equal(status, 0);
}

static void every_length_survives_a_crash(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run write = { .append = LENGTHS, .die = true };
	struct run read = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	run_child(&write, dir);
	run_node(&read, dir);
	assert_int_equal(read.applied, LENGTHS);
	assert_false(read.bad);
	dir_remove(dir);
}

static void a_clean_stop_keeps_everything_too(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run write = { .append = LENGTHS };
	struct run read = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	run_child(&write, dir);
	run_node(&read, dir);
	assert_int_equal(read.applied, LENGTHS);
	assert_false(read.bad);
	dir_remove(dir);
}

/* A start with the settings of `r` fails with `error` and says `words`. */
static void assert_refused(struct run *r, int error, const char *words)
{
	struct buf why = BUF_INIT(0);
	struct node_config c = { .settings = &r->s };

	r->loop = loop_new();
	assert_int_equal(node_start(r->loop, &c, &ops, r, &r->node, &why),
			 -error);
	buf_putc(&why, '\0');
	assert_non_null(strstr(why.p, words));
	node_free(r->node);
	loop_free(r->loop);
	settings_done(&r->s);
	buf_done(&why);
}

static void default_settings(struct run *r, const char *dir)
{
	struct buf why = BUF_INIT(0);

	assert_int_equal(settings_load(0, NULL, &r->s, &why), 0);
	r->s.data_dir = dir;
}

static void another_name_is_refused(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run first = { .append = 1 };
	struct run second = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	run_child(&first, dir);
	default_settings(&second, dir);
	second.s.node_id = "other";
	assert_refused(&second, ERR_VALIDATION_ERROR, "belongs to node node-1");
	dir_remove(dir);
}

/* Every text there is copied to its own memory: a byte too much is seen. */
static void a_damaged_name_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"node-1",
		"node-1 ",
		"node-1 7",
		"node-1 7\nx",
		"node-1 seven\n",
		" 7\n",
		"node-1 7\n\n",
		"node-1 7 \n",
	};
	char dir[] = "/tmp/corvo-node-XXXXXX", path[64], large[8192];
	struct run r = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/node", dir);
	memset(large, 'x', sizeof(large));
	for (size_t i = 0; i <= ARRAY_SIZE(texts) + 1; i++) {
		struct str s = str_of(large, sizeof(large));

		if (i < ARRAY_SIZE(texts))
			s = str_from(texts[i]);
		else if (i == ARRAY_SIZE(texts))
			s.n = 4096; /* as much as is read */
		assert_int_equal(file_write(path, s), 0);
		default_settings(&r, dir);
		assert_refused(&r, ERR_VALIDATION_ERROR, "/node is damaged");
	}
	dir_remove(dir);
}

static void a_name_that_cannot_be_read_is_not_written_over(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX", path[64];
	struct run r = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/node", dir);
	assert_int_equal(dir_make(path), 0);
	default_settings(&r, dir);
	assert_refused(&r, ERR_INTERNAL_ERROR, "cannot read ");
	dir_remove(dir);
}

static void an_empty_directory_without_bootstrap_is_refused(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run r = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	default_settings(&r, dir);
	r.s.bootstrap = false;
	assert_refused(&r, ERR_VALIDATION_ERROR,
		       "start without --bootstrap=false");
	dir_remove(dir);
}

static void a_node_that_exists_starts_without_bootstrap(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run first = { .append = 1 };
	struct run second = { .no_bootstrap = true };

	(void)state;
	assert_non_null(mkdtemp(dir));
	run_child(&first, dir);
	run_child(&second, dir);
	dir_remove(dir);
}

static void damage_first_segment(const char *dir)
{
	char path[128];

	snprintf(path, sizeof(path),
		 "%s/raft/0000000000000001-0000000000000001", dir);
	assert_int_equal(truncate(path, 20), 0);
}

static void a_damaged_log_is_an_error_with_a_text(void **state)
{
	char dir[] = "/tmp/corvo-node-XXXXXX";
	struct run first = { .append = 1 };
	struct run second = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	run_child(&first, dir);
	damage_first_segment(dir);
	default_settings(&second, dir);
	assert_refused(&second, ERR_INTERNAL_ERROR, "load closed segment");
	dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_survives_a_crash),
		cmocka_unit_test(a_clean_stop_keeps_everything_too),
		cmocka_unit_test(another_name_is_refused),
		cmocka_unit_test(a_damaged_name_is_refused),
		cmocka_unit_test(
		    a_name_that_cannot_be_read_is_not_written_over),
		cmocka_unit_test(
		    an_empty_directory_without_bootstrap_is_refused),
		cmocka_unit_test(a_node_that_exists_starts_without_bootstrap),
		cmocka_unit_test(a_damaged_log_is_an_error_with_a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
