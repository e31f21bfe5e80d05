/*
 * Requests and replies over a link, many per message.
 *
 * Whatever gathered since the last send leaves as one message when the
 * previous one has left: an idle system adds no delay, a loaded one batches
 * deeply. Both sides flush at the end of each loop turn (rpc_flush).
 *
 * The first message each way is a hello (process, pid, protocol version and
 * a hash of the tables); a process of this node with other tables is refused
 * by name in the log and the link stays unusable. Nodes may be of different
 * versions: what they know of each other is settled when they connect.
 */
#ifndef CORVO_RPC_H
#define CORVO_RPC_H

#include "proto/frame.h"
#include "proto/proto.h"
#include "rt/ipc.h"

/* Most bytes of a request's key and body, or of a reply's body. */
#define RPC_BODY_BYTES (LIMIT_MESSAGE_BYTES - (64u << 10))

/* --- client --- */

struct rpc_client;
struct rpc_call;

struct rpc_reply {
	int err;         /* 0 or a positive ERR_ number */
	uint64_t seq;    /* event sequence after the operation; 0: none */
	struct str body; /* encoded reply message, or error text if err */
	bool sent;       /* no answer came in time: it had left this process */
	/* What a large body stands in, and nothing else: it lasts for as long
	 * as whoever takes it wants. NULL: it cannot be taken. */
	struct buf *memory;
};

/* Runs once per call, on the loop thread; the body is valid during it. */
typedef void rpc_reply_fn(void *ctx, const struct rpc_reply *r);

struct rpc_client *rpc_client_new(struct ipc *i, const char *path,
				  enum proc_id self, struct buf *why);
/*
 * Over a link to another node, which `open` makes. Calls are rpc_forward; what
 * was not answered is sent again, as a resend, to whoever the link leads to
 * next.
 */
typedef struct link *rpc_open_fn(void *ctx, const struct link_ops *ops,
				 void *ops_ctx);
struct rpc_client *rpc_client_to_node(struct loop *l, const char *name,
				      rpc_open_fn *open, void *ctx);
/* Forgets all calls: no fn runs. Before ipc_free, as rpc_server_free. */
void rpc_client_free(struct rpc_client *c);
bool rpc_client_is_up(const struct rpc_client *c);
/* Called when the link comes up or goes down. */
void rpc_client_on_state(struct rpc_client *c, void (*fn)(void *ctx, bool up),
			 void *ctx);

/*
 * Sends a request (id of ops.def or queries.def, routing key, encoded body).
 * The body is kept until the reply: if the link goes down it is sent again,
 * marked as a resend, when it is back. Past deadline_ns (clock_mono_ns; 0:
 * none), which the server is told, the call ends with `timeout_err`. A body
 * past RPC_BODY_BYTES is a bug of the caller. fn never runs inside rpc_call.
 *
 * RPC_ONCE: not sent again, ends with timeout_err at once when the link goes
 * down. RPC_CHANGES: it changes something, so timeout_err says that nothing was
 * done. One that was sent waits RPC_LATE_NS longer, for the server to say that
 * it withdrew it, and ends with ERR_OUTCOME_UNKNOWN. So does a question that
 * changes something when it was sent again, and is refused the second time for
 * what may pass. RPC_KEEP: the server keeps
 * its answer for when it is sent again, until it hears with a later call that
 * it has arrived; not for calls that wait long, they hold up all others.
 */
#define RPC_ONCE    1u
#define RPC_CHANGES 2u
#define RPC_KEEP    4u
#define RPC_LATE_NS NS_PER_S
struct rpc_call *rpc_call(struct rpc_client *c, unsigned id, struct str key,
			  struct str body, uint64_t deadline_ns,
			  int timeout_err, unsigned flags, rpc_reply_fn *fn,
			  void *ctx);

/*
 * Passes a request on to another node as it came: with its origin, number,
 * flags and deadline. When that is over: as rpc_call, with RPC_CHANGES if it
 * changes something.
 */
struct rpc_call *rpc_forward(struct rpc_client *c,
			     const struct frame_request *item, int timeout_err,
			     rpc_reply_fn *fn, void *ctx);

/*
 * Ends all calls without a reply: fn gets each, oldest first, with the ctx of
 * its call, to be done here. The item is valid during the call; fn makes no
 * calls.
 */
typedef void rpc_taken_fn(void *arg, void *ctx,
			  const struct frame_request *item);
void rpc_client_take_back(struct rpc_client *c, rpc_taken_fn *fn, void *arg);

