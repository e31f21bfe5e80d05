/*
 * Values on their way into members, shared by the two readers, and by nobody
 * else: what a member may hold does not depend on how it came.
 */
#ifndef CORVO_PB_STORE_H
#define CORVO_PB_STORE_H

#include "rpc/pb/pb.h"

/* A field, or one item of it; a chain on the stack of the reader. */
struct pb_place {
	const struct pb_place *up; /* NULL: of the message itself */
	const struct pb_desc *d;   /* the message it belongs to */
	const struct pb_field *f;
	/* of the item, if it is repeated; PLACE_NO_INDEX: all of the list */
	size_t index;
};

/* "acks[3].job_id: text" to rd->why; -ERR_VALIDATION_ERROR. */
_printf_(3, 4) int pb_refuse(const struct msg_reader *rd,
			     const struct pb_place *at, const char *fmt, ...);

/* "acks[3].name", where the name is as the client wrote it. */
void pb_print_member(const struct pb_place *up, struct str name,
		     struct buf *to);

/* Nothing is done with it. */
void pb_ignore(const struct msg_reader *rd, const struct pb_place *up,
	       struct str name);

/* Into the member of at->f in *m. 0 or -ERR_. */
int pb_put_int(const struct msg_reader *rd, const struct pb_place *at, void *m,
	       bool is_negative, uint64_t magnitude);
int pb_put_bool(const struct pb_place *at, void *m, bool v);
int pb_put_double(const struct msg_reader *rd, const struct pb_place *at,
		  void *m, double v);
int pb_put_text(const struct msg_reader *rd, const struct pb_place *at, void *m,
		struct str v);
int pb_put_time(const struct msg_reader *rd, const struct pb_place *at, void *m,
		int64_t seconds, int64_t nanos);

/* The nested message to read into: the next of a list, or the one there is. */
int pb_put_message(const struct msg_reader *rd, struct pb_place *at, void *m,
		   void **ret);

/*
 * It has been read, or refused with r: what becomes of the message. An item
 * that may be refused by itself is, and is left empty: 0.
 */
int pb_end_message(const struct msg_reader *rd, const struct pb_place *at,
		   void *item, int r);

/* All is read: what must hold of the whole. */
int pb_finish(const struct msg_reader *rd, const struct pb_desc *d,
	      const void *m);

#endif
