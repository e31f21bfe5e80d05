/*
 * Inside of webhooks: what their files share.
 */
#ifndef CORVO_PUSH_WEBHOOK_IMPL_H
#define CORVO_PUSH_WEBHOOK_IMPL_H

#include "proto/webhook.h"
#include "push/push_impl.h"
#include "push/webhooks.h"

#define WINDOW_CALLS 128        /* of one webhook: read, and not reported */
#define WINDOW_BYTES (1u << 20) /* the same, of their events */

enum wcall_state {
	WCALL_ASKED,   /* its event is being read */
	WCALL_WAITING, /* for a place */
	WCALL_CALLING,
	WCALL_ENDED, /* to be reported */
	WCALL_REPORTED,
};

/*
 * One event for one webhook. New ones, and those of a replay, stand in a line
 * in the order of the log, and are reported in that order. Another try of one
 * that was reported stands by itself.
 */
struct wcall {
	struct list node; /* in a line, or in whook.tries */
	struct whook *w;
	enum wcall_state state;
	bool replayed;
	bool is_try;  /* the state machine has a record of it, */
	bool is_slow; /* or is told to make one: others wait behind it */
	struct arena arena;
	uint64_t seq;
	uint32_t attempt;
	struct m_event event;
	size_t bytes;
	struct call *call;
	struct target *target; /* of the call */
	struct rpc_call *ask;
	uint64_t begun_ns; /* monotonic */
	struct m_delivery d;
	bool gone; /* the receiver says so */
};

/* A delivery that waits for another try: the record that the state machine has
 * of it. That may become another one while a call is under way, by a replay;
 * what comes of that call does not count then. */
struct wtry {
	struct heap_node due; /* monotonic; not while a call is under way */
	uint64_t seq;
	uint32_t tries;
	uint64_t next_at;   /* wall clock */
	struct wcall *call; /* it is under way */
	bool gone;          /* there is no record any more */
	bool seen;
};

/* Events in the order of the log, from one place of it to another. */
struct wline {
	struct list calls;
	size_t n, bytes;
	uint64_t read; /* events up to here were looked at */
	uint64_t done; /* and up to here reported */
	uint64_t to;   /* its end; UINT64_MAX: none */
};

struct whook {
	struct webhooks *s;
	struct str id; /* behind the struct */
	struct arena arena;
	struct m_webhook m; /* in the arena */
	struct event_types types;
	struct target *target;
	struct list of_target;
	struct list dirty;
	struct heap_node wake; /* monotonic */
	struct wline line;
	uint64_t lost; /* to be reported */
	struct wline replay;
	uint64_t replay_id; /* 0: there is none */
	struct hmap tries_by_seq;
	struct heap tries_due;
	struct list tries; /* struct wcall */
	uint32_t open;     /* calls under way */
	uint64_t hold_ns;  /* monotonic: its receiver asked to wait */
	struct rpc_call *report;
	struct arena report_arena;
	struct m_webhook_report reported; /* in it */
	struct str report_body;           /* in it; empty: there is none */
	uint64_t retry_ns; /* monotonic: the report is sent again */
	uint64_t moved_ns; /* monotonic: its place was reported last */
	bool seen;
};

/* A page of the log on its way, for those who have read up to there. */
struct wfeed {
	struct webhooks *s;
	uint64_t after;
	struct rpc_call *ask;
};

struct webhooks {
	struct push *p;
	bool leader, draining;
	bool closed;       /* the client is gone, and its calls with it */
	struct hmap hooks; /* id -> struct whook: enabled ones */
	struct hmap feeds; /* place -> struct wfeed */
	struct list dirty; /* hooks */
	struct heap wakes; /* hooks */
	struct loop_timer *timer;
	uint64_t head;     /* newest event that was heard of */
	uint64_t version;  /* events that changed them are known up to here */
	uint64_t told;     /* what raftd calls its own */
	uint64_t stale_at; /* the list has to know this event */
	struct rpc_call *list;
	bool stale;        /* it has to be read anew */
	uint64_t retry_ns; /* monotonic: not before, after an error */
	struct buf out;
};

/* --- push/webhooks.c --- */

void whook_look(struct whook *w); /* at the end of the turn */
void whook_look_at(struct whook *w, uint64_t at_ns);
void webhooks_cancel(struct webhooks *s, struct rpc_call **call);
/* The list is read anew; reading goes on after that. */
void webhooks_refresh(struct webhooks *s);
void webhooks_reload(struct whook *w); /* one that is not where we thought */

/* --- push/webhook_feed.c --- */

void feeds_ask(struct webhooks *s);
void feeds_free(struct webhooks *s);
/* The event of another try. */
void wcall_ask_event(struct wcall *c);

/* --- push/webhook_call.c --- */

void wcall_add(struct whook *w, struct wline *l, const struct m_event *e);
bool wline_has_room(const struct whook *w, const struct wline *l);
void whook_start_tries(struct whook *w, uint64_t now_ns);
void whook_start_calls(struct whook *w, uint64_t now_ns);
/* It cannot be delivered any more, and is reported as failed. */
void wcall_fail(struct wcall *c, const char *why);
void wcall_free(struct wcall *c);
struct wtry *whook_try(struct whook *w, uint64_t seq); /* or NULL */
/* The record is this, or there is none; a call under way goes on. */
void whook_try_set(struct whook *w, uint64_t seq, uint32_t tries,
		   uint64_t next_at);
void whook_try_drop(struct whook *w, uint64_t seq);
/* Its call is over: what the record says now is waited for, and until then. */
void whook_try_leave(struct wcall *c, uint64_t not_before);

/* --- push/webhook_report.c --- */

void whook_report(struct whook *w, uint64_t now_ns);
/* Nothing is left to report of what has ended. */
bool whook_is_reported(const struct whook *w);

#endif
