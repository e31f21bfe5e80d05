/*
 * Links between processes: ordered messages over nng's ipc:// streams. A link
 * has one listening and one dialling end, and reconnects by itself.
 *
 * nng's threads only wake the loop; all callbacks run on the loop thread, in
 * the order on_up, on_message..., on_down. What a connection did not deliver
 * is dropped with it, so on_up is always a fresh start. A peer that sends
 * more than the loop takes is held back by the socket. Never fork in a
 * process that made a struct ipc.
 */
#ifndef CORVO_IPC_H
#define CORVO_IPC_H

#include "rt/loop.h"
#include "util/buf.h"

struct ipc;
struct ipc_link;

struct ipc_ops {
	void (*on_up)(void *ctx);
	void (*on_down)(void *ctx);
	/* data is valid during the call only */
	void (*on_message)(void *ctx, const void *data, size_t n);
	/*
	 * A send that was still under way when ipc_send returned has left or
	 * is void: the moment to send what gathered meanwhile.
	 */
	void (*on_sent)(void *ctx);
};

struct ipc *ipc_new(struct loop *l);
void ipc_free(struct ipc *i); /* closes all links, joins nng's callbacks */
struct loop *ipc_loop(struct ipc *i);

/* Ends nng's threads. Last of all, in a process that has no struct ipc left. */
void ipc_exit(void);

/* path is a socket file; 0 or -ERR_INTERNAL_ERROR with text in why */
int ipc_listen(struct ipc *i, const char *path, const struct ipc_ops *ops,
	       void *ctx, struct ipc_link **ret, struct buf *why);
int ipc_dial(struct ipc *i, const char *path, const struct ipc_ops *ops,
	     void *ctx, struct ipc_link **ret, struct buf *why);

/* No callback of the link runs any more. Allowed inside its callbacks. */
void ipc_close(struct ipc_link *l);

/*
 * The peer sends what cannot be read: in on_message, ends the connection and
 * makes it anew, as after any other loss, but in no hurry when it happens
 * again and again. on_down follows; no message of the old connection does.
 */
void ipc_drop(struct ipc_link *l);

bool ipc_is_up(const struct ipc_link *l);
bool ipc_is_sending(const struct ipc_link *l); /* a send has not left yet */

/*
 * Sends the bytes as one message. At most one send is under way per link:
 * CHECKs !ipc_is_sending. -ERR_LEADER_UNAVAILABLE when the link is down,
 * -ERR_BODY_TOO_LARGE past LIMIT_MESSAGE_BYTES.
 */
int ipc_send(struct ipc_link *l, const void *data, size_t n);

#endif
