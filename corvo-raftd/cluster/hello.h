/*
 * The handshake with which every connection between nodes begins: who they
 * are, that both know the cluster's secret, and what the connection is for.
 * Bytes in, bytes out; no I/O.
 *
 *   dialer   -> HELLO_D: who it is and a random number
 *   listener -> HELLO_L: the same of itself, and a proof over both
 *   dialer   -> PROOF_D: its own proof over both
 *   listener -> OK
 *
 * or, in the place of any answer, REFUSED with a code and a sentence, after
 * which both close. A message is its length (two bytes, highest first) and its
 * bytes, of which the first is its kind; numbers have their highest byte
 * first. The proofs are HMAC-SHA256 under the secret, over a word for the role
 * and both hellos, so that none can be used again, elsewhere or by the other
 * side. What a later version adds to a hello stands behind what is known here
 * and is only part of the proofs.
 *
 * Nobody sends anything behind a message before it was answered, and nothing
 * beyond hello_want is read: not a byte of what follows the handshake gets
 * lost in it. What follows is not protected by it.
 */
#ifndef CORVO_HELLO_H
#define CORVO_HELLO_H

#include "proto/limits.h"
#include "proto/origin.h"
#include "util/base.h"

/* What a connection is for; on the wire, as all numbers here. */
enum port_purpose {
	PURPOSE_RAFT = 1, /* the stream is the raft library's */
	PURPOSE_RPC = 2,  /* messages */
	PURPOSE_FILES = 3,
	PURPOSE_JOIN = 4, /* messages of a node that is no member yet */
};
#define PURPOSE_END 5 /* one more than the last */

const char *purpose_name(enum port_purpose p);

#define HELLO_VERSION       1
#define HELLO_NAME_BYTES    LIMIT_NODE_NAME_BYTES
#define HELLO_ADDRESS_BYTES 255
#define HELLO_BYTES         1024 /* of one message */
#define HELLO_WHY_BYTES     512
#define HELLO_NONCE_BYTES   32

/* Who an end says it is. */
struct hello_id {
	struct history cluster; /* none: not in a cluster yet */
	uint64_t raft_id;
	uint16_t min, max; /* versions of what is spoken between nodes */
	char name[HELLO_NAME_BYTES + 1];
	char address[HELLO_ADDRESS_BYTES + 1]; /* host:port to dial it */
};

enum hello_code {
	HELLO_SECRET = 1,
	HELLO_CLUSTER = 2,
	HELLO_NO_VERSION = 3,
	HELLO_NO_MEMBER = 4,
	HELLO_BAD_PURPOSE = 5,
	HELLO_SAME_NODE = 6,
	HELLO_OTHER_NODE = 7,
};

enum hello_verdict {
	HELLO_GOES_ON,
	/* The peer knows the secret: hello_accept or hello_refuse. */
	HELLO_PROVEN,
	/* When `out` has left, the connection is there for its purpose. */
	HELLO_DONE,
	/* When `out` has left, it is to be closed; `code` and `why` say why. */
	HELLO_REFUSED,
	/* To be closed without a word: the peer does not speak this. */
	HELLO_GARBAGE,
};

struct hello {
	int step;
	bool dialer;
	bool by_peer; /* it refused */
	enum port_purpose purpose;
	uint16_t version;         /* the highest that both speak */
	struct hello_id me, peer; /* the peer's is proven with HELLO_PROVEN */
	struct str secret;
	enum hello_code code;
	char why[HELLO_WHY_BYTES];
	unsigned char out[2 + HELLO_BYTES]; /* to be sent, then out_n = 0 */
	size_t out_n;
	/* inside */
	unsigned char in[2 + HELLO_BYTES];
	size_t in_n;
	unsigned char d[HELLO_BYTES]; /* HELLO_D */
	size_t d_n;
	unsigned char l[HELLO_BYTES]; /* HELLO_L without its proof */
	size_t l_n;
};

/*
 * Both CHECK what `me` says. The bytes of the secret must outlive the
 * handshake; none at all is one, too. `nonce` must come from rng_system. A
 * dialer has its first message in `out`.
 */
void hello_dial(struct hello *h, const struct hello_id *me, struct str secret,
		const unsigned char nonce[HELLO_NONCE_BYTES],
		enum port_purpose purpose);
void hello_listen(struct hello *h, const struct hello_id *me, struct str secret,
		  const unsigned char nonce[HELLO_NONCE_BYTES]);

/* How many bytes it takes next, at most; 0: none now. */
size_t hello_want(const struct hello *h);
/* CHECKs n <= hello_want. What is in `out` afterwards is to be sent. */
enum hello_verdict hello_feed(struct hello *h, const void *bytes, size_t n);

/* After HELLO_PROVEN. */
enum hello_verdict hello_accept(struct hello *h);
_printf_(3, 4) enum hello_verdict
    hello_refuse(struct hello *h, enum hello_code code, const char *fmt, ...);

/* Whether it can be a node's name, or an address: also safe to be logged. */
bool hello_name_ok(struct str name);
bool hello_address_ok(struct str address);

#endif
