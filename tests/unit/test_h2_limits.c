/* HTTP/2: what is not a request, and streams that are over. */
#include "front/h2_ids.h"
#include "front/h2_limits.h"
#include "front/h2_scan.h"
#include "lib/testlib.h"
#include "util/buf.h"
#include "util/clock.h"

static unsigned frames_until_refused(struct h2_limits *l, uint64_t now)
{
	unsigned n = 0;

	while (h2_limits_frame(l, now))
		n++;
	return n;
}

static void test_frames(void **state _unused_)
{
	uint64_t now = 5 * NS_PER_S;
	struct h2_limits l;

	h2_limits_init(&l, now);
	assert_int_equal(frames_until_refused(&l, now), 1000);
	assert_false(h2_limits_frame(&l, now + NS_PER_S / 200));
	assert_int_equal(frames_until_refused(&l, now + NS_PER_S), 100);
	/* a day later it is what it was at first */
	now += 86400 * NS_PER_S;
	assert_int_equal(frames_until_refused(&l, now), 1000);
}

static void test_who_moves_bytes_may_send_more_frames(void **state _unused_)
{
	struct h2_limits l;

	h2_limits_init(&l, 0);
	for (int i = 0; i < 10000; i++) {
		h2_limits_moved(&l);
		for (int j = 0; j < 4; j++)
			assert_true(h2_limits_frame(&l, 0));
	}
	assert_int_equal(frames_until_refused(&l, 0), 996);
}

static void test_resets(void **state _unused_)
{
	struct h2_limits l;
	int n = 0;

	h2_limits_init(&l, 0);
	while (h2_limits_reset(&l, 0))
		n++;
	assert_int_equal(n, 256);
	h2_limits_answered(&l);
	assert_true(h2_limits_reset(&l, 0));
	assert_false(h2_limits_reset(&l, 0));
	assert_true(h2_limits_reset(&l, NS_PER_S / 32));
	/* one account does not pay for the other */
	assert_true(h2_limits_frame(&l, 0));
}

static void test_ids(void **state _unused_)
{
	struct h2_ids ids = { 0 };

	assert_int_equal(h2_ids_judge(&ids, 1), H2_ID_FINE);
	h2_ids_open(&ids, 5);
	assert_int_equal(h2_ids_judge(&ids, 1), H2_ID_SKIPPED);
	assert_int_equal(h2_ids_judge(&ids, 3), H2_ID_SKIPPED);
	assert_int_equal(h2_ids_judge(&ids, 5), H2_ID_FINE);
	assert_int_equal(h2_ids_judge(&ids, 7), H2_ID_FINE);
	h2_ids_end(&ids, 5);
	assert_int_equal(h2_ids_judge(&ids, 5), H2_ID_ENDED);
	h2_ids_open(&ids, 9);
	assert_int_equal(h2_ids_judge(&ids, 5), H2_ID_ENDED);
	assert_int_equal(h2_ids_judge(&ids, 7), H2_ID_SKIPPED);
	assert_int_equal(h2_ids_judge(&ids, 9), H2_ID_FINE);
	assert_int_equal(h2_ids_judge(&ids, 4), H2_ID_FINE);
}

/* Of what is long ago nothing is known, so nothing is said against it. */
static void test_old_ids(void **state _unused_)
{
	struct h2_ids ids = { 0 };

	h2_ids_open(&ids, 1);
	h2_ids_end(&ids, 1);
	h2_ids_open(&ids, 127);
	assert_int_equal(h2_ids_judge(&ids, 1), H2_ID_ENDED);
	h2_ids_open(&ids, 129);
	assert_int_equal(h2_ids_judge(&ids, 1), H2_ID_FINE);
	h2_ids_open(&ids, INT32_MAX);
	assert_int_equal(h2_ids_judge(&ids, 129), H2_ID_FINE);
	assert_int_equal(h2_ids_judge(&ids, INT32_MAX - 2), H2_ID_SKIPPED);
}

static void put_frame(struct buf *b, uint8_t type, uint8_t flags, uint8_t id,
		      uint8_t n)
{
	const char head[H2_FRAME_HEAD] = { 0,          0,           (char)n,
					   (char)type, (char)flags, 0,
					   0,          0,           (char)id };

	buf_append(b, head, sizeof(head));
	for (uint8_t i = 0; i < n; i++)
		buf_putc(b, (char)0xff);
}

/* Feeds it in pieces; how many bytes were good. */
static size_t feed(const struct buf *b, size_t piece,
		   enum h2_id_verdict *verdict, unsigned *unknown_n)
{
	struct h2_scan s;

	h2_scan_init(&s);
	*unknown_n = 0;
	for (size_t at = 0; at < b->n;) {
		size_t n = MIN(piece, b->n - at);
		size_t good = h2_scan_feed(&s, (const uint8_t *)b->p + at, n,
					   verdict, unknown_n);

		at += good;
		if (*verdict != H2_ID_FINE)
			return at;
		assert_int_equal(good, n);
	}
	return b->n;
}

static void test_scan(void **state _unused_)
{
	static const struct {
		uint8_t type, flags, id;
		enum h2_id_verdict verdict;
	} last[] = {
		{ 0, 0, 1, H2_ID_ENDED },   { 1, 4, 1, H2_ID_ENDED },
		{ 8, 0, 1, H2_ID_FINE },    { 3, 0, 1, H2_ID_FINE },
		{ 0, 0, 5, H2_ID_FINE },    { 1, 5, 5, H2_ID_FINE },
		{ 1, 5, 3, H2_ID_SKIPPED }, { 0, 0, 7, H2_ID_ENDED },
		{ 1, 5, 9, H2_ID_FINE },    { 0x70, 0, 1, H2_ID_FINE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(last); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);
		enum h2_id_verdict v;
		unsigned unknown_n;
		size_t before;

		buf_puts(&b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
		put_frame(&b, 4, 0, 0, 0);
		put_frame(&b, 1, 4 | 1, 1, 20); /* a request, whole */
		put_frame(&b, 1, 4, 5, 200);    /* one with a body */
		put_frame(&b, 0, 0, 5, 30);
		put_frame(&b, 0x55, 1, 5, 7); /* nobody knows what */
		put_frame(&b, 1, 4, 7, 1);    /* one that is taken back */
		put_frame(&b, 3, 0, 7, 4);
		before = b.n;
		put_frame(&b, last[i].type, last[i].flags, last[i].id, 5);
		for (size_t piece = 1; piece <= b.n; piece++) {
			size_t good = feed(&b, piece, &v, &unknown_n);

			assert_int_equal(v, last[i].verdict);
			assert_int_equal(unknown_n, 1 + (last[i].type == 0x70));
			if (v == H2_ID_FINE)
				assert_int_equal(good, b.n);
			else /* part of its head may have gone before */
				assert_in_range(good, before,
						before + H2_FRAME_HEAD - 1);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_who_moves_bytes_may_send_more_frames),
		cmocka_unit_test(test_resets),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_old_ids),
		cmocka_unit_test(test_scan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
