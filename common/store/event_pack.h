/*
 * The events of one raft entry are one record of the store, under the sequence
 * of the last of them: the first key at or after a sequence holds its event.
 *
 *   first_seq:8, then for each event length:4 and an encoded `event`
 */
#ifndef CORVO_EVENT_PACK_H
#define CORVO_EVENT_PACK_H

#include "proto/proto.h"

/* Appends one event; the first one begins the pack with its sequence. */
void event_pack_add(struct buf *b, uint64_t seq, const struct m_event *e);

struct event_pack {
	struct str rest;
	uint64_t seq; /* of the event event_pack_next gives next */
};

/* False when the bytes are no pack. */
bool event_pack_open(struct event_pack *p, struct str raw);

/*
 * 1: *ret_raw is the encoded event, *ret_seq its sequence; 0: the end;
 * -ERR_BAD_MESSAGE.
 */
int event_pack_next(struct event_pack *p, uint64_t *ret_seq,
		    struct str *ret_raw);

#endif
