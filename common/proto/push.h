/*
 * Rules of push queues that more than one process knows: which URLs can be
 * called, and what a push queue's settings may say. Both come from clients.
 */
#ifndef CORVO_PUSH_H
#define CORVO_PUSH_H

#include "proto/proto.h"

#define PUSH_TIMEOUT_NS  (30 * NS_PER_S) /* of a call, where nothing is set */
#define PUSH_CONCURRENCY 16

struct push_url {
	bool tls;
	struct str credentials; /* user:password, or empty */
	struct str host;        /* of an IPv6 address without brackets */
	uint16_t port;
	struct str rest; /* path and query, perhaps empty */
};

/* The parts of an http or https URL, as slices; else why not, in a clause. */
bool push_url_parse(struct str url, struct push_url *ret, const char **why);

/* The URL without its credentials: itself, or made in the arena. */
struct str push_url_bare(struct str url, const struct push_url *parts,
			 struct arena *a);

/* Settings as they would be stored. -ERR_VALIDATION_ERROR, naming the member.
 */
int push_check(const struct m_push *p, struct arena *a, struct buf *why);

/* The bytes that a secret signs with; false: it is none. */
bool push_secret_key(struct str secret, struct buf *ret);

/* A header whose value is for the receiver's eyes only. */
bool push_header_is_secret(struct str name);

#endif
