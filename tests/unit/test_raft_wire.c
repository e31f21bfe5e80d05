/*
 * What a raft stream may carry: the library's messages, however they are cut
 * into pieces, and none whose lengths would have it read or keep what is not
 * there.
 */
#include "cluster/raft_wire.h"

#include <raft.h>

#include "lib/testlib.h"
#include "util/buf.h"
#include "util/le.h"
#include "util/rng.h"

enum { APPEND = 1, APPEND_RESULT, VOTE, VOTE_RESULT, SNAPSHOT, TIMEOUT_NOW };
enum { COMMAND = 1, BARRIER, MEMBERS };

static void put_number(struct buf *b, uint64_t v)
{
	char bytes[8];

	(void)put_le64(bytes, v);
	buf_append(b, bytes, sizeof(bytes));
}

static void put_numbers(struct buf *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put_number(b, 1000 + i);
}

/* As the library encodes them. */
static void put_members(struct buf *b, unsigned n)
{
	struct raft_configuration c;
	struct raft_buffer bytes;

	raft_configuration_init(&c);
	for (unsigned i = 0; i < n; i++) {
		char address[64];

		(void)snprintf(address, sizeof(address), "node-%u.example:9400",
			       i);
		assert_int_equal(
		    raft_configuration_add(&c, i + 1, address, (int)i % 3), 0);
	}
	assert_int_equal(raft_configuration_encode(&c, &bytes), 0);
	buf_append(b, bytes.base, bytes.len);
	raft_free(bytes.base);
	raft_configuration_close(&c);
}

static void put_fixed(struct buf *b, uint64_t type, unsigned numbers)
{
	put_number(b, type);
	put_number(b, 8 * numbers);
	put_numbers(b, numbers);
}

static void put_entry(struct buf *b, unsigned type, size_t bytes)
{
	char rest[8] = { (char)type };

	put_number(b, 7);
	(void)put_le32(rest + 4, (uint32_t)bytes);
	buf_append(b, rest, sizeof(rest));
}

/* Entries of these types; one of members has three of them. */
static void put_append(struct buf *b, const unsigned *types, unsigned n)
{
	_cleanup_(buf_done) struct buf payload = BUF_INIT(0);

	put_number(b, APPEND);
	put_number(b, 48 + 16 * n);
	put_numbers(b, 4);
	put_number(b, n);
	for (unsigned i = 0; i < n; i++) {
		size_t before = payload.n;

		if (types[i] == MEMBERS)
			put_members(&payload, 3);
		else
			put_numbers(&payload, types[i] == BARRIER ? 1 : 50);
		put_entry(b, types[i], payload.n - before);
	}
	put_number(b, 0);
	buf_put_str(b, buf_str(&payload));
}

static void put_snapshot(struct buf *b)
{
	_cleanup_(buf_done) struct buf members = BUF_INIT(0);

	put_members(&members, 5);
	put_number(b, SNAPSHOT);
	put_number(b, 56 + members.n);
	put_numbers(b, 4);
	put_number(b, members.n);
	buf_put_str(b, buf_str(&members));
	put_number(b, 24);
	put_number(b, 0);
	put_numbers(b, 3);
}

static void put_all(struct buf *b)
{
	static const unsigned types[] = { COMMAND, MEMBERS, MEMBERS,
					  BARRIER, COMMAND, MEMBERS };

	put_fixed(b, VOTE, 5);
	put_append(b, types, ARRAY_SIZE(types));
	put_fixed(b, VOTE_RESULT, 3);
	put_append(b, NULL, 0);
	put_snapshot(b);
	put_fixed(b, APPEND_RESULT, 3);
	put_append(b, types, 1);
	put_fixed(b, TIMEOUT_NOW, 3);
}

static const char *feed(struct str s, size_t piece)
{
	struct raft_wire w = { 0 };
	const char *why = NULL;

	for (; why == NULL && s.n > 0; s = str_skip(s, MIN(piece, s.n)))
		why = raft_wire_feed(&w, str_of(s.p, MIN(piece, s.n)));
	return why;
}

static void messages_pass_in_any_pieces(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	put_all(&b);
	for (size_t piece = 1; piece <= b.n; piece++)
		assert_null(feed(buf_str(&b), piece));
	/* and it is at the begin of the next after them */
	put_fixed(&b, VOTE, 5);
	assert_null(feed(buf_str(&b), b.n));
	put_number(&b, 99);
	put_number(&b, 24);
	assert_non_null(feed(buf_str(&b), b.n));
}

