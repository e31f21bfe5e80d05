/*
 * The handshake between nodes, with a peer who says anything: whatever he says,
 * nobody is let in who does not know the secret.
 */
#include <stdio.h>

#include "cluster/hello.h"
#include "fuzz.h"

static const unsigned char nonce[HELLO_NONCE_BYTES] = { 1, 2, 3 };

static struct hello_id id_of(const char *name, uint64_t raft_id)
{
	struct hello_id id = { .raft_id = raft_id,
			       .min = HELLO_VERSION,
			       .max = HELLO_VERSION };

	memset(id.cluster.id, 7, sizeof(id.cluster.id));
	(void)snprintf(id.name, sizeof(id.name), "%s", name);
	(void)snprintf(id.address, sizeof(id.address), "%s:9400", name);
	return id;
}

static void begin(struct hello *h, bool dials, struct str secret)
{
	struct hello_id me = id_of(dials ? "node-1" : "node-2", 1 + !dials);

	memset(h, 0, sizeof(*h));
	if (dials)
		hello_dial(h, &me, secret, nonce, PURPOSE_RPC);
	else
		hello_listen(h, &me, secret, nonce);
}

static enum hello_verdict listen_to(struct hello *h, struct str in)
{
	enum hello_verdict v = HELLO_GOES_ON;
	size_t n;

	while ((n = MIN(hello_want(h), in.n)) > 0 && v == HELLO_GOES_ON) {
		v = hello_feed(h, in.p, n);
		in = str_skip(in, n);
		CHECK(h->out_n <= sizeof(h->out));
		h->out_n = 0;
	}
	return v;
}

/* Two that know the secret; the bytes are put over what the first ones say. */
static void changed(struct str in, bool dials)
{
	struct hello us, peer;
	unsigned at = fuzz_choice(&in, 200);
	struct buf said = BUF_INIT(0);

	begin(&us, dials, STR("a secret"));
	begin(&peer, !dials, STR("a secret"));
	for (unsigned step = 0; step < 4; step++) {
		struct hello *from = (step % 2 == 0) == dials ? &us : &peer;
		struct hello *to = from == &us ? &peer : &us;

		buf_clear(&said);
		buf_append(&said, from->out, from->out_n);
		from->out_n = 0;
		if (from == &peer && at < said.n)
			memcpy(said.p + at, in.p, MIN(in.n, said.n - at));
		if (listen_to(to, buf_str(&said)) == HELLO_PROVEN &&
		    hello_accept(to) == HELLO_REFUSED)
			break;
	}
	CHECK(us.peer.name[HELLO_NAME_BYTES] == '\0');
	buf_done(&said);
}

void fuzz_one(struct str in)
{
	unsigned how = fuzz_choice(&in, 4);
	enum hello_verdict v;
	struct hello h;

	if (how >= 2) {
		changed(in, how == 2);
		return;
	}
	begin(&h, how == 0, STR("a secret"));
	h.out_n = 0;
	v = listen_to(&h, in);
	CHECK(v != HELLO_PROVEN && v != HELLO_DONE);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	unsigned how = (unsigned)rng_below(rng, 4);
	struct hello h;

	buf_putc(out, (char)how);
	if (how >= 2)
		buf_putc(out, (char)rng_below(rng, 200));
	begin(&h, rng_below(rng, 2) == 0, STR("another secret"));
	buf_append(out, h.out, h.out_n);
}
