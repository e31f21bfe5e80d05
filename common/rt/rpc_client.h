/*
 * The client's side inside: its calls, shared by rpc.c (the link) and
 * rpc_calls.c (the calls).
 */
#ifndef CORVO_RPC_CLIENT_H
#define CORVO_RPC_CLIENT_H

#include "rt/rpc_impl.h"
#include "util/heap.h"
#include "util/list.h"

enum client_state {
	CLIENT_DOWN,
	CLIENT_GREET, /* link up, our hello has yet to be sent */
	CLIENT_WAIT,  /* it was sent, the server's has yet to come */
	CLIENT_UP,
	CLIENT_DEAF, /* the server has other tables */
};

struct rpc_call {
	struct list node;
	struct list kept;     /* in rpc_client.kept */
	struct heap_node due; /* key: when it is looked at, see on_timer */
	uint64_t deadline_ns; /* 0: none */
	uint64_t id;
	rpc_reply_fn *fn;
	void *ctx;
	rpc_reply_fn *late; /* see rpc_when_late; NULL: nobody */
	void *late_ctx;
	size_t key_n;
	size_t body_n;
	uint32_t op;
	uint32_t flags; /* RPC_ */
	int timeout_err;
	/* of one that is passed on */
	uint64_t origin, number, done;
	uint32_t frame_flags;

	bool sent;   /* on the present connection */
	bool resend; /* was sent on an earlier one */
	bool abandoned;
	char bytes[]; /* key, then body */
};

struct rpc_client {
	struct link *link;
	enum proc_id self;
	char *path;
	bool to_node; /* its calls are passed on */
	enum client_state state;
	uint64_t epoch;  /* of the present connection */
	uint64_t origin; /* who we are, on every connection */
	uint64_t last_id;
	struct list kept; /* calls whose answers the server keeps, by id */
	struct list unsent;
	size_t gathered; /* calls since the last flush */
	size_t flush_at; /* calls that are not left to gather; 0: no bound */
	struct list sent;
	struct rpc_call **slots; /* by id, open addressing */
	size_t slots_n;          /* a power of two */
	size_t n;                /* calls */
	struct heap due;
	struct loop_timer *timer;
	uint64_t timer_ns;  /* armed for; 0: not armed */
	struct buf cancels; /* uint64_t ids the server is to be told */
	struct buf out;
	struct arena arena; /* of the frame being read */
	struct buf part;    /* what has come of one that comes in parts */
	void (*on_state)(void *ctx, bool up);
	void *on_state_ctx;
};

/* --- rt/rpc_calls.c --- */

void rpc_calls_init(struct rpc_client *c);
void rpc_calls_done(struct rpc_client *c); /* frees those that are left */
struct rpc_call *rpc_calls_find(const struct rpc_client *c, uint64_t id);
/* It is in no list and table any more; who calls this frees it. */
void rpc_calls_take(struct rpc_client *c, struct rpc_call *call);
/* When it is looked at. */
void rpc_calls_set_due(struct rpc_client *c, struct rpc_call *call,
		       uint64_t ns);
void rpc_calls_arm(struct rpc_client *c);
/* As it stands in a frame; slices point into the call. */
struct frame_request rpc_calls_request(const struct rpc_call *call);
/* The server is told that nobody waits for it. */
void rpc_calls_tell_cancel(struct rpc_client *c, const struct rpc_call *call);
/* Moves the nodes from first up to, not including, end to the tail of l. */
void rpc_calls_splice(struct list *l, struct list *first, struct list *end);

#endif
