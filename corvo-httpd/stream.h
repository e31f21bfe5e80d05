/*
 * An answer without a fixed end: text/event-stream. The source writes frames
 * while there is room and is told when there is room again, so that nothing
 * is kept for a client that reads slowly but one buffer of fixed size.
 *
 * Loop thread. The request lives until on_closed.
 */
#ifndef CORVO_STREAM_H
#define CORVO_STREAM_H

#include "req.h"

#define STREAM_BUFFER_BYTES (64u << 10)
#define STREAM_KEEPALIVE_NS (15 * NS_PER_S)
#define STREAM_STALL_NS     (30 * NS_PER_S) /* takes nothing: is closed */

struct stream;

struct stream_ops {
	/* The buffer is empty again, or was from the start. */
	void (*on_room)(void *ctx);
	/* The client left, was cut off, or everything before stream_end has
	 * been sent. The stream is gone; the last call. */
	void (*on_closed)(void *ctx);
};

/*
 * Answers the request with 200 and the head of an event stream. A comment
 * line goes out after STREAM_KEEPALIVE_NS of silence, by itself.
 */
struct stream *stream_begin(struct req *r, const struct stream_ops *ops,
			    void *ctx);

/* Bytes that can be written now. A frame that does not fit into an empty
 * buffer is written all the same: the buffer grows for that one. */
size_t stream_room(const struct stream *s);
void stream_write(struct stream *s, struct str bytes);

/* Nothing comes after what was written: send it, then close. */
void stream_end(struct stream *s);

/* id (0: no id line), event, and one line of JSON, as one frame. */
void stream_frame(struct buf *out, uint64_t id, const char *event,
		  struct str data);

#endif
