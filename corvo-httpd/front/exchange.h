/*
 * A request and its answer as the front knows them: what came, what goes, and
 * how far it is. What it means is for the floor above, which embeds this and is
 * told through struct front_ops; the server never looks further.
 *
 * The path and the body are hostile. Loop thread.
 */
#ifndef CORVO_EXCHANGE_H
#define CORVO_EXCHANGE_H

#include "front/front.h"
#include "front/slow.h"
#include "rt/ip.h"
#include "util/buf.h"
#include "util/list.h"

struct body_ops;
struct conn;
struct h2_stream;
struct server;
struct stream;

#define REQUEST_ID_MADE 17 /* bytes of one that is made here, with its NUL */

/* A header or trailer that an answer has besides; the name in lower case. */
struct field {
	const char *name, *value;
};

struct exchange {
	struct list node; /* of those that wait, or of its owner */
	struct server *server;
	const struct front *front;
	struct conn *conn;    /* the front's */
	struct h2_stream *h2; /* NULL: it came by HTTP/1 */
	uint64_t start_ns;    /* monotonic; the head had arrived */

	/* what was asked */
	const char *method; /* as the client wrote it; the server's memory */
	struct head head;
	struct str path;  /* without the query; still percent-encoded */
	struct ip client; /* who asks, see front/clients.h */
	int refusal; /* ERR_ of its head: told when all has come; 0: none */
	struct str refusal_text;
	bool coming;   /* its head is here, its body not completely */
	size_t came_n; /* bytes of its body, taken or not */
	struct buf body;
	/* who takes the body in pieces; NULL: it is gathered in body */
	const struct body_ops *body_to;
	const char *request_id; /* X-Request-Id of it and of its answer */
	char made_id[REQUEST_ID_MADE]; /* where it came without one */

	/* memory, see front/memory.h */
	size_t held;      /* counted of it */
	size_t head_n;    /* bytes the front keeps of its head */
	size_t work_n;    /* bytes the floor above keeps for it besides */
	size_t ahead_n;   /* and those of events it has read ahead */
	bool is_cut;      /* it is being ended: what it held counts no more */
	struct pace pace; /* of its body, or of its answer */

	/* while it waits */
	uint64_t parked_ns; /* since when, see front/park.h; 0: not parked */
	bool ending;        /* it was parked, and a drain has ended that */
	/* it is worked on to its end, also when the client leaves before: its
	 * connection is not looked at meanwhile */
	bool outlives;
	bool in_turns;    /* the floor above works on it, see rt/turns.h: the
			   * same as long as that lasts */
	bool unwanted;    /* but its client has left: what that comes to is
			   * neither done nor told */
	uint64_t late_ns; /* since when, see front/late.h; 0: not late */
	bool reads_on;    /* it is late with its body, not with its answer */
	bool watched;     /* its socket is watched for a client that left */
	bool waiting;     /* the front waits for exchange_resume */
	bool suspended;   /* and its connection is suspended meanwhile */
	bool woken;       /* it was, when its answer came */
	bool abandoned;   /* the client is gone: close, answer nothing */
	bool sent;        /* all of the answer is in the hands of the kernel */

	/* the answer */
	bool answered;
	int status;
	int err; /* ERR_ number of an error answer */
	struct buf out;
	const char *content_type;
	uint64_t seq;            /* X-Corvo-Index; 0: none */
	uint64_t lag_ms;         /* X-Corvo-View-Lag-Ms, if has_lag */
	const char *next;        /* X-Corvo-Next; NULL: no header */
	const char *ignored;     /* X-Corvo-Ignored; NULL: no header */
	uint64_t preferred_ns;   /* Preference-Applied: wait; 0: no header */
	unsigned allow;          /* methods for Allow; 0: no header */
	unsigned retry_after_s;  /* 0: no header */
	const char *cors_origin; /* may read the answer; NULL: nobody else */
	struct field *fields;    /* further headers */
	size_t fields_n;
	struct field *trailers; /* behind the body, if the front is duplex */
	size_t trailers_n;
	struct stream *stream; /* the answer is one; see front/stream.h */
	bool has_lag;
	bool replayed; /* Idempotent-Replayed */
};

/* For a request on that connection, of which nothing is known yet. */
struct exchange *exchange_begin(struct conn *c);
/* It is refused, before it has come completely; its answer is made. An empty
 * text: that of errors.def. */
