/*
 * The handshake between nodes, without a network: both ends in one process,
 * with somebody in between who may change what they say.
 */
#ifndef CORVO_HELLO_TALK_H
#define CORVO_HELLO_TALK_H

#include <endian.h>

#include "cluster/hello.h"
#include "lib/testlib.h"

#define SECRET STR("a secret of all three")

static inline struct hello_id id_of(const char *name, uint64_t raft_id,
				    char cluster)
{
	struct hello_id id = { .raft_id = raft_id,
			       .min = HELLO_VERSION,
			       .max = HELLO_VERSION };

	memset(id.cluster.id, cluster, sizeof(id.cluster.id));
	(void)snprintf(id.name, sizeof(id.name), "%s", name);
	(void)snprintf(id.address, sizeof(id.address), "%s.example:9400", name);
	return id;
}

/* Two ends, and what was said. */
struct talk {
	struct hello_id a, b;
	struct str secret_a, secret_b;
	enum port_purpose purpose;
	struct hello d, l;
	enum hello_verdict vd, vl;
	struct buf said[2]; /* by the dialer, by the listener */
	unsigned messages;
	/* Changes a message on its way; false: it is lost. */
	bool (*between)(struct talk *t, bool by_dialer, struct buf *message);
	struct rng *rng;
	unsigned char nonce_d[HELLO_NONCE_BYTES];
	unsigned char nonce_l[HELLO_NONCE_BYTES];
};

static inline struct talk talk_of(void)
{
	struct talk t = { .a = id_of("node-1", 11, 7),
			  .b = id_of("node-2", 22, 7),
			  .secret_a = SECRET,
			  .secret_b = SECRET,
			  .purpose = PURPOSE_RPC };

	rng_system(t.nonce_d, sizeof(t.nonce_d));
	rng_system(t.nonce_l, sizeof(t.nonce_l));
	return t;
}

static inline void talk_done(struct talk *t)
{
	buf_done(&t->said[0]);
	buf_done(&t->said[1]);
}

static inline bool is_over(enum hello_verdict v)
{
	return v == HELLO_DONE || v == HELLO_REFUSED || v == HELLO_GARBAGE;
}

/* Feeds as much as it wants, a piece at a time; accepts when asked. */
static inline enum hello_verdict feed(struct hello *h, struct str bytes,
				      size_t piece)
{
	enum hello_verdict v = HELLO_GOES_ON;

	while (bytes.n > 0 && v == HELLO_GOES_ON) {
		size_t n = MIN(MIN(hello_want(h), piece), bytes.n);

		assert_true(n > 0);
		v = hello_feed(h, bytes.p, n);
		bytes = str_skip(bytes, n);
	}
	if (v == HELLO_PROVEN) {
		assert_int_equal(hello_want(h), 0);
		v = hello_accept(h);
	}
	if (is_over(v))
		assert_int_equal(hello_want(h), 0);
	return v;
}

/* Carries what `from` has to say to `to`; false: there is nothing. */
static inline bool carry(struct talk *t, struct hello *from, struct hello *to,
			 enum hello_verdict *v)
{
	_cleanup_(buf_done) struct buf m = BUF_INIT(0);
	bool by_dialer = from == &t->d;

	if (from->out_n == 0)
		return false;
	buf_append(&m, from->out, from->out_n);
	buf_append(&t->said[!by_dialer], from->out, from->out_n);
	from->out_n = 0;
	t->messages++;
	if (t->between != NULL && !t->between(t, by_dialer, &m))
		return false;
	if (!is_over(*v))
		*v = feed(to, buf_str(&m), 1 + t->messages);
	return true;
}

static inline void talk_run(struct talk *t)
{
	hello_dial(&t->d, &t->a, t->secret_a, t->nonce_d, t->purpose);
	hello_listen(&t->l, &t->b, t->secret_b, t->nonce_l);
	t->vd = t->vl = HELLO_GOES_ON;
	while (carry(t, &t->d, &t->l, &t->vl) || carry(t, &t->l, &t->d, &t->vd))
		assert_true(t->messages <= 6);
}

/* Refused, by one and understood by the other, with these words. */
static inline void assert_both_refused(const struct talk *t,
				       enum hello_code code, const char *words)
{
	assert_int_equal(t->vd, HELLO_REFUSED);
	assert_int_equal(t->vl, HELLO_REFUSED);
	assert_int_equal(t->d.code, code);
	assert_int_equal(t->l.code, code);
	assert_string_equal(t->d.why, t->l.why);
	assert_true(t->d.by_peer != t->l.by_peer);
	if (strstr(t->d.why, words) == NULL)
		fail_msg("it said \"%s\", not \"%s\"", t->d.why, words);
}

#endif
