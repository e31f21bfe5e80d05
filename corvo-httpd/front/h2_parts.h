/*
 * Between the files of HTTP/2; see front/h2.h.
 */
#ifndef CORVO_H2_PARTS_H
#define CORVO_H2_PARTS_H

#include <nghttp2/nghttp2.h>

#include "front/h2.h"
#include "front/h2_head.h"
#include "front/h2_limits.h"
#include "front/h2_scan.h"
#include "rt/loop.h"

#define H2_WRITE_BYTES (64u << 10) /* gathered before they are sent */

struct h2s {
	struct server *server;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	int epoll_fd;
	struct loop_fd *poll;
	struct loop_timer *again; /* not all could be sent in this turn */
	struct list all, dirty;   /* connections */
	size_t n;
	size_t places_n;     /* that streams have */
	struct list coming;  /* streams of which the rest is to come, by age */
	struct list sending; /* and with an answer to be sent, the one first
			      * of which nothing has moved for longest */
	struct list probes;  /* that have places of their own, by age */
	struct list refused; /* that are told why, by age: they have none */
	size_t probes_n, refused_n;
	struct buf out;     /* what is being sent */
	struct h2 *gathers; /* whose out is; NULL: it is nobody's */
	struct buf names;   /* of headers being sent */
	nghttp2_nv *nv;
	size_t nv_n, nv_cap;
	uint64_t ended[H2_REASONS];
};

struct h2 {
	struct list node;  /* of all */
	struct list dirty; /* of those with something to do in this turn */
	struct h2s *owner;
	struct conn *conn;
	nghttp2_session *session;
	struct h2_limits limits;
	struct h2_scan scan;
	struct list streams;
	struct list done;    /* streams whose answer is in out, or in rest */
	size_t streams_n;    /* that are open */
	size_t asked_n;      /* of them, whose head is here */
	struct buf rest;     /* the socket did not take it */
	size_t held;         /* counted of that, see front/memory.h */
	uint64_t sent_n;     /* bytes it took, ever */
	uint64_t blocked_ns; /* since when it takes nothing; 0: it does */
	uint64_t acked_n;    /* bytes its client had at the last look */
	uint64_t acked_ns;   /* when they were seen to have become more */
	uint64_t closing_ns; /* since when its end is on the way; 0: it isn't */
	uint64_t head_ns;    /* since when a head is coming; 0: none is */
	bool takes_no_more;  /* its last request has been named */
	bool is_gone;        /* nothing can be read or sent */
};

/* One request. */
struct h2_stream {
	struct list node;    /* of its connection */
	struct list coming;  /* of all */
	struct list sending; /* of all */
	struct list probe;   /* of all */
	struct list refused; /* of all */
	struct h2 *h;
	int32_t id;
	struct exchange *x; /* NULL: its head is not here yet */
	struct h2_head head;
	uint64_t moved_ns; /* of one that sends: since when nothing of it has */
	uint64_t sent_to;  /* where its last bytes are in what is sent */
	size_t taken;      /* bytes of x->out, or of its stream */
	size_t trailers_n; /* bytes of them, as those of a head are counted */
	uint32_t cut_code; /* what it is ended with without a word */
	size_t untaken; /* bytes of the body the window is not open for again */
	bool has_asked; /* its head is here */
	bool is_whole;  /* the client has sent all of it */
	bool submitted; /* its answer is the library's */
	bool deferred;  /* and has nothing to send now */
	bool all_sent;  /* its end is in out */
	bool is_cut;    /* it is being ended without a word */
	bool is_over;   /* the library has closed it */
	bool has_place; /* of those that all have together */
};

/* --- h2.c --- */

void h2_mark(struct h2 *h); /* it has something to do in this turn */
void h2_end_by(struct h2 *h, enum h2_reason why, uint32_t code);
/* Its client reads nothing: it is closed without a word. */
void h2_cut(struct h2 *h);

/* --- h2_stream.c: what the library tells --- */

void h2_stream_callbacks(nghttp2_session_callbacks *cb);
/* A frame that asks for nothing, and a request that is taken back. */
void h2_note_frame(struct h2 *h);
void h2_note_reset(struct h2 *h);
/* Its answer has left, or will not. */
void h2_stream_end(struct h2_stream *st, bool sent);
/* All that are cut are ended. */
void h2_streams_drop_cut(struct h2 *h);
/* Whether one of them is to be worked on to its end, whoever waits. */
bool h2_streams_hold(const struct h2 *h);
/* The connection is lost: those are to end soon, and all others end. */
void h2_streams_lost(struct h2 *h);
/* The connection is closed: nobody waits for them. */
void h2_streams_left(struct h2 *h);

/* --- h2_places.c: who has a place while there are many --- */

void h2_places_init(struct h2s *all);
void h2_place_new(struct h2_stream *st);
void h2_place_end(struct h2_stream *st);
/* Its head is here. It has a place then, or is refused. */
void h2_place_find(struct h2_stream *st);
/* It has none from now on, and is told why if its client may read that. */
void h2_place_refuse(struct h2_stream *st, int err, struct str text);
/* Its place is found, and its body is to come; or no more of that. */
void h2_place_coming(struct h2_stream *st);
void h2_place_came(struct h2_stream *st);
/* Bytes of its body are here. False: it is no probe for that, there was no
 * other place for it, and it is refused. */
bool h2_place_body(struct h2_stream *st);
/* It has an answer now, or some of that has moved; or there is nothing to be
 * sent for the moment. */
void h2_place_moved(struct h2_stream *st);
void h2_place_rests(struct h2_stream *st);
/* Whether more has come to its client since the last look; now and then. */
void h2_place_look(struct h2 *h, uint64_t now_ns);

/* --- h2_answer.c --- */

void h2_answer_callbacks(nghttp2_session_callbacks *cb);
void h2_answer(struct h2_stream *st); /* its exchange is answered */
/* How many bytes of all are before the next one. */
uint64_t h2_sent_to(const struct h2 *h);
void h2_refuse(struct exchange *x, int err, struct str text);

#endif