/*
 * A call that was just made ends with its timeout_err when it has not been
 * sent by by_ns, for want of a link; once it was, its deadline counts.
 */
void rpc_send_by(struct rpc_client *c, struct rpc_call *call, uint64_t by_ns);

/*
 * The answer of a call that was just made must not be lost: when its deadline
 * ends one that was sent, fn gets ERR_OUTCOME_UNKNOWN, and late what the server
 * answered all the same before it heard of that, as after rpc_abandon.
 */
void rpc_when_late(struct rpc_call *call, rpc_reply_fn *late, void *ctx);

/* Forgets the call: fn will not run; the server is told to drop it. */
void rpc_cancel(struct rpc_client *c, struct rpc_call *call);
/*
 * The same for a call whose answer must not be lost: the server drops it, and
 * answers that; what it had answered before comes to fn. True: it had not been
 * sent, and fn will not run.
 */
bool rpc_abandon(struct rpc_client *c, struct rpc_call *call, rpc_reply_fn *fn,
		 void *ctx);
/*
 * This process wants to end: calls that have a deadline end as if that had come
 * now. The server is told at once that nobody waits for changes that were sent,
 * and may hear of some of them only by and by: it is called again until all
 * have ended.
 */
void rpc_client_hurry(struct rpc_client *c);
size_t rpc_client_pending(const struct rpc_client *c);
void rpc_client_flush(struct rpc_client *c);
/*
 * Flushes by itself whenever so many calls have gathered: in a turn with many
 * requests the server starts on the first while the rest is still being read.
 */
void rpc_client_flush_at(struct rpc_client *c, size_t calls);

/* --- server --- */

struct rpc_server;
struct rpc_peer; /* one link of a server */

/* Names one request; plain data, may be kept and copied. */
struct rpc_req {
	struct rpc_peer *peer;
	uint64_t epoch; /* of the connection; a stale one is ignored */
	uint64_t id;
};

struct rpc_server_ops {
	/* item slices are valid during the call only; questions whose deadline
	 * has passed do not come here */
	void (*on_request)(void *ctx, struct rpc_req req,
			   const struct frame_request *item);
	/* the client gave up on this request; it may wait for an answer yet */
	void (*on_cancel)(void *ctx, struct rpc_req req);
	/* all requests of this peer's connection are void */
	void (*on_peer_down)(void *ctx, struct rpc_peer *peer);
	/* a peer that had no room has some again; NULL: nobody asks */
	void (*on_room)(void *ctx);
};

struct rpc_server *rpc_server_new(struct ipc *i, enum proc_id self,
				  const struct rpc_server_ops *ops, void *ctx);
void rpc_server_free(struct rpc_server *s);
int rpc_server_listen(struct rpc_server *s, const char *path, struct buf *why);
/* Serves another node over a link that `open` makes, as long as the server. */
struct rpc_peer *rpc_server_add_node(struct rpc_server *s, const char *name,
				     rpc_open_fn *open, void *ctx);
/* Ends all requests and takes no more: nodes ask elsewhere, or wait. */
void rpc_server_pause(struct rpc_server *s);
void rpc_server_resume(struct rpc_server *s);

/*
 * Queues the reply; ignored when the connection it came by is gone. A body
 * past RPC_BODY_BYTES is logged and answered as INTERNAL_ERROR.
 */
void rpc_reply(struct rpc_req req, int err, uint64_t seq, struct str body);
/* A success, of which the body may be large: it is not copied then, and the
 * buffer is empty. */
void rpc_reply_take(struct rpc_req req, uint64_t seq, struct buf *body);
void rpc_server_flush(struct rpc_server *s);
/* Large answers have half of what may wait for a peer: who is answered with
 * less goes on beside those who ask for much. */
enum rpc_size { RPC_LARGE, RPC_NOT_LARGE };
/*
 * Whether an answer may be made for it: the peer has taken enough of those
 * before. False: on_room tells when that may have changed. One of a few hundred
 * bytes may always be made.
 */
bool rpc_req_has_room(struct rpc_req req, enum rpc_size size);
bool rpc_req_is_live(struct rpc_req req);
/* It came from another node: that one sends it again when it is not answered,
 * also to somebody else. */
bool rpc_req_is_of_node(struct rpc_req req);

/* The only part of a request that says who asked: its bytes, as a key. */
static inline struct str rpc_req_key(const struct rpc_req *req)
{
	return str_of(req, sizeof(*req));
}

static inline bool rpc_req_is(struct rpc_req a, struct rpc_req b)
{
	return a.peer == b.peer && a.epoch == b.epoch && a.id == b.id;
}

#endif
