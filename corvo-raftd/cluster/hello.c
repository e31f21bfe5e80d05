/*
 * See cluster/hello.h. What comes in is from anybody who can reach the port:
 * lengths are checked before use, texts before they may be logged, and nothing
 * is allocated.
 */
#include "cluster/hello.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/sha256.h"

#define MAGIC        "CRVP"
#define LENGTH_BYTES 2

enum kind {
	KIND_HELLO_D = 1,
	KIND_HELLO_L = 2,
	KIND_PROOF_D = 3,
	KIND_OK = 4,
	KIND_REFUSED = 5,
};

/* What an end waits for. */
enum step {
	STEP_HELLO_D,
	STEP_HELLO_L,
	STEP_PROOF_D,
	STEP_OK,
	STEP_OWNER, /* to accept or refuse */
	STEP_END,
};

static const char word_dialer[] = "corvo dialer";
static const char word_listener[] = "corvo listener";

const char *purpose_name(enum port_purpose p)
{
	static const char *const names[PURPOSE_END] = {
		[PURPOSE_RAFT] = "raft",
		[PURPOSE_RPC] = "rpc",
		[PURPOSE_FILES] = "files",
		[PURPOSE_JOIN] = "join",
	};

	return (unsigned)p < PURPOSE_END && names[p] != NULL ? names[p]
							     : "unknown";
}

bool hello_name_ok(struct str s)
{
	return str_is_name(s, HELLO_NAME_BYTES);
}

bool hello_address_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n > 0 && s.n <= HELLO_ADDRESS_BYTES;
}

/* --- writing --- */

/* A message of our own, which always fits. */
struct out {
	unsigned char *p;
	size_t n;
};

static void put(struct out *o, const void *bytes, size_t n)
{
	CHECK(n <= HELLO_BYTES - o->n);
	memcpy(o->p + o->n, bytes, n);
	o->n += n;
}

static void put_u8(struct out *o, size_t v)
{
	unsigned char byte = (unsigned char)v;

	CHECK(v <= UINT8_MAX);
	put(o, &byte, 1);
}

static void put_u16(struct out *o, uint16_t v)
{
	v = htobe16(v);
	put(o, &v, sizeof(v));
}

static void put_u64(struct out *o, uint64_t v)
{
	v = htobe64(v);
	put(o, &v, sizeof(v));
}

static void put_text(struct out *o, const char *text)
{
	put_u8(o, strlen(text));
	put(o, text, strlen(text));
}

static size_t put_hello(unsigned char *to, enum kind kind,
			const struct hello *h,
			const unsigned char nonce[HELLO_NONCE_BYTES])
{
	struct out o = { to, 0 };

	put_u8(&o, kind);
	put(&o, MAGIC, strlen(MAGIC));
	put_u16(&o, h->me.min);
	put_u16(&o, h->me.max);
	put_u8(&o, h->purpose);
	put(&o, h->me.cluster.id, sizeof(h->me.cluster.id));
	put_u64(&o, h->me.raft_id);
	put_text(&o, h->me.name);
	put_text(&o, h->me.address);
	put(&o, nonce, HELLO_NONCE_BYTES);
	return o.n;
}

/* Puts its length before a message written behind the place for it. */
static void send_out(struct hello *h, const struct out *o)
{
	uint16_t len = htobe16((uint16_t)o->n);

	CHECK(o->p == h->out + LENGTH_BYTES && h->out_n == 0);
	memcpy(h->out, &len, LENGTH_BYTES);
	h->out_n = LENGTH_BYTES + o->n;
}

static struct out begin_out(struct hello *h)
{
	return (struct out){ h->out + LENGTH_BYTES, 0 };
}

static void prove(const struct hello *h, const char *word,
		  unsigned char ret[SHA256_BYTES])
{
	struct hmac_sha256 m;

	hmac_sha256_init(&m, h->secret);
	hmac_sha256_add(&m, str_from(word));
	hmac_sha256_add(&m, str_of(h->d, h->d_n));
	hmac_sha256_add(&m, str_of(h->l, h->l_n));
	hmac_sha256_end(&m, ret);
}

/* --- verdicts --- */

static enum hello_verdict garbage(struct hello *h)
{
	h->step = STEP_END;
	h->out_n = 0;
	return HELLO_GARBAGE;
}

