/*
 * The stream between two nodes before the library sees it. Bytes that come in
 * pieces have the same verdict as all at once.
 */
#include "cluster/raft_wire.h"
#include "fuzz.h"
#include "util/le.h"

static const char *feed(struct str in, size_t piece)
{
	struct raft_wire w = { 0 };
	const char *bad = NULL;

	while (in.n > 0 && bad == NULL) {
		size_t n = MIN(piece, in.n);

		bad = raft_wire_feed(&w, str_of(in.p, n));
		in = str_skip(in, n);
	}
	return bad;
}

void fuzz_one(struct str in)
{
	size_t piece = 1 + fuzz_choice(&in, 60);

	CHECK((feed(in, in.n + 1) == NULL) == (feed(in, piece) == NULL));
}

static void put(struct buf *out, uint64_t v)
{
	char p[8];

	(void)put_le64(p, v);
	buf_append(out, p, sizeof(p));
}

/* A message of that type with so many numbers in its header. */
static void put_message(struct buf *out, uint64_t type, unsigned n)
{
	put(out, type);
	put(out, 8 * n);
	for (unsigned i = 0; i < n; i++)
		put(out, i % 2);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	buf_putc(out, (char)rng_u64(rng));
	for (uint64_t n = 1 + rng_below(rng, 3); n > 0; n--)
		put_message(out, 1 + rng_below(rng, 6),
			    (unsigned)rng_below(rng, 9));
}
