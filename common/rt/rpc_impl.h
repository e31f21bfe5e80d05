/*
 * Shared by rpc.c and rpc_server.c only: the hello, and limits of frames.
 */
#ifndef CORVO_RPC_IMPL_H
#define CORVO_RPC_IMPL_H

#include "rt/rpc.h"

/* A frame that has so many bytes takes no further item. */
#define RPC_FRAME_BYTES (8u << 20)
/* An answer of more is a frame of its own, and small ones go before it. */
#define RPC_SMALL_BYTES (64u << 10)
/* Of such a one at a time, so that small ones go between. */
#define RPC_PART_BYTES (64u << 10)
/* While answers of so many bytes wait to be sent, a peer has no room. */
#define RPC_QUEUE_BYTES (8u << 20)
/* A buffer larger than that is not kept for the next frame. */
#define RPC_KEEP_BYTES (1u << 20)

/* Sends our hello; origin: of our requests, if any. 0 or as link_send. */
int rpc_hello_send(struct link *l, enum proc_id self, uint64_t epoch,
		   uint64_t origin, struct buf *scratch);

/* True when the peer has our tables; otherwise says both versions in the log.
 */
bool rpc_hello_check(const struct frame_hello *h, const char *path);

/* In a frame from node to node, which have no clock in common. */
static inline uint64_t rpc_time_left(uint64_t deadline_ns, uint64_t now_ns)
{
	if (deadline_ns == 0)
		return 0;
	return deadline_ns > now_ns ? deadline_ns - now_ns : 1;
}

/* Empties a buffer that was sent. */
void rpc_buf_reuse(struct buf *b);

#endif
