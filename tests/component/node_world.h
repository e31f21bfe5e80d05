/*
 * A raft node without anything around it: entries of 1, 2, 3, ... bytes are
 * proposed one after the other, in a child that may die of it, and read again.
 */
#ifndef CORVO_NODE_WORLD_H
#define CORVO_NODE_WORLD_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/node.h"
#include "lib/testlib.h"
#include "proto/err.h"
#include "rt/file.h"

#define ENTRY_MAX 512 /* bytes */

struct run {
	struct loop *loop;
	struct node *node;
	struct loop_timer *stop;
	struct settings s;
	int append; /* entries to propose once it leads */
	int proposed;
	int applied;       /* entries seen by apply */
	uint64_t index;    /* of the last one */
	uint64_t snapshot; /* setting snapshot_bytes, if not 0 */
	bool bad;          /* one was not what was proposed */
	bool die;          /* SIGKILL itself when all are applied */
	bool no_bootstrap;
	const char *store;    /* setting raft_store, if not NULL */
	uint64_t store_index; /* what a store is to have applied */
	struct entry_origin origin;
};

static void fill(int number, char *ret)
{
	for (int i = 0; i < number; i++)
		ret[i] = (char)(number + i);
}

/* The n-th entry has n bytes, up to ENTRY_MAX. */
static int entry_bytes(int number)
{
	return (number - 1) % ENTRY_MAX + 1;
}

static int on_apply(void *ctx, uint64_t raft_index, _unused_ const void *tag,
		    const struct entry_origin *o, struct str entry)
{
	struct run *r = ctx;
	char want[ENTRY_MAX];
	int n = entry_bytes((int)raft_index - 1); /* the first is no command */

	r->applied++;
	r->index = raft_index;
	r->origin = *o;
	fill(n, want);
	if (!str_eq(entry, str_of(want, (size_t)n)))
		r->bad = true;
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

/* In a turn of its own, as node.h asks for. */
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
	char bytes[ENTRY_MAX];
	struct node_info i;
	const void *tag;
	int n;

	if (r->proposed == r->append) {
		if (r->die)
			kill(getpid(), SIGKILL);
		stop_soon(r);
		return;
	}
	r->proposed++;
	node_info(r->node, &i);
	/* the node may not have counted yet what it is telling us about */
	n = entry_bytes((int)MAX(i.applied_index, r->index));
	fill(n, bytes);
	if (node_propose(r->node, str_of(bytes, (size_t)n), &tag, on_proposed,
			 r) != 0)
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

static void default_settings(struct run *r, const char *dir)
{
	struct buf why = BUF_INIT(0);

	assert_int_equal(settings_load(0, NULL, &r->s, &why), 0);
	r->s.data_dir = dir;
	r->s.bootstrap = !r->no_bootstrap;
	r->s.raft_segment_size = 64 * 1024; /* so that it takes several */
	if (r->snapshot > 0)
		r->s.snapshot_bytes = r->snapshot;
	if (r->store != NULL)
		r->s.raft_store = r->store;
}

/* Starts a node in `dir`; runs it until it stops, if it starts. */
static int try_node(struct run *r, const char *dir, struct buf *why)
{
	struct node_config c = { .settings = &r->s,
				 .store_index = r->store_index,
				 .store_origin = r->origin };
	int e;

	default_settings(r, dir);
	r->loop = loop_new();
	e = node_start(r->loop, &c, &ops, r, &r->node, why);
	if (e == 0)
		loop_run(r->loop);
	node_free(r->node);
	loop_free(r->loop);
	settings_done(&r->s);
	return e;
}

static void run_node(struct run *r, const char *dir)
{
	struct buf why = BUF_INIT(0);

	assert_int_equal(try_node(r, dir, &why), 0);
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

/* A start with the settings of `r` fails with `error` and says `words`. */
static void assert_refused(struct run *r, const char *dir, int error,
			   const char *words)
{
	struct buf why = BUF_INIT(0);

	assert_int_equal(try_node(r, dir, &why), -error);
	buf_putc(&why, '\0');
	if (strstr(why.p, words) == NULL)
		fail_msg("it said \"%s\", not \"%s\"", why.p, words);
	buf_done(&why);
}

#endif
