/*
 * Remote calls: Connect, gRPC and gRPC-Web on the port of HTTP. A call is read
 * into the same messages as JSON is, and served by the same handlers.
 */
#ifndef CORVO_HTTPD_RPC_H
#define CORVO_HTTPD_RPC_H

#include "req/req.h"

/* The path is that of a remote call, or would be. */
bool rpc_is_path(struct str path);

/*
 * Its head has come. A call is answered in the form of its protocol from now
 * on, and a stream of both sides is read as it comes.
 */
void rpc_head(struct req *r);
/* How long its client waits. 0, or -ERR_ and why. */
int rpc_read_deadline(struct req *r, struct str *why);

/* How much there is to be read of one, when all that is packed is unpacked. */
size_t rpc_bytes(const struct req *r);
/* The request is answered now, or later through its call. */
void rpc_dispatch(struct req *r);

#endif
