/*
 * A request and its answer as the front knows them: what came, what goes, and
 * how far it is. What it means is for the floor above, which embeds this and is
 * told through struct front_ops; the server never looks further.
 *
 * The path and the body are hostile. Loop thread.
 */
#ifndef CORVO_EXCHANGE_H
#define CORVO_EXCHANGE_H

#include "front/head.h"
#include "rt/ip.h"
#include "util/buf.h"
#include "util/list.h"

struct conn;
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
	struct conn *conn;
	uint64_t start_ns; /* monotonic; the head had arrived */

	/* what was asked */
	const char *method; /* as the client wrote it; the server's memory */
	struct head head;
	struct str path;  /* without the query; still percent-encoded */
	struct ip client; /* who asks, see front/clients.h */
	bool over_rate;   /* too soon after others: it will be refused */
	size_t came_n;    /* bytes of its body, taken or not */
	struct buf body;
	const char *request_id; /* X-Request-Id of it and of its answer */
	char made_id[REQUEST_ID_MADE]; /* where it came without one */

	/* memory, see front/memory.h */
	size_t held;   /* counted of it */
	size_t work_n; /* bytes the floor above keeps for it besides */
	bool is_cut;   /* it is being ended: what it held counts no more */

	/* while it waits */
	uint64_t parked_ns; /* since when, see front/park.h; 0: not parked */
	/* it is worked on to its end, also when the client leaves before: its
	 * connection is not looked at meanwhile */
	bool outlives;
	uint64_t late_ns; /* since when, see front/late.h; 0: not late */
	bool reads_on;    /* it is late with its body, not with its answer */
	bool watched;     /* its socket is watched for a client that left */
	bool waiting;     /* the server waits for server_resume */
	bool suspended;   /* and its connection is suspended meanwhile */
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
	struct stream *stream; /* the answer is one; see front/stream.h */
	bool has_lag;
	bool replayed; /* Idempotent-Replayed */
};

/* For a request on that connection, of which nothing is known yet. */
struct exchange *exchange_begin(struct conn *c);
/* What is under way on it, or was coming, has been refused. */
void exchange_refused(struct conn *c, int err);

/* --- memory, see front/memory.h --- */

/* It holds more or less than before. */
void exchange_count(struct exchange *x);
/* Its connection has been cut: what it holds is as good as free. */
void exchange_cut(struct exchange *x);

/*
 * Whether there is room; the slow ones of others are cut off to make it. For a
 * body of that length (0: it comes in chunks), for n more bytes of it, and for
 * an answer. False: counted as refused, and to be answered with OVERLOADED.
 */
bool exchange_fits_body(struct exchange *x, uint64_t bytes);
bool exchange_fits_more(struct exchange *x, size_t n);
bool exchange_fits_answer(struct exchange *x, uint64_t bytes, bool reserve);

/* What the floor above does with them. */
struct front_ops {
	/* A head has come: an exchange for it. */
	struct exchange *(*begin)(void *ctx);
	/* The request is complete: it is answered now, or later and then
	 * resumed by server_resume. */
	void (*complete)(struct exchange *x);
	/* It is refused before it was complete; err is being told. */
	void (*refused)(struct exchange *x, int err);
	/* Its client left while it waited: nothing it asked for may be done
	 * in its name any more. */
	void (*left)(struct exchange *x);
	/* The server stops: answer what is parked with what there is. */
	void (*end_parked)(struct exchange *x);
	/* It is over; unanswered: its client left before. The last call. */
	void (*end)(struct exchange *x);
};

#endif
