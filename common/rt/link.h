/*
 * A link: ordered messages to one other process and back. It reconnects by
 * itself. What carries it is a matter of its kind: a socket file between
 * processes of a node (rt/ipc.h), a connection between nodes.
 *
 * All callbacks run on the loop thread, in the order on_up, on_message...,
 * on_down. What a connection did not deliver is dropped with it, so on_up is
 * always a fresh start. A peer that sends more than the loop takes is held
 * back.
 */
#ifndef CORVO_LINK_H
#define CORVO_LINK_H

#include "util/base.h"

struct link;

struct link_ops {
	void (*on_up)(void *ctx);
	void (*on_down)(void *ctx);
	/* data is valid during the call only */
	void (*on_message)(void *ctx, const void *data, size_t n);
	/*
	 * A send that was still under way when link_send returned has left or
	 * is void: the moment to send what gathered meanwhile.
	 */
	void (*on_sent)(void *ctx);
};

/* What a kind of link has to do; the functions below say what is meant. */
struct link_kind {
	void (*close)(struct link *l);
	void (*drop)(struct link *l);
	int (*send)(struct link *l, const void *data, size_t n);
};

/* The first member of a link of any kind, which keeps the rest of it true. */
struct link {
	const struct link_kind *kind;
	bool is_up;
	bool is_sending; /* a send has not left yet */
};

/* No callback of the link runs any more. Allowed inside its callbacks; NULL is
 * ignored. */
static inline void link_close(struct link *l)
{
	if (l != NULL)
		l->kind->close(l);
}

/*
 * The peer sends what cannot be read: in on_message, ends the connection and
 * makes it anew, as after any other loss, but in no hurry when it happens
 * again and again. on_down follows; no message of the old connection does.
 */
static inline void link_drop(struct link *l)
{
	l->kind->drop(l);
}

static inline bool link_is_up(const struct link *l)
{
	return l->is_up;
}

static inline bool link_is_sending(const struct link *l)
{
	return l->is_sending;
}

/*
 * Sends the bytes as one message. At most one send is under way per link:
 * CHECKs !link_is_sending. -ERR_LEADER_UNAVAILABLE when the link is down,
 * -ERR_BODY_TOO_LARGE past LIMIT_MESSAGE_BYTES.
 */
static inline int link_send(struct link *l, const void *data, size_t n)
{
	return l->kind->send(l, data, n);
}

#endif
