/*
 * Between the files of a frame: life_frame.c is its life, life_items.c what of
 * it is refused, life_ack.c how it ends jobs, life_fetch.c how it asks for
 * some, and who leads, life_enqueue.c how it adds jobs, with life_refs.c those
 * that name each other, life_gather.c what it asks for together with others.
 * See rpc/lifecycle.h.
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
	size_t call_n;         /* bytes of it */
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

/* What it is made of, in the order errors of it are told. */
enum life_part {
	LIFE_WHOLE,
	LIFE_ACKS,
	LIFE_FAILS,
	LIFE_BEATS,
	LIFE_FETCH,
	LIFE_JOBS,
	LIFE_PARTS,
};

/* Something that went wrong. */
struct life_fault {
	enum life_part part;
	size_t index;    /* of an item, else 0 */
	bool says_where; /* the text does */
	int err;
	struct str text; /* empty: err's own */
};

struct life_place;

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
	bool leads;      /* this node does, as far as that was asked */
	bool is_last;    /* the stream ends with it */
	bool asks_first; /* who leads, before anything else */
	size_t acks_n;   /* those that can be said, the first of m.acks, and */
	size_t *ack_places; /* where they stood there */
	/* Items that could not be read; NULL: all of the list could. */
	bool *unread[LIFE_PARTS];
	struct life_fault worst;       /* that is told; err 0: none */
	struct life_place *refused_at; /* the items of reply.refused_items */
	struct life_fault bad_job;     /* the first refused one; err 0: none */
	struct m_enqueue_batch batch;  /* jobs that can be added, and */
	size_t *places;                /* where they stand in m.enqueues */
	bool has_refs;                 /* some name others of them */
	size_t settled_n; /* of batch: they have been added or refused */
	size_t asked_n;   /* those after them that are asked for now */
	size_t among_n;   /* so many of which not all can be; 0: not known */
	size_t asks_n;
	struct str *ids;                /* of those that have been added */
	struct m_enqueue_answer *added; /* one for each of m.enqueues */
	size_t bytes_n;                 /* it had when it came */
	struct share shares[GATHER_KINDS];
};

/* --- life_frame.c --- */

/*
 * The worst one is told, whichever comes first: of what nobody knows whether it
 * was done, of what must not be sent again as it is, and of what may be later.
 * Among equals it is the first one in the frame.
 */
void life_error(struct life_frame *f, const struct life_fault *e);
/* Nothing else of the frame is told, as nothing of it is done. */
void life_refuse_frame(struct life_frame *f, int err, struct str text);

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
/* It has been answered, or is not waited for any more. */
void life_asked(struct part *p);
/* An operation. A resend is recognised by its id, so none is done twice. */
void life_change(struct life_frame *f, struct part *p, unsigned op,
		 struct str key, const struct msg_desc *d, const void *m,
		 part_fn *then);
/* Something of it has ended. */
void life_settle(struct life_frame *f);
/* The decoded reply in the frame's arena; NULL: an error of that part, or of
 * that item of it, has been noted. */
void *life_decode(struct life_frame *f, enum life_part part, size_t index,
		  const struct msg_desc *d, const struct rpc_reply *reply);

/* --- life_items.c --- */

/* For the reader: an item that cannot be read (msg_refused_fn). */
void life_unread(void *frame, size_t member, size_t index, int err,
		 struct str why);
/* Nothing else of the frame is refused for it. An empty text: err's own. */
void life_refuse_item(struct life_frame *f, enum life_part list, size_t i,
		      int err, struct str text);
/* Checks one item by its table; false: it is left out, which has been told. */
bool life_item_ok(struct life_frame *f, enum life_part list, size_t i,
		  const void *m);

/* The same of a text that is said once for all of a part. */
bool life_text_ok(struct life_frame *f, enum life_part part, const char *name,
		  struct str text, size_t max);

/* --- life_refs.c --- */

/*
 * Of m.enqueues, of which those marked are refused: so are those that name one
 * of them, which is told and marked.
 */
void life_refuse_refs(struct life_frame *f, bool *refused);
/* The rest is in batch by now, and names each other by its places there. */
void life_move_refs(struct life_frame *f);

/* --- life_gather.c --- */

/* Several were refused for what some of them are. */
bool life_is_about_items(int err);

/* What can go together, as one operation. */
struct gather_kind {
	enum life_part part;
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
	/* It was alone, and is refused for what some of it is; NULL: that is
	 * its error. */
	void (*refused)(struct life_frame *f, const struct rpc_reply *reply);
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
