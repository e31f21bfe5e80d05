/*
 * Between the files of a frame: life_frame.c is its life, life_fetch.c how it
 * asks for jobs, and who leads, life_enqueue.c how it adds jobs. See
 * rpc/lifecycle.h.
 */
#ifndef CORVO_LIFE_PARTS_H
#define CORVO_LIFE_PARTS_H

#include "rpc/lifecycle.h"

struct gather;
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
	struct m_enqueue_batch batch;
	/* of life_enqueue.c */
	size_t bytes_n;        /* it had when it came */
	struct gather *gather; /* with whose jobs its own go; NULL: alone */
	struct list gathered;  /* node of that */
	size_t gather_at;      /* its first job among all */
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

/* --- life_enqueue.c --- */

/* Those of its jobs that can be added; their ids are made once. */
void life_prepare_enqueue(struct life_frame *f);
void life_start_enqueue(struct life_frame *f);
void life_drop_enqueue(struct life_frame *f); /* nobody waits for it */

/* --- life_fetch.c --- */

void life_start_fetch(struct life_frame *f);
/* Nobody waits for it any more: what comes is given back. */
void life_drop_fetch(struct life_frame *f);
void life_give_back(struct life_frame *f); /* the jobs of its answer */
/* Whether this node leads; if not, that is the answer, and the last one. */
void life_start_status(struct life_frame *f);

#endif