enum hello_verdict hello_refuse(struct hello *h, enum hello_code code,
				const char *fmt, ...)
{
	struct out o = begin_out(h);
	va_list ap;

	CHECK(h->step != STEP_END);
	va_start(ap, fmt);
	(void)vsnprintf(h->why, sizeof(h->why), fmt, ap);
	va_end(ap);
	h->code = code;
	h->step = STEP_END;
	put_u8(&o, KIND_REFUSED);
	put_u8(&o, code);
	put(&o, h->why, strlen(h->why));
	send_out(h, &o);
	return HELLO_REFUSED;
}

enum hello_verdict hello_accept(struct hello *h)
{
	struct out o = begin_out(h);
	unsigned char proof[SHA256_BYTES];

	CHECK(h->step == STEP_OWNER);
	if (!h->dialer) {
		put_u8(&o, KIND_OK);
		send_out(h, &o);
		h->step = STEP_END;
		return HELLO_DONE;
	}
	prove(h, word_dialer, proof);
	put_u8(&o, KIND_PROOF_D);
	put(&o, proof, sizeof(proof));
	send_out(h, &o);
	h->step = STEP_OK;
	return HELLO_GOES_ON;
}

static enum hello_verdict refuse_version(struct hello *h)
{
	return hello_refuse(h, HELLO_NO_VERSION,
			    "%s speaks versions %u to %u of the protocol "
			    "between nodes and the other one %u to %u; upgrade "
			    "the older node",
			    h->me.name, h->me.min, h->me.max, h->peer.min,
			    h->peer.max);
}

static enum hello_verdict refuse_secret(struct hello *h)
{
	return hello_refuse(h, HELLO_SECRET,
			    "%s and %s do not have the same cluster secret; "
			    "give both the same cluster_secret_file",
			    h->me.name, h->peer.name);
}

static enum hello_verdict refuse_cluster(struct hello *h)
{
	_cleanup_(buf_done) struct buf mine = BUF_INIT(0);
	_cleanup_(buf_done) struct buf theirs = BUF_INIT(0);

	history_put(&mine, &h->me.cluster);
	history_put(&theirs, &h->peer.cluster);
	return hello_refuse(h, HELLO_CLUSTER,
			    "%s is a node of the cluster %.*s and %s of the "
			    "cluster %.*s; one of them has the address or the "
			    "data directory of another cluster",
			    h->me.name, STR_ARG(buf_str(&mine)), h->peer.name,
			    STR_ARG(buf_str(&theirs)));
}

static enum hello_verdict refuse_same(struct hello *h)
{
	return hello_refuse(h, HELLO_SAME_NODE,
			    "%s and %s have the same raft id; an address "
			    "leads back to the node itself, or two nodes run "
			    "with copies of one data directory",
			    h->me.name, h->peer.name);
}

/* --- reading --- */

struct in {
	const unsigned char *p;
	size_t n;
	bool bad; /* something was missing */
};

static const void *take(struct in *i, size_t n)
{
	static const unsigned char none[HELLO_BYTES];
	const unsigned char *p = i->p;

	i->bad = i->bad || n > i->n;
	if (i->bad)
		return none;
	i->p += n;
	i->n -= n;
	return p;
}

static unsigned take_u8(struct in *i)
{
	return *(const unsigned char *)take(i, 1);
}

static uint16_t take_u16(struct in *i)
{
	uint16_t v;

	memcpy(&v, take(i, sizeof(v)), sizeof(v));
	return be16toh(v);
}

static uint64_t take_u64(struct in *i)
{
	uint64_t v;

	memcpy(&v, take(i, sizeof(v)), sizeof(v));
	return be64toh(v);
}

static void take_text(struct in *i, char *ret, size_t max,
		      bool (*ok)(struct str))
{
	size_t n = take_u8(i);
	const void *p = take(i, n);

	i->bad = i->bad || n > max || !ok(str_of(p, n));
	if (i->bad)
		n = 0;
	memcpy(ret, p, n);
	ret[n] = '\0';
}

/*
 * What the peer says of itself. The versions are read first and alone: what
 * follows them may look different in a version we do not know.
 */
