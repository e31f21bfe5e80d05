/*
 * How a remote call ended, in the words of each protocol.
 */
#ifndef CORVO_RPC_STATUS_H
#define CORVO_RPC_STATUS_H

#include "proto/err.h"
#include "util/buf.h"

#define STATUS_TEXT_BYTES 2048 /* it travels in a header */

struct rpc_status {
	int err;         /* ERR_ number; 0: it succeeded */
	struct str text; /* empty: that of the table */
	uint64_t retry_after_ms;
};

/* The status of a unary answer of Connect. */
int status_http(const struct rpc_status *s);

/* {"code":...,"message":...,"details":[...]} */
void status_json(const struct rpc_status *s, struct buf *out);
/* What the last envelope of a stream of Connect holds. */
void status_end_json(const struct rpc_status *s, struct buf *out);

/* Values of the trailers grpc-message and grpc-status-details-bin. */
void status_message(const struct rpc_status *s, struct buf *out);
void status_details(const struct rpc_status *s, struct buf *out);
/* All trailers, as the last envelope of gRPC-Web holds them. */
void status_trailers(const struct rpc_status *s, struct buf *out);

#endif
