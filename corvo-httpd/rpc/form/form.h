/*
 * The protocols of remote calls, as far as they are bytes: which one a request
 * speaks, its deadline, its envelopes. All of it comes from clients.
 */
#ifndef CORVO_RPC_FORM_H
#define CORVO_RPC_FORM_H

#include "util/buf.h"

enum rpc_protocol {
	RPC_CONNECT,        /* one message each way, the body is the message */
	RPC_CONNECT_STREAM, /* envelopes, the last one has the status */
	RPC_GRPC,           /* envelopes, the status is in trailers */
	RPC_GRPC_WEB,       /* envelopes, the last one has the trailers */
};

struct rpc_form {
	enum rpc_protocol protocol;
	bool is_json; /* else protobuf */
	bool is_text; /* the body is base64 of the envelopes: gRPC-Web */
};

/* By Content-Type; false: it is none of them, or NULL. */
bool form_parse(const char *content_type, struct rpc_form *ret);
const char *form_content_type(const struct rpc_form *f);
/* What can be sent, for a client that sent something else. */
const char *form_content_types(void);

static inline bool form_has_envelopes(const struct rpc_form *f)
{
	return f->protocol != RPC_CONNECT;
}

/*
 * How long the client waits, in nanoseconds: grpc-timeout ("100m") and
 * Connect-Timeout-Ms ("100"). False: it cannot be read.
 */
bool form_grpc_timeout(const char *text, uint64_t *ret_ns);
bool form_connect_timeout(const char *text, uint64_t *ret_ns);

/* Whether a list of codings, as clients send it, has gzip; NULL: it has not. */
bool form_takes_gzip(const char *list);

/*
 * A body of gRPC-Web as text: base64, of one piece or of several with their
 * padding each. False: it is none.
 */
bool form_read_text(struct str text, struct buf *out);

/* --- envelopes --- */

#define ENVELOPE_HEAD     5
#define ENVELOPE_PACKED   0x01u
#define ENVELOPE_END      0x02u /* Connect: the status */
#define ENVELOPE_TRAILERS 0x80u /* gRPC-Web: the trailers */

struct envelope {
	unsigned flags;
	struct str data; /* a slice of what was read */
};

/*
 * Takes the next one off *in: 1; 0: it has not come completely, *in stays;
 * -ERR_BODY_TOO_LARGE: it would have more than max bytes, which is known from
 * its head; -ERR_PARSE_ERROR: flags that no client sends.
 */
int envelope_next(struct str *in, size_t max, struct envelope *ret);

/*
 * Where the envelope ends that begins before p[at]; p has whole ones, each of
 * them a piece of base64 if they are text.
 */
size_t envelope_end(const char *p, size_t at, size_t n);
size_t envelope_end_text(const char *p, size_t at, size_t n);

void envelope_write(struct buf *out, unsigned flags, struct str data);
/* The same of what is appended between the two. */
size_t envelope_open(struct buf *out, unsigned flags);
void envelope_close(struct buf *out, size_t start);

#endif
