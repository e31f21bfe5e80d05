/*
 * Jobs that were handed out, and that nobody took: they go back at once, as if
 * they had never been fetched, and do not wait for the end of their leases.
 */
#ifndef CORVO_GIVE_BACK_H
#define CORVO_GIVE_BACK_H

#include "proto/proto.h"
#include "req/parts.h"

/* f: as fetched_give_back makes it. */
void give_back_job(struct httpd *h, const struct m_fail *f);

/*
 * All jobs of a reply to OP_FETCH: an rpc_reply_fn with struct httpd as ctx,
 * for replies that crossed with the news that nobody waits.
 */
void give_back_late(void *ctx, const struct rpc_reply *reply);

#endif
