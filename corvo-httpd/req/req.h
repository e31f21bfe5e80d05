/*
 * One HTTP request, from the first byte after its head to the end of its
 * answer. Requests are recycled with their memory; a handler is given one,
 * and ends it exactly once, now or later, with one of the answers below.
 *
 * The path and the body are hostile; everything a handler keeps for the time
 * between call and reply lives in the request's arena.
 */
#ifndef CORVO_REQ_H
#define CORVO_REQ_H

#include "httpd.h"
#include "proto/msg_json.h"
#include "proto/route.h"

struct conn;
struct req;
struct stream;

typedef void req_reply_fn(struct req *r, const struct rpc_reply *reply);

struct req {
	struct list node; /* free list, or the list of parked fetches */
	struct httpd *h;
	struct conn *conn;
	uint64_t start_ns; /* monotonic; the head had arrived */

	/* what was asked */
	const char *method; /* as the client wrote it; the server's memory */
	struct str path;    /* without the query; still percent-encoded */
	struct route_match match;
	struct arena arena;
	struct buf body;

	/* the call that is under way */
	struct rpc_client *client;
	struct rpc_call *call; /* NULL: none */
	req_reply_fn *then;
	void *state; /* the handler's own, in the arena */

	/* a long-polling fetch: what to answer when it is ended early */
	void (*end_parked)(struct req *r);
	uint64_t parked_ns; /* since when; 0: not parked */
	/* it is worked on to its end, also when the client leaves before: its
	 * connection is not looked at meanwhile */
	bool outlives;
	bool watched; /* its socket is watched for a client that left */

	/* the answer */
	int status;
	int err; /* ERR_ number of an error answer */
	struct buf out;
	const char *content_type;
	uint64_t seq;           /* X-Corvo-Index; 0: none */
	uint64_t lag_ms;        /* X-Corvo-View-Lag-Ms, if has_lag */
	uint64_t preferred_ns;  /* Preference-Applied: wait; 0: no header */
	unsigned allow;         /* methods for Allow; 0: no header */
	unsigned retry_after_s; /* 0: no header */
	struct stream *stream;  /* the answer is one; see front/stream.h */
	bool has_lag;
	bool replayed; /* Idempotent-Replayed */
	bool answered;
	bool waiting;   /* the server waits for server_resume */
	bool suspended; /* and its connection is suspended meanwhile */
	bool abandoned; /* the client is gone: close, answer nothing */
};

struct req *req_new(struct httpd *h);
void req_free(struct req *r);        /* back to the pool; cancels its call */
void req_pool_done(struct httpd *h); /* releases the pool at exit */

/* A header of the request, or NULL. */
const char *req_header(struct req *r, const char *name);

/* --- reading --- */

/*
 * Path parameters and body into *m. False: an error has been answered. An
 * empty body counts as {} when the message has no required members of its
 * own; GET and DELETE bodies are not read.
 */
bool req_read(struct req *r, const struct msg_desc *d, void *m);
/* The two halves of it. */
bool req_read_path(struct req *r, const struct msg_desc *d, void *m);
bool req_read_json(struct req *r, bool may_be_empty, struct json *ret);

/*
 * Of the query string: a text in the request's arena, text or seconds as
 * nanoseconds, and a whole number from min to max. Absent: *ret stays. False:
 * an error has been answered.
 */
bool req_text_argument(struct req *r, const char *name, struct str *ret);
bool req_duration_argument(struct req *r, const char *name, uint64_t *ret);
bool req_number_argument(struct req *r, const char *name, uint64_t min,
			 uint64_t max, uint64_t *ret);

struct json_style req_style(struct req *r);

/* A new id of now, in the request's arena. */
struct str req_make_id(struct req *r, const char *prefix);

/* --- asking raftd and viewd --- */

struct req_call {
	struct rpc_client *client;
	unsigned id;                 /* OP_ or QUERY_ */
	struct str key;              /* queue it is about, or empty */
	const struct msg_desc *desc; /* of m */
	const void *m;
	uint64_t timeout_ns;
	uint64_t link_ns; /* how long it may wait for the link; 0: as long */
	int timeout_err;
	unsigned flags; /* RPC_ONCE */
	req_reply_fn *then;
};

void req_call(struct req *r, const struct req_call *c);
/* An operation or point read, with the usual deadline. */
void req_call_raftd(struct req *r, unsigned id, struct str key,
		    const struct msg_desc *d, const void *m,
		    req_reply_fn *then);

/*
 * The decoded reply in the request's arena; NULL when it was an error or
 * could not be read, and then that has been answered.
 */
void *req_reply(struct req *r, const struct msg_desc *d,
		const struct rpc_reply *reply);

/* --- answering --- */

/* With a message as the tables write it. */
void req_answer_message(struct req *r, const struct msg_desc *d, const void *m,
			int status);

/* With the reply of the route's query, as the tables write it. */
void req_answer_query(struct req *r, const struct rpc_reply *reply);

/* {"error":text,"code":CODE} with the status of errors.def. */
_printf_(3, 4) void req_fail(struct req *r, int err, const char *fmt, ...);
void req_fail_text(struct req *r, int err, struct str text);

struct json_writer req_json(struct req *r); /* starts the body */
void req_answer(struct req *r, int status); /* the body is complete */
void req_answer_empty(struct req *r, int status);

/* The body of an error answer, also used by the server for raw answers. */
void error_body(struct buf *out, int err, struct str text);
unsigned error_retry_after(int err); /* seconds; 0: no header */

#endif
