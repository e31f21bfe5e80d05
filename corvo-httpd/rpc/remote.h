/*
 * A remote call: which method, in which form, and its answer in that form.
 */
#ifndef CORVO_REMOTE_H
#define CORVO_REMOTE_H

#include "req/req.h"
#include "rpc/form/form.h"
#include "rpc/form/status.h"
#include "rpc/pb/pb.h"

/* Answers of so many bytes are packed, if the client takes that; larger ones
 * would hold up everybody else. */
#define REMOTE_PACK_BYTES     1024
#define REMOTE_PACK_MAX_BYTES (1u << 20)

struct flow;

struct remote {
	const struct pb_method *method; /* NULL: not known yet */
	struct rpc_form form;
	bool packs;         /* the client takes gzip */
	bool unpacks;       /* messages may be packed */
	struct str message; /* of the one request */
	struct flow *flow;  /* it is a stream, see rpc/flow.h */
};

static inline struct remote *remote_of(struct req *r)
{
	return r->form_state;
}

/* Makes it one; everything is answered in its form from now on. */
struct remote *remote_begin(struct req *r, const struct rpc_form *form);

/* How its messages are packed; false: an error has been answered. */
bool remote_read_coding(struct req *r);

/*
 * The message out of the body, for a call that has one: unpacked, without its
 * envelope. False: an error has been answered.
 */
bool remote_take(struct req *r);

/* Why a message could not be unpacked. */
struct str remote_unpack_text(int err);

/* How it is read: protobuf or JSON. For messages of streams, too. */
int remote_parse(struct req *r, struct str bytes, const struct msg_reader *rd,
		 const struct pb_desc *d, void *m);
/* The same without the checks of the whole. */
int remote_parse_unchecked(struct req *r, struct str bytes,
			   const struct msg_reader *rd, const struct pb_desc *d,
			   void *m);

/* The status an error stands for. */
struct rpc_status remote_status(int err, struct str text);

/* Appends a message in its envelope, packed if that is worth it. */
void remote_put(struct remote *c, const struct pb_desc *d, const void *m,
		struct buf *out);
/* The last envelope, of protocols that have one. */
void remote_put_end(const struct remote *c, const struct rpc_status *s,
		    struct buf *out);

/* Of gRPC: how it ended, behind the body. */
void remote_set_trailers(struct req *r, const struct rpc_status *s);
/* The header that says how messages are packed, if they may be. */
void remote_name_coding(struct req *r);

#endif
