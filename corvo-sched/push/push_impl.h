/*
 * Inside of push queues: what their files share.
 */
#ifndef CORVO_PUSH_PUSH_IMPL_H
#define CORVO_PUSH_PUSH_IMPL_H

#include "proto/push.h"
#include "push/caller.h"
#include "push/host.h"
#include "push/outcome.h"
#include "push/push.h"
#include "push/webhooks.h"
#include "util/heap.h"
#include "util/hmap.h"
#include "util/list.h"
#include "util/rng.h"

/* A host with those who call it. */
struct target {
	struct host h;
	char *key; /* "https://example.com:443", NUL-terminated */
	struct list queues;
	struct list waiting; /* calls that it has no room for yet */
	struct list starved; /* queues that could fetch, but for its room */
	struct list hooks;   /* webhooks that call it */
	uint32_t leased;     /* calls waiting and under way */
	size_t refs;         /* queues, webhooks and calls */
	struct heap_node wake;
	struct push *p;
};

/* A push queue. */
struct pqueue {
	struct push *p;
	struct str name; /* behind the struct */
	struct arena arena;
	const struct m_push *set; /* in the arena */
	struct str encoded;       /* the same, to see changes */
	struct target *target;
	struct list of_target, starved;
	struct list dirty; /* to be looked at, at the end of the turn */
	/* Jobs that were handed out under newer settings than are known. */
	struct list unsure;
	struct heap_node wake;
	struct bucket bucket;
	uint32_t leased; /* calls waiting and under way */
	uint32_t open;   /* under way, or to be reported */
	struct rpc_call *fetch;
	uint64_t fetch_ns; /* monotonic: when it was begun */
	uint64_t hold_ns;  /* monotonic: its receiver asked to wait */
	uint64_t pause_ns; /* after a fetch that was refused */
	uint64_t retry_ns; /* monotonic: not before */
	bool seen, gone;
};

enum pcall_state { PCALL_WAITING, PCALL_CALLING, PCALL_REPORTING };

/* A job in our hands. */
struct pcall {
	struct list node;      /* of all calls */
	struct list wait;      /* of its target, or among the queue's unsure */
	struct list beaten;    /* of the heartbeat under way */
	struct heap_node beat; /* monotonic: when its next one is due */
	struct push *p;
	struct pqueue *q;      /* NULL: it only goes back */
	struct target *target; /* the same */
	enum pcall_state state;
	struct arena arena;
	struct m_fetched job;
	struct m_push *set; /* as it was when it was fetched */
	struct call *call;
	const char *url;
	unsigned redirects;
	uint64_t began_ns; /* monotonic: the first of its requests */
	unsigned op;       /* of the report */
	struct str report;
	struct rpc_call *reply;
	uint64_t retry_ns; /* monotonic: the report is sent again */
};

struct push {
	struct daemon *d;
	struct rpc_client *raftd;
	struct reach reach;
	struct caller *caller;
	struct host_limits limits;
	struct rng rng;
	struct str worker;
	struct buf worker_buf;
	struct hmap queues;  /* name -> struct pqueue */
	struct hmap targets; /* key -> struct target */
	struct list calls;
	struct list dirty, starved; /* queues; for want of room in all */
	struct heap wakes, target_wakes;
	struct loop_timer *timer, *beats, *again;
	uint64_t again_ns; /* monotonic: of the last of them; 0: not armed */
	struct heap beats_due; /* calls, by their next heartbeat */
	struct list beaten;    /* calls of the one under way */
	uint32_t leased;       /* of all queues */
	size_t reporting; /* calls that wait for the answer to their report */

	bool active, draining;
	bool returned; /* what a process before us had was given back */
	uint64_t version;
	struct rpc_call *watch, *list;
	struct str list_after; /* in list_arena */
	struct arena list_arena;
	struct loop_timer *watch_timer;
	uint64_t told_ns;      /* when the question that waits was asked */
	bool telling;          /* it is asked anew soon */
	uint64_t list_version; /* of the pages so far */
	uint64_t calls_n, failures;
	struct rpc_call *beat;
	struct webhooks *webhooks;
	loop_fn *drained;
	void *drained_ctx;
	struct loop_timer *drain_timer;
	struct arena scratch;
	struct buf out;
};

/* Hosts of Scheduled-DB have names of their own: no breaker of theirs opens,
 * since each of its calls is made at its time. */
#define SDB_TARGET "scheduled-db "

/* --- push/push.c --- */

void push_look(struct pqueue *q); /* at the end of the turn */
void push_look_at(struct pqueue *q, uint64_t at_ns);
void push_look_at_all(struct push *p);
/* Room at the host, or in all, is for the next of those who wait for it. */
void push_pass_on(struct target *t);
void push_pass_on_any(struct push *p); /* in all only */
/* A queue as raftd has it, and those that it has no more. */
void pqueue_set(struct push *p, const struct m_push_queue *m);
void push_drop_unseen(struct push *p);
void pqueue_drop(struct pqueue *q); /* if it is gone, and nothing is open */
/* The host of a URL, or one without a name, for one more; target_put gives it
 * back. kind: stands before it. */
struct target *target_get(struct push *p, struct str url, const char *kind);
void target_put(struct target *t);
void push_check_drained(struct push *p);

/* --- push/watch.c --- */

/* The settings that some jobs were handed out under are asked for. */
void push_refresh(struct push *p);
/* raftd hears of it soon, for people who ask. */
void push_tell(struct push *p);
void push_on_watch_timer(void *ctx);

/* --- push/calls.c --- */

/* A job that was fetched; it is called now, or when its target has room. */
void pcall_add(struct pqueue *q, const struct m_fetched *job);
/* It goes back as if it had never been fetched. */
void push_give_back(struct push *p, const struct m_fetched *job);
/* Calls that wait, as far as there is room now. */
void target_go_on(struct target *t);
/* Unsure jobs of the queue: those whose settings are known now are called. */
void pqueue_settle(struct pqueue *q);
void pqueue_return_unsure(struct pqueue *q);
/* A place for a call of the host, and its end: the next one may be fetched. */
void target_take_place(struct target *t);
void target_leave_place(struct target *t);
/* What became of a call counts for its host. error: as host_ended. */
void target_note_end(struct target *t, const char *error);
/* A call was given up. */
void target_note_drop(struct target *t);
/* Those that wait go back: the host is left alone. */
void target_return(struct target *t);
void pcall_leave(struct pcall *c); /* its place is free */
void pcall_free(struct pcall *c);
void pcalls_free(struct push *p);

/* Reports what became of it, to be counted and perhaps tried again. */
void pcall_report_outcome(struct pcall *c, const struct outcome *o);

/* --- push/beats.c --- */

/* Its lease is prolonged from now on, until pcall_beat_end. */
void pcall_beat_first(struct pcall *c);
void pcall_beat_end(struct pcall *c);
void pcalls_beat(struct push *p); /* those that are due */

/* --- push/scheddb.c --- */

/* What a job of Scheduled-DB calls; false: it calls nothing, and *o says what
 * becomes of it. */
bool pcall_take_url(struct pcall *c, struct outcome *o);

/* --- push/report.c --- */

void pcall_report(struct pcall *c, unsigned op, const struct msg_desc *d,
		  const void *m);
/* Nobody knows, or there was no room: the same again does no harm. */
bool push_is_passing(int err);
void reports_again(struct push *p); /* those refused before */

#endif