static bool take_versions(struct hello *h, struct in *i)
{
	if (memcmp(take(i, strlen(MAGIC)), MAGIC, strlen(MAGIC)) != 0)
		return false;
	h->peer.min = take_u16(i);
	h->peer.max = take_u16(i);
	return !i->bad && h->peer.min > 0 && h->peer.min <= h->peer.max;
}

static bool choose_version(struct hello *h)
{
	h->version = MIN(h->me.max, h->peer.max);
	return h->version >= MAX(h->me.min, h->peer.min);
}

static bool take_id(struct hello *h, struct in *i, unsigned *ret_purpose)
{
	struct hello_id *p = &h->peer;

	*ret_purpose = take_u8(i);
	memcpy(p->cluster.id, take(i, sizeof(p->cluster.id)),
	       sizeof(p->cluster.id));
	p->raft_id = take_u64(i);
	take_text(i, p->name, HELLO_NAME_BYTES, hello_name_ok);
	take_text(i, p->address, HELLO_ADDRESS_BYTES, hello_address_ok);
	(void)take(i, HELLO_NONCE_BYTES);
	return !i->bad && p->raft_id != 0;
}

static bool is_other_cluster(const struct hello *h)
{
	return h->purpose != PURPOSE_JOIN && !history_is_none(&h->me.cluster) &&
	       !history_is_none(&h->peer.cluster) &&
	       !history_eq(&h->me.cluster, &h->peer.cluster);
}

/* What the peer says of itself does not fit; HELLO_GOES_ON: it does. */
static enum hello_verdict judge_peer(struct hello *h)
{
	if (h->peer.raft_id == h->me.raft_id)
		return refuse_same(h);
	if (is_other_cluster(h))
		return refuse_cluster(h);
	return HELLO_GOES_ON;
}

/* The peer refuses; its words go to the log. */
static enum hello_verdict take_refusal(struct hello *h, struct in *i)
{
	size_t n;

	h->code = (enum hello_code)take_u8(i);
	if (i->bad)
		return garbage(h);
	n = MIN(i->n, sizeof(h->why) - 1);
	for (size_t at = 0; at < n; at++)
		h->why[at] =
		    i->p[at] < ' ' || i->p[at] > '~' ? '?' : (char)i->p[at];
	h->why[n] = '\0';
	h->by_peer = true;
	h->step = STEP_END;
	return HELLO_REFUSED;
}

/* Answers a HELLO_D. The nonce for it has been waiting in l. */
static enum hello_verdict take_hello_d(struct hello *h, struct in *i,
				       struct str message)
{
	unsigned char nonce[HELLO_NONCE_BYTES], proof[SHA256_BYTES];
	enum hello_verdict v;
	unsigned purpose;
	struct out o;

	if (!take_versions(h, i))
		return garbage(h);
	if (!choose_version(h))
		return refuse_version(h);
	if (!take_id(h, i, &purpose))
		return garbage(h);
	if (purpose == 0 || purpose >= PURPOSE_END)
		return hello_refuse(h, HELLO_BAD_PURPOSE,
				    "%s does not know what a connection of "
				    "kind %u is for; upgrade the older node",
				    h->me.name, purpose);
	h->purpose = (enum port_purpose)purpose;
	v = judge_peer(h);
	if (v != HELLO_GOES_ON)
		return v;
	memcpy(h->d, message.p, message.n);
	h->d_n = message.n;
	memcpy(nonce, h->l, sizeof(nonce));
	h->l_n = put_hello(h->l, KIND_HELLO_L, h, nonce);
	prove(h, word_listener, proof);
	o = begin_out(h);
	put(&o, h->l, h->l_n);
	put(&o, proof, sizeof(proof));
	send_out(h, &o);
	h->step = STEP_PROOF_D;
	return HELLO_GOES_ON;
}

static enum hello_verdict take_hello_l(struct hello *h, struct in *i,
				       struct str message)
{
	unsigned char proof[SHA256_BYTES];
	enum hello_verdict v;
	unsigned purpose;