/* The number at `at` of the message is another one. */
static const char *feed_changed(struct buf *b, size_t at, uint64_t v)
{
	_cleanup_(buf_done) struct buf c = BUF_INIT(0);

	buf_put_str(&c, buf_str(b));
	(void)put_le64(c.p + at, v);
	return feed(buf_str(&c), 7);
}

static void assert_never(struct buf *b, size_t at)
{
	static const uint64_t rows[] = {
		1,          1u << 20,   1u << 31,        1ull << 32,
		1ull << 62, UINT64_MAX, (uint64_t)0 - 40
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_non_null(feed_changed(b, at, rows[i]));
}

static void lengths_that_cannot_be_are_noticed(void **state _unused_)
{
	static const unsigned types[] = { COMMAND, COMMAND };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	put_fixed(&b, VOTE, 5);
	assert_never(&b, 8);
	buf_clear(&b);
	put_append(&b, types, ARRAY_SIZE(types));
	assert_never(&b, 8);       /* of the header */
	assert_never(&b, 16 + 32); /* entries */
	buf_clear(&b);
	put_snapshot(&b);
	assert_never(&b, 8);
	assert_never(&b, 16 + 32); /* of the members */
}

/* The library looks for the next entry where the last one is filled up to. */
static void entries_are_whole_numbers_of_words(void **state _unused_)
{
	static const unsigned types[] = { COMMAND };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	put_append(&b, types, 1);
	b.n = 16 + 40 + 16; /* no more than the header */
	for (uint32_t bytes = 0; bytes < 20; bytes++) {
		bool is_good = bytes == 8 || bytes == 16;

		(void)put_le32(b.p + 16 + 40 + 12, bytes);
		assert_int_equal(feed(buf_str(&b), b.n) == NULL, is_good);
	}
	(void)put_le32(b.p + 16 + 40 + 12, 0xfffffff8);
	assert_non_null(feed(buf_str(&b), b.n));
}

static void members_that_cannot_be_read_are_noticed(void **state _unused_)
{
	static const unsigned types[] = { MEMBERS };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	size_t at = 16 + 40 + 16 + 8; /* where they begin */

	put_append(&b, types, 1);
	assert_null(feed(buf_str(&b), 5));
	b.p[at] = 2; /* a format of another day */
	assert_non_null(feed(buf_str(&b), 5));
	b.p[at] = 1;
	assert_non_null(feed_changed(&b, at + 1, 4)); /* more than there are */
	assert_non_null(feed_changed(&b, at + 1, UINT64_MAX));
	assert_non_null(feed_changed(&b, at + 1, 1)); /* and more behind it */
	memset(b.p + at + 17, 'x', b.n - at - 17);    /* an endless address */
	assert_non_null(feed(buf_str(&b), 5));
}

static void too_many_entries_about_members_are_too_many(void **state _unused_)
{
	unsigned types[WIRE_MEMBERS_MAX + 1];
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		types[i] = MEMBERS;
	put_append(&b, types, WIRE_MEMBERS_MAX);
	assert_null(feed(buf_str(&b), 64));
	put_append(&b, types, WIRE_MEMBERS_MAX + 1);
	assert_non_null(feed(buf_str(&b), 64));
}

/* Whatever comes: it ends somewhere, and reads nothing that is not there. */
static void any_bytes_are_survived(void **state _unused_)
{
	_cleanup_(buf_done) struct buf good = BUF_INIT(0);
	unsigned refused = 0;
	struct rng r;

	test_rng(&r);
	put_all(&good);
	for (int i = 0; i < 20000; i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);

		buf_put_str(&b, buf_str(&good));
		for (unsigned k = 0; k < 1 + rng_u64(&r) % 4; k++)
			b.p[rng_u64(&r) % b.n] = (char)rng_u64(&r);
		refused += feed(buf_str(&b), 1 + rng_u64(&r) % 64) != NULL;
	}
	assert_true(refused > 1000); /* most bytes are in numbers of entries */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_pass_in_any_pieces),
		cmocka_unit_test(lengths_that_cannot_be_are_noticed),
		cmocka_unit_test(entries_are_whole_numbers_of_words),
		cmocka_unit_test(members_that_cannot_be_read_are_noticed),
		cmocka_unit_test(too_many_entries_about_members_are_too_many),
		cmocka_unit_test(any_bytes_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
