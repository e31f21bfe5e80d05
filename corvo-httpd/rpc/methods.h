/*
 * What each method does.
 */
#ifndef CORVO_RPC_METHODS_H
#define CORVO_RPC_METHODS_H

#include "req/req.h"
#include "rpc/pb/pb.h"

struct method {
	const struct pb_method *pb;
	void (*serve)(struct req *r);
	const struct route *route; /* the same over HTTP, for its numbers */
};

/* By its path, "/corvo.v1.WorkerService/Ack"; false: there is none. */
bool method_find(struct str path, struct method *ret);

#endif