	if (!take_versions(h, i))
		return garbage(h);
	if (!choose_version(h))
		return refuse_version(h);
	if (!take_id(h, i, &purpose) || purpose != h->purpose ||
	    i->n < sizeof(proof))
		return garbage(h);
	h->l_n = message.n - sizeof(proof);
	memcpy(h->l, message.p, h->l_n);
	prove(h, word_listener, proof);
	if (!secret_eq(proof, message.p + h->l_n, sizeof(proof)))
		return refuse_secret(h);
	v = judge_peer(h);
	if (v != HELLO_GOES_ON)
		return v;
	h->step = STEP_OWNER;
	return HELLO_PROVEN;
}

static enum hello_verdict take_proof_d(struct hello *h, const struct in *i)
{
	unsigned char proof[SHA256_BYTES];

	if (i->n != sizeof(proof))
		return garbage(h);
	prove(h, word_dialer, proof);
	if (!secret_eq(proof, i->p, sizeof(proof)))
		return refuse_secret(h);
	h->step = STEP_OWNER;
	return HELLO_PROVEN;
}

static enum hello_verdict take_ok(struct hello *h, const struct in *i)
{
	if (i->n != 0)
		return garbage(h);
	h->step = STEP_END;
	return HELLO_DONE;
}

static enum hello_verdict take_message(struct hello *h, struct str message)
{
	struct in i = { (const unsigned char *)message.p, message.n, false };
	unsigned kind = take_u8(&i);

	/* nobody has said anything yet that could be refused */
	if (kind == KIND_REFUSED && h->step != STEP_HELLO_D)
		return take_refusal(h, &i);
	if (kind == KIND_HELLO_D && h->step == STEP_HELLO_D)
		return take_hello_d(h, &i, message);
	if (kind == KIND_HELLO_L && h->step == STEP_HELLO_L)
		return take_hello_l(h, &i, message);
	if (kind == KIND_PROOF_D && h->step == STEP_PROOF_D)
		return take_proof_d(h, &i);
	if (kind == KIND_OK && h->step == STEP_OK)
		return take_ok(h, &i);
	return garbage(h);
}

static size_t message_len(const struct hello *h)
{
	uint16_t len;

	memcpy(&len, h->in, sizeof(len));
	return be16toh(len);
}

size_t hello_want(const struct hello *h)
{
	if (h->step >= STEP_OWNER)
		return 0;
	if (h->in_n < LENGTH_BYTES)
		return LENGTH_BYTES - h->in_n;
	return LENGTH_BYTES + message_len(h) - h->in_n;
}

enum hello_verdict hello_feed(struct hello *h, const void *bytes, size_t n)
{
	size_t len;

	CHECK(n <= hello_want(h));
	memcpy(h->in + h->in_n, bytes, n);
	h->in_n += n;
	if (h->in_n < LENGTH_BYTES)
		return HELLO_GOES_ON;
	len = message_len(h);
	if (len == 0 || len > HELLO_BYTES)
		return garbage(h);
	if (h->in_n < LENGTH_BYTES + len)
		return HELLO_GOES_ON;
	h->in_n = 0;
	/* Nothing may come before what we said has left. */
	if (h->out_n > 0)
		return garbage(h);
	return take_message(h, str_of(h->in + LENGTH_BYTES, len));
}

/* --- the beginning --- */

static void begin(struct hello *h, const struct hello_id *me, struct str secret)
{
	CHECK(hello_name_ok(str_from(me->name)) &&
	      hello_address_ok(str_from(me->address)) && me->raft_id != 0 &&
	      me->min > 0 && me->min <= me->max);
	*h = (struct hello){ .me = *me, .secret = secret };
}

void hello_dial(struct hello *h, const struct hello_id *me, struct str secret,
		const unsigned char nonce[HELLO_NONCE_BYTES],
		enum port_purpose purpose)
{
	struct out o;

	begin(h, me, secret);
	h->dialer = true;
	h->purpose = purpose;
	h->step = STEP_HELLO_L;
	h->d_n = put_hello(h->d, KIND_HELLO_D, h, nonce);
	o = begin_out(h);
	put(&o, h->d, h->d_n);
	send_out(h, &o);
}

void hello_listen(struct hello *h, const struct hello_id *me, struct str secret,
		  const unsigned char nonce[HELLO_NONCE_BYTES])
{
	begin(h, me, secret);
	h->step = STEP_HELLO_D;
	memcpy(h->l, nonce, HELLO_NONCE_BYTES);
}
