/*
 * An answer without a fixed end: events, or the messages of a call that goes
 * on. The source writes frames while there is room and is told when there is
 * room again, so that nothing is kept for a client that reads slowly but one
 * buffer of fixed size.
 *
 * A client may leave at any moment, or stop reading: both are noticed here.
 *
 * Loop thread. The request lives until on_closed.
 */
#ifndef CORVO_STREAM_H
#define CORVO_STREAM_H

#include <sys/types.h>

#include "front/exchange.h"
#include "rt/loop.h"

#define STREAM_BUFFER_BYTES (64u << 10)
#define STREAM_KEEPALIVE_NS (15 * NS_PER_S)
#define STREAM_STALL_NS     (30 * NS_PER_S) /* takes nothing: is closed */

struct stream;

struct stream_ops {
	/* The buffer is empty again, or was from the start. May write and end,
	 * now or later. */
	void (*on_room)(void *ctx);
	/* The server stops: what can only be had here is written now or soon,
	 * and then it ends. NULL: it is ended, and what was not taken dropped
	 * but for the rest of a frame, as it can be had elsewhere. */
	void (*on_stop)(void *ctx);
	/* The client left, was cut off, or everything before stream_end has
	 * been sent. The stream is gone; the last call. */
	void (*on_closed)(void *ctx);
};

/* What is in it. */
struct stream_kind {
	const char *content_type;
	/* goes out after STREAM_KEEPALIVE_NS of silence; empty: nothing does */
	struct str keepalive;
	/* where the frame ends that begins before p[at], at most n; NULL: any
	 * byte may be the last */
	size_t (*frame_end)(const char *p, size_t at, size_t n);
	/* the last frame of one whose client does not read, and trailers; ctx
	 * is that of the source. NULL: none */
	void (*explain)(void *ctx, struct buf *out, int err);
};

extern const struct stream_kind stream_events; /* text/event-stream */

/*
 * Answers the request with its head, the fields of the exchange in it. on_room
 * never runs inside this call.
 */
struct stream *stream_begin(struct exchange *x, const struct stream_kind *kind,
			    const struct stream_ops *ops, void *ctx);

/*
 * Bytes that can be written now; 0 when it is ending. A frame that does not
 * fit into an empty buffer is written all the same: the buffer grows for that
 * one. stream_write takes whole frames; one that ends drops them.
 */
size_t stream_room(const struct stream *s);
void stream_write(struct stream *s, struct str frames);

/* Nothing comes after what was written: send it, and the trailers of the
 * exchange, then close. */
void stream_end(struct stream *s);

/*
 * id (0: no id line), event, and JSON as one line, as one frame. Line ends
 * between the parts of the JSON become spaces.
 */
void stream_frame(struct buf *out, uint64_t id, const char *event,
		  struct str data);

/* Ends it with an error frame; the client is to come again. */
void stream_end_error(struct stream *s, int err); /* of events */

/* --- for the server --- */

struct streams; /* all of a process */

struct streams *streams_new(struct loop *l); /* NULL: no descriptor left */
void streams_free(struct streams *all);
size_t streams_count(const struct streams *all);
/* Ends all of them, by stream_ops.on_stop. */
void streams_end_all(struct streams *all);
/* Closes all of them, whatever they are doing. */
void streams_cut_all(struct streams *all);

/*
 * Bytes for the connection, or one of: nothing now (exchange_wake comes
 * later), the end, and to be closed at once.
 */
#define STREAM_NOTHING 0
#define STREAM_OVER    (-1)
#define STREAM_BROKEN  (-2)
ssize_t stream_take(struct stream *s, char *to, size_t max);

size_t stream_bytes(const struct stream *s); /* of its buffer */
void stream_free(struct stream *s);          /* the answer has ended somehow */

#endif
