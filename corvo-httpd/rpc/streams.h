/*
 * Methods that answer with a stream, besides StreamLifecycle.
 */
#ifndef CORVO_RPC_STREAMS_H
#define CORVO_RPC_STREAMS_H

#include "req/req.h"

void serve_subscribe(struct req *r);
void serve_health_check(struct req *r); /* no stream */
void serve_health_watch(struct req *r);
void serve_reflection(struct req *r);

#endif
