/*
 * Between the files of a frame: life_frame.c is its life, life_ack.c how it
 * ends jobs, life_fetch.c how it asks for some, and who leads, life_enqueue.c
 * how it adds jobs, life_gather.c what it asks for together with others. See
 * rpc/lifecycle.h.
 */
#ifndef CORVO_LIFE_PARTS_H
#define CORVO_LIFE_PARTS_H

#include "rpc/lifecycle.h"

struct part;
typedef void part_fn(struct life_frame *f, struct part *p,
		     const struct rpc_reply *reply);

/* One operation of it. */
struct part {
	struct life_frame *f;
	struct rpc_call *call; /* NULL: none under way */
	part_fn *then;
	size_t index; /* of fails */
};

/* What it put into a gather. */
struct share {
	struct list node;
	struct life_frame *f;
	struct gather *g; /* NULL: it is in none */
	size_t at, n;     /* its items among all, once they are sent */
};

struct life_frame {
	struct list node; /* in lifecycle.frames */
	struct lifecycle *l;
	struct arena a;
	size_t counted; /* bytes of it in lifecycle.kept */
	struct m_lifecycle m;
	struct ignored ignored; /* members nothing is done with */
	struct m_lifecycle_reply reply;
	struct part ack, fetch, enqueue, beat, status;
	struct part *fails; /* one for each */
	size_t open;        /* parts under way */
	uint64_t wait_ns;   /* how long its fetch may take */
	bool adds_later;    /* jobs are added when the fetch is answered */
	bool waits;         /* for jobs, and says for how long */
	bool is_working;    /* counted in lifecycles.inflight */
	bool is_starting;
	bool is_wrong;   /* an error that is no overload */
	bool is_last;    /* the stream ends with it */
	bool asks_first; /* who leads, before anything else */
	size_t acks_n;   /* those that can be said, the first of m.acks */
	struct m_enqueue_batch batch;
	size_t bytes_n; /* it had when it came */
	struct share shares[GATHER_KINDS];
};

/* --- life_frame.c --- */

/* The first one is told. what: which part it was. */
void life_error(struct life_frame *f, const char *what, int err,
		struct str text);
/* Checks one item by its table; false: it is left out. */
bool life_item_ok(struct life_frame *f, const char *what,
		  const struct msg_desc *d, const void *m);

/* An operation or question, and how long it may take. */
struct life_call {
	unsigned id;
	struct str key;
	const struct msg_desc *d;
	const void *m;
	uint64_t timeout_ns;
	int timeout_err;
	unsigned flags; /* RPC_ */
	bool any_order; /* what the stream said before may come later */
	part_fn *then;
};
void life_ask(struct life_frame *f, struct part *p, const struct life_call *c);
/* An operation. A resend is recognised by its id, so none is done twice. */
void life_change(struct life_frame *f, struct part *p, unsigned op,
		 struct str key, const struct msg_desc *d, const void *m,
		 part_fn *then);
/* Something of it has ended. */
void life_settle(struct life_frame *f);
/* The decoded reply in the frame's arena; NULL: an error has been noted. */
void *life_decode(struct life_frame *f, const char *what,
		  const struct msg_desc *d, const struct rpc_reply *reply);

/* --- life_gather.c --- */

/* What can go together, as one operation. */
struct gather_kind {
	const char *what; /* of errors */
	unsigned op;
	const struct msg_desc *item, *reply;
	/* What the frame asks for. */
	void *(*items)(struct life_frame *f);
	/* n items of all frames; the key of the operation. */
	struct str (*encode)(void *items, size_t n, struct buf *out);
	/* How many items the reply is about. */
	size_t (*answered)(const void *reply);
	/* Whether n items of a frame go with those of another. NULL: all do. */
	bool (*goes_with)(const struct life_frame *f, size_t n,
			  const struct share *s);
	/* The part of the reply about the frame's items, from `at` on; it lasts
	 * for the call. */
	void (*tell)(struct life_frame *f, size_t at, const void *reply);
	/* It asks by itself. */
	void (*alone)(struct life_frame *f);
};

/* Whether n items of it are few enough to be gathered. */
bool life_may_gather(const struct life_frame *f, size_t n);
void life_gather(struct life_frame *f, enum gather_of of, size_t n);
void life_gather_drop(struct life_frame *f); /* nobody waits for it */

/* --- life_ack.c --- */

extern const struct gather_kind gather_acks;
void life_start_acks(struct life_frame *f);

/* --- life_enqueue.c --- */

extern const struct gather_kind gather_jobs;
/* Those of its jobs that can be added; their ids are made once. */
void life_prepare_enqueue(struct life_frame *f);
void life_start_enqueue(struct life_frame *f);

/* --- life_fetch.c --- */

void life_start_fetch(struct life_frame *f);
/* Nobody waits for it any more: what comes is given back. */
void life_drop_fetch(struct life_frame *f);
void life_give_back(struct life_frame *f); /* the jobs of its answer */
/* Whether this node leads; if not, that is the answer, and the last one. */
void life_start_status(struct life_frame *f);

#endif
