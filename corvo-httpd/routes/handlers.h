/*
 * One function per handler name of routes.def. Each is given a complete
 * request whose route is found, and sees to it that it is answered.
 */
#ifndef CORVO_HANDLERS_H
#define CORVO_HANDLERS_H

#include "req/req.h"

#define ROUTE(method, path, handler, target, status, doc) \
	void h_##handler(struct req *r);
#include "proto/defs/routes.def"

/* For remote calls: one job, whatever the body looks like. */
void enqueue_one(struct req *r);
/* The rest of it, of a job that is read; e is in the request's arena. */
void enqueue_send(struct req *r, struct m_enqueue *e);
/* Why the node is not ready, as /readyz tells it; 0: it is. An empty text is
 * that of the error. */
int node_fault(const struct m_node_status *m, struct buf *why);
/* Asks raftd how the node is; within a second, whatever raftd does. */
void node_ask(struct req *r, req_reply_fn *then);
struct rpc_call *node_call(struct httpd *h, rpc_reply_fn *fn, void *ctx);

#endif
