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

#include "front/exchange.h"
#include "front/stream.h"
#include "proto/msg_json.h"
#include "proto/route.h"
#include "req/parts.h"

struct req;

typedef void req_fn(struct req *r);
typedef void req_reply_fn(struct req *r, const struct rpc_reply *reply);

/*
 * How a request that is no HTTP and JSON is read and answered, so that handlers
 * serve it without knowing. What writes an answer puts it into the exchange and
 * returns the status.
 */
struct req_form {
	/* All of the request; false: an error has been answered. */
	bool (*read)(struct req *r, const struct msg_desc *d, void *m);
	int (*fail)(struct req *r, int err, struct str text);
	/* m NULL: nothing. */
	int (*message)(struct req *r, const struct msg_desc *d, const void *m);
};

struct req {
	struct exchange x; /* what came, and the answer */
	struct httpd *h;
	bool counted;  /* metrics know that it is under way */
	bool is_begun; /* a stream of both sides: its method serves it */
	struct route_match match;
	struct arena arena;
	const struct req_form *form; /* NULL: HTTP and JSON */
	void *form_state;            /* its own, in the arena */
	uint64_t deadline_ns; /* the client waits no longer; 0: nobody knows */

	/* the call that is under way */
	struct rpc_client *client;
	struct rpc_call *call; /* NULL: none */
	size_t call_n;         /* bytes of it */
	bool is_question;      /* it changes nothing */
	req_reply_fn *then;
	void *state;            /* the handler's own, in the arena */
	struct rpc_reply reply; /* a large one, while it is worked on */
	struct buf taken;       /* what its body stands in; or empty */

	struct ignored ignored;   /* members nothing is done with */
	size_t ignored_arguments; /* the first of them: "?name" */
	struct ignored unknown;   /* of a route that refuses them */
	enum { COMPAT_UNASKED, COMPAT_NO, COMPAT_03 } compat;
	int mistake_03; /* what VALIDATION_ERROR is to a client of 0.3; 0: that
			 */

	struct turn_work *work; /* it is worked on in turns; NULL: it is not */
	req_fn *work_fn;
	bool work_failed; /* a check, and the loop gives the request up */
	bool cut_short;   /* it ends now, and that is its answer */

	/* a long-polling fetch: what to answer when it is ended early */
	void (*end_parked)(struct req *r);
	/* its answer could not be sent: undo what it gives away; NULL: nothing
	 * to undo. What it needs is in the arena. */
	void (*unsent)(struct req *r);
	/* A check of ours has failed, and its answer is a stream: that says so
	 * and ends. NULL: it is cut off. */
	void (*broken)(struct req *r);
	/* What becomes of a reply that comes when the request is gone, with
	 * struct httpd as ctx; NULL: nothing. */
	rpc_reply_fn *too_late;
	/* some of it was carried out: what fails after that is no refusal */
	bool partly;
	/* since when it is being answered with what the leader has; 0: with
	 * what this node has */
	uint64_t fenced_ns;
};

static inline struct req *req_of(struct exchange *x)
{
	return container_of(x, struct req, x);
}

struct req *req_new(struct httpd *h);
void req_free(struct req *r);        /* back to the pool; cancels its call */
void req_pool_done(struct httpd *h); /* releases the pool at exit */

/* A header of the request, or NULL. */
const char *req_header(const struct req *r, enum head_name name);

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
 * For who reads members by himself: a reader that notes what is ignored, and
 * what is to be called when all is read. That names it in the answer, or
 * refuses the request if it is a strict one, or has members that its route
 * refuses: false.
 */
struct msg_reader req_reader(struct req *r, struct buf *why);
bool req_read_done(struct req *r);
/* Whether it wants to be refused then; and the sentence for that. */
bool req_is_strict(struct req *r);
void ignored_explain(const struct ignored *i, struct buf *why);
/* A member of the tables that this route has no use for, before that; its path
 * lives as long as the request. */
void req_ignore(struct req *r, struct str path);

/* A client of v0.3.0, by the setting or the header X-Corvo-Compat. */
bool req_is_compat(struct req *r);
/* The error a mistake gets: code_03 for such a client. */
int req_mistake(struct req *r, int code_03);

/*
 * Of the query string: a text in the request's arena, text or seconds as
 * nanoseconds, and a whole number from min to max. Absent: *ret stays. False:
 * an error has been answered. Each has to stand in api/route_shape.c.
 */
const char *req_raw_argument(struct req *r, const char *name); /* as it came */
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
	unsigned flags; /* RPC_ */
	req_reply_fn *then;
};

void req_call(struct req *r, const struct req_call *c);
/* Of op_timeout, for one that asks for what the leader has: how much is left,
 * at least a moment. */
uint64_t req_time_left(const struct req *r);
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

/* With OVERLOADED: the answer would be too much for front/memory.h. */
#define REQ_NO_ROOM                                                          \
	STR("memory for answers is short; ask for less, or try again after " \
	    "retry_after_ms")

/* With VIEW_UNAVAILABLE: who asked will not do with less. */
#define REQ_VIEW_BEHIND                                                     \
	STR("the view of this node did not come up to what the leader has " \
	    "in time; try again, or without consistency=leader")

/* True: the view is behind, who asked will not do with that, and was told. */
bool req_refuse_behind(struct req *r);

/* With a message as the tables write it. */
void req_answer_message(struct req *r, const struct msg_desc *d, const void *m,
			int status);

/* With the reply of the route's query, as the tables write it. */
void req_answer_query(struct req *r, const struct rpc_reply *reply);
/* The reply to the op of its route. */
void req_answer_op(struct req *r, const struct rpc_reply *reply);

/*
 * {"error":text,"code":CODE} with the status of errors.def. Of a request that
 * was partly carried out a refusal becomes OUTCOME_UNKNOWN.
 */
_printf_(3, 4) void req_fail(struct req *r, int err, const char *fmt, ...);
void req_fail_text(struct req *r, int err, struct str text);
/* Writes it into an answer that others send; retry_after_s is known. */
void req_put_error(struct req *r, int err, struct str text);

/* With the error of a reply, when n jobs were `done` before it came. */
void req_fail_partly(struct req *r, const struct rpc_reply *reply,
		     const char *done, uint64_t n);
/* Before a further call for the same request. False: this process is about to
 * end, and the request has failed so. */
bool req_may_go_on(struct req *r, const char *done, uint64_t n);

struct json_writer req_json(struct req *r); /* starts the body */
void req_answer(struct req *r, int status); /* the body is complete */
void req_answer_empty(struct req *r, int status);
/* A further header; both last as long as the request. */
void req_add_field(struct req *r, const char *name, const char *value);
/* With an event stream, or with one of another kind; see front/stream.h. */
struct stream *req_answer_stream(struct req *r, const struct stream_ops *ops,
				 void *ctx);
struct stream *req_answer_pieces(struct req *r, const struct stream_kind *kind,
				 const struct stream_ops *ops, void *ctx);

/* What it asked for is not wanted any more. */
void req_cancel_call(struct req *r);
/*
 * Asks for an answer at once to a call that waits for something. False: it
 * comes to `then`, whatever it is. True: there is no call, or it had not been
 * sent.
 */
bool req_end_call(struct req *r);

#endif
