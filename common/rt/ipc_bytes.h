/*
 * Bytes of a link on their way. For the kinds of link only.
 */
#ifndef CORVO_IPC_BYTES_H
#define CORVO_IPC_BYTES_H

#include "util/str.h"

struct ipc_head;

/* What has come and is not handed out yet. */
struct ipc_rx {
	char *p;
	size_t n, cap; /* bytes that are there, and room */
	size_t at;     /* those before were handed out */
};

/* Room for a good read; ipc_rx_done frees it. */
void ipc_rx_init(struct ipc_rx *r);
void ipc_rx_done(struct ipc_rx *r);
/* Forgets what is there. */
void ipc_rx_clear(struct ipc_rx *r);

/*
 * 1: the next whole message, which stays until ipc_rx_settle; 0: there is
 * none; -1: these are no messages.
 */
int ipc_rx_next(struct ipc_rx *r, struct str *ret);

/* What was handed out goes; then there is room for the message that has begun,
 * or for a good read, behind the n bytes that are left. */
void ipc_rx_settle(struct ipc_rx *r);

/* What could not be sent yet, from `at` on. */
struct ipc_tx {
	char *p;
	size_t at, n, cap;
};

/* Keeps a message from byte `from` of its head and data on. */
void ipc_tx_keep(struct ipc_tx *t, const struct ipc_head *h, const void *data,
		 size_t n, size_t from);

#endif