void exchange_refused(struct exchange *x, int err, struct str text);
/* Its body is here: it is handed up, or refused now. */
void exchange_whole(struct exchange *x);
void exchange_end(struct exchange *x); /* gives it back; the last call */

/* --- for the floors above --- */

/* It waited and has its answer now. */
void exchange_resume(struct exchange *x);

/* It is worked on in turns, as it was asked or as it is answered; and not any
 * more: one that is unwanted by then is left. */
void exchange_work(struct exchange *x);
void exchange_worked(struct exchange *x);
/* What it came as has been unpacked: that is its body now, and was work. */
void exchange_unpacked(struct exchange *x, struct buf *plain);
/* The same where it came as a text that stands for bytes. */
void exchange_decoded(struct exchange *x, struct buf *bytes);

/*
 * Looks at the connection of a request that is not answered yet. True: its
 * client has left, and the request has ended without an answer, or does when
 * the work on it ends; front_ops.end comes.
 */
bool exchange_if_left(struct exchange *x);

/* The same of one whose answer has begun: it goes on, and will end soon. */
bool exchange_is_left(const struct exchange *x);

/* See front/front.h; for answers in pieces, where the front is duplex. */
uint64_t exchange_place(const struct exchange *x);
bool exchange_is_past(const struct exchange *x, uint64_t place);

/* n bytes that body_to was given are done with, so that as many more may
 * come: a body in pieces is at most LIMIT_H2_WINDOW bytes ahead of that. */
void exchange_took(struct exchange *x, size_t n);

/* --- for the files of the front --- */

/* Its client is gone: nothing of it is to be done or answered any more. */
void exchange_left(struct exchange *x);
/* The same while it is worked on in turns: that ends soon. */
void exchange_unwanted(struct exchange *x);
void exchange_abandon(struct exchange *x);
void exchange_wake(struct exchange *x); /* see front/front.h */

/* --- memory, see front/memory.h --- */

/* It holds more or less than before. */
void exchange_count(struct exchange *x);
/* Its connection has been cut: what it holds is as good as free. */
void exchange_cut(struct exchange *x);

/*
 * Whether there is room; the slow ones of others are cut off to make it. For a
 * body of that length (0: it comes in chunks), for n more bytes of it, for what
 * the floor above keeps of it besides, and for an answer. False: counted as
 * refused, and to be answered with OVERLOADED.
 */
bool exchange_fits_body(struct exchange *x, uint64_t bytes);
bool exchange_fits_more(struct exchange *x, size_t n);
bool exchange_fits_work(struct exchange *x, uint64_t bytes);
/* The same where a buffer is to have room for n more. */
bool exchange_fits_grown(struct exchange *x, const struct buf *b, size_t n);
bool exchange_fits_answer(struct exchange *x, uint64_t bytes, bool reserve);

/* Who takes a body in pieces, as they come. A front that is not duplex has one
 * piece for him, when all is there. */
struct body_ops {
	/* Its head is all that is here, where more can come. It may answer. */
	void (*head)(struct exchange *x);
	/* It has answered with a stream, but nothing has come after the head:
	 * that stream is to end for this. An empty text: that of errors.def. */
	void (*refuse)(struct exchange *x, int err, struct str text);
	/* The bytes last for the call. It may answer. */
	void (*bytes)(struct exchange *x, const char *p, size_t n);
	/* All of it has come; in the place of front_ops.complete. */
	void (*end)(struct exchange *x);
};

/* What the floor above does with them. */
struct front_ops {
	/* A head is coming: an exchange for it. */
	struct exchange *(*begin)(void *ctx);
	/* The head is here, and nothing of the body: who wants that in pieces
	 * sets body_to. It is not answered here. 0, or -ERR_ and why, which
	 * lasts: it is refused, and its body not kept. */
	int (*head)(struct exchange *x, struct str *why);
	/* The request is complete: it is answered now, or later and then
	 * resumed by exchange_resume. */
	void (*complete)(struct exchange *x);
	/* It is refused before it was complete: writes the answer that says
	 * so, in the form of what was asked. Its head may not have been seen.
	 */
	void (*refused)(struct exchange *x, int err, struct str text);
	/* Its client left while it waited: nothing it asked for may be done
	 * in its name any more. */
	void (*left)(struct exchange *x);
	/* The same while it is worked on: that is to end soon. */
	void (*unwanted)(struct exchange *x);
	/* The server stops: answer what is parked with what there is. */
	void (*end_parked)(struct exchange *x);
	/* It is over; unanswered: its client left before. The last call. */
	void (*end)(struct exchange *x);
};

#endif
