/*
 * Shared by rpc.c and rpc_server.c only: the hello, and limits of frames.
 */
#ifndef CORVO_RPC_IMPL_H
#define CORVO_RPC_IMPL_H

#include "rt/rpc.h"

/* A frame that has so many bytes takes no further item. */
#define RPC_FRAME_BYTES (8u << 20)
/* A buffer larger than that is not kept for the next frame. */
#define RPC_KEEP_BYTES (1u << 20)

/* Sends our hello; origin: of our requests, if any. 0 or as ipc_send. */
int rpc_hello_send(struct ipc_link *l, enum proc_id self, uint64_t epoch,
		   uint64_t origin, struct buf *scratch);

/* True when the peer has our tables; otherwise says both versions in the log.
 */
bool rpc_hello_check(const struct frame_hello *h, const char *path);

/* Empties a buffer that was sent. */
void rpc_buf_reuse(struct buf *b);

#endif
