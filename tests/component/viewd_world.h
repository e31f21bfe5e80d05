/*
 * The real corvo-viewd between a fake raftd and a fake httpd, both in one
 * actor process. A script says what the two do, and reports "ok" when it has
 * seen all.
 */
#ifndef CORVO_VIEWD_WORLD_H
#define CORVO_VIEWD_WORLD_H

#include "component/actor.h"
#include "proto/proto.h"
#include "rt/rpc.h"
#include "util/clock.h"
#include "util/list.h"

struct fake;

struct script {
	void (*start)(struct fake *f);
	void (*on_answer)(struct fake *f, const struct rpc_reply *r);
	/* What raftd is asked; all but tail, which waits for `head`. */
	void (*on_ask)(struct fake *f, struct rpc_req req, unsigned id);
};

struct fake {
	int fd;
	const char *dir;
	struct loop *l;
	struct ipc *ipc;
	struct rpc_server *raftd;
	struct rpc_client *httpd;
	struct loop_timer *timer;
	loop_fn *later; /* what the timer does */
	const struct script *script;
	struct rpc_req tail;
	uint64_t tail_after;
	bool tail_waits;
	bool tail_late;     /* as viewd said in it */
	pid_t viewd;        /* who asked */
	uint64_t head;      /* newest event; queue-<n> is made by event n */
	struct m_job *jobs; /* come with the first event */
	size_t jobs_n;
	uint64_t age_ns; /* of events when they are told */
	bool lost, not_ready;
	bool busy;         /* raftd says so, and again and again */
	uint64_t asked_ns; /* when the last question was put */
	unsigned answered; /* QUERY_* of the answer that came last */
	unsigned step;
	unsigned checkpoints;
	bool released; /* what a viewd before this one may have left */
	bool asked;
	struct list questions; /* that are not answered */
};

/* --- raftd --- */

/* The newest event is this one now. */
void publish(struct fake *f, uint64_t head);
void later(struct fake *f, uint64_t ms, loop_fn *fn);
void reply(struct rpc_req req, const struct msg_desc *d, const void *m);
/* A store with one queue, as raftd would have written it. */
void answer_checkpoint(struct fake *f, struct rpc_req req, const char *queue,
		       uint64_t seq);

/* --- httpd --- */

/* Each is answered with the script's on_answer. */
void ask(struct fake *f, unsigned id, const void *m);
/* Withdraws all that are not answered; how many they were. */
unsigned cancel_all(struct fake *f);
void ask_queues(struct fake *f, uint64_t min_seq, uint64_t wait_ns);
/* The answer is a list that ends with this queue; returns its lag. */
uint64_t expect_queue(const struct rpc_reply *r, const char *last);

void done(struct fake *f);

/* How often the thread of viewd had nothing to do any more. */
unsigned long thread_waits(const struct fake *f, const char *name);

/* --- tests --- */

struct fixture {
	char dir[64];
	pid_t viewd;
};

int setup(void **state);
int teardown(void **state);
void play(struct fixture *f, const struct script *script);

#endif
