/*
 * The envelopes: frames between processes, and raft entries. msgpack, written
 * through mpk.h like everything else.
 *
 * A frame is [version, kind, epoch, [item, ...]].
 *   hello    one item: [proc, number, pid, defs hash, version text, origin]
 *   request  items [id, op or query number, flags, deadline, done, key, body]
 *   cancel   items [id]
 *   reply    items [id, err, seq, body]
 *   forward  from node to node: items [id, op or query number, flags, time
 *            left, done, key, body, origin, number]
 *   part     one item: [size, bytes], the next bytes of a frame of that size
 *            which comes in parts, with others between them
 *   bye      no items: what was not answered will not be; the server says
 *            hello again when it serves
 * The writers append items and patch the count, so a frame is built in place.
 */
#ifndef CORVO_FRAME_H
#define CORVO_FRAME_H

#include "proto/proto.h"

enum frame_kind {
	FRAME_HELLO = 1,
	FRAME_REQUEST,
	FRAME_CANCEL,
	FRAME_REPLY,
	FRAME_FORWARD,
	FRAME_BYE,
	FRAME_PART
};

#define FRAME_RESEND 1u /* this request may have been carried out already */
#define FRAME_KEEP   2u /* it may come again: its answer is to be kept */

struct frame_hello {
	uint32_t proc;
	uint32_t number;
	uint32_t pid;
	uint64_t defs_hash;
	struct str version;
	uint64_t origin; /* of the requests that follow: a random number */
};

struct frame_request {
	uint64_t id;
	uint32_t op;
	uint32_t flags;
	/* clock_mono_ns of this machine; in a frame from node to node: so much
	 * is left. 0: none */
	uint64_t deadline_ns;
	uint64_t done;   /* with KEEP: the sender has all answers below */
	uint64_t origin; /* of the connection's hello, or forwarded */
	uint64_t number; /* its id to who first asked */
	struct str key;  /* queue the op is about, or empty; viewd: who asks */
	struct str body;
};

struct frame_reply {
	uint64_t id;
	int err;
	uint64_t seq;
	struct str body;
};

struct frame_part {
	uint64_t size; /* of the whole */
	struct str bytes;
};

struct frame_writer {
	struct buf *b;
	size_t count_at; /* where the item count stands */
	uint32_t n;
};

/* b is cleared and the head written. */
void frame_begin(struct frame_writer *w, struct buf *b, enum frame_kind kind,
		 uint64_t epoch);
void frame_add_hello(struct frame_writer *w, const struct frame_hello *h);
void frame_add_request(struct frame_writer *w, const struct frame_request *r);
void frame_add_forward(struct frame_writer *w, const struct frame_request *r);
void frame_add_cancel(struct frame_writer *w, uint64_t id);
void frame_add_reply(struct frame_writer *w, const struct frame_reply *r);
/* Nothing comes after it in the frame but the bytes of its body. */
void frame_add_reply_head(struct frame_writer *w, const struct frame_reply *r);
void frame_add_part(struct frame_writer *w, const struct frame_part *p);
void frame_end(struct frame_writer *w); /* writes the count */

struct frame {
	enum frame_kind kind;
	uint64_t epoch;
	size_t n;
	union {
		struct frame_hello hello;
		struct frame_part part;
		struct frame_request *requests;
		uint64_t *cancels;
		struct frame_reply *replies;
	};
};

/* Slices point into `in`, arrays are in `a`. 0 or -ERR_BAD_MESSAGE. */
int frame_decode(struct str in, struct arena *a, struct frame *ret);

/*
 * What a request is answered that is refused with err, as nothing was done
 * about it: that, but when a question that changes something comes again, it
 * may have been the first time. The answer to an op is that of the first time.
 */
int frame_refusal(const struct frame_request *r, int err);
/* The same of one whose time is over. */
int frame_late(const struct frame_request *r);

/*
 * The format of what is stored, keys and records of the store and entries of
 * the log alike. A release that adds or changes any of them, or what an op
 * does, has a higher one than the release before. 1: 0.4.0.
 */
#define STORED_FORMAT 2u

/*
 * A raft entry is [format, now_ns, seed, [[origin, done], ...],
 * [[op, flags, caller, id, body], ...]]: all an op needs travels with it, so
 * apply reads no clock and no dice. Entries of older formats are applied as the
 * release that wrote them did; format 1 has no callers.
 */
struct entry_item {
	uint32_t op;
	uint32_t flags; /* FRAME_RESEND */
	struct str body;
	uint32_t
	    caller;  /* which of the entry's, from 1; 0: no answer is kept */
	uint64_t id; /* the caller's number of this request */
};

/* Whose answers are kept. */
struct entry_caller {
	uint64_t origin;
	uint64_t done; /* as in frame_request */
};

struct entry {
	uint32_t format; /* STORED_FORMAT of who wrote it */
	uint64_t now_ns;
	uint64_t seed;
	size_t callers_n;
	struct entry_caller *callers;
	size_t n;
	struct entry_item *items;
};

void entry_begin(struct frame_writer *w, struct buf *b, uint64_t now_ns,
		 uint64_t seed);
/* The same with callers, for items that name them. */
void entry_begin_for(struct frame_writer *w, struct buf *b, uint64_t now_ns,
		     uint64_t seed, const struct entry_caller *callers,
		     size_t n);
void entry_add(struct frame_writer *w, const struct entry_item *item);
void entry_end(struct frame_writer *w);
/* 0 or -ERR_BAD_MESSAGE, also for a newer format. */
int entry_decode(struct str in, struct arena *a, struct entry *ret);
/* The format of an entry, also of one that cannot be read; 0: no entry. */
uint64_t entry_format(struct str in);

#endif
