#include "cluster/node_fault.h"

#include <stdio.h>
#include <stdlib.h>

#include <raft.h>

#include "cluster/fault_file.h"
#include "rt/loop.h"
#include "util/clock.h"
#include "util/list.h"

/* An append on its way. */
struct slow {
	struct list node; /* in the order they were made */
	struct raft_io_append *req;
	raft_io_append_cb cb;
	uint64_t due_ns; /* 0: it is not on the disk yet */
};

typedef int append_fn(struct raft_io *io, struct raft_io_append *req,
		      const struct raft_entry entries[], unsigned n,
		      raft_io_append_cb cb);

static struct {
	const char *path;
	append_fn *append; /* the library's own */
	struct loop_timer *timer;
	struct list slow;
	/* of terms and votes */
	const char *no_vote_path;
	int (*set_term)(struct raft_io *io, raft_term term);
	int (*set_vote)(struct raft_io *io, raft_id server_id);
} fault;

static void say(struct slow *s, int status)
{
	list_remove(&s->node);
	s->cb(s->req, status);
	free(s);
}

static struct slow *first(void)
{
	return list_empty(&fault.slow)
		   ? NULL
		   : list_entry(fault.slow.next, struct slow, node);
}

static void on_timer(void *ctx)
{
	uint64_t now_ns = clock_mono_ns();
	struct slow *s;

	(void)ctx;
	while ((s = first()) != NULL && s->due_ns != 0 && s->due_ns <= now_ns)
		say(s, 0);
	if (s != NULL && s->due_ns != 0)
		loop_timer_arm(fault.timer, s->due_ns - now_ns);
}

static void on_written(struct raft_io_append *req, int status)
{
	struct slow *s = NULL;

	LIST_FOREACH (it, &fault.slow) {
		s = list_entry(it, struct slow, node);
		if (s->req == req)
			break;
	}
	CHECK(s != NULL && s->req == req);
	if (status != 0 || fault.timer == NULL) {
		say(s, status);
		return;
	}
	s->due_ns = clock_mono_ns() + fault_file_number(fault.path) * NS_PER_MS;
	on_timer(NULL);
}

static int append(struct raft_io *io, struct raft_io_append *req,
		  const struct raft_entry entries[], unsigned n,
		  raft_io_append_cb cb)
{
	struct slow *s = xcalloc(1, sizeof(*s));
	int r;

	s->req = req;
	s->cb = cb;
	list_push_back(&fault.slow, &s->node);
	r = fault.append(io, req, entries, n, on_written);
	if (r != 0) {
		list_remove(&s->node);
		free(s);
	}
	return r;
}

/* --- terms and votes --- */

static bool has_room(struct raft_io *io)
{
	if (fault_file_number(fault.no_vote_path) == 0)
		return true;
	(void)snprintf(io->errmsg, RAFT_ERRMSG_BUF_SIZE, "no space for a test");
	return false;
}

static int set_term(struct raft_io *io, raft_term term)
{
	return has_room(io) ? fault.set_term(io, term) : RAFT_NOSPACE;
}

static int set_vote(struct raft_io *io, raft_id server_id)
{
	return has_room(io) ? fault.set_vote(io, server_id) : RAFT_NOSPACE;
}

static void begin_votes(struct raft_io *io)
{
	fault.no_vote_path = getenv("CORVO_FAULT_NO_VOTE");
	if (fault.no_vote_path == NULL)
		return;
	fault.set_term = io->set_term;
	io->set_term = set_term;
	fault.set_vote = io->set_vote;
	io->set_vote = set_vote;
}

void node_fault_begin(struct raft_io *io, struct loop *l)
{
	begin_votes(io);
	fault.path = getenv("CORVO_FAULT_LOG_DELAY");
	if (fault.path == NULL)
		return;
	list_init(&fault.slow);
	fault.append = io->append;
	io->append = append;
	fault.timer = loop_timer_add(l, on_timer, NULL);
}

void node_fault_end(void)
{
	struct slow *s;

	if (fault.timer == NULL)
		return;
	loop_timer_remove(fault.timer);
	fault.timer = NULL;
	while ((s = first()) != NULL && s->due_ns != 0)
		say(s, 0);
}
