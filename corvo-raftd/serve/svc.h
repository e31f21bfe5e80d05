/*
 * What other processes may ask raftd: operations go to the proposer, queries
 * are answered here from memory or the store.
 */
#ifndef CORVO_SVC_H
#define CORVO_SVC_H

#include "serve/parts.h"

struct svc *svc_new(struct parts *p);
void svc_free(struct svc *s);

extern const struct rpc_server_ops svc_ops;
/* For nodes that ask whoever they reach: to be taken in, and for files. */
extern const struct rpc_server_ops svc_aside_ops; /* ctx: struct svc */

/* Answers what waits for a change: the feed and due times. */
void svc_turn_end(struct svc *s);

/* The node is going away: answers what waits for a job's end. */
void svc_drain(struct svc *s);

/* Something about this node is new: the leader hears of it at once. */
void svc_tell_leader(struct svc *s);

/* Questions that wait for a job's end. */
size_t svc_waiting(const struct svc *s);

#endif
