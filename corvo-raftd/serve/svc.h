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

/* The process ends, drained or not: nothing more is given to its threads. */
void svc_end_work(struct svc *s);

/* The entry applied last was a mark: this node makes a digest of its store, to
 * be compared with those of others. */
void svc_compare(struct svc *s);
/* Something about this node is new: the leader hears of it at once. */
void svc_tell_leader(struct svc *s);

/*
 * This node leaves its cluster: another one leads, and has removed it. fn is
 * called once, soon, with err 0 or a positive ERR_ number and a sentence.
 * NULL; or why it cannot, and then fn is not called.
 */
typedef void svc_left_fn(void *ctx, int err, struct str text);
const char *svc_leave(struct svc *s, svc_left_fn *fn, void *ctx);
/* The process ends, and neither the node nor who asks the leader is there any
 * more: who waits for the end of a leave hears that nobody knows it. */
void svc_end_leave(struct svc *s);

/* The port for other nodes goes: whoever is being invited is let be. */
void svc_end_invites(struct svc *s);

/* Questions that wait for a job's end. */
size_t svc_waiting(const struct svc *s);

#endif
